package agreement_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// succession is two servers with a tier and a bus each. The second has taken the place
// of the first. The first lives on, and answers the instances that have not heard of
// the second.
type succession struct{ old, new *lab.Shared }

func newSuccession() succession { return succession{lab.NewShared(), lab.NewShared()} }

// successor is the way of one instance to the servers. It is a Tier and a Bus.
type successor struct {
	*stratatest.Tier
	way *way
}

// way is the state that the views of a successor share.
type way struct {
	s     succession
	moved atomic.Bool
	// acquiring, if set, is called before each question for leases, put after each Put.
	acquiring, put func()

	mu        sync.Mutex // guards below
	followers []*following
	line      *stratatest.Bus // the connection to the bus
}

// following is one call of Follow.
type following struct {
	name string
	f    func(remote.Event)
	stop func()
}

// join makes an instance that uses the old server until it is told.
func (s succession) join(t *testing.T, change ...func(*strata.Options[string, int64])) (*strata.Cache[string, int64], *way) {
	w := &way{s: s}
	c := lab.NewCache(t, append([]func(*strata.Options[string, int64]){func(o *strata.Options[string, int64]) {
		o.Remote.Tier, o.Remote.Bus = successor{Tier: s.old.Tier, way: w}, successorBus{w}
	}}, change...)...)
	synctest.Wait()
	return c, w
}

// hear makes the instance use the new server from now on.
func (w *way) hear() {
	w.moved.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fl := range w.followers {
		fl.stop()
		fl.f(remote.Event{State: remote.Gap})
		w.line = w.s.new.Bus.Connect()
		fl.stop = w.line.Follow(fl.name, fl.f)
	}
}

// Bind implements remote.Binder.
func (m successor) Bind(s remote.Space) remote.Tier {
	old, _ := remote.Bind(m.way.s.old.Tier, s)
	succ, _ := remote.Bind(m.way.s.new.Tier, s)
	return successorView{old, succ, m.way}
}

// successorView is the view of one instance. It has the abilities of both tiers.
type successorView struct {
	old, new remote.Tier
	way      *way
}

func (v successorView) at() *stratatest.Tier {
	if v.way.moved.Load() {
		return v.new.(*stratatest.Tier)
	}
	return v.old.(*stratatest.Tier)
}

func (v successorView) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	return v.at().Get(ctx, keys, known...)
}

func (v successorView) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	if f := v.way.acquiring; f != nil {
		f()
	}
	return v.at().Acquire(ctx, r, d)
}

func (v successorView) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	defer func() {
		if f := v.way.put; f != nil {
			f()
		}
	}()
	return v.at().Put(ctx, p)
}

func (v successorView) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	return v.at().Drop(ctx, d)
}

func (v successorView) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
	return v.at().Extend(ctx, key, fresh, left, l, id)
}

func (v successorView) Release(ctx context.Context, key string, l remote.Lease) error {
	return v.at().Release(ctx, key, l)
}

func (v successorView) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	return v.at().Renew(ctx, key, l, d)
}

func (v successorView) DropAll(ctx context.Context, soft bool) error {
	return v.at().DropAll(ctx, soft)
}
func (v successorView) Recheck() {}

func (v successorView) DropTags(ctx context.Context, tags []string, soft bool) error {
	return v.at().DropTags(ctx, tags, soft)
}

func (v successorView) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	return v.at().Tags(ctx, tags)
}

func (v successorView) Announces() bool        { return true }
func (v successorView) Lane(key string) uint16 { return v.at().Lane(key) }

func (v successorView) Position(ctx context.Context) (remote.Position, error) {
	return v.at().Position(ctx)
}

func (v successorView) Changes(ctx context.Context) (string, error) { return v.at().Changes(ctx) }

// Moves implements remote.Mover.
func (v successorView) Moves() uint64 {
	if v.way.moved.Load() {
		return 1
	}
	return 0
}

// successorBus is the bus of one instance.
type successorBus struct{ way *way }

func (b successorBus) Publish(ctx context.Context, m []remote.Message) error {
	b.way.mu.Lock()
	line := b.way.line
	b.way.mu.Unlock()
	return line.Publish(ctx, m)
}

