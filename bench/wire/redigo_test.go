package wire

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// openRedigo opens a pool of redigo that keeps a connection for every
// goroutine: by default it keeps none.
func openRedigo(at endpoint) (family, error) {
	pool := &redis.Pool{
		MaxIdle: maxGoroutines,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, at.network, at.addr)
		},
	}
	get := func(ctx context.Context, _ int, key string) ([]byte, error) {
		return redis.Bytes(redigoDo(ctx, pool, "GET", key))
	}
	set := func(ctx context.Context, key string, value []byte) error {
		_, err := redigoDo(ctx, pool, "SET", key, value)
		return err
	}
	return family{close: func() { pool.Close() }, subjects: []subject{{
		name: "redigo", kind: peer,
		get: reads(get), set: writes(set),
		getAll: readsAll(redigoGetAll(pool)), setAll: writesAll(redigoSetAll(pool)),
		mget: redigoMGet(pool),
	}, {
		name: "redigo-bytes", kind: whole,
		getTo: copies(get), setFrom: collects(set),
	}}}, nil
}

// redigoDo calls the variant with a context only for a context that can end,
// because that variant starts a goroutine for each command.
func redigoDo(ctx context.Context, pool *redis.Pool, name string, args ...any) (any, error) {
	c, err := pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if ctx.Done() == nil {
		return c.Do(name, args...)
	}
	return redis.DoContext(c, ctx, name, args...)
}

func redigoGetAll(pool *redis.Pool) func(context.Context, []string, see) error {
	return func(ctx context.Context, keys []string, f see) error {
		c, err := pool.GetContext(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, key := range keys {
			if err := c.Send("GET", key); err != nil {
				return err
			}
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for k := range keys {
			v, err := redis.Bytes(c.Receive())
			if err == nil {
				err = f(k, v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func redigoSetAll(pool *redis.Pool) func(context.Context, []string, func(int) []byte) error {
	return func(ctx context.Context, keys []string, value func(int) []byte) error {
		c, err := pool.GetContext(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		for k, key := range keys {
			if err := c.Send("SET", key, value(k)); err != nil {
				return err
			}
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for range keys {
			if _, err := c.Receive(); err != nil {
				return err
			}
		}
		return nil
	}
}

func redigoMGet(pool *redis.Pool) op {
	return func(j *job) call {
		var args []any
		for _, key := range j.keys {
			args = append(args, key)
		}
		return readsAll(func(ctx context.Context, _ []string, f see) error {
			values, err := redis.ByteSlices(redigoDo(ctx, pool, "MGET", args...))
			for k := 0; k < len(values) && err == nil; k++ {
				err = f(k, values[k])
			}
			return err
		})(j)
	}
}
