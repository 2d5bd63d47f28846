package loads_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// ownWindows are the windows of the values in this file. The caches have longer ones.
var ownWindows = strata.Stale{WhileRevalidate: 5 * time.Second, OnError: 20 * time.Second} // read-only

// says is a Loader of a value that says its windows.
func says(v int64, s strata.Stale) strata.Loader[string, int64] {
	return func(ctx context.Context, _ string) (int64, error) {
		strata.Loading(ctx).SetStale(s)
		return v, nil
	}
}

// ownStores are the ways to store a value of k with own windows, read-only.
var ownStores = map[string]func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption){
	"load": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		_, err := c.GetOrLoad(t.Context(), "k", says(1, s), opts...)
		lab.Must(t, err)
	},
	"call option": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		_, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad, append(opts, strata.WithStale(s))...)
		lab.Must(t, err)
	},
	"SkipRead": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		_, err := c.GetOrLoad(t.Context(), "k", says(1, s), append(opts, strata.SkipRead())...)
		lab.Must(t, err)
	},
	"batch": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		_, err := c.GetMany(t.Context(), []string{"k", "other"}, func(ctx context.Context, keys []string) (map[string]int64, error) {
			strata.LoadingKey(ctx, "k").SetStale(s)
			return map[string]int64{"k": 1, "other": 1}, nil
		}, opts...)
		lab.Must(t, err)
	},
	"Set": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		lab.Must(t, c.Set(t.Context(), "k", 1, append(opts, strata.WithStale(s))...))
	},
	"SetMany": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		lab.Must(t, c.SetMany(t.Context(), map[string]int64{"k": 1, "other": 1}, append(opts, strata.WithStale(s))...))
	},
	"Update": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		lab.Must(t, c.Update(t.Context(), "k", func(ctx context.Context) (int64, error) {
			strata.Loading(ctx).SetStale(s)
			return 1, nil
		}, opts...))
	},
	"not modified": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		_, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad, opts...)
		lab.Must(t, err)
		_, err = c.GetOrLoad(t.Context(), "k", func(ctx context.Context, _ string) (int64, error) {
			strata.Loading(ctx).SetStale(s)
			return 0, strata.ErrNotModified
		}, append(opts, strata.SkipRead())...)
		lab.Must(t, err)
	},
	"not modified since": func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption) {
		_, err := c.GetOrLoad(t.Context(), "k", says(1, s), opts...)
		lab.Must(t, err)
		time.Sleep(3 * time.Second) // in the bubble
		_, err = c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 0, strata.ErrNotModified }, append(opts, strata.SkipRead())...)
		lab.Must(t, err)
	},
}

type ownRead struct {
	alone bool
	opts  []strata.CallOption
	move  func(t *testing.T, from *strata.Cache[string, int64], open func() *strata.Cache[string, int64]) *strata.Cache[string, int64]
}

// ownReads are the places from which an instance reads the value, by name, read-only: its
// own L1, L2, or a snapshot. opts are the options of the call that stores.
var ownReads = map[string]ownRead{
	"there":           {},
	"there, no L2":    {alone: true},
	"there, NoRemote": {opts: []strata.CallOption{strata.NoRemote()}},
	"there, tagged":   {opts: []strata.CallOption{strata.WithTags("t")}},
	"L2": {move: func(_ *testing.T, _ *strata.Cache[string, int64], open func() *strata.Cache[string, int64]) *strata.Cache[string, int64] {
		return open()
	}},
	"L2, tagged": {opts: []strata.CallOption{strata.WithTags("t")}, move: func(_ *testing.T, _ *strata.Cache[string, int64], open func() *strata.Cache[string, int64]) *strata.Cache[string, int64] {
		return open()
	}},
	"L2, NoMemory": {opts: []strata.CallOption{strata.NoMemory()}},
	"snapshot": {alone: true, move: func(t *testing.T, from *strata.Cache[string, int64], open func() *strata.Cache[string, int64]) *strata.Cache[string, int64] {
		all, position := lab.EntriesOf(t, from, 0, 1)
		to := open()
		r := lab.RestoreOf(t, to)
		r.Cover(t.Context(), position)
		e := all["k"]
		if o := r.Entry(&e, 0, false); o != transfer.Stored {
			t.Errorf("%v", o)
		}
		return to
	}},
	"Tune": {move: func(t *testing.T, from *strata.Cache[string, int64], _ func() *strata.Cache[string, int64]) *strata.Cache[string, int64] {
		hour := time.Hour
		lab.Must(t, from.Tune(strata.Tuning{StaleWhileRevalidate: &hour, StaleOnError: &hour}))
		return from
	}},
}

