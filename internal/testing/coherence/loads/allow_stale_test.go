package loads_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestGetReturnsAStaleValueOnlyToCallersThatAllowIt(t *testing.T) {
	endings := map[string]func(*testing.T, *strata.Cache[string, int64]){
		"past its TTL":       func(*testing.T, *strata.Cache[string, int64]) { time.Sleep(2 * time.Minute) },
		"expired by its key": func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.Expire(t.Context(), "k")) },
		"expired with all":   func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.ExpireAll(t.Context())) },
		"expired by its tag": func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.ExpireTags(t.Context(), "t")) },
		"past it, and expired": func(t *testing.T, c *strata.Cache[string, int64]) {
			time.Sleep(2 * time.Minute)
			lab.Must(t, c.Expire(t.Context(), "k"))
		},
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			for tiers, make := range map[string]func(t *testing.T) (a, b *strata.Cache[string, int64]){
				"L1": func(t *testing.T) (a, b *strata.Cache[string, int64]) {
					c := lab.NewCache[string, int64](t)
					return c, c
				},
				"both tiers": func(t *testing.T) (a, b *strata.Cache[string, int64]) {
					c := lab.Instance[string, int64](t, lab.NewShared())
					return c, c
				},
				"L2 of another": func(t *testing.T) (a, b *strata.Cache[string, int64]) {
					s := lab.NewShared()
					return lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
				},
			} {
				t.Run(tiers, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						a, b := make(t)
						lab.Must(t, a.Set(t.Context(), "k", 7, strata.WithTags("t")))
						lab.WantFound(t, a, 7)
						end(t, a)
						synctest.Wait()
						before := b.Stats().StaleAllowed
						lab.WantNotFound(t, b)
						var info strata.Info
						lab.WantFound(t, b, 7, strata.AllowStale(), strata.ReadInfo(&info))
						if !info.Stale || info.TTL != 0 || info.Err != nil {
							t.Errorf("%+v", info)
						}
						if n := b.Stats().StaleAllowed - before; n != 1 {
							t.Errorf("%d stale values counted, want 1", n)
						}
						lab.Must(t, a.Invalidate(t.Context(), "k"))
						synctest.Wait()
						lab.WantNotFound(t, b, strata.AllowStale())
					})
				})
			}
		})
	}
}

func TestStaleValueIsAllowedUntilItsWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 7))
		time.Sleep(61*time.Minute - 1) // the TTL and Stale.OnError
		lab.WantFound(t, a, 7, strata.AllowStale())
		lab.WantFound(t, b, 7, strata.AllowStale())
		time.Sleep(time.Second)
		lab.WantNotFound(t, a, strata.AllowStale())
		lab.WantNotFound(t, b, strata.AllowStale())
	})
}

func TestGetThatAllowsStaleValuesPrefersAFreshOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 1))
		lab.WantFound(t, b, 1)
		time.Sleep(2 * time.Minute)
		lab.Must(t, a.Set(t.Context(), "k", 2))
		synctest.Wait()
		lab.WantFound(t, b, 2, strata.AllowStale())
	})
}

func TestStaleValueOfL1IsAllowedWhileL2IsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var down atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = lab.Failing(lab.Failing(s.Tier, "Get", &down), "Read", &down)
		})
		lab.Must(t, c.Set(t.Context(), "k", 7))
		time.Sleep(2 * time.Minute)
		down.Store(true)
		lab.WantFound(t, c, 7, strata.AllowStale())
	})
}

// TestInfoTellsAgeAndTTLAndTheErrorInPlaceOfWhichAStaleValueIsServed follows a value
// through its life.
func TestInfoTellsAgeAndTTLAndTheErrorInPlaceOfWhichAStaleValueIsServed(t *testing.T) {
	for name, open := range map[string]func(*testing.T, ...func(*strata.Options[string, int64])) *strata.Cache[string, int64]{
		"without L2": lab.NewCache[string, int64],
		"with L2": func(t *testing.T, change ...func(*strata.Options[string, int64])) *strata.Cache[string, int64] {
			return lab.Instance(t, lab.NewShared(), change...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t, func(o *strata.Options[string, int64]) { o.ErrorTTL = time.Second })
				read := func(load strata.Loader[string, int64], want strata.Info, opts ...strata.CallOption) {
					t.Helper()
					var got strata.Info
					_, err := c.GetOrLoad(t.Context(), "k", load, append(opts, strata.ReadInfo(&got))...)
					if err != nil || got.Age != want.Age || got.TTL != want.TTL || !errors.Is(got.Err, want.Err) || got.Stale != want.Stale {
						t.Errorf("%+v, %v; want %+v", got, err, want)
					}
				}
				fails := func(context.Context, string) (int64, error) { return 0, lab.ErrDown }
				read(lab.PlainLoad, strata.Info{TTL: time.Minute})
				time.Sleep(20 * time.Second)
				read(nil, strata.Info{Age: 20 * time.Second, TTL: 40 * time.Second})
				time.Sleep(50 * time.Second)
				read(fails, strata.Info{Age: 70 * time.Second, Stale: true, Err: lab.ErrDown}) // by its flight
				read(fails, strata.Info{Age: 70 * time.Second, Stale: true, Err: lab.ErrDown}) // from L1
				time.Sleep(2 * time.Second)
				read(lab.NotModified(time.Second), strata.Info{TTL: time.Minute})
				time.Sleep(time.Second)
				lab.Must(t, c.Expire(t.Context(), "k"))
				time.Sleep(time.Second)
				read(fails, strata.Info{Age: 2 * time.Second, Stale: true, Err: lab.ErrDown})
				time.Sleep(2 * time.Second)
				read(lab.PlainLoad, strata.Info{TTL: time.Hour}, strata.WithTTL(time.Hour))
				time.Sleep(30 * time.Minute)
				read(nil, strata.Info{Age: 30 * time.Minute, TTL: 30 * time.Minute})
				lab.Must(t, c.Set(t.Context(), "k", 1))
				time.Sleep(time.Second)
				lab.Must(t, c.ExpireAll(t.Context()))
				time.Sleep(time.Second)
				read(fails, strata.Info{Age: 2 * time.Second, Stale: true, Err: lab.ErrDown})
			})
		})
	}
}

