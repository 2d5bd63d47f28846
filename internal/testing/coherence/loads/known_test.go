package loads_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest"
)

// weighed is a tier that counts the bytes of values, and how often its caller names a
// value that the caller has. With lie set it claims to hold these values, whether it
// does or not.
type weighed struct {
	remote.Tier
	*scales
}

type scales struct {
	read, written, known, gets atomic.Int64
	lie                        atomic.Bool
}

func (w weighed) Unwrap() remote.Tier                { return w.Tier }
func (w weighed) Wrap(inner remote.Tier) remote.Tier { return weighed{inner, w.scales} }

func (w weighed) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	w.gets.Add(1)
	for _, id := range known {
		w.told(id)
	}
	held, err := w.Tier.Get(ctx, keys, known...)
	for i := range held {
		w.weigh(&held[i])
	}
	return held, err
}

func (w weighed) Acquire(ctx context.Context, rs []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	for _, r := range rs {
		w.told(r.Known)
	}
	acquired, err := w.Tier.Acquire(ctx, rs, d)
	for i := range acquired {
		w.weigh(&acquired[i].Held)
	}
	return acquired, err
}

func (w weighed) Put(ctx context.Context, puts []remote.Put) ([]int, error) {
	for _, p := range puts {
		w.written.Add(int64(len(p.Data)))
	}
	return w.Tier.Put(ctx, puts)
}

func (s *scales) told(id remote.ID) {
	if id != 0 {
		s.known.Add(1)
	}
}

func (s *scales) weigh(h *remote.Held) {
	s.read.Add(int64(len(h.Data)))
	if s.lie.Load() {
		h.Data, h.Same = nil, true
	}
}

// moved returns the bytes of values that went to and from the tier since the last call.
func (s *scales) moved() int64 { return s.read.Swap(0) + s.written.Swap(0) }

const (
	tenInstances = 10
	largeSize    = 500_000
)

var largeText = strings.Repeat("0123456789", largeSize/10) // read-only

type text = strata.Options[string, string]

// ways are the connections of instances to the bus.
type ways []*stratatest.Bus

// each calls f for each of them.
func (w ways) each(f func(*stratatest.Bus)) {
	for _, b := range w {
		f(b)
	}
}

// tenth returns instances after they have read the same large value, the scales of their
// tier, and their buses.
func tenth(t *testing.T, change ...func(*text)) (all []*strata.Cache[string, string], w *scales, s *lab.Shared, buses ways) {
	s = lab.NewShared()
	all, w, buses = tenthOver(t, s, s.Tier, change...)
	return all, w, s, buses
}

// tenthOver is tenth over a tier that need not belong to s.
func tenthOver(t *testing.T, s *lab.Shared, tier remote.Tier, change ...func(*text)) (all []*strata.Cache[string, string], w *scales, buses ways) {
	w = &scales{}
	long := func(o *text) {
		bus := s.Bus.Connect()
		o.Remote.Bus, buses = bus, append(buses, bus)
		o.Remote.Tier = weighed{tier, w}
		o.TTL, o.Jitter, o.RefreshAt, o.Stale.OnError = time.Minute, -1, -1, time.Hour
	}
	for range tenInstances {
		all = append(all, lab.Instance(t, s, append([]func(*text){long}, change...)...))
	}
	for _, c := range all {
		getText(t, c, func(context.Context, string) (string, error) { return largeText, nil })
	}
	if n := w.moved(); n < tenInstances*largeSize {
		t.Errorf("%d bytes moved, want the value to or from each instance", n)
	}
	return all, w, buses
}

func getText(t *testing.T, c *strata.Cache[string, string], load strata.Loader[string, string]) {
	t.Helper()
	if v, err := c.GetOrLoad(t.Context(), "k", load); err != nil || v != largeText {
		t.Errorf("got %d bytes, %v; want the value", len(v), err)
	}
}

func unmodified(context.Context, string) (string, error) { return "", strata.ErrNotModified }

