package wire

import (
	"bytes"
	"context"
	"io"

	goredis "github.com/redis/go-redis/v9"
)

// newGoRedis returns a client with its defaults that keeps to the deadlines of
// contexts, as the other clients do.
func newGoRedis(at endpoint) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Network: at.network, Addr: at.addr, ContextTimeoutEnabled: true})
}

// openGoRedis opens go-redis. go-redis-buffer reads into a buffer of the caller.
// go-redis-auto makes pipelines by itself: of the commands of several goroutines
// at the same time, and in the tables of pipelines of the commands that one
// goroutine sends without waiting.
func openGoRedis(at endpoint) (family, error) {
	c := newGoRedis(at)
	auto, err := goRedisAuto(c, "go-redis-auto", false)
	if err != nil {
		c.Close()
		return family{}, err
	}
	get := func(ctx context.Context, _ int, key string) ([]byte, error) { return c.Get(ctx, key).Bytes() }
	set := func(ctx context.Context, key string, value []byte) error { return c.Set(ctx, key, value, 0).Err() }
	return family{close: func() { c.Close() }, subjects: []subject{{
		name: "go-redis", kind: peer,
		get: reads(get), set: writes(set),
		getAll: readsAll(goRedisGetAll(c)), setAll: writesAll(goRedisSetAll(c)),
		mget: readsAll(goRedisMGet(c)),
		getTo: streams(func(ctx context.Context, key string, w io.Writer) error {
			return c.DoRawWriteTo(ctx, &bulkWriter{w: w}, "GET", key).Err()
		}),
	}, {
		name: "go-redis-buffer", kind: peer,
		get: goRedisBuffer(c),
	}, auto, {
		name: "go-redis-bytes", kind: whole,
		getTo: copies(get), setFrom: collects(set),
	}}}, nil
}

// openGoRedisDuplex opens go-redis-duplex: go-redis-auto over a connection that
// is written to while replies are read from it.
func openGoRedisDuplex(at endpoint) (family, error) {
	c := newGoRedis(at)
	auto, err := goRedisAuto(c, "go-redis-duplex", true)
	if err != nil {
		c.Close()
		return family{}, err
	}
	return family{close: func() { c.Close() }, subjects: []subject{auto}}, nil
}

// goRedisAuto returns the subject in which c makes pipelines by itself.
func goRedisAuto(c *goredis.Client, name string, duplex bool) (subject, error) {
	waits, deferred := goredis.DefaultBlockingAutoPipelineOptions(), goredis.DefaultAutoPipelineOptions()
	waits.FullDuplex, deferred.FullDuplex = duplex, duplex
	auto, err := c.AutoPipelineWithOptions(waits)
	if err != nil {
		return subject{}, err
	}
	async, err := c.AsyncAutoPipelineWithOptions(deferred)
	if err != nil {
		return subject{}, err
	}
	return subject{
		name: name, kind: peer,
		get: reads(func(ctx context.Context, _ int, key string) ([]byte, error) {
			return auto.Get(ctx, key).Bytes()
		}),
		set: writes(func(ctx context.Context, key string, value []byte) error {
			return auto.Set(ctx, key, value, 0).Err()
		}),
		getAll: readsAll(goRedisAsyncGets(async)),
		setAll: writesAll(goRedisAsyncSets(async)),
	}, nil
}

// goRedisBuffer gives the client a buffer with room for the CRLF behind the
// value, which its fastest way needs.
func goRedisBuffer(c *goredis.Client) op {
	return func(j *job) call {
		var bufs scratch
		return reads(func(ctx context.Context, g int, key string) ([]byte, error) {
			b := &bufs[g].b
			if *b == nil {
				*b = make([]byte, j.size+2)
			}
			r := c.GetToBuffer(ctx, key, *b)
			return r.Bytes(), r.Err()
		})(j)
	}
}

func goRedisGetAll(c *goredis.Client) func(context.Context, []string, see) error {
	var replies []*goredis.StringCmd
	p := c.Pipeline()
	return func(ctx context.Context, keys []string, f see) error {
		replies = replies[:0]
		for _, key := range keys {
			replies = append(replies, p.Get(ctx, key))
		}
		if _, err := p.Exec(ctx); err != nil {
			return err
		}
		return seeStrings(replies, f)
	}
}

func goRedisAsyncGets(auto *goredis.AutoPipeliner) func(context.Context, []string, see) error {
	var replies []*goredis.StringCmd
	return func(ctx context.Context, keys []string, f see) error {
		replies = replies[:0]
		for _, key := range keys {
			replies = append(replies, auto.Get(ctx, key))
		}
		return seeStrings(replies, f)
	}
}

func seeStrings(replies []*goredis.StringCmd, f see) error {
	for k, r := range replies {
		v, err := r.Bytes()
		if err == nil {
			err = f(k, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func goRedisSetAll(c *goredis.Client) func(context.Context, []string, func(int) []byte) error {
	p := c.Pipeline()
	return func(ctx context.Context, keys []string, value func(int) []byte) error {
		for k, key := range keys {
			p.Set(ctx, key, value(k), 0)
		}
		_, err := p.Exec(ctx) // the first error of all
		return err
	}
}

func goRedisAsyncSets(auto *goredis.AutoPipeliner) func(context.Context, []string, func(int) []byte) error {
	var replies []*goredis.StatusCmd
	return func(ctx context.Context, keys []string, value func(int) []byte) error {
		replies = replies[:0]
		for k, key := range keys {
			replies = append(replies, auto.Set(ctx, key, value(k), 0))
		}
		for _, r := range replies {
			if err := r.Err(); err != nil {
				return err
			}
		}
		return nil
	}
}

func goRedisMGet(c *goredis.Client) func(context.Context, []string, see) error {
	return func(ctx context.Context, keys []string, f see) error {
		values, err := c.MGet(ctx, keys...).Result()
		for k := 0; k < len(values) && err == nil; k++ {
			if v, ok := values[k].(string); ok {
				err = f(k, raw(v))
			}
		}
		return err
	}
}

// bulkWriter passes a string on without its RESP header and its CRLF. The
// client writes all three parts.
type bulkWriter struct {
	w     io.Writer
	begun bool
	left  int
}

func (b *bulkWriter) Write(p []byte) (int, error) {
	n := len(p)
	if !b.begun {
		head, rest, ok := bytes.Cut(p, []byte("\n"))
		for _, c := range head {
			if c >= '0' && c <= '9' {
				b.left = b.left*10 + int(c-'0')
			}
		}
		b.begun, p = ok, rest
	}
	p = p[:min(len(p), b.left)]
	b.left -= len(p)
	if len(p) > 0 {
		if _, err := b.w.Write(p); err != nil {
			return 0, err
		}
	}
	return n, nil
}