func TestAgeIsExactWhateverJitterHasMadeOfTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[int, int64]) { o.Jitter = 0.5 })
		for k := range 1000 {
			lab.Must(t, c.Set(t.Context(), k, 1))
			time.Sleep(time.Millisecond)
		}
		for k := range 1000 {
			var i strata.Info
			if _, ok := c.Get(t.Context(), k, strata.ReadInfo(&i)); !ok || i.Age != time.Duration(1000-k)*time.Millisecond {
				t.Fatalf("key %d: %+v, %v", k, i, ok)
			}
		}
	})
}

func TestAgeOfAValueOfAnotherInstanceIsCountedBackFromTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 7))
		time.Sleep(20 * time.Second)
		var i strata.Info
		lab.WantFound(t, b, 7, strata.ReadInfo(&i))
		if i != (strata.Info{Tier: "L2", Age: 20 * time.Second, TTL: 40 * time.Second}) {
			t.Errorf("%+v", i)
		}
		time.Sleep(10 * time.Second)
		lab.WantFound(t, b, 7, strata.ReadInfo(&i))
		if i != (strata.Info{Tier: "L1", Age: 30 * time.Second, TTL: 30 * time.Second}) {
			t.Errorf("%+v", i)
		}
	})
}

func TestEntryWithoutAnEndHasNoTTLInItsInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.TTL = strata.NoExpiry })
		lab.Must(t, c.Set(t.Context(), "k", 7))
		time.Sleep(time.Hour)
		var i strata.Info
		lab.WantFound(t, c, 7, strata.ReadInfo(&i))
		if i.TTL != strata.NoExpiry || i.Stale {
			t.Errorf("%+v", i)
		}
	})
}

func TestInfoOfAValueThatIsNotKeptHasNoTTL(t *testing.T) {
	for name, drop := range map[string]func(ctx context.Context, c *strata.Cache[string, int64]) error{
		"dropped during its load": func(ctx context.Context, c *strata.Cache[string, int64]) error { return c.Invalidate(ctx, "k") },
		"put on hold during its load": func(ctx context.Context, c *strata.Cache[string, int64]) error {
			return c.InvalidateHold(ctx, time.Minute, "k")
		},
		"dropped with everything": func(ctx context.Context, c *strata.Cache[string, int64]) error { return c.InvalidateAll(ctx) },
		"dropped by a tag that it names": func(ctx context.Context, c *strata.Cache[string, int64]) error {
			strata.Loading(ctx).SetTags("t")
			return c.InvalidateTags(ctx, "t")
		},
	} {
		t.Run(name, func(t *testing.T) {
			tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
				var i strata.Info
				v, err := c.GetOrLoad(t.Context(), "k", func(ctx context.Context, _ string) (int64, error) {
					_ = drop(ctx, c) // L2 may be dead
					return 7, nil
				}, strata.ReadInfo(&i))
				if v != 7 || err != nil || i.Tier != "origin" || i.TTL != 0 {
					t.Errorf("got %d, %v, %+v; want no TTL", v, err, i)
				}
				if c.Len() != 0 {
					t.Error("the value is kept")
				}
			})
		})
	}
}

// TestInfoOfAValueThatL1DoesNotTakeHasTheTTLOfL2 has values that are too heavy for L1, and calls that pass L1 by.
func TestInfoOfAValueThatL1DoesNotTakeHasTheTTLOfL2(t *testing.T) {
	heavy := func(o *strata.Options[string, int64]) {
		o.Memory.MaxWeight, o.Memory.Weigh = 10, func(string, int64) int64 { return 11 }
	}
	for name, change := range map[string]func(*strata.Options[string, int64]){"too heavy": heavy, "passes L1 by": func(*strata.Options[string, int64]) {}} {
		for of, want := range map[string]time.Duration{"alone": 0, "with L2": time.Minute, "turned off": 0} {
			t.Run(name+", "+of, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := lab.NewCache(t, change)
					if of != "alone" {
						c = lab.Instance(t, lab.NewShared(), change)
					}
					lab.Tune(t, c, strata.Tuning{Off: new(of == "turned off")})
					var i strata.Info
					opts := []strata.CallOption{strata.ReadInfo(&i)}
					if name == "passes L1 by" {
						opts = append(opts, strata.NoMemory())
					}
					if _, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad, opts...); err != nil || i.Tier != "origin" || i.TTL != want {
						t.Errorf("%+v, %v; want a TTL of %v", i, err, want)
					}
				})
			})
		}
	}
}

func TestInfoOfAValueLoadedDuringAHoldHasNoTTL(t *testing.T) {
	tiers(t, func(t *testing.T, c *strata.Cache[string, int64]) {
		_ = c.InvalidateHold(t.Context(), time.Minute, "k") // L2 may be dead
		var i strata.Info
		if v, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad, strata.ReadInfo(&i)); v != 1 || err != nil || i.TTL != 0 {
			t.Errorf("got %d, %v, %+v; want no TTL", v, err, i)
		}
	})
}
