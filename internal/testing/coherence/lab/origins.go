package lab

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

// EachOf makes load a ManyLoader, one key after the other.
func EachOf(load strata.Loader[string, int64]) strata.ManyLoader[string, int64] {
	return func(ctx context.Context, keys []string) (map[string]int64, error) {
		found := map[string]int64{}
		for _, k := range keys {
			v, err := load(ctx, k)
			if err != nil {
				return found, err
			}
			found[k] = v
		}
		return found, nil
	}
}

// PlainLoad is a Loader that brings 1.
func PlainLoad(context.Context, string) (int64, error) { return 1, nil }

// Never is a loader that must not run.
func Never(t *testing.T) strata.Loader[string, int64] {
	return func(_ context.Context, key string) (int64, error) {
		t.Errorf("%s was loaded", key)
		return 0, nil
	}
}

// ErrDown is the error of an unavailable origin.
var ErrDown = errors.New("origin is down")

// Fallible is an origin that can fail.
type Fallible struct {
	Origin
	err atomic.Pointer[error]
}

// Load is a Loader.
func (s *Fallible) Load(ctx context.Context, key string) (int64, error) {
	v, err := s.Origin.Load(ctx, key)
	if e := s.err.Load(); e != nil {
		return 0, *e
	}
	return v, err
}

// Fail makes loads end with err; nil ends that.
func (s *Fallible) Fail(err error) {
	if err == nil {
		s.err.Store(nil)
		return
	}
	s.err.Store(&err)
}

// DownLoad is a Loader without an origin.
func DownLoad(context.Context, string) (int64, error) { return 0, ErrDown }

// Origin is a source of versioned values that takes its time.
type Origin struct {
	Takes time.Duration
	Loads atomic.Int64 // begun, also running ones
	Value atomic.Int64
}

// Load is a Loader. It brings the value from when it began.
func (o *Origin) Load(ctx context.Context, _ string) (int64, error) {
	o.Loads.Add(1)
	v := o.Value.Load() // read at the beginning, as a query does
	if o.Takes == 0 {
		return v, nil
	}
	select {
	case <-time.After(o.Takes):
		return v, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// ManyOf makes load a ManyLoader. Keys without a value are left out.
func ManyOf(load strata.Loader[string, int64]) strata.ManyLoader[string, int64] {
	return func(ctx context.Context, keys []string) (map[string]int64, error) {
		found := map[string]int64{}
		for _, k := range keys {
			v, err := load(ctx, k)
			if errors.Is(err, strata.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			found[k] = v
		}
		return found, nil
	}
}

// NoneOf is a Loader that names the tag t and finds nothing.
func NoneOf(ctx context.Context, _ string) (int64, error) {
	strata.Loading(ctx).SetTags("t")
	return 0, strata.ErrNotFound
}

// NotModified returns a Loader that returns ErrNotModified after the duration takes. It is
// for bubbles.
func NotModified(takes time.Duration) strata.Loader[string, int64] {
	return func(context.Context, string) (int64, error) {
		time.Sleep(takes)
		return 0, strata.ErrNotModified
	}
}

// Unavailable is a Loader over an unavailable origin: it returns an error.
func Unavailable(context.Context, string) (int64, error) { return 0, errors.New("down") }