// TestNotModifiedReachesOtherInstancesWithoutThePayload has one instance find that a large
// value has not changed, and the others read it in any way.
func TestNotModifiedReachesOtherInstancesWithoutThePayload(t *testing.T) {
	reads := map[string]func(*testing.T, *strata.Cache[string, string]){
		"GetOrLoad": func(t *testing.T, c *strata.Cache[string, string]) { getText(t, c, unmodified) },
		"Get": func(t *testing.T, c *strata.Cache[string, string]) {
			if v, ok := c.Get(t.Context(), "k"); !ok || v != largeText {
				t.Errorf("Get = %d bytes, %t", len(v), ok)
			}
		},
		"GetMany": func(t *testing.T, c *strata.Cache[string, string]) {
			if vs, err := c.GetMany(t.Context(), []string{"none", "k"}, nil); err != nil || vs["k"] != largeText {
				t.Errorf("GetMany = %d bytes, %v", len(vs["k"]), err)
			}
		},
	}
	ends := map[string]func(*testing.T, *strata.Cache[string, string]){
		"its TTL": func(*testing.T, *strata.Cache[string, string]) {
			time.Sleep(time.Minute + time.Second) // in the bubble
		},
		"Expire": func(t *testing.T, c *strata.Cache[string, string]) {
			if err := c.Expire(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		},
		"ExpireAll": func(t *testing.T, c *strata.Cache[string, string]) {
			if err := c.ExpireAll(t.Context()); err != nil {
				t.Error(err)
			}
		},
	}
	tiers := map[string]func(t *testing.T, s *lab.Shared) remote.Tier{
		"": func(_ *testing.T, s *lab.Shared) remote.Tier { return s.Tier },
		"over items ": func(t *testing.T, _ *lab.Shared) remote.Tier {
			return castier.NewFleet(lab.NewModel(t, 1))
		},
	}
	for over, tier := range tiers {
		for way, read := range reads {
			for end, expire := range ends {
				t.Run(over+way+" after "+end, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := lab.NewShared()
						all, w, _ := tenthOver(t, s, tier(t, s))
						for round := range 3 {
							expire(t, all[0])
							time.Sleep(2 * time.Second) // in the bubble: until all have heard
							getText(t, all[round], unmodified)
							time.Sleep(10 * time.Second)
							readAll(t, round, all, w, read)
						}
					})
				})
			}
		}
	}
}

// readAll lets all instances read a value with a new life. It fails if they move any
// bytes, keep the value for another time, or load more than once.
func readAll(t *testing.T, round int, all []*strata.Cache[string, string], w *scales, read func(*testing.T, *strata.Cache[string, string])) {
	t.Helper()
	gets := w.gets.Load()
	for _, c := range all {
		read(t, c)
	}
	if n := w.moved(); n != 0 || w.gets.Load()-gets > 2*tenInstances {
		t.Errorf("round %d: %d bytes moved in %d reads, want none: the value has not changed", round, n, w.gets.Load()-gets)
	}
	for i, c := range all {
		if r := c.Explain(t.Context(), "k"); r.L1.Fresh.Round(5*time.Second) != 50*time.Second {
			t.Errorf("round %d: instance %d keeps it fresh for %v, want the rest of a minute, 50s", round, i, r.L1.Fresh)
		}
		if n := c.Stats().Loads.NotModified; n > 1 {
			t.Errorf("round %d: instance %d has loaded %d times, want once at most", round, i, n)
		}
	}
	w.moved()
}

// TestSuspectsAndRefreshesOfALargeValueMoveNoPayload lets all instances confirm the value
// after a gap, and refresh it early.
func TestSuspectsAndRefreshesOfALargeValueMoveNoPayload(t *testing.T) {
	for name, harm := range map[string]func(*lab.Shared, ways){
		"suspect": func(s *lab.Shared, buses ways) {
			buses.each((*stratatest.Bus).Cut)
			s.Tier.Bind(remote.Space{Name: "test"}).(*stratatest.Tier).ForgetLane("k")
			buses.each((*stratatest.Bus).Join)
		},
		"early": func(*lab.Shared, ways) { time.Sleep(50 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all, w, s, buses := tenth(t, func(o *text) { o.RefreshAt = 0.5 })
				harm(s, buses)
				synctest.Wait()
				for range 2 {
					for _, c := range all {
						getText(t, c, unmodified)
						synctest.Wait()
					}
				}
				var confirmed, loads uint64
				for _, c := range all {
					st := c.Stats()
					confirmed, loads = confirmed+st.Confirmed, loads+st.Loads.NotModified
				}
				if n := w.moved(); n != 0 {
					t.Errorf("%d bytes moved, want none", n)
				}
				if name == "suspect" && confirmed != tenInstances || name == "early" && loads != 1 {
					t.Errorf("%d entries confirmed, %d loads of %d instances", confirmed, loads, tenInstances)
				}
			})
		})
	}
}

