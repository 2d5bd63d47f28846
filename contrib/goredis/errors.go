package goredis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

var (
	errProtocol = errors.New("goredis: protocol broken")
	errReadOnly = errors.New("READONLY the server is a replica")
	errBereaved = errors.New("NOREPLICAS the server has too few replicas to take writes")
)

// refusal is an error that the server answered with. It is a redis.Error.
type refusal string

var _ redis.Error = refusal("")

// Error implements error.
func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

// Is makes it a remote.ErrRefused.
func (refusal) Is(target error) bool { return target == remote.ErrRefused }

// newRefusal keeps the beginning of what a server says, without the arguments
// that some repeat.
func newRefusal(text string) error {
	const longest = 512
	text, _, _ = strings.Cut(text[:min(len(text), longest)], ", with args beginning with")
	return fmt.Errorf("goredis: %w", refusal(text))
}

// tierError gives an error of the tier the form that the package promises.
func tierError(err error) error {
	var refused *watch.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	err = newRefusal(refused.Text)
	switch code, _, _ := strings.Cut(refused.Text, " "); code {
	case "MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN":
		return fmt.Errorf("goredis: this server is part of a Redis Cluster: use package redis, with redis.Options.Cluster: %w", err)
	}
	return err
}

// failed is an error of go-redis as ours. Those that quote what was read are
// replaced: it may be a value.
func failed(err error) error {
	var answer redis.Error
	var broken *resp.ProtocolError
	switch text := err.Error(); {
	case errors.As(err, &broken):
		return fmt.Errorf("%w: %s", errProtocol, broken.Reason)
	case strings.Contains(text, "redis: invalid"), strings.Contains(text, "redis: can't"):
		return errProtocol
	case errors.As(err, &answer):
		// It is about the greeting, and may repeat credentials.
		code, _, _ := strings.Cut(answer.Error(), " ")
		return fmt.Errorf("goredis: greeting refused: %w", refusal(code))
	default:
		return fmt.Errorf("goredis: %w", err)
	}
}

// lost reports whether err says that the peer has gone without a word.
func lost(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.As(err, &op) && op.Op != "dial" && !op.Timeout()
}

// gone is the error for a caller whose context has ended, or whose deadline has
// passed.
func gone(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		err = context.DeadlineExceeded
	}
	return fmt.Errorf("goredis: %w", err)
}

// panicked is the error for a panic in go-redis, or in a hook.
func panicked(p any) error {
	if bug, ok := p.(runtime.Error); ok {
		return fmt.Errorf("panic: %w", bug)
	}
	return errors.New("panic")
}