func (b successorBus) Follow(name string, f func(remote.Event)) (stop func()) {
	w := b.way
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line = w.s.old.Bus.Connect()
	if w.moved.Load() {
		w.line = w.s.new.Bus.Connect()
	}
	fl := &following{name: name, f: f, stop: w.line.Follow(name, f)}
	w.followers = append(w.followers, fl)
	return func() {
		w.mu.Lock()
		stop := fl.stop
		w.mu.Unlock()
		stop()
	}
}

// deposed has a reader bring value 1 of the keys to the new server, and a writer
// without news of the new server drop them at the old one. The old server confirms the
// drop. The origin has 2 then. after is called when the writer has heard.
func deposed(t *testing.T, drop func(t *testing.T, w *strata.Cache[string, int64]) error, after func(t *testing.T, w, r *strata.Cache[string, int64], o *lab.Origin)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, o := newSuccession(), &lab.Origin{}
		o.Value.Store(1)
		tagged := func(o *strata.Options[string, int64]) {
			o.Tags = func(string, int64) []string { return []string{"t"} }
		}
		reader, way := s.join(t, tagged)
		way.hear()
		writer, late := s.join(t, tagged)
		synctest.Wait()
		for i := range 3 {
			lab.MustGet(t, reader, fmt.Sprint("k", i), o.Load)
		}
		o.Value.Store(2)
		if err := drop(t, writer); err != nil {
			t.Fatalf("the old server does not confirm: %v", err)
		}
		late.hear()
		after(t, writer, reader, o)
	})
}

// drops are the ways to drop k0, k1 and k2. It is read-only.
var drops = map[string]func(t *testing.T, w *strata.Cache[string, int64]) error{
	"Invalidate": func(t *testing.T, w *strata.Cache[string, int64]) error {
		return w.Invalidate(t.Context(), "k0", "k1", "k2")
	},
	"one by one": func(t *testing.T, w *strata.Cache[string, int64]) error {
		for i := range 3 {
			if err := w.Invalidate(t.Context(), fmt.Sprint("k", i)); err != nil {
				return err
			}
		}
		return nil
	},
	"Add": func(t *testing.T, w *strata.Cache[string, int64]) error {
		for i := range 3 {
			if added, err := w.Add(t.Context(), fmt.Sprint("k", i), 2); !added || err != nil {
				return fmt.Errorf("added: %t, %w", added, err)
			}
		}
		return nil
	},
	"Take": func(t *testing.T, w *strata.Cache[string, int64]) error {
		for i := range 3 {
			lab.Must(t, w.Set(t.Context(), fmt.Sprint("k", i), 1, strata.WithTags("t")))
			if v, ok, err := w.Take(t.Context(), fmt.Sprint("k", i)); v != 1 || !ok || err != nil {
				return fmt.Errorf("took %d, %t, %w", v, ok, err)
			}
		}
		return nil
	},
	"InvalidateTags": func(t *testing.T, w *strata.Cache[string, int64]) error {
		return w.InvalidateTags(t.Context(), "t")
	},
	"InvalidateAll": func(t *testing.T, w *strata.Cache[string, int64]) error { return w.InvalidateAll(t.Context()) },
	"SetMany": func(t *testing.T, w *strata.Cache[string, int64]) error {
		return w.SetMany(t.Context(), map[string]int64{"k0": 2, "k1": 2, "k2": 2})
	},
	"Update": func(t *testing.T, w *strata.Cache[string, int64]) error {
		for i := range 3 {
			if err := w.Update(t.Context(), fmt.Sprint("k", i), func(context.Context) (int64, error) { return 2, nil }); err != nil {
				return err
			}
		}
		return nil
	},
}

// TestDropThatADeposedServerHasConfirmedIsRepeated: the instance that made the drop
// never gets the older value, and others lose it.
func TestDropThatADeposedServerHasConfirmedIsRepeated(t *testing.T) {
	for name, drop := range drops {
		t.Run(name, func(t *testing.T) {
			deposed(t, drop, func(t *testing.T, w, r *strata.Cache[string, int64], o *lab.Origin) {
				for i := range 3 {
					if v := lab.MustGet(t, w, fmt.Sprint("k", i), o.Load); v != 2 {
						t.Errorf("the instance that has dropped gets %d", v)
					}
				}
				time.Sleep(time.Second)
				for i := range 3 {
					if v := lab.MustGet(t, r, fmt.Sprint("k", i), o.Load); v != 2 {
						t.Errorf("a second later another instance gets %d", v)
					}
				}
			})
		})
	}
}

