package wire

import (
	"context"
	"errors"
	"io"

	"github.com/strata-cache/strata/memcached"
)

// openStrataMemcached opens our own client with its defaults, save for the timeout.
// strata-buffer reads into a buffer of the caller. Two goroutines at once call
// strata-two, and their commands share a connection.
func openStrataMemcached(at endpoint) (family, error) {
	c, err := memcached.New(memcached.Options{Servers: []string{at.addr}, Timeout: patience})
	if err != nil {
		return family{}, err
	}
	get := reads(func(ctx context.Context, _ int, key string) ([]byte, error) {
		item, err := c.Get(ctx, key)
		return item.Value, err
	})
	set := writes(func(ctx context.Context, key string, value []byte) error {
		return c.Set(ctx, memcached.Item{Key: key, Value: value})
	})
	buffer := strataBuffer(c)
	return family{close: func() { c.Close() }, subjects: []subject{{
		name: "strata", kind: own,
		get: get, set: set, setGet: both(set, get),
		mget: readsAll(func(ctx context.Context, keys []string, f see) error {
			items, err := c.GetMany(ctx, keys)
			return seeAll(keys, items, err, func(i memcached.Item) []byte { return i.Value }, f)
		}),
		setAll: writesAll(strataSetMany(c)),
		getTo: streams(func(ctx context.Context, key string, w io.Writer) error {
			_, err := c.GetTo(ctx, key, w)
			return err
		}),
		setFrom: sources(func(ctx context.Context, key string, r io.Reader, n int64) error {
			return c.SetFrom(ctx, memcached.Item{Key: key}, r, n)
		}),
	}, {
		name: "strata-buffer", kind: own,
		get: buffer, setGet: both(set, buffer),
	}, {
		name: "strata-two", kind: own,
		setGet: together(set, buffer),
	}}}, nil
}

func strataBuffer(c *memcached.Client) op {
	var bufs scratch
	return reads(func(ctx context.Context, g int, key string) ([]byte, error) {
		b := &bufs[g].b
		v, err := c.AppendGet(ctx, (*b)[:0], key)
		if cap(v) > cap(*b) {
			*b = v
		}
		return v, err
	})
}

func strataSetMany(c *memcached.Client) func(context.Context, []string, func(int) []byte) error {
	var items []memcached.Item
	return func(ctx context.Context, keys []string, value func(int) []byte) error {
		items = items[:0]
		for k, key := range keys {
			items = append(items, memcached.Item{Key: key, Value: value(k)})
		}
		return c.SetMany(ctx, items)
	}
}

// seeAll hands the items of keys over.
func seeAll[T any](keys []string, items map[string]T, err error, value func(T) []byte, f see) error {
	for k := 0; k < len(keys) && err == nil; k++ {
		item, ok := items[keys[k]]
		if !ok {
			return errWrong
		}
		err = f(k, value(item))
	}
	return err
}

// together returns a setGet that does the get on another goroutine, at the same time as the set.
// The get reads the key that the call before has set.
func together(set, get op) op {
	return func(j *job) call {
		set, get := set(j), get(j)
		return func(ctx context.Context, g, i int) error {
			before := i + j.each - 1
			if i == 0 {
				if err := set(ctx, g, before); err != nil {
					return err
				}
			}
			done := make(chan error, 1)
			go func() { done <- get(ctx, g, before) }()
			return errors.Join(set(ctx, g, i), <-done)
		}
	}
}