// ownCase is a value with windows of its own, stored in one way and read in one place.
type ownCase struct {
	store   func(t *testing.T, c *strata.Cache[string, int64], s strata.Stale, opts ...strata.CallOption)
	read    ownRead
	windows strata.Stale
	opts    []strata.CallOption
}

// forEachOwnCase runs f for each way to store and each place.
func forEachOwnCase(t *testing.T, windows strata.Stale, f func(t *testing.T, c ownCase)) {
	for how, store := range ownStores {
		for where, read := range ownReads {
			t.Run(how+", "+where, func(t *testing.T) { f(t, ownCase{store: store, read: read, windows: windows}) })
		}
	}
}

// holder returns the cache that reads the value.
func (o ownCase) holder(t *testing.T) *strata.Cache[string, int64] {
	s := lab.NewTagged(t)
	open := func() *strata.Cache[string, int64] {
		change := func(o *strata.Options[string, int64]) {
			lab.Windows(time.Minute, time.Hour)(o)
			o.Limits.SoftTimeout = time.Second
		}
		if o.read.alone {
			return lab.NewCache(t, change)
		}
		return lab.Instance(t, s, change)
	}
	c := open()
	o.store(t, c, o.windows, append(o.opts, o.read.opts...)...)
	if o.read.move != nil {
		c = o.read.move(t, c, open)
	}
	return c
}

// TestWindowsOfOneValueHoldWhereverItIsRead reads the value at the ends of both windows.
func TestWindowsOfOneValueHoldWhereverItIsRead(t *testing.T) {
	load := func(context.Context, string) (int64, error) { return 2, nil }
	forEachOwnCase(t, ownWindows, func(t *testing.T, o ownCase) {
		for _, at := range []struct {
			after time.Duration // the end of the TTL
			load  strata.Loader[string, int64]
			want  int64
			err   error
		}{
			{5*time.Second - 1, load, 1, nil},
			{5 * time.Second, load, 2, nil},
			{20*time.Second - 1, lab.DownLoad, 1, nil},
			{20 * time.Second, lab.DownLoad, 0, lab.ErrDown},
		} {
			synctest.Test(t, func(t *testing.T) {
				c := o.holder(t)
				time.Sleep(time.Minute + at.after)
				v, err := c.GetOrLoad(t.Context(), "k", at.load)
				if synctest.Wait(); v != at.want || !errors.Is(err, at.err) {
					t.Errorf("%v after the TTL: %d, %v; want %d, %v", at.after, v, err, at.want, at.err)
				}
			})
		}
	})
}

// TestValueThatMayNotBeStaleIsNeverServedStale, whether it ended, or was expired.
func TestValueThatMayNotBeStaleIsNeverServedStale(t *testing.T) {
	ends := map[string]func(t *testing.T, c *strata.Cache[string, int64]){
		"its TTL":    func(*testing.T, *strata.Cache[string, int64]) { time.Sleep(time.Minute) },
		"Expire":     func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.Expire(t.Context(), "k")) },
		"ExpireAll":  func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.ExpireAll(t.Context())) },
		"ExpireTags": func(t *testing.T, c *strata.Cache[string, int64]) { lab.Must(t, c.ExpireTags(t.Context(), "t")) },
	}
	slow := func(context.Context, string) (int64, error) { time.Sleep(2 * time.Second); return 3, nil }
	forEachOwnCase(t, strata.Stale{WhileRevalidate: -1, OnError: -1}, func(t *testing.T, o ownCase) {
		for why, end := range ends {
			synctest.Test(t, func(t *testing.T) {
				if o.opts = nil; why == "ExpireTags" {
					o.opts = []strata.CallOption{strata.WithTags("t")}
				}
				c := o.holder(t)
				_, _ = c.Get(t.Context(), "k")
				end(t, c)
				synctest.Wait()
				if v, ok := c.Get(t.Context(), "k", strata.AllowStale()); ok && why == "its TTL" {
					t.Errorf("%s, AllowStale: %d", why, v)
				}
				if v, err := c.GetOrLoad(t.Context(), "k", lab.DownLoad); !errors.Is(err, lab.ErrDown) {
					t.Errorf("%s: %d, %v; want the error of the load", why, v, err)
				}
				if v, err := c.GetOrLoad(t.Context(), "k", slow); v != 3 || err != nil {
					t.Errorf("%s: %d, %v; want the value of a slow load", why, v, err)
				}
			})
		}
	})
}

