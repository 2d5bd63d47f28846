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

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/overdue"
	"github.com/strata-cache/strata/remote"
)

var (
	errProtocol   = errors.New("goredis: protocol broken")
	errLast       = errors.New("goredis: the connection is given up")
	errReadOnly   = errors.New("READONLY the server is a replica")
	errNoReplicas = errors.New("NOREPLICAS the server has too few replicas to take writes")
)

// refusal is an error reply of the server. It is a redis.Error.
type refusal string

var _ redis.Error = refusal("")

// Error implements error.
func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

// Is makes it a remote.ErrRefused, and a remote.ErrMoved if the server is a replica by
// now.
func (r refusal) Is(target error) bool {
	return target == remote.ErrRefused || target == remote.ErrMoved && strings.HasPrefix(r.Error(), "READONLY ")
}

// newRefusal keeps the beginning of an error reply, without the arguments of
// the command that some replies repeat.
func newRefusal(text string) error {
	const longest = 512
	text, _, _ = strings.Cut(text[:min(len(text), longest)], ", with args beginning with")
	return fmt.Errorf("goredis: %w", refusal(text))
}

// tierError turns an error of the tier into one that the package promises.
func tierError(err error) error {
	var refused *layout.Refusal
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

// failed turns an error of go-redis into one of this package. It replaces
// errors that quote the reply, which may be a value.
func failed(err error) error {
	var answer redis.Error
	var broken *resp.ProtocolError
	switch text := err.Error(); {
	// These two are no redis.Error before: go-redis would keep the connection.
	case errors.Is(err, errReadOnly), errors.Is(err, errNoReplicas):
		return newRefusal(text)
	case errors.As(err, &broken):
		return fmt.Errorf("%w: %s", errProtocol, broken.Reason)
	case strings.Contains(text, "redis: invalid"), strings.Contains(text, "redis: can't"):
		return errProtocol
	case errors.As(err, &answer):
		// The error is about the greeting, and may repeat credentials.
		code, _, _ := strings.Cut(answer.Error(), " ")
		return fmt.Errorf("goredis: greeting refused: %w", refusal(code))
	default:
		return fmt.Errorf("goredis: %w", err)
	}
}

// lost reports whether err means that the peer is gone without a reply.
func lost(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.As(err, &op) && op.Op != "dial" && !op.Timeout()
}

// gone is the error of a call after its context has ended or its deadline has
// passed.
func gone(ctx context.Context) error {
	return fmt.Errorf("goredis: %w", overdue.Reason(ctx, context.DeadlineExceeded))
}

// panicked is the error for a panic in go-redis, or in a hook.
func panicked(p any) error {
	if bug, ok := p.(runtime.Error); ok {
		return fmt.Errorf("panic: %w", bug)
	}
	return errors.New("panic")
}