func TestBatchAfterAChangeOfServerHasNoValueFromBeforeADrop(t *testing.T) {
	deposed(t, func(t *testing.T, w *strata.Cache[string, int64]) error { return w.Invalidate(t.Context(), "k1") },
		func(t *testing.T, w, _ *strata.Cache[string, int64], o *lab.Origin) {
			got, err := w.GetMany(t.Context(), []string{"k0", "k1", "k2"}, func(ctx context.Context, keys []string) (map[string]int64, error) {
				all := map[string]int64{}
				for _, k := range keys {
					all[k], _ = o.Load(ctx, k)
				}
				return all, nil
			})
			if err != nil || got["k1"] != 2 || len(got) != 3 {
				t.Errorf("%v, %v", got, err)
			}
		})
}

// TestBatchWhoseServerChangesBeforeItsLeasesHasNoValueFromBeforeADrop: the answer to the
// question for the leases brings the news, and the values.
func TestBatchWhoseServerChangesBeforeItsLeasesHasNoValueFromBeforeADrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := newSuccession(), &lab.Origin{}
		o.Value.Store(1)
		reader, way := s.join(t)
		way.hear()
		writer, late := s.join(t)
		keys := []string{"k0", "k1", "k2"}
		for _, k := range keys {
			lab.MustGet(t, reader, k, o.Load)
		}
		o.Value.Store(2)
		if err := writer.Invalidate(t.Context(), keys...); err != nil {
			t.Fatal(err)
		}
		late.acquiring = func() { late.moved.Store(true) }
		got, err := writer.GetMany(t.Context(), keys, func(ctx context.Context, keys []string) (map[string]int64, error) {
			all := map[string]int64{}
			for _, k := range keys {
				all[k], _ = o.Load(ctx, k)
			}
			return all, nil
		})
		for _, k := range keys {
			if err != nil || got[k] != 2 {
				t.Errorf("%s: %d, %v", k, got[k], err)
			}
		}
	})
}

// TestAddWhoseServerIsDeposedMeanwhileIsStoredOnTheNextOne: the deposed one has confirmed it.
func TestAddWhoseServerIsDeposedMeanwhileIsStoredOnTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSuccession()
		reader, way := s.join(t)
		way.hear()
		writer, late := s.join(t)
		late.put = func() { late.moved.Store(true) }
		adds(t, writer, 2, true)
		if v, ok := reader.Get(t.Context(), "k"); !ok || v != 2 {
			t.Errorf("the next server has %d, %t", v, ok)
		}
		adds(t, reader, 3, false)
	})
}

// TestReadThatPassesL2ByGivesItsLeaseBack: other instances do not wait for it.
func TestReadThatPassesL2ByGivesItsLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := newSuccession(), &lab.Origin{}
		reader, way := s.join(t)
		way.hear()
		writer, late := s.join(t)
		if err := writer.Invalidate(t.Context(), "dropped"); err != nil {
			t.Fatal(err)
		}
		late.acquiring = func() { late.moved.Store(true) }
		lab.MustGet(t, writer, "k", o.Load)
		begun := time.Now()
		lab.MustGet(t, reader, "k", o.Load)
		if d := time.Since(begun); d > 0 {
			t.Errorf("another instance waits for %v", d)
		}
	})
}

// TestHoldIsKnownThatTheNewsOfAnotherServerTellsOf: the answer that brings the news says that
// the keys are on hold. It is not used, and loads that pass L2 by are kept nowhere.
func TestHoldIsKnownThatTheNewsOfAnotherServerTellsOf(t *testing.T) {
	for name, get := range map[string]func(t *testing.T, c *strata.Cache[string, int64], o *lab.Origin){
		"one key": func(t *testing.T, c *strata.Cache[string, int64], o *lab.Origin) { lab.MustGet(t, c, "k1", o.Load) },
		"a batch": func(t *testing.T, c *strata.Cache[string, int64], o *lab.Origin) {
			_, err := c.GetMany(t.Context(), []string{"k1", "k2"}, func(ctx context.Context, keys []string) (map[string]int64, error) {
				all := map[string]int64{}
				for _, k := range keys {
					all[k], _ = o.Load(ctx, k)
				}
				return all, nil
			})
			lab.Must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, o := newSuccession(), &lab.Origin{}
				other, way := s.join(t)
				way.hear()
				lab.Must(t, other.InvalidateHold(t.Context(), time.Minute, "k1", "k2"))
				c, late := s.join(t)
				lab.Must(t, c.Invalidate(t.Context(), "dropped"))
				late.acquiring = func() { late.moved.Store(true) }
				get(t, c, o)
				if v, ok := c.Get(t.Context(), "k1", strata.NoRemote()); ok {
					t.Errorf("L1 has %d, which was loaded during a hold", v)
				}
			})
		})
	}
}

