package redis

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/mux"
	"github.com/strata-cache/strata/remote"
)

// A route carries one command to one server: get, set, do and eval choose
// between the shared connection (shared.go) and a connection of its own
// (node.go). They know nothing of clusters but the ASKING before a command.

// route is the place to which one attempt of a call goes: a node, and whether the
// server must be told, by ASKING, that another server has named it for this call.
type route struct {
	n      *node
	asking bool
}

const asking = "*1\r\n$6\r\nASKING\r\n"

// get implements Client.AppendGet.
func (r route) get(ctx context.Context, dst []byte, key string) (out []byte, err error) {
	if r.n.o.Trace == nil {
		return r.getEither(ctx, dst, key)
	}
	err = r.n.traced(ctx, single("GET"), func() error {
		out, err = r.getEither(ctx, dst, key)
		return err
	})
	return out, err
}

// getEither is get over the shared connection, or one of its own.
func (r route) getEither(ctx context.Context, dst []byte, key string) ([]byte, error) {
	c := r.shared(key)
	if c == nil {
		return r.getAlone(ctx, dst, key)
	}
	c.get, c.dst = true, dst
	c.text = resp.AppendGet(c.text, key)
	a, err := r.n.share(ctx, "GET", c, time.Now())
	switch {
	case err == mux.ErrElsewhere:
		return r.getAlone(ctx, dst, key)
	case err != nil:
		return dst, err
	case !a.found:
		// The key holds another type, or nothing: dst stays as it was.
		return dst, newReply(a.value).mismatch("string")
	}
	return a.dst, nil
}

// getAlone is get over a connection of its own: the bytes are read straight into
// dst if it has room for them.
func (r route) getAlone(ctx context.Context, dst []byte, key string) ([]byte, error) {
	out := dst
	var answer error
	err := r.run(ctx, "GET", func(cn *conn) error {
		cn.W = resp.AppendGet(cn.W, key)
		if err := cn.flush(true); err != nil {
			return err
		}
		var found bool
		var v resp.Value
		var err error
		out, found, v, err = cn.appendBulk(dst)
		if !found && err == nil {
			answer = newReply(v).mismatch("string")
		}
		return err
	})
	if err == nil {
		err = answer
	}
	if err != nil {
		return dst, err
	}
	// The size decides whether the next GET of the key may go over the shared connection.
	r.n.sizes.Note(key, len(out)-len(dst))
	return out, nil
}

// set is Client.Set.
func (r route) set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if r.n.o.Trace == nil {
		return r.setEither(ctx, key, value, ttl)
	}
	return r.n.traced(ctx, single("SET"), func() error { return r.setEither(ctx, key, value, ttl) })
}

// setEither is set over the shared connection, or one of its own.
func (r route) setEither(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if len(value) <= small {
		if c := r.shared(key); c != nil {
			c.text = resp.AppendBulk(resp.AppendSetHead(c.text, key, ttl), value)
			c.text = resp.AppendLife(c.text, ttl)
			a, err := r.n.share(ctx, "SET", c, time.Now())
			if err != mux.ErrElsewhere {
				return replyOf(a, err).Ok()
			}
		}
	}
	// A large value goes out as it is, without a copy into a buffer, and holds up no other caller.
	return r.ask(ctx, "SET", func(cn *conn) error {
		cn.W = resp.AppendSetHead(cn.W[:0], key, ttl)
		cn.bulk(value)
		cn.W = resp.AppendLife(cn.W, ttl)
		return nil
	}).Ok()
}

// do is Client.Do for a command without a Body.
func (r route) do(ctx context.Context, name string, args []any) (reply Reply) {
	if r.n.o.Trace == nil {
		return r.doEither(ctx, name, args)
	}
	_ = r.n.traced(ctx, single(name), func() error {
		reply = r.doEither(ctx, name, args)
		return reply.err
	})
	return reply
}

