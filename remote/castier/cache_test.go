package castier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// seconds is the Memory.TTL of the instances in these tests: without a bus, an instance hears of
// a change by another one after that.
const seconds = 2 * time.Second

// origin is the origin of two instances.
type origin struct {
	loads atomic.Int64
	value atomic.Int64
	fails atomic.Bool
	lacks atomic.Bool
}

var errOrigin = errors.New("the origin is down")

func (o *origin) load(_ context.Context, key string) (string, error) {
	o.loads.Add(1)
	switch {
	case o.fails.Load():
		return "", errOrigin
	case o.lacks.Load():
		return "", strata.ErrNotFound
	}
	return fmt.Sprint(key, " ", o.value.Load()), nil
}

// duo is two instances over one store.
type duo struct {
	*testing.T
	origin
	a, b *strata.Cache[string, string]
}

// features runs f over a store of two methods: without a bus, and with one.
func features(t *testing.T, f func(d *duo)) {
	t.Helper()
	for _, heard := range []bool{false, true} {
		t.Run(fmt.Sprint("bus=", heard), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &duo{T: t}
				rows, bus := clockless{&table{rows: map[string]row{}}}, stratatest.NewBus()
				for _, c := range []**strata.Cache[string, string]{&d.a, &d.b} {
					o := strata.Options[string, string]{
						Name: "users", TTL: time.Minute, Jitter: -1, NotFoundTTL: 30 * time.Second, Loader: d.load,
						Memory: strata.Memory[string, string]{TTL: seconds},
						Remote: strata.Remote[string, string]{Tier: castier.New(rows)},
						Stale:  strata.Stale{WhileRevalidate: -1, OnError: time.Hour},
					}
					if heard {
						o.Remote.Bus = bus
					}
					var err error
					if *c, err = strata.New(o); err != nil {
						t.Fatal(err)
					}
				}
				f(d)
				for _, c := range []*strata.Cache[string, string]{d.a, d.b} {
					if err := c.Close(context.Background()); err != nil {
						t.Errorf("Close: %v", err)
					}
				}
			})
		})
	}
}

// gets reads a key by an instance, after the time in which it hears of changes.
func (d *duo) gets(c *strata.Cache[string, string], key, want string) {
	d.Helper()
	time.Sleep(seconds + 100*time.Millisecond) // in the bubble
	if v, err := c.GetOrLoad(d.Context(), key, nil); err != nil || v != want {
		d.Errorf("GetOrLoad(%s) = %q, %v; want %q", key, v, err, want)
	}
}

// must fails for an error.
func (d *duo) must(err error) {
	d.Helper()
	if err != nil {
		d.Error(err)
	}
}

// loaded checks the number of loads since the last check.
func (d *duo) loaded(want int64) {
	d.Helper()
	if n := d.loads.Swap(0); n != want {
		d.Errorf("%d loads, want %d", n, want)
	}
}

// TestInstancesOverAStoreOfTwoMethodsShareLoads, of single keys and batches.
func TestInstancesOverAStoreOfTwoMethodsShareLoads(t *testing.T) {
	features(t, func(d *duo) {
		var wg sync.WaitGroup
		for _, c := range []*strata.Cache[string, string]{d.a, d.b} {
			for range 20 {
				wg.Go(func() {
					if v, err := c.GetOrLoad(d.Context(), "k", nil); v != "k 0" || err != nil {
						d.Errorf("%q, %v", v, err)
					}
				})
			}
		}
		wg.Wait()
		d.loaded(1)
		var keys []string
		for i := range 300 {
			keys = append(keys, fmt.Sprint("k", i))
		}
		many := func(ctx context.Context, keys []string) (map[string]string, error) {
			values := map[string]string{}
			for _, key := range keys {
				values[key], _ = d.load(ctx, key)
			}
			return values, nil
		}
		for _, c := range []*strata.Cache[string, string]{d.a, d.b} {
			if values, err := c.GetMany(d.Context(), keys, many); len(values) != 300 || err != nil {
				d.Errorf("%d values, %v", len(values), err)
			}
		}
		d.loaded(300)
		if held, err := d.b.GetOrLoad(d.Context(), "k7", nil, strata.SkipRead()); held != "k7 0" || err != nil {
			d.Errorf("%q, %v", held, err)
		}
		d.loaded(1)
	})
}

// TestDropsOverAStoreOfTwoMethodsReachTheOtherInstance, of each kind.
func TestDropsOverAStoreOfTwoMethodsReachTheOtherInstance(t *testing.T) {
	for name, drop := range map[string]func(d *duo) error{
		"Invalidate":     func(d *duo) error { return d.a.Invalidate(d.Context(), "k") },
		"InvalidateHold": func(d *duo) error { return d.a.InvalidateHold(d.Context(), time.Second, "k") },
		"InvalidateTags": func(d *duo) error { return d.a.InvalidateTags(d.Context(), "t") },
		"InvalidateAll":  func(d *duo) error { return d.a.InvalidateAll(d.Context()) },
		"Expire":         func(d *duo) error { return d.a.Expire(d.Context(), "k") },
		"ExpireTags":     func(d *duo) error { return d.a.ExpireTags(d.Context(), "t") },
		"ExpireAll":      func(d *duo) error { return d.a.ExpireAll(d.Context()) },
		"Set":            func(d *duo) error { return d.a.Set(d.Context(), "k", "k 1", strata.WithTags("t")) },
	} {
		t.Run(name, func(t *testing.T) {
			features(t, func(d *duo) {
				d.must(d.b.Set(d.Context(), "k", "k 0", strata.WithTags("t")))
				d.gets(d.a, "k", "k 0")
				d.gets(d.b, "k", "k 0")
				d.loaded(0)
				d.value.Store(1)
				d.must(drop(d))
				d.gets(d.b, "k", "k 1")
				d.gets(d.a, "k", "k 1")
			})
		})
	}
}

