package loads_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/compact"
	"github.com/strata-cache/strata/codec/flate"
	"github.com/strata-cache/strata/codec/gob"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// item is a value that callers can change.
type item struct {
	N    int
	List []int
	Map  map[string]int
}

func newItem() *item { return &item{N: 1, List: []int{1, 2}, Map: map[string]int{"a": 1}} }

func (i *item) clone() *item {
	c := *i
	return &c
}

func loadItem(context.Context, string) (*item, error) { return newItem(), nil }

func loadItems(_ context.Context, keys []string) (map[string]*item, error) {
	all := map[string]*item{}
	for _, k := range keys {
		all[k] = newItem()
	}
	return all, nil
}

func noItem(context.Context, string) (*item, error) { return nil, lab.ErrDown }

// cloning gives every caller a copy.
func cloning(o *strata.Options[string, *item]) { o.Memory.Clone = (*item).clone }

// items is a cache of items with an L2, and another instance of it.
type items struct{ *strata.Cache[string, *item] }

func (c items) get(t *testing.T, load strata.Loader[string, *item], opts ...strata.CallOption) *item {
	t.Helper()
	v, err := c.GetOrLoad(t.Context(), "k", load, opts...)
	lab.Must(t, err)
	return v
}

func TestCallersMayChangeClonedValues(t *testing.T) {
	ways := map[string]func(t *testing.T, c, other items) *item{
		"from a load": func(t *testing.T, c, _ items) *item { return c.get(t, loadItem) },
		"from a load it shares": func(t *testing.T, c, _ items) *item {
			slowly := func(ctx context.Context, k string) (*item, error) { time.Sleep(time.Second); return loadItem(ctx, k) }
			go c.GetOrLoad(t.Context(), "k", slowly)
			synctest.Wait()
			return c.get(t, slowly)
		},
		"from L1": func(t *testing.T, c, _ items) *item { c.get(t, loadItem); return c.get(t, loadItem) },
		"by Get":  func(t *testing.T, c, _ items) *item { c.get(t, loadItem); v, _ := c.Get(t.Context(), "k"); return v },
		"from L2": func(t *testing.T, c, other items) *item { other.get(t, loadItem); return c.get(t, loadItem) },
		"from L2 by Get": func(t *testing.T, c, other items) *item {
			other.get(t, loadItem)
			v, _ := c.Get(t.Context(), "k")
			return v
		},
		"by GetMany": func(t *testing.T, c, _ items) *item {
			all, err := c.GetMany(t.Context(), []string{"k", "l"}, loadItems)
			lab.Must(t, err)
			return all["k"]
		},
		"by GetMany from L1": func(t *testing.T, c, _ items) *item {
			c.get(t, loadItem)
			all, err := c.GetMany(t.Context(), []string{"k"}, loadItems)
			lab.Must(t, err)
			return all["k"]
		},
		"past the cache": func(t *testing.T, c, _ items) *item { return c.get(t, loadItem, strata.SkipRead()) },
		"not modified": func(t *testing.T, c, _ items) *item {
			c.get(t, loadItem)
			lab.Must(t, c.Expire(t.Context(), "k"))
			return c.get(t, func(context.Context, string) (*item, error) { return nil, strata.ErrNotModified })
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				c, other := items{lab.Instance(t, s, cloning)}, items{lab.Instance(t, s, cloning)}
				way(t, c, other).N = 99
				synctest.Wait()
				for range 2 {
					if v := c.get(t, noItem); v.N != 1 {
						t.Fatalf("L1 has %d, want 1", v.N)
					}
				}
			})
		})
	}
}

func TestCallersMayChangeStaleValuesThatCloneGivesThem(t *testing.T) {
	stale := func(wr, onError time.Duration) func(*strata.Options[string, *item]) {
		return func(o *strata.Options[string, *item]) { o.Stale = strata.Stale{WhileRevalidate: wr, OnError: onError} }
	}
	for name, change := range map[string]func(*strata.Options[string, *item]){
		"while it is refreshed": stale(time.Hour, -1),
		"because a load failed": stale(-1, time.Hour),
		"because one has failed a moment ago": func(o *strata.Options[string, *item]) {
			o.ErrorTTL = time.Minute
		},
		"because a load takes too long": func(o *strata.Options[string, *item]) { o.Limits.SoftTimeout = time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := items{lab.NewCache(t, cloning, change)}
				c.get(t, loadItem)
				time.Sleep(2 * time.Minute)
				slowly := func(ctx context.Context, k string) (*item, error) {
					time.Sleep(2 * time.Second)
					return nil, lab.ErrDown
				}
				for range 3 {
					v := c.get(t, slowly)
					if v.N != 1 {
						t.Fatalf("got %d, want 1", v.N)
					}
					v.N = 99
				}
			})
		})
	}
}

func TestCloneThatPanicsFailsNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := items{lab.NewCache(t, func(o *strata.Options[string, *item]) {
			o.Memory.Clone = func(*item) *item { panic("clone") }
		})}
		for range 3 {
			if v := c.get(t, loadItem); v == nil || v.N != 1 {
				t.Errorf("got %v", v)
			}
		}
		if _, err := c.GetOrLoad(t.Context(), "other", noItem); !errors.Is(err, lab.ErrDown) {
			t.Error(err)
		}
		c.Get(t.Context(), "other")
		if st := c.Stats(); st.CallbackPanics != 3 || st.Loads.OK != 1 {
			t.Errorf("%d panics counted, %d loads", st.CallbackPanics, st.Loads.OK)
		}
	})
}

func TestChangedValuesAreFoundWithinSomeHundredHits(t *testing.T) {
	for name, change := range map[string]func(*item){
		"a field":               func(i *item) { i.N++ },
		"an element of a slice": func(i *item) { i.List[0]++ },
		"a map":                 func(i *item) { i.Map["b"] = 2 },
	} {
		for how, fill := range map[string]func(t *testing.T, c, other items) *item{
			"loaded": func(t *testing.T, c, _ items) *item { return c.get(t, loadItem) },
			"set": func(t *testing.T, c, _ items) *item {
				v := newItem()
				lab.Must(t, c.Set(t.Context(), "k", v))
				return v
			},
			"from L2": func(t *testing.T, c, other items) *item {
				other.get(t, loadItem)
				return c.get(t, loadItem)
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var log lab.LogText
					s := lab.NewShared()
					detect := func(o *strata.Options[string, *item]) {
						o.Memory.DetectMutation, o.Logger = true, lab.TextLogger(&log)
					}
					c, other := items{lab.Instance(t, s, detect)}, items{lab.Instance[string, *item](t, s)}
					change(fill(t, c, other))
					hits := 0
					for ; hits < 2000 && c.Stats().Mutations == 0; hits++ {
						if _, ok := c.Get(t.Context(), "k"); !ok {
							t.Fatal("gone")
						}
					}
					if n := c.Stats().Mutations; n != 1 || c.Explain(t.Context(), "k").L1.Present {
						t.Fatalf("%d found in %d hits", n, hits)
					}
					if l := log.String(); !strings.Contains(l, "changed by a caller") || !strings.Contains(l, "*loads_test.item") || strings.Contains(l, "key=") {
						t.Errorf("log: %s", l)
					}
				})
			})
		}
	}
}

func TestUnchangedValuesAreNotReportedAsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := items{lab.NewCache(t, func(o *strata.Options[string, *item]) { o.Memory.DetectMutation = true })}
		for range 20_000 {
			c.get(t, loadItem)
		}
		if st := c.Stats(); st.Mutations != 0 || st.Loads.OK != 1 {
			t.Errorf("%d mutations, %d loads", st.Mutations, st.Loads.OK)
		}
	})
}

// Some codecs write a map in another order each time.
func TestUnchangedMapsAreNotReportedAsChanged(t *testing.T) {
	for name, codec := range map[string]codec.Codec[map[string]int]{
		"gob": gob.New[map[string]int](), "compact": compact.New[map[string]int](), "flate": codec.Compressed(gob.New[map[string]int](), 1, flate.New()),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, func(o *strata.Options[string, map[string]int]) { o.Memory.DetectMutation, o.Remote.Codec = true, codec })
				m := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4}
				lab.Must(t, c.Set(t.Context(), "k", m))
				for range 6400 {
					c.Get(t.Context(), "k")
				}
				if n := c.Stats().Mutations; n != 0 {
					t.Errorf("%d mutations", n)
				}
				m["a"] = 5
				for range 6400 {
					c.Get(t.Context(), "k")
				}
				if n := c.Stats().Mutations; n != 1 {
					t.Errorf("%d mutations of a changed map", n)
				}
			})
		})
	}
}

// tallied is a codec that counts its encodings.
type tallied struct {
	codec.Codec[*item]
	n *int
}

func (c tallied) Append(b []byte, v *item) ([]byte, error) { *c.n++; return c.Codec.Append(b, v) }

func TestValuesAreHashedOnlyIfChangesAreLookedFor(t *testing.T) {
	for _, detect := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			s := lab.NewShared()
			c := items{lab.Instance(t, s, func(o *strata.Options[string, *item]) {
				o.Memory.DetectMutation, o.Remote.Codec = detect, tallied{codec.JSON[*item](), &n}
			})}
			c.get(t, loadItem)
			stored := n
			const hits = 6400
			for range hits {
				c.get(t, loadItem)
			}
			if n -= stored; detect && (n < hits/64/2 || n > hits/64*2) || !detect && n+stored != 1 {
				t.Errorf("detect %v: hashed %d times at the store, %d times in %d hits", detect, stored, n, hits)
			}
		})
	}
}

// told notes the events of hooks.
type told struct {
	mu     sync.Mutex
	events []string
}

