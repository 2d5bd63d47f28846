package agreement_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

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
			synctest.Test(t, func(t *testing.T) {
				s, keys := lab.NewShared(), lab.ManyKeys(100)
				a := lab.Instance(t, s, lab.DefaultLives)
				for _, k := range keys {
					lab.MustGet(t, a, k, (&lab.Origin{}).Load)
				}
				time.Sleep(70 * time.Second)
				b := lab.Instance(t, s, lab.DefaultLives, func(o *strata.Options[string, int64]) { o.Memory.TTL = tt.memory })
				down := &lab.Fallible{Origin: lab.Origin{Takes: time.Millisecond}}
				down.Fail(lab.ErrDown)
				reads, failed := 0, 0
				for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(tt.every) {
					reads += len(keys)
					failed += failures(t, b, keys, down.Load, tt.batch)
				}
				if failed != 0 || reads < 1000 {
					t.Errorf("%d of %d reads failed, while L2 had every key", failed, reads)
				}
				if n := down.Loads.Load(); n > 1000 {
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
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance(t, s, lab.Remembering), lab.Instance(t, s, lab.Remembering)
				lab.MissALot(t, b)
				down := &lab.Fallible{}
				down.Fail(lab.ErrDown)
				if n := failures(t, b, []string{"k"}, down.Load, batch); n != 1 {
					t.Fatal("the origin is not down")
				}
				if n := failures(t, b, []string{"k"}, down.Load, batch); n != 1 || down.Loads.Load() != 1 {
					t.Fatalf("the failure is not remembered: %d loads", down.Loads.Load())
				}
				lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
				if n := failures(t, b, []string{"k"}, down.Load, batch); n != 0 {
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
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a := lab.Instance(t, s, lab.Remembering)
				lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
				time.Sleep(2 * time.Minute)
				tier, asked := opsOf(s.Tier, "Get")
				b := lab.Instance(t, s, lab.Remembering, func(o *strata.Options[string, int64]) { o.Remote.Tier = tier })
				down := &lab.Fallible{}
				down.Fail(lab.ErrDown)
				for range 79 { // in less than 4/5 of a second
					if n := failures(t, b, []string{"k"}, down.Load, batch); n != 0 {
						t.Fatal("what L2 holds is withheld")
					}
					time.Sleep(10 * time.Millisecond)
				}
				if n := asked.Load(); n > 2 || down.Loads.Load() != 1 {
					t.Errorf("%d reads of L2, %d loads for 80 reads during a remembered failure; want 1, 1", n, down.Loads.Load())
				}
				if n := b.Stats().StaleOnError; n != 79 {
					t.Errorf("%d stale values on error, want 79", n)
				}
				up := &lab.Origin{}
				up.Value.Store(7)
				lab.MustGet(t, a, "k", up.Load)
				time.Sleep(time.Second) // the failure is not remembered any more
				if v := lab.MustGet(t, b, "k", down.Load); v != 7 || down.Loads.Load() != 1 {
					t.Errorf("got %d after %d loads; want 7, which L2 has", v, down.Loads.Load())
				}
			})
		})
	}
}

func TestStaleValueOfL2IsNotKeptAfterADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance(t, s, lab.Remembering), lab.Instance(t, s, lab.Remembering)
		lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
		time.Sleep(2 * time.Minute)
		down := &lab.Fallible{Origin: lab.Origin{Takes: time.Second}}
		down.Fail(lab.ErrDown)
		got := make(chan error)
		go func() {
			_, err := b.GetOrLoad(t.Context(), "k", down.Load)
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
		if v, err := b.GetOrLoad(t.Context(), "k", down.Load); !errors.Is(err, lab.ErrDown) {
			t.Errorf("got %d, %v after a drop; want the failure", v, err)
		}
	})
}

func TestStaleValueOfL2IsServedAtOnceWithAnyInstanceLoading(t *testing.T) {
	for name, elsewhere := range map[string]bool{"this instance": false, "another instance": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance(t, s, lab.Remembering), lab.Instance(t, s, lab.Windows(time.Hour, time.Hour))
				lab.MustGet(t, a, "k", (&lab.Origin{}).Load)
				time.Sleep(2 * time.Minute)
				slow := &lab.Origin{Takes: 10 * time.Second}
				slow.Value.Store(7)
				if elsewhere {
					go lab.MustGet(t, a, "k", slow.Load)
					synctest.Wait()
				}
				lab.MissALot(t, b)
				if took := lab.GetTakes(t, b, slow.Load, 0); took != 0 {
					t.Errorf("a stale value that may be served at once took %v", took)
				}
				time.Sleep(20 * time.Second)
				if lab.GetTakes(t, b, slow.Load, 7); slow.Loads.Load() != 1 {
					t.Errorf("%d loads, want 1", slow.Loads.Load())
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
	synctest.Test(t, func(t *testing.T) {
		s, keys := lab.NewShared(), lab.ManyKeys(200)
		change := lab.Windows(10*time.Minute, time.Hour)
		a := lab.Instance(t, s, change)
		for _, k := range keys {
			lab.MustGet(t, a, k, (&lab.Origin{}).Load)
		}
		time.Sleep(2 * time.Minute)
		var requests atomic.Int64
		b := lab.Instance(t, s, change, func(o *strata.Options[string, int64]) { o.Remote.Tier = leaseCounter{s.Tier, &requests} })
		slow, begun := &lab.Origin{Takes: time.Second}, time.Now()
		for _, k := range keys {
			lab.MustGet(t, b, k, slow.Load)
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