// TestFailedLoadCanEndTheStaleLifeOfTheValue: of a stale value at once, of a fresh one at
// the end of its TTL.
func TestFailedLoadCanEndTheStaleLifeOfTheValue(t *testing.T) {
	refuses := func(ctx context.Context, _ string) (int64, error) {
		strata.Loading(ctx).SetStale(strata.Stale{WhileRevalidate: -1, OnError: -1})
		return 0, lab.ErrDown
	}
	for where, alone := range map[string]bool{"no L2": true, "L2": false} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := func(o *strata.Options[string, int64]) {
					lab.Windows(time.Minute, time.Hour)(o)
					o.ErrorTTL, o.RefreshAt = time.Second, 0.5
				}
				open := func() *strata.Cache[string, int64] { return lab.NewCache(t, change) }
				if s := lab.NewShared(); !alone {
					open = func() *strata.Cache[string, int64] { return lab.Instance(t, s, change) }
				}
				c := open()
				lab.MustGet(t, c, "k", lab.PlainLoad)
				time.Sleep(40 * time.Second)
				if v, err := c.GetOrLoad(t.Context(), "k", refuses); v != 1 || err != nil { // it is due, and its refresh fails
					t.Errorf("a fresh value: %d, %v", v, err)
				}
				synctest.Wait()
				if v, err := c.GetOrLoad(t.Context(), "k", lab.DownLoad); v != 1 || err != nil {
					t.Errorf("a fresh value after a failed refresh: %d, %v", v, err)
				}
				time.Sleep(20 * time.Second)
				if v, ok := c.Get(t.Context(), "k", strata.AllowStale()); ok {
					t.Errorf("a tier has kept %d", v)
				}
				if v, err := c.GetOrLoad(t.Context(), "k", refuses); !errors.Is(err, lab.ErrDown) {
					t.Errorf("stale: %d, %v", v, err)
				}
				// While the failure is remembered, callers get no stale value, either.
				if v, err := c.GetOrLoad(t.Context(), "k", lab.PlainLoad); !errors.Is(err, lab.ErrDown) {
					t.Errorf("after the failure: %d, %v", v, err)
				}
				time.Sleep(5 * time.Second)
				if v, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 5, nil }); err != nil || v != 5 {
					t.Errorf("%d, %v", v, err)
				}
			})
		})
	}
}

// TestMemoryTTLOfOneValueBoundsItsLifeInEachL1, and leaves L2 its whole life.
func TestMemoryTTLOfOneValueBoundsItsLifeInEachL1(t *testing.T) {
	load := func(ctx context.Context, _ string) (int64, error) {
		strata.Loading(ctx).SetMemoryTTL(10 * time.Second)
		return 1, nil
	}
	none := func(ctx context.Context, _ string) (int64, error) {
		strata.Loading(ctx).SetMemoryTTL(-1)
		return 1, nil
	}
	stores := map[string]func(t *testing.T, c *strata.Cache[string, int64]) time.Duration{
		"load": func(t *testing.T, c *strata.Cache[string, int64]) time.Duration {
			lab.MustGet(t, c, "k", load)
			return 10 * time.Second
		},
		"load, none": func(t *testing.T, c *strata.Cache[string, int64]) time.Duration {
			lab.MustGet(t, c, "k", none)
			return 0
		},
		"Set": func(t *testing.T, c *strata.Cache[string, int64]) time.Duration {
			lab.Must(t, c.Set(t.Context(), "k", 1, strata.WithMemoryTTL(10*time.Second)))
			return 10 * time.Second
		},
		"Set, none": func(t *testing.T, c *strata.Cache[string, int64]) time.Duration {
			lab.Must(t, c.Set(t.Context(), "k", 1, strata.WithMemoryTTL(0)))
			return 0
		},
		"longer than that of the Options": func(t *testing.T, c *strata.Cache[string, int64]) time.Duration {
			lab.Must(t, c.Set(t.Context(), "k", 1, strata.WithMemoryTTL(time.Hour)))
			return 30 * time.Second
		},
	}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				change := func(o *strata.Options[string, int64]) { o.Memory.TTL = 30 * time.Second }
				a, b := lab.Instance(t, s, change), lab.Instance(t, s, change)
				lasts := store(t, a)
				synctest.Wait() // b has heard of it
				lab.MustGet(t, b, "k", lab.DownLoad)
				for who, c := range map[string]*strata.Cache[string, int64]{"that stored it": a, "that read it": b} {
					e := c.Explain(t.Context(), "k")
					if e.L1.Fresh != lasts || e.L1.Present != (lasts > 0) {
						t.Errorf("instance %s: %+v; want it fresh for %v", who, e.L1, lasts)
					}
					if e.L2.Fresh != time.Minute {
						t.Errorf("instance %s: L2 has it for %v", who, e.L2.Fresh)
					}
				}
				time.Sleep(40 * time.Second)
				if v, ok := b.Get(t.Context(), "k"); v != 1 || !ok {
					t.Errorf("%d, %v after L1 has ended it; L2 has it", v, ok)
				}
			})
		})
	}
}

