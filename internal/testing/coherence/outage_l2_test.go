package coherence_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// usual gives a cache the lives that Options have by default.
func usual(o *strata.Options[string, int64]) {
	o.Jitter, o.RefreshAt, o.NotFoundTTL, o.ErrorTTL, o.Stale = 0, 0, 0, 0, strata.Stale{}
}

// opsOf returns t and the number of times that an operation was carried out.
func opsOf(t remote.Tier, operation string) (remote.Tier, *atomic.Int64) {
	var n atomic.Int64
	return stratatest.FaultyTier(t, func(op, _ string) (time.Duration, error) {
		if op == operation {
			n.Add(1)
		}
		return 0, nil
	}), &n
}

// manyKeys are n names of keys.
func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	return keys
}

// missALot makes a cache expect that L2 does not have what is asked for.
func missALot(t *testing.T, c *strata.Cache[string, int64]) {
	t.Helper()
	for i := range 200 {
		mustGet(t, c, fmt.Sprint("cold", i), (&origin{}).load)
	}
}

func TestStaleValuesOfL2AreServedThroughAnOutage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		memory time.Duration // Memory.TTL
		every  time.Duration
		batch  bool
	}{
		{"alone", 0, time.Second, false},
		{"alone, short Memory.TTL", 100 * time.Millisecond, time.Second / 6, false},
		{"in a batch", 0, time.Second, true},
		{"in a batch, short Memory.TTL", 100 * time.Millisecond, time.Second / 6, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, keys := newShared(), manyKeys(100)
				a := instance(t, s, usual)
				for _, k := range keys {
					mustGet(t, a, k, (&origin{}).load)
				}
				time.Sleep(70 * time.Second)
				b := instance(t, s, usual, func(o *strata.Options[string, int64]) { o.Memory.TTL = tt.memory })
				down := &fallible{origin: origin{takes: time.Millisecond}}
				down.fail(errDown)
				reads, failed := 0, 0
				for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(tt.every) {
					reads += len(keys)
					failed += failures(t, b, keys, down.load, tt.batch)
				}
				if failed != 0 || reads < 1000 {
					t.Errorf("%d of %d reads failed, while L2 had every key", failed, reads)
				}
				if n := down.loads.Load(); n > 1000 {
					t.Errorf("%d loads of an origin that is down", n)
				}
			})
		})
	}
}

// failures reads keys one by one, or in one batch, and says how many of them
// could not be had.
func failures(t *testing.T, c *strata.Cache[string, int64], keys []string, load strata.Loader[string, int64], batch bool) (n int) {
	if batch {
		_, err := c.GetMany(t.Context(), keys, func(ctx context.Context, keys []string) (map[string]int64, error) {
			v, err := load(ctx, keys[0])
			if err != nil {
				return nil, err
			}
			return map[string]int64{keys[0]: v}, nil
		})
		if p := (*strata.PartialError[string])(nil); errors.As(err, &p) {
			n = len(p.Failed)
		}
		return n
	}
	for _, k := range keys {
		if _, err := c.GetOrLoad(t.Context(), k, load); err != nil {
			n++
		}
	}
	return n
}

func TestFreshValueOfL2WinsOverARememberedFailure(t *testing.T) {
	for name, batch := range map[string]bool{"alone": false, "in a batch": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShared()
				a, b := instance(t, s, remembering), instance(t, s, remembering)
				missALot(t, b)
				down := &fallible{}
				down.fail(errDown)
				if n := failures(t, b, []string{"k"}, down.load, batch); n != 1 {
					t.Fatal("the origin is not down")
				}
				if n := failures(t, b, []string{"k"}, down.load, batch); n != 1 || down.loads.Load() != 1 {
					t.Fatalf("the failure is not remembered: %d loads", down.loads.Load())
				}
				mustGet(t, a, "k", (&origin{}).load)
				if n := failures(t, b, []string{"k"}, down.load, batch); n != 0 {
					t.Error("the remembered failure won over the value that another instance has loaded since")
				}
				if _, ok := b.Get(t.Context(), "k"); !ok {
					t.Error("Get does not find it")
				}
			})
		})
	}
}

