package redis

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/redis/slots"
)

// Ping sends PING to the server, or to one of the primaries of a cluster.
func (c *Client) Ping(ctx context.Context) error { return c.Do(ctx, "PING").Err() }

// Do sends one command and returns the whole reply, at most Options.MaxReply
// bytes of it. The first argument is the command's name; arguments may be
// string, []byte, integers, floats, bool (1 or 0) and [Body]. They may be
// changed after Do has returned. One larger than Options.MaxValue is
// [ErrTooLarge]; nothing is sent then.
//
// Commands that change the connection for its next user, such as
// SELECT, MULTI, SUBSCRIBE or CLIENT SETNAME, are refused.
//
// In a cluster a command goes to the node that serves its first key. MGET, DEL,
// UNLINK, EXISTS, TOUCH and MSET with keys in several slots are split, and their
// replies joined; if a part fails, others may have been carried out. Commands
// without a key, such as SCAN, KEYS, DBSIZE or FLUSHALL, go to any one primary.
func (c *Client) Do(ctx context.Context, args ...any) Reply {
	name, err := c.o.checkCommand(args)
	if err != nil {
		return Reply{err: err}
	}
	if hasBody(args) {
		return c.doBodies(ctx, name, args)
	}
	return c.do(ctx, name, args)
}

// AppendGet appends the value of key to dst and returns the longer slice. The
// bytes are read straight into dst if it has room for them, and then nothing
// is allocated. A missing key is ErrNil; on any error dst is returned with its
// old length, but bytes behind it may have been overwritten.
func (c *Client) AppendGet(ctx context.Context, dst []byte, key string) ([]byte, error) {
	if c.cluster == nil {
		return route{n: c.home}.get(ctx, dst, key)
	}
	out := dst
	err := c.cluster.follow(ctx, c.cluster.target("GET", slots.Of(key)), func(ctx context.Context, r route) (err error) {
		out, err = r.get(ctx, dst, key)
		return err
	})
	return out, err
}

// Set sets key to value with a life of ttl (zero: for ever; rounded up to whole
// milliseconds). Nothing is allocated. A value larger than Options.MaxValue is
// [ErrTooLarge]; nothing is sent then.
func (c *Client) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := c.o.checkSet(int64(len(value)), ttl); err != nil {
		return err
	}
	if c.cluster == nil {
		return route{n: c.home}.set(ctx, key, value, ttl)
	}
	return c.cluster.follow(ctx, c.cluster.target("SET", slots.Of(key)), func(ctx context.Context, r route) error {
		return r.set(ctx, key, value, ttl)
	})
}