// failsSaying is a Loader that fails after some time, and says windows for the value before.
func failsSaying(takes time.Duration, s strata.Stale) strata.Loader[string, int64] {
	return func(ctx context.Context, _ string) (int64, error) {
		time.Sleep(takes) // in the bubble
		strata.Loading(ctx).SetStale(s)
		return 0, lab.ErrDown
	}
}

// TestFailedLoadLeavesTheWindowsOfAValueThatCameLater, of a Set while the load ran.
func TestFailedLoadLeavesTheWindowsOfAValueThatCameLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Windows(-1, time.Hour))
		lab.Must(t, c.Set(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		served := make(chan int64)
		go func() {
			served <- lab.MustGet(t, c, "k", failsSaying(time.Second, strata.Stale{WhileRevalidate: time.Hour, OnError: time.Hour}))
		}()
		synctest.Wait()
		time.Sleep(time.Second / 2) // in the bubble
		lab.Must(t, c.Set(t.Context(), "k", 2))
		<-served
		time.Sleep(time.Minute)
		if v := lab.MustGet(t, c, "k", func(context.Context, string) (int64, error) { return 3, nil }); v != 3 {
			t.Errorf("%d; want the value of the load: none is served while it is refreshed", v)
		}
	})
}

// refusing runs a load of k that fails and forbids stale values. before runs before the
// load. One operation of L2 takes 3 seconds, and between runs within that time.
func refusing(t *testing.T, slowOp string, before, between func(c *strata.Cache[string, int64])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var slow atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			lab.Windows(-1, time.Hour)(o)
			o.ErrorTTL, o.Remote.Timeout = time.Minute, time.Minute
			o.Remote.Tier = lab.Stalling(s.Tier, slowOp, 3*time.Second, &slow)
		})
		before(c)
		slow.Store(true)
		go c.GetOrLoad(t.Context(), "k", failsSaying(0, strata.Stale{WhileRevalidate: -1, OnError: -1}))
		synctest.Wait()
		between(c)
		if v, err := c.GetOrLoad(t.Context(), "k", lab.DownLoad); !errors.Is(err, lab.ErrDown) {
			t.Errorf("%d, %v; want the error of the load", v, err)
		}
	})
}

// TestFailedLoadEndsTheStaleLifeOfWhatL1GotBeforeIt, after the load had looked in L1.
func TestFailedLoadEndsTheStaleLifeOfWhatL1GotBeforeIt(t *testing.T) {
	refusing(t, "Acquire", func(*strata.Cache[string, int64]) {}, func(c *strata.Cache[string, int64]) {
		lab.Must(t, c.Set(t.Context(), "k", 1, strata.NoRemote(), strata.WithTTL(time.Second)))
		time.Sleep(5 * time.Second) // in the bubble
	})
}

// TestFailureIsNotRememberedBeforeTheWindowsThatItSays: while L2 is told, no other read gets
// the value.
func TestFailureIsNotRememberedBeforeTheWindowsThatItSays(t *testing.T) {
	refusing(t, "Put", func(c *strata.Cache[string, int64]) {
		lab.Must(t, c.Set(t.Context(), "k", 1))
		time.Sleep(time.Minute) // in the bubble
	}, func(*strata.Cache[string, int64]) {})
}

