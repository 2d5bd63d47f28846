package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
)

// errAbsent is the error for a missing file, and errTooLarge the one for a file that
// the store does not take.
var (
	errAbsent   = errors.New("no such file") // read-only
	errTooLarge = errors.New("too large")    // read-only
)

// files keeps files. A negative size is an unknown one.
type files interface {
	get(ctx context.Context, name string, w io.Writer) (int64, error)
	put(ctx context.Context, name string, r io.Reader, size int64) error
}

// life is the time for which a file is kept.
const life = 24 * time.Hour

// inRedis are files in Redis.
type inRedis struct{ c *redis.Client }

func (f inRedis) get(ctx context.Context, name string, w io.Writer) (int64, error) {
	n, err := f.c.GetTo(ctx, "files:"+name, w)
	if errors.Is(err, redis.ErrNil) {
		err = errAbsent
	}
	return n, err
}

func (f inRedis) put(ctx context.Context, name string, r io.Reader, size int64) error {
	err := f.c.SetFrom(ctx, "files:"+name, r, size, life)
	if errors.Is(err, redis.ErrTooLarge) {
		err = errTooLarge
	}
	return err
}

// inMemcached are files in memcached.
type inMemcached struct{ c *memcached.Client }

func (f inMemcached) get(ctx context.Context, name string, w io.Writer) (int64, error) {
	n, err := f.c.GetTo(ctx, "files:"+name, w)
	if errors.Is(err, memcached.ErrMiss) {
		err = errAbsent
	}
	return n, err
}

func (f inMemcached) put(ctx context.Context, name string, r io.Reader, size int64) error {
	err := f.c.SetFrom(ctx, memcached.Item{Key: "files:" + name, TTL: life}, r, size)
	if errors.Is(err, memcached.ErrTooLarge) {
		err = errTooLarge
	}
	return err
}
