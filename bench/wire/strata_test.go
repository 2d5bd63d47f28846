package wire

import (
	"context"
	"io"

	"github.com/strata-cache/strata/redis"
)

// openStrata opens our own client with its defaults, save for the timeout: a
// stall of the machine is to be seen in the spread. strata-buffer reads into a
// buffer of the caller.
func openStrata(at endpoint) (family, error) {
	c, err := redis.New(redis.Options{Network: at.network, Addr: at.addr, Timeout: patience})
	if err != nil {
		return family{}, err
	}
	var bufs scratch
	set := func(ctx context.Context, key string, value []byte) error {
		return c.Do(ctx, "SET", key, value).Ok()
	}
	return family{close: func() { c.Close() }, subjects: []subject{{
		name: "strata", kind: own,
		get: reads(func(ctx context.Context, _ int, key string) ([]byte, error) {
			return c.AppendGet(ctx, nil, key)
		}),
		set:    writes(set),
		getAll: readsAll(strataGetAll(c)),
		setAll: writesAll(strataSetAll(c)),
		mget:   strataMGet(c),
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

func strataGetAll(c *redis.Client) func(context.Context, []string, see) error {
	p := c.Pipeline()
	return func(ctx context.Context, keys []string, f see) error {
		for _, key := range keys {
			p.Add("GET", key)
		}
		replies, err := p.Do(ctx)
		for k := 0; k < len(replies) && err == nil; k++ {
			var v []byte
			if v, err = replies[k].Bytes(); err == nil {
				err = f(k, v)
			}
		}
		return err
	}
}

func strataSetAll(c *redis.Client) func(context.Context, []string, func(int) []byte) error {
	p := c.Pipeline()
	return func(ctx context.Context, keys []string, value func(int) []byte) error {
		for k, key := range keys {
			p.Add("SET", key, value(k))
		}
		replies, err := p.Do(ctx)
		for k := 0; k < len(replies) && err == nil; k++ {
			err = replies[k].Ok()
		}
		return err
	}
}

func strataMGet(c *redis.Client) op {
	return func(j *job) call {
		args := []any{"MGET"}
		for _, key := range j.keys {
			args = append(args, key)
		}
		return readsAll(func(ctx context.Context, _ []string, f see) error {
			reply := c.Do(ctx, args...)
			for k, r := range reply.All() {
				v, err := r.Bytes()
				if err == nil {
					err = f(k, v)
				}
				if err != nil {
					return err
				}
			}
			return reply.Err()
		})(j)
	}
}
