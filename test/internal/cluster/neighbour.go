//go:build linux

package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata"
)

// A cache of another service has the name of the cache, its keys, its servers and its tags.
// Its values name the service, so that each reader sees a value in the wrong cache: to the
// judge it is a value of another key. Its drops must end nothing of the cache: they would cost
// loads that no call explains.

// theirs begins the values that the other service has of a key.
func theirs(key string) string { return "neighbour/" + key + ":" }

// openNeighbour opens the cache of the other service, with the options of the first.
func (w *worker) openNeighbour(o strata.Options[string, string]) (err error) {
	if w.c.Neighbour == "" {
		return nil
	}
	o.Service, o.Hooks = w.c.Neighbour, nil
	o.Loader = func(ctx context.Context, key string) (string, error) {
		n := w.told.Add(1)
		return theirs(key) + strconv.FormatUint(n, 10), sleep(ctx, time.Duration(rand.Int64N(int64(5*time.Millisecond))))
	}
	w.neighbour, err = strata.New(o)
	return err
}

// dwell makes the calls of the other service until ctx ends, a tenth as many as the first
// service makes.
func (w *worker) dwell(ctx context.Context, r *rand.Rand) {
	pace := 10 / w.c.Rate * float64(time.Second)
	for wait(ctx, time.Duration(r.ExpFloat64()*pace)) {
		w.stepNeighbour(ctx, r, Key(r.IntN(w.c.Keys)))
	}
}

func (w *worker) stepNeighbour(ctx context.Context, r *rand.Rand, key string) {
	if r.Float64()*w.c.Rate*2 < 1 { // each 20 s
		w.neighbourDrops(w.neighbour.InvalidateAll(context.Background()))
		return
	}
	switch n := r.IntN(100); {
	case n < 75:
		got, err := w.neighbour.GetOrLoad(ctx, key, nil, w.options(key)...)
		if err != nil && !errors.Is(err, errInjected) && ctx.Err() == nil {
			w.surprise("GetOrLoad of the other service returned: " + err.Error())
		} else if err == nil {
			w.own(key, got)
		}
	case n < 85:
		if got, ok := w.neighbour.Get(ctx, key); ok {
			w.own(key, got)
		}
	case n < 92:
		w.neighbourDrops(w.neighbour.Invalidate(context.Background(), key))
	case n < 96:
		value := theirs(key) + strconv.FormatUint(w.told.Add(1), 10)
		w.neighbourDrops(w.neighbour.Set(context.Background(), key, value, w.options(key)...))
	case n < 98:
		w.neighbourDrops(w.neighbour.InvalidateHold(context.Background(), 100*time.Millisecond, key))
	case Tag(key) != "":
		w.neighbourDrops(w.neighbour.InvalidateTags(context.Background(), Tag(key)))
	}
}

// own records a foreign value in the cache of the other service as a surprise.
func (w *worker) own(key, got string) {
	if !strings.HasPrefix(got, theirs(key)) {
		w.surprise("the other service got for " + key + " a value that is not its own: " + got)
	}
}

func (w *worker) neighbourDrops(err error) {
	if _, remote := errors.AsType[*strata.RemoteError](err); err != nil && !remote {
		w.surprise("a call of the other service that drops returned: " + err.Error())
	}
}

// closeNeighbour closes the cache of the other service, if there is one.
func (w *worker) closeNeighbour(ctx context.Context) error {
	if w.neighbour == nil {
		return nil
	}
	return w.neighbour.Close(ctx)
}