func TestStaleValueOfL2IsKeptWhileItsFailureIsRemembered(t *testing.T) {
	for name, batch := range map[string]bool{"alone": false, "in a batch": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShared()
				a := instance(t, s, remembering)
				mustGet(t, a, "k", (&origin{}).load)
				time.Sleep(2 * time.Minute)
				tier, asked := opsOf(s.tier, "Get")
				b := instance(t, s, remembering, func(o *strata.Options[string, int64]) { o.Remote.Tier = tier })
				down := &fallible{}
				down.fail(errDown)
				for range 79 { // in less than 4/5 of a second
					if n := failures(t, b, []string{"k"}, down.load, batch); n != 0 {
						t.Fatal("what L2 holds is withheld")
					}
					time.Sleep(10 * time.Millisecond)
				}
				if n := asked.Load(); n > 2 || down.loads.Load() != 1 {
					t.Errorf("%d reads of L2, %d loads for 80 reads during a remembered failure; want 1, 1", n, down.loads.Load())
				}
				if n := b.Stats().StaleOnError; n != 79 {
					t.Errorf("%d stale values on error, want 79", n)
				}
				up := &origin{}
				up.value.Store(7)
				mustGet(t, a, "k", up.load)
				time.Sleep(time.Second) // the failure is not remembered any more
				if v := mustGet(t, b, "k", down.load); v != 7 || down.loads.Load() != 1 {
					t.Errorf("got %d after %d loads; want 7, which L2 has", v, down.loads.Load())
				}
			})
		})
	}
}

func TestStaleValueOfL2IsNotKeptAfterADrop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShared()
		a, b := instance(t, s, remembering), instance(t, s, remembering)
		mustGet(t, a, "k", (&origin{}).load)
		time.Sleep(2 * time.Minute)
		down := &fallible{origin: origin{takes: time.Second}}
		down.fail(errDown)
		got := make(chan error)
		go func() {
			_, err := b.GetOrLoad(t.Context(), "k", down.load)
			got <- err
		}()
		time.Sleep(time.Millisecond)
		if err := a.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := <-got; err != nil {
			t.Errorf("a caller from before the drop: %v", err)
		}
		if v, err := b.GetOrLoad(t.Context(), "k", down.load); !errors.Is(err, errDown) {
			t.Errorf("got %d, %v after a drop; want the failure", v, err)
		}
	})
}

func TestStaleValueOfL2IsServedAtOnceWithAnyInstanceLoading(t *testing.T) {
	for name, elsewhere := range map[string]bool{"this instance": false, "another instance": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShared()
				a, b := instance(t, s, remembering), instance(t, s, windows(time.Hour, time.Hour))
				mustGet(t, a, "k", (&origin{}).load)
				time.Sleep(2 * time.Minute)
				slow := &origin{takes: 10 * time.Second}
				slow.value.Store(7)
				if elsewhere {
					go mustGet(t, a, "k", slow.load)
					synctest.Wait()
				}
				missALot(t, b)
				if took := gets(t, b, slow.load, 0); took != 0 {
					t.Errorf("a stale value that may be served at once took %v", took)
				}
				time.Sleep(20 * time.Second)
				if gets(t, b, slow.load, 7); slow.loads.Load() != 1 {
					t.Errorf("%d loads, want 1", slow.loads.Load())
				}
			})
		})
	}
}

// leaseCounter counts requests for leases.
type leaseCounter struct {
	*stratatest.Tier
	requests *atomic.Int64
}

func (c leaseCounter) Bind(s remote.Space) remote.Tier {
	return leaseCounter{c.Tier.Bind(s).(*stratatest.Tier), c.requests}
}

func (c leaseCounter) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	c.requests.Add(int64(len(r)))
	return c.Tier.Acquire(ctx, r, d)
}

func TestStaleValuesOfL2AreServedAtOnceHoweverManyThereAre(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, keys := newShared(), manyKeys(200)
		change := windows(10*time.Minute, time.Hour)
		a := instance(t, s, change)
		for _, k := range keys {
			mustGet(t, a, k, (&origin{}).load)
		}
		time.Sleep(2 * time.Minute)
		var requests atomic.Int64
		b := instance(t, s, change, func(o *strata.Options[string, int64]) { o.Remote.Tier = leaseCounter{s.tier, &requests} })
		slow, begun := &origin{takes: time.Second}, time.Now()
		for _, k := range keys {
			mustGet(t, b, k, slow.load)
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(begun) - 20*time.Second; took > time.Second {
			t.Errorf("200 stale values took %v", took)
		}
		time.Sleep(time.Second)
		if n := requests.Load(); n != 200 {
			t.Errorf("%d requests for leases, want one for the refresh of each value: a look-up takes none", n)
		}
	})
}