// TestIdleInstanceRepeatsItsDrops: without a call, when its bus has joined again.
func TestIdleInstanceRepeatsItsDrops(t *testing.T) {
	for name, drop := range drops {
		t.Run(name, func(t *testing.T) {
			deposed(t, drop, func(t *testing.T, _, r *strata.Cache[string, int64], o *lab.Origin) {
				time.Sleep(time.Second)
				for i := range 3 {
					if v := lab.MustGet(t, r, fmt.Sprint("k", i), o.Load); v != 2 {
						t.Errorf("a second later another instance gets %d", v)
					}
				}
			})
		})
	}
}

// TestHoldIsRepeatedWithItsRest: no load is kept until it has ended.
func TestHoldIsRepeatedWithItsRest(t *testing.T) {
	hold := func(t *testing.T, w *strata.Cache[string, int64]) error {
		err := w.InvalidateHold(t.Context(), 10*time.Second, "k0")
		time.Sleep(4 * time.Second) // in the bubble
		return err
	}
	deposed(t, hold, func(t *testing.T, _, r *strata.Cache[string, int64], o *lab.Origin) {
		time.Sleep(time.Second)
		for range 2 {
			lab.MustGet(t, r, "k0", o.Load)
		}
		if n := o.Loads.Load(); n != 5 {
			t.Errorf("%d loads during the hold; want each read to load: 2 beside the first 3", n-3)
		}
		time.Sleep(5 * time.Second)
		for range 3 {
			lab.MustGet(t, r, "k0", o.Load)
		}
		if n := o.Loads.Load(); n != 6 {
			t.Errorf("%d loads after the hold; want 1", n-5)
		}
	})
}

// TestSoftDropIsRepeatedAsASoftOne: the value is stale, and not absent.
func TestSoftDropIsRepeatedAsASoftOne(t *testing.T) {
	deposed(t, func(t *testing.T, w *strata.Cache[string, int64]) error { return w.Expire(t.Context(), "k0") },
		func(t *testing.T, _, r *strata.Cache[string, int64], o *lab.Origin) {
			time.Sleep(time.Second)
			if h := r.Explain(t.Context(), "k0").L2; !h.Present || h.Fresh > 0 {
				t.Errorf("after a soft drop: %+v", h)
			}
			if v := lab.MustGet(t, r, "k1", o.Load); v != 1 {
				t.Errorf("a key that was not dropped: %d", v)
			}
		})
}

// TestManyDropsAreRepeatedAsOneOfEverything bounds the memory of an instance for its drops.
func TestManyDropsAreRepeatedAsOneOfEverything(t *testing.T) {
	many := func(t *testing.T, w *strata.Cache[string, int64]) error {
		keys := make([]string, 25_000)
		for i := range keys {
			keys[i] = fmt.Sprint("k", i)
		}
		return w.Invalidate(t.Context(), keys...)
	}
	deposed(t, many, func(t *testing.T, w, r *strata.Cache[string, int64], o *lab.Origin) {
		if v := lab.MustGet(t, w, "k0", o.Load); v != 2 {
			t.Errorf("%d", v)
		}
		time.Sleep(5 * time.Second)
		for i := range 3 {
			if v := lab.MustGet(t, r, fmt.Sprint("k", i), o.Load); v != 2 {
				t.Errorf("another instance: %d", v)
			}
		}
	})
}

