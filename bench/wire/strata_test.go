package wire

import (
	"context"
	"io"

	"github.com/strata-cache/strata/redis"
)

// openStrata opens our own client with its defaults, save for the timeout, so
// that a stall of the machine shows in the spread and not as an error.
// strata-buffer reads into a buffer of the caller.
func openStrata(at endpoint) (family, error) {
	c, err := redis.New(redis.Options{Network: at.network, Addr: at.addr, Timeout: patience})
	if err != nil {
		return family{}, err
	}
	var bufs scratch
	return family{close: func() { c.Close() }, subjects: []subject{{
		name: "strata", kind: own,
		get: reads(func(ctx context.Context, _ int, key string) ([]byte, error) {
			return c.AppendGet(ctx, nil, key)
		}),
		set: writes(func(ctx context.Context, key string, value []byte) error {
			return c.Set(ctx, key, value, 0)
		}),
		getAll: readsAll(strataGetAll(c)),
		setAll: writesAll(strataSetAll(c)),
		mget:   readsAll(strataMGet(c)),
		getTo: streams(func(ctx context.Context, key string, w io.Writer) error {
			_, err := c.GetTo(ctx, key, w)
			return err
		}),
		setFrom: sources(func(ctx context.Context, key string, r io.Reader, n int64) error {
			return c.SetFrom(ctx, key, r, n, 0)
		}),
	}, {
		name: "strata-buffer", kind: own,
		get: reads(func(ctx context.Context, g int, key string) ([]byte, error) {
			b := &bufs[g].b
			v, err := c.AppendGet(ctx, (*b)[:0], key)
			if cap(v) > cap(*b) {
				*b = v
			}
			return v, err
		}),
	}}}, nil
}

// The functions below make their closures once: closures are the caller's own cost.

func strataGetAll(c *redis.Client) func(context.Context, []string, see) error {
	p := c.Pipeline()
	var f see
	each := func(k int, r redis.Reply) error {
		v, err := r.Bytes()
		if err != nil {
			return err
		}
		return f(k, v)
	}
	return func(ctx context.Context, keys []string, look see) error {
		for _, key := range keys {
			p.Get(key)
		}
		f = look
		return p.Each(ctx, each)
	}
}

func strataSetAll(c *redis.Client) func(context.Context, []string, func(int) []byte) error {
	p := c.Pipeline()
	each := func(_ int, r redis.Reply) error { return r.Ok() }
	return func(ctx context.Context, keys []string, value func(int) []byte) error {
		for k, key := range keys {
			p.Set(key, value(k), 0)
		}
		return p.Each(ctx, each)
	}
}

func strataMGet(c *redis.Client) func(context.Context, []string, see) error {
	var f see
	each := func(k int, v []byte, found bool) error {
		if !found {
			return redis.ErrNil
		}
		return f(k, v)
	}
	return func(ctx context.Context, keys []string, look see) error {
		f = look
		return c.MGet(ctx, keys, each)
	}
}