// doEither is do over the shared connection, or one of its own.
func (r route) doEither(ctx context.Context, name string, args []any) Reply {
	key := keyOf(args)
	// A command that may block at the server, or has a large argument, would hold up all callers of
	// the shared connection.
	if resp.Quick(name) && weight(args) <= small {
		if c := r.shared(key); c != nil {
			var err error
			if c.text, err = resp.AppendCommand(c.text, args...); err != nil {
				r.n.free(c)
				return Reply{err: argError(err)}
			}
			a, err := r.n.share(ctx, name, c, time.Now())
			if err != mux.ErrElsewhere {
				return replyOf(a, err)
			}
		}
	}
	reply := r.ask(ctx, name, func(cn *conn) error { return cn.command(args) })
	r.n.sizes.Note(key, reply.size())
	return reply
}

// eval is Client.Eval of a script with this digest. weight is the size of the
// arguments.
func (r route) eval(ctx context.Context, name, digest string, weight int, put func([]byte) ([]byte, error)) (reply Reply) {
	if r.n.o.Trace == nil {
		return r.evalEither(ctx, name, weight, put)
	}
	_ = r.n.traced(ctx, remote.Command{Name: name, Script: digest}, func() error {
		reply = r.evalEither(ctx, name, weight, put)
		return reply.err
	})
	return reply
}

// evalEither is eval over the shared connection, or one of its own.
func (r route) evalEither(ctx context.Context, name string, weight int, put func([]byte) ([]byte, error)) Reply {
	// A script with small arguments is taken for quick. The sizes of replies are learned for all
	// scripts together, under the name of the command.
	if weight <= small {
		if c := r.shared(name); c != nil {
			var err error
			if c.text, err = put(c.text); err != nil {
				r.n.free(c)
				return Reply{err: argError(err)}
			}
			a, err := r.n.share(ctx, name, c, time.Now())
			if err != mux.ErrElsewhere {
				return replyOf(a, err)
			}
		}
	}
	return r.ask(ctx, name, func(cn *conn) error {
		var err error
		if cn.W, err = put(cn.W); err != nil {
			return argError(err)
		}
		return nil
	})
}

// shared returns a command for the shared connection, or nil if it needs one of
// its own.
func (r route) shared(key string) *command {
	if r.asking { // must come right before the command
		return nil
	}
	return r.n.newCommand(key)
}

// replyOf returns the reply for which an answer stands.
func replyOf(a answer, err error) Reply {
	if err != nil {
		return Reply{err: err}
	}
	return newReply(a.value)
}

// ask sends the command that put puts into the buffer, over a connection of its
// own, and returns the whole reply. An error of put is about an argument:
// nothing is sent then.
func (r route) ask(ctx context.Context, name string, put func(*conn) error) (reply Reply) {
	err := r.run(ctx, name, func(cn *conn) (err error) {
		reply, err = cn.ask(put)
		return err
	})
	if err != nil {
		return Reply{err: err}
	}
	return reply
}

// run is node.run, with ASKING before it if the route asks.
func (r route) run(ctx context.Context, name string, f func(*conn) error) error {
	return r.n.run(ctx, name, r.afterAsking(ctx, f))
}

// afterAsking returns f, with ASKING before it if the route asks.
func (r route) afterAsking(ctx context.Context, f func(*conn) error) func(*conn) error {
	if !r.asking {
		return f
	}
	return func(cn *conn) error {
		cn.W = append(cn.W, asking...)
		if err := cn.flush(true); err != nil {
			return err
		}
		// What this reply says does not matter: if ASKING was refused, the command is redirected.
		if _, err := cn.read(); err != nil {
			return err
		}
		// The reply to ASKING has been read. Any further byte would be taken for the reply to the
		// command.
		if err := cn.Keep(ctx, func() error { return cn.Look(true) }); err != nil {
			return &ConnError{Op: "read", Err: err}
		}
		return f(cn)
	}
}