// TestFailedLoadEndsTheStaleLifeOfWhatAnotherReadHasFound, and waits with for an answer of L2.
func TestFailedLoadEndsTheStaleLifeOfWhatAnotherReadHasFound(t *testing.T) {
	refusing(t, "Get", func(c *strata.Cache[string, int64]) {
		lab.Must(t, c.Set(t.Context(), "k", 1))
		time.Sleep(time.Minute) // in the bubble
	}, func(c *strata.Cache[string, int64]) {
		lab.Must(t, c.Expire(t.Context(), "k")) // the next read does not join
		time.Sleep(time.Second)                 // in the bubble
	})
}

func TestWindowsOfALoadThatTimesOutCountForTheValue(t *testing.T) {
	none := strata.Stale{WhileRevalidate: -1, OnError: -1}
	for name, opts := range map[string][]strata.CallOption{"SetStale": nil, "WithStale": {strata.WithStale(none)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.Limits.HardTimeout, o.ErrorTTL = time.Second, 10*time.Second })
				lab.Must(t, c.Set(t.Context(), "k", 1))
				time.Sleep(2 * time.Minute)
				hangs := func(ctx context.Context, _ string) (int64, error) {
					if opts == nil {
						strata.Loading(ctx).SetStale(none)
					}
					time.Sleep(2 * time.Second)
					return 0, lab.ErrDown
				}
				for _, opts := range [][]strata.CallOption{opts, nil} { // the load, and the next caller
					if v, err := c.GetOrLoad(t.Context(), "k", hangs, opts...); err == nil {
						t.Errorf("got %d, which may not be stale any more", v)
					}
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestWindowsOfALoadThatTimesOutCountInL2: another instance must not serve the value, nor this one when the failure is forgotten.
func TestWindowsOfALoadThatTimesOutCountInL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		change := func(o *strata.Options[string, int64]) { o.Limits.HardTimeout, o.ErrorTTL = time.Second, 10*time.Second }
		a, b := lab.Instance(t, s, change), lab.Instance(t, s, change)
		lab.Must(t, a.Set(t.Context(), "k", 1))
		time.Sleep(2 * time.Minute)
		if v, ok := b.Get(t.Context(), "k", strata.AllowStale()); v != 1 || !ok {
			t.Fatalf("L2 has %d, %v", v, ok)
		}
		if v, err := a.GetOrLoad(t.Context(), "k", func(ctx context.Context, _ string) (int64, error) {
			strata.Loading(ctx).SetStale(strata.Stale{WhileRevalidate: -1, OnError: -1})
			time.Sleep(2 * time.Second)
			return 0, lab.ErrDown
		}); err == nil {
			t.Errorf("got %d, which may not be stale any more", v)
		}
		time.Sleep(time.Minute)
		for name, c := range map[string]*strata.Cache[string, int64]{"this": a, "another": b} {
			if v, ok := c.Get(t.Context(), "k", strata.AllowStale(), strata.NoMemory()); ok {
				t.Errorf("%s instance gets %d from L2", name, v)
			}
			if v, err := c.GetOrLoad(t.Context(), "k", lab.DownLoad, strata.NoMemory()); err == nil {
				t.Errorf("%s instance serves %d on error", name, v)
			}
		}
	})
}

// TestTierThatPanicsAtHardTimeoutHarmsNoOther: the process goes on, and the caller gets its error.
func TestTierThatPanicsAtHardTimeoutHarmsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var panics atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Limits.HardTimeout = time.Second
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
				if op == "Put" && panics.Load() {
					panic("a tier of its own")
				}
				return 0, nil
			})
		})
		lab.Must(t, c.Set(t.Context(), "k", 1))
		time.Sleep(2 * time.Minute)
		panics.Store(true)
		if _, err := c.GetOrLoad(t.Context(), "k", func(ctx context.Context, _ string) (int64, error) {
			strata.Loading(ctx).SetStale(strata.Stale{WhileRevalidate: -1, OnError: -1})
			time.Sleep(2 * time.Second)
			return 0, lab.ErrDown
		}); err == nil {
			t.Error("no error")
		}
		time.Sleep(time.Minute)
		if n := c.Stats().CallbackPanics; n == 0 {
			t.Error("the panic is not counted")
		}
	})
}