// TestChangedValueIsReadWhateverTheInstanceHas replaces, drops or expires the value, by a
// load or a Set, and reads it on instances with the value before.
func TestChangedValueIsReadWhateverTheInstanceHas(t *testing.T) {
	other := strings.Repeat("other", 2000)
	load := func(context.Context, string) (string, error) { return other, nil }
	for name, change := range map[string]func(*testing.T, *strata.Cache[string, string]) error{
		"a load": func(t *testing.T, c *strata.Cache[string, string]) error {
			time.Sleep(2 * time.Minute)
			_, err := c.GetOrLoad(t.Context(), "k", load)
			return err
		},
		"a load after Expire": func(t *testing.T, c *strata.Cache[string, string]) error {
			if err := c.Expire(t.Context(), "k"); err != nil {
				return err
			}
			_, err := c.GetOrLoad(t.Context(), "k", load)
			return err
		},
		"a load past the cache": func(t *testing.T, c *strata.Cache[string, string]) error {
			_, err := c.GetOrLoad(t.Context(), "k", load, strata.SkipRead())
			return err
		},
		"Set":           func(t *testing.T, c *strata.Cache[string, string]) error { return c.Set(t.Context(), "k", other) },
		"Invalidate":    func(t *testing.T, c *strata.Cache[string, string]) error { return c.Invalidate(t.Context(), "k") },
		"InvalidateAll": func(t *testing.T, c *strata.Cache[string, string]) error { return c.InvalidateAll(t.Context()) },
	} {
		for _, hears := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					all, w, _, buses := tenth(t)
					if !hears {
						buses.each(func(b *stratatest.Bus) { b.Hush(true) }) // so that the others find out in L2
					}
					if err := change(t, all[0]); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Minute)
					synctest.Wait()
					for i, c := range all {
						if v, err := c.GetOrLoad(t.Context(), "k", load); v != other || err != nil {
							t.Errorf("instance %d got %d bytes, %v; want the other value", i, len(v), err)
						}
					}
					if w.moved() == 0 {
						t.Error("no bytes moved")
					}
				})
			})
		}
	}
}

// TestPayloadIsSentWhereItMustBe reads small values, values with tags, and values that
// callers may have changed.
func TestPayloadIsSentWhereItMustBe(t *testing.T) {
	for name, test := range map[string]struct {
		value  string
		change func(*text)
	}{
		"small":          {"0123456789", func(*text) {}},
		"tagged":         {largeText, func(o *text) { o.Tags = func(string, string) []string { return []string{"t"} } }},
		"DetectMutation": {largeText, func(o *text) { o.Memory.DetectMutation = true }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := lab.NewShared(), &scales{}
				long := func(o *text) {
					o.Remote.Tier, o.TTL, o.Jitter, o.Stale.OnError = weighed{s.Tier, w}, time.Minute, -1, time.Hour
				}
				a, b := lab.Instance(t, s, long, test.change), lab.Instance(t, s, long, test.change)
				for _, load := range []strata.Loader[string, string]{func(context.Context, string) (string, error) { return test.value, nil }, unmodified} {
					for _, c := range []*strata.Cache[string, string]{a, b} {
						if v, err := c.GetOrLoad(t.Context(), "k", load); v != test.value || err != nil {
							t.Errorf("got %d bytes, %v; want %d", len(v), err, len(test.value))
						}
					}
					time.Sleep(61 * time.Second)
				}
				if n := w.known.Load(); n != 0 {
					t.Errorf("the tier was told of %d known values, want none", n)
				}
			})
		})
	}
}

// TestTierThatSaysTheSameUnaskedIsNotBelieved reads keys that an instance does not have.
func TestTierThatSaysTheSameUnaskedIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, w, s, _ := tenth(t)
		w.lie.Store(true)
		c := lab.Instance(t, s, func(o *text) { o.Remote.Tier = weighed{s.Tier, w} })
		for range 2 {
			v, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (string, error) { return "loaded", nil })
			if v != "loaded" || err != nil {
				t.Errorf("got %.20q, %v; want the value of the load", v, err)
			}
		}
		if st := c.Stats(); st.L2.Foreign == 0 {
			t.Error("no answer is counted as unreadable")
		}
		if v, ok := all[0].Get(t.Context(), "none"); ok {
			t.Errorf("an absent key has %.20q", v)
		}
	})
}
