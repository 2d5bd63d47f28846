package goredis

import (
	"bytes"
	"context"
	"io"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/redis/resp"
)

// call is a command with its reply in the form of the protocol.
type call struct {
	args  []any
	reply resp.Collector
	// last says that go-redis must not use the connection again.
	last bool
}

// newCalls splits text, n commands in the form of package resp. Their arguments share
// the memory of text.
func newCalls(text []byte, n int) []call {
	calls := make([]call, n)
	for i := range calls {
		var argc int
		argc, text = header(text)
		args := make([]any, argc)
		for j := range args {
			var size int
			size, text = header(text)
			args[j], text = text[:size:size], text[size+len("\r\n"):]
		}
		if name, ok := args[0].([]byte); ok {
			args[0] = string(name) // for hooks
		}
		calls[i].args = args
	}
	return calls
}

// header returns the number in the first line of text, and the text after that
// line.
func header(text []byte) (n int, rest []byte) {
	line, rest, _ := bytes.Cut(text, []byte("\r\n"))
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		panic("goredis: not a command of package resp")
	}
	return n, rest
}

// Write implements io.Writer for the reply.
func (c *call) Write(p []byte) (int, error) {
	if c.reply.Len() == 0 { // go-redis closes the connection after an error
		switch {
		case c.last:
			return 0, errLast
		case bytes.HasPrefix(p, []byte("-READONLY ")):
			return 0, errReadOnly
		case bytes.HasPrefix(p, []byte("-NOREPLICAS ")):
			return 0, errNoReplicas
		}
	}
	return c.reply.Write(p)
}

// ReadFrom implements io.ReaderFrom for the reply.
func (c *call) ReadFrom(src io.Reader) (int64, error) { return c.reply.ReadFrom(src) }

// doer is the common part of clients and connections of go-redis.
type doer interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// do makes calls in one round trip. No command is sent twice, under any options of
// go-redis.
func do(ctx context.Context, d doer, calls []call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	if len(calls) == 1 {
		return d.Process(ctx, redis.NewRawWriteToCmd(ctx, &calls[0], calls[0].args...))
	}
	p := d.Pipeline()
	for i := range calls {
		_ = p.Process(ctx, redis.NewRawWriteToCmd(ctx, &calls[i], calls[i].args...)) // queues it
	}
	_, err = p.Exec(ctx)
	return err
}

// heard reports whether the server has begun to answer.
func heard(calls []call) bool { return calls[0].reply.Len() > 0 }

// values returns the replies.
func values(calls []call) ([]resp.Value, error) {
	all := make([]resp.Value, len(calls))
	for i := range calls {
		var err error
		if all[i], err = calls[i].reply.Value(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