// TestValuesOverAStoreOfTwoMethods: negative entries, stale values while the origin is down, and
// values that one caller stores or takes.
func TestValuesOverAStoreOfTwoMethods(t *testing.T) {
	features(t, func(d *duo) {
		d.lacks.Store(true)
		for _, c := range []*strata.Cache[string, string]{d.a, d.b} {
			if _, err := c.GetOrLoad(d.Context(), "none", nil); !errors.Is(err, strata.ErrNotFound) {
				d.Errorf("%v", err)
			}
		}
		d.loaded(1)
		d.lacks.Store(false)
		d.gets(d.a, "k", "k 0")
		time.Sleep(2 * time.Minute) // in the bubble: past the TTL
		d.fails.Store(true)
		d.gets(d.b, "k", "k 0")
		d.fails.Store(false)
		d.value.Store(1)
		time.Sleep(2 * time.Minute) // in the bubble: the failure is not remembered any more
		d.gets(d.a, "k", "k 1")
		added, taken := 0, 0
		for _, c := range []*strata.Cache[string, string]{d.a, d.b} {
			ok, err := c.Add(d.Context(), "once", "v")
			if d.must(err); ok {
				added++
			}
		}
		for _, c := range []*strata.Cache[string, string]{d.b, d.a} {
			v, ok, err := c.Take(d.Context(), "once")
			if d.must(err); ok && v == "v" {
				taken++
			}
		}
		if added != 1 || taken != 1 {
			d.Errorf("%d added, %d taken", added, taken)
		}
		if v, err := d.a.GetOrLoad(d.Context(), "apart", nil, strata.NoRemote()); v != "apart 1" || err != nil {
			d.Errorf("%q, %v", v, err)
		}
		d.value.Store(2)
		d.gets(d.b, "apart", "apart 2")
	})
}

// TestSnapshotOverAStoreOfTwoMethodsRevivesNothing drops a key, a tag, or everything, after the
// snapshot, and reads it into another instance.
func TestSnapshotOverAStoreOfTwoMethodsRevivesNothing(t *testing.T) {
	for name, drop := range map[string]func(d *duo) error{
		"Invalidate":     func(d *duo) error { return d.a.Invalidate(d.Context(), "k") },
		"InvalidateTags": func(d *duo) error { return d.a.InvalidateTags(d.Context(), "t") },
		"InvalidateAll":  func(d *duo) error { return d.a.InvalidateAll(d.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			features(t, func(d *duo) {
				d.must(d.a.Set(d.Context(), "k", "k 0", strata.WithTags("t")))
				var file bytes.Buffer
				_, err := snapshot.Write(d.Context(), &file, snapshot.Options{}, d.a)
				d.must(err)
				d.value.Store(1)
				d.must(drop(d))
				_, err = snapshot.Read(d.Context(), &file, snapshot.Options{}, d.b)
				d.must(err)
				if v, err := d.b.GetOrLoad(d.Context(), "k", nil); v != "k 1" || err != nil {
					d.Errorf("after the snapshot was read: %q, %v", v, err)
				}
			})
		})
	}
}

// TestTuneAndCloseOverAStoreOfTwoMethods turns an instance off and on, and closes it while a load
// holds the lease.
func TestTuneAndCloseOverAStoreOfTwoMethods(t *testing.T) {
	features(t, func(d *duo) {
		d.must(d.b.Tune(strata.Tuning{Off: new(true)}))
		d.gets(d.b, "k", "k 0")
		d.value.Store(1)
		d.gets(d.b, "k", "k 1") // nothing was stored
		d.gets(d.a, "k", "k 1")
		d.must(d.b.Tune(strata.Tuning{Off: new(false)}))
		d.loaded(3)
		d.gets(d.b, "k", "k 1")
		d.loaded(0)
		go func() {
			_, _ = d.a.GetOrLoad(context.Background(), "slow", func(ctx context.Context, _ string) (string, error) {
				<-ctx.Done() // Close ends the load
				return "", ctx.Err()
			})
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = d.a.Close(ctx)
		d.gets(d.b, "slow", "slow 1") // the lease was given back, or has run out
	})
}

// TestCacheOverAStoreThatIsDown loads from the origin, and a drop is told once the store is back.
func TestCacheOverAStoreThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShaky()
		d := &duo{T: t}
		options := func(tier remote.Tier) strata.Options[string, string] {
			return strata.Options[string, string]{
				Name: "users", TTL: time.Hour, Loader: d.load, Memory: strata.Memory[string, string]{TTL: seconds},
				Remote: strata.Remote[string, string]{Tier: tier},
			}
		}
		c, err := strata.New(options(castier.New(s)))
		if err != nil {
			t.Fatal(err)
		}
		d.gets(c, "k", "k 0")
		var down atomic.Bool
		s.before = func(string) error {
			if down.Load() {
				return errFault
			}
			return nil
		}
		down.Store(true)
		d.value.Store(1)
		var failed *strata.RemoteError
		if err := c.Invalidate(t.Context(), "k"); !errors.As(err, &failed) || !errors.Is(err, errFault) {
			t.Errorf("Invalidate: %v", err)
		}
		d.gets(c, "k", "k 1")
		down.Store(false)
		time.Sleep(time.Minute) // in the bubble: the drop is told
		other, err := strata.New(options(castier.New(s.table)))
		if err != nil {
			t.Fatal(err)
		}
		d.gets(other, "k", "k 1")
		d.gets(c, "k", "k 1")
		d.must(other.Close(context.Background()))
		d.must(c.Close(context.Background()))
	})
}