func (d *told) note(hook string) func(strata.Event) {
	return func(e strata.Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		what := fmt.Sprintf("%s %v %s", hook, e.Key, e.Tier)
		switch {
		case e.Cache != "test":
			what += " of " + e.Cache
		case hook == "load", e.Outcome != strata.LoadOK:
			what += " " + e.Outcome.String()
		case e.Reason != "":
			what += " " + e.Reason
		case e.Op != "":
			what += " " + e.Op
		}
		if e.Err != nil {
			what += ": " + e.Err.Error()
		}
		d.events = append(d.events, what)
	}
}

// take returns the events since the last call.
func (d *told) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := strings.Join(d.events, "; ")
	d.events = nil
	return all
}

func (d *told) hooks() *strata.Hooks {
	return &strata.Hooks{
		Hit: d.note("hit"), Miss: d.note("miss"), Load: d.note("load"), Stale: d.note("stale"),
		Refused: d.note("refused"), Evict: d.note("evict"), RemoteError: d.note("remote"),
	}
}

func TestHooksAreCalledForEachEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &told{}
		c := lab.NewCache(t, lab.Windows(10*time.Second, time.Hour), lab.Negatives, func(o *strata.Options[string, int64]) {
			o.Hooks, o.Memory.MaxEntries = d.hooks(), 1
		})
		s := &lab.Fallible{}
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := d.take(); got != want {
				t.Errorf("told:  %s\nwant: %s", got, want)
			}
		}
		get := func(key string) { _, _ = c.GetOrLoad(t.Context(), key, s.Load) }
		get("k")
		expect("miss k ; load k origin ok")
		get("k")
		expect("hit k L1")
		c.Get(t.Context(), "k")
		expect("hit k L1")
		time.Sleep(65 * time.Second)
		s.Fail(lab.ErrDown)
		get("k")
		expect("stale k L1; load k origin error: origin is down")
		time.Sleep(time.Minute)
		get("k")
		expect("miss k ; load k origin error: origin is down; stale k L1: origin is down")
		s.Fail(strata.ErrNotFound)
		get("k")
		expect("miss k ; load k origin not_found: strata: not found; evict k L1 invalidated")
		get("k")
		expect("hit k L1 not_found")
		lab.Must(t, c.Set(t.Context(), "a", 1))
		lab.Must(t, c.Set(t.Context(), "b", 1))
		expect("evict a L1 evicted")
		s.Fail(nil)
		go c.GetOrLoad(t.Context(), "late", func(ctx context.Context, k string) (int64, error) { time.Sleep(time.Second); return 1, nil })
		synctest.Wait()
		lab.Must(t, c.Invalidate(t.Context(), "late"))
		time.Sleep(time.Second)
		expect("miss late ; load late origin ok; refused late L1")
		time.Sleep(2 * time.Hour)
		expect("evict b L1 expired")
	})
}

func TestHooksAreCalledForL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := &told{}, &lab.Patient{}
		s := lab.NewShared()
		a := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) { o.Hooks = d.hooks() })
		deaf := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Hooks, o.Remote.Bus = d.hooks(), nil })
		slowly := func(context.Context, string) (int64, error) { time.Sleep(time.Second); return 1, nil }
		go deaf.GetOrLoad(t.Context(), "k", slowly)
		synctest.Wait()
		lab.Must(t, a.Invalidate(t.Context(), "k"))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := d.take(); got != "miss k ; load k origin ok; refused k L2" {
			t.Errorf("told: %s", got)
		}
		p.Fails.Store(true)
		if v, ok := a.Get(t.Context(), "k"); ok {
			t.Errorf("got %d", v)
		}
		if got := d.take(); got != "miss k ; remote <nil> L2 get: connection refused" {
			t.Errorf("told: %s", got)
		}
	})
}

func TestHooksThatPanicFailNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := func(strata.Event) { panic("hook") }
		p := &lab.Patient{}
		c := lab.IllInstance(t, lab.NewShared(), p, lab.Windows(time.Hour, time.Hour), lab.Negatives, func(o *strata.Options[string, int64]) {
			o.Hooks = &strata.Hooks{Hit: bad, Miss: bad, Load: bad, Stale: bad, Refused: bad, Evict: bad, RemoteError: bad}
			o.Memory.MaxEntries = 1
		})
		o := &lab.Fallible{}
		for range 2 {
			lab.GetTakes(t, c, o.Load, 0)
		}
		time.Sleep(2 * time.Minute)
		lab.GetTakes(t, c, o.Load, 0)
		p.Fails.Store(true)
		lab.MustGet(t, c, "other", o.Load)
		o.Fail(strata.ErrNotFound)
		for range 2 {
			if _, err := c.GetOrLoad(t.Context(), "absent", o.Load); !errors.Is(err, strata.ErrNotFound) {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := c.Stats().CallbackPanics; n < 7 {
			t.Errorf("%d panics counted", n)
		}
	})
}