// TestDropIsForgottenWhenNoServerCanHaveMissedIt: later changes of server cost nothing.
func TestDropIsForgottenWhenNoServerCanHaveMissedIt(t *testing.T) {
	late := func(t *testing.T, w *strata.Cache[string, int64]) error {
		err := w.Invalidate(t.Context(), "k0")
		time.Sleep(4 * time.Minute) // in the bubble
		return err
	}
	deposed(t, late, func(t *testing.T, w, _ *strata.Cache[string, int64], _ *lab.Origin) {
		time.Sleep(time.Second)
		if n := w.Stats().Pending; n != 0 {
			t.Errorf("%d pending drops", n)
		}
	})
}

// TestCloseCarriesOutRepeatedDrops: a program that ends at once after the change.
func TestCloseCarriesOutRepeatedDrops(t *testing.T) {
	deposed(t, drops["Invalidate"], func(t *testing.T, w, r *strata.Cache[string, int64], o *lab.Origin) {
		lab.MustGet(t, w, "other", o.Load)
		lab.Must(t, w.Close(t.Context()))
		synctest.Wait()
		for i := range 3 {
			if v := lab.MustGet(t, r, fmt.Sprint("k", i), o.Load); v != 2 {
				t.Errorf("another instance gets %d", v)
			}
		}
	})
}

// TestEntryOfAnotherInstanceDoesNotUndoADropThatIsTriedAgain: L2 confirms the drop while
// entries are taken in, and the other instance has not heard of it.
func TestEntryOfAnotherInstanceDoesNotUndoADropThatIsTriedAgain(t *testing.T) {
	for name, drop := range map[string]func(c *strata.Cache[string, int64]) error{
		"key": func(c *strata.Cache[string, int64]) error { return c.Invalidate(context.Background(), "k") },
		"tag": func(c *strata.Cache[string, int64]) error { return c.InvalidateTags(context.Background(), "t") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, o := lab.NewShared(), &lab.Origin{}
				o.Value.Store(1)
				tagged := func(o *strata.Options[string, int64]) {
					o.Tags = func(string, int64) []string { return []string{"t"} }
				}
				giver := lab.Instance(t, s, tagged)
				var down atomic.Bool
				line := s.Bus.Connect()
				taker := lab.Instance(t, s, tagged, func(o *strata.Options[string, int64]) {
					o.Remote.Tier, o.Remote.Bus = lab.Failing(lab.Failing(s.Tier, "Drop", &down), "DropTags", &down), line
				})
				lab.MustGet(t, giver, "k", o.Load)
				o.Value.Store(2)
				down.Store(true)
				if err := drop(taker); err == nil {
					t.Fatal("the drop has not failed")
				}
				all, position := lab.EntriesOf(t, giver, 0, 1)
				r := lab.RestoreOf(t, taker)
				if suspect := r.Cover(t.Context(), position); suspect != "" {
					t.Fatal(suspect)
				}
				line.Delay(time.Second) // its own message comes late, too
				down.Store(false)
				time.Sleep(500 * time.Millisecond)
				if n := taker.Stats().Pending; n != 0 {
					t.Fatalf("%d drops are pending", n)
				}
				e := all["k"]
				r.Entry(&e, 0, true)
				if v := lab.MustGet(t, taker, "k", o.Load); v != 2 {
					t.Errorf("got %d", v)
				}
			})
		})
	}
}

// TestSoftDropThatTellsOfAHoldRemovesWhatWasLoadedDuringIt: the message about the hold itself
// has never come.
func TestSoftDropThatTellsOfAHoldRemovesWhatWasLoadedDuringIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = nil })
		lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
		expire := remote.Message{Name: "test", Kind: remote.Expired, From: 99, Key: "k", Hold: time.Minute}
		lab.Must(t, s.Bus.Publish(t.Context(), []remote.Message{expire}))
		synctest.Wait()
		if v, ok := c.Get(t.Context(), "k", strata.AllowStale()); ok {
			t.Errorf("%d was loaded during the hold, and is served as a stale value", v)
		}
		// A value set during the hold stays, as a stale one.
		lab.Must(t, c.Set(t.Context(), "k", 7))
		lab.Must(t, s.Bus.Publish(t.Context(), []remote.Message{expire}))
		synctest.Wait()
		if v, ok := c.Get(t.Context(), "k", strata.AllowStale()); !ok || v != 7 {
			t.Errorf("%d, %t, want what was set during the hold", v, ok)
		}
	})
}
