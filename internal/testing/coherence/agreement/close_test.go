package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

func TestInstanceThatIsClosedWhileItStoresLeavesNoLease(t *testing.T) {
	for what, load := range map[string]func(*strata.Cache[string, int64]){
		"one": func(c *strata.Cache[string, int64]) {
			c.GetOrLoad(context.Background(), "k", (&lab.Origin{}).Load)
		},
		"no such key": func(c *strata.Cache[string, int64]) {
			c.GetOrLoad(context.Background(), "k", func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound })
		},
		"many": func(c *strata.Cache[string, int64]) {
			c.GetMany(context.Background(), []string{"j", "k"}, func(context.Context, []string) (map[string]int64, error) {
				return map[string]int64{"j": 1, "k": 1}, nil
			})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			slow := func(op, _ string) (time.Duration, error) {
				if op == "Put" {
					return 50 * time.Millisecond, nil
				}
				return 0, nil
			}
			a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
				o.Remote.Tier = stratatest.FaultyTier(s.Tier, slow)
			})
			b := lab.Instance[string, int64](t, s)
			go load(a)
			synctest.Wait()
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
			start := time.Now()
			lab.MustGet(t, b, "k", (&lab.Origin{}).Load)
			if took := time.Since(start); took != 0 {
				t.Errorf("%s: the next instance waited %v", what, took)
			}
		})
	}
}

// A key neither found nor failed would mean that the origin has no such key.
func TestGetManyDuringCloseFailsTheKeysItDidNotGet(t *testing.T) {
	keys := make([]string, 300)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	load := func(_ context.Context, keys []string) (map[string]int64, error) {
		all := map[string]int64{}
		for _, k := range keys {
			all[k] = 1
		}
		return all, nil
	}
	for range 200 {
		c := lab.NewCache[string, int64](t)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				got, err := c.GetMany(context.Background(), keys, load)
				var failed *strata.PartialError[string]
				errors.As(err, &failed)
				for _, k := range keys {
					if _, ok := got[k]; !ok && (failed == nil || failed.Failed[k] == nil) {
						t.Errorf("%s is neither found nor failed: %v", k, err)
						return
					}
				}
			})
		}
		callers.Go(func() { c.Close(context.Background()) })
		callers.Wait()
		if st := c.Stats(); st.L1.Misses != st.Flights+st.Joins+st.TurnedAway+st.Remembered {
			t.Errorf("%d misses, but %d flights, %d joins and %d turned away", st.L1.Misses, st.Flights, st.Joins, st.TurnedAway)
		}
	}
}

func TestReloadsDuringCloseAddUp(t *testing.T) {
	load := func(context.Context, string) (int64, error) { return 1, nil }
	for range 200 {
		c := lab.NewCache[string, int64](t)
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for j := range 20 {
					c.GetOrLoad(context.Background(), fmt.Sprint(i, j), load, strata.SkipRead())
				}
			})
		}
		callers.Go(func() { c.Close(context.Background()) })
		callers.Wait()
		if st := c.Stats(); st.Flights != st.Abandoned+st.Loads.Total() {
			t.Fatalf("%d flights, but %d abandoned and %d loads", st.Flights, st.Abandoned, st.Loads.Total())
		}
	}
}

func TestCloseEndsReloadsAndNothingIsStoredAfterIt(t *testing.T) {
	stubborn := func(context.Context, string) (int64, error) { // looks at no context
		time.Sleep(time.Second)
		return 1, nil
	}
	for name, load := range map[string]strata.Loader[string, int64]{"obedient": (&lab.Origin{Takes: time.Minute}).Load, "stubborn": stubborn} {
		for _, queued := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " queued ", queued), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := lab.NewShared()
					a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
						if queued {
							o.Limits.MaxLoads = 1
						}
					})
					b := lab.Instance[string, int64](t, s)
					if queued {
						go a.GetOrLoad(context.Background(), "j", (&lab.Origin{Takes: time.Minute}).Load)
						synctest.Wait()
					}
					failed := make(chan error, 1)
					go func() {
						_, err := a.GetOrLoad(context.Background(), "k", load, strata.SkipRead())
						failed <- err
					}()
					synctest.Wait()
					lab.Must(t, a.Close(t.Context()))
					start := time.Now()
					if err := <-failed; !errors.Is(err, strata.ErrClosed) {
						t.Errorf("the caller got %v, want ErrClosed", err)
					}
					if took := time.Since(start); took > time.Second || took > 0 && (name == "obedient" || queued) {
						t.Errorf("the caller waited %v", took)
					}
					lab.WantAbsent(t, "the other instance", b)
				})
			})
		}
	}
}
