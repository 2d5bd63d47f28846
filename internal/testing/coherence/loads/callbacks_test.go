package loads_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// explosive is a Codec that panics while a switch is on.
type explosive struct {
	codec.Codec[int64]
	encoding, decoding *atomic.Bool
}

func (c explosive) Append(b []byte, v int64) ([]byte, error) {
	if c.encoding.Load() {
		panic("codec")
	}
	return c.Codec.Append(b, v)
}

func (c explosive) Decode(b []byte) (int64, error) {
	if c.decoding.Load() {
		panic("codec")
	}
	return c.Codec.Decode(b)
}

func isLoadPanic(err error) bool {
	var p *strata.LoadPanicError
	return errors.As(err, &p)
}

func TestCodecThatPanicsIsNoFailureOfTheLoader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var encoding, decoding atomic.Bool
		s := lab.NewShared()
		with := func(o *strata.Options[string, int64]) {
			o.Remote.Codec = explosive{codec.JSON[int64](), &encoding, &decoding}
		}
		a, b := lab.Instance(t, s, with), lab.Instance(t, s, with)
		o := &lab.Origin{}
		o.Value.Store(1)
		encoding.Store(true)
		if v, err := a.GetOrLoad(t.Context(), "k", o.Load); v != 1 || err != nil {
			t.Errorf("got %d, %v from a load whose value cannot be encoded, want the value", v, err)
		}
		many, err := a.GetMany(t.Context(), []string{"x", "y"}, func(context.Context, []string) (map[string]int64, error) {
			return map[string]int64{"x": 1, "y": 2}, nil
		})
		if len(many) != 2 || err != nil {
			t.Errorf("GetMany: %v, %v", many, err)
		}
		if err := a.Set(t.Context(), "set", 1); err == nil || isLoadPanic(err) || !strings.Contains(err.Error(), "Codec") {
			t.Errorf("Set: %v, want an error about the Codec", err)
		}
		err = a.Update(t.Context(), "updated", func(context.Context) (int64, error) { return 1, nil })
		if err == nil || isLoadPanic(err) {
			t.Errorf("Update: %v, want an error about the Codec", err)
		}
		if st := a.Stats(); st.CallbackPanics < 5 || st.Loads.Panics != 0 {
			t.Errorf("%d panics of callbacks and %d of loads counted, want at least 5 and 0", st.CallbackPanics, st.Loads.Panics)
		}

		encoding.Store(false)
		lab.Must(t, a.Set(t.Context(), "k", 5))
		decoding.Store(true)
		if v, err := b.GetOrLoad(t.Context(), "k", o.Load); v != 1 || err != nil {
			t.Errorf("got %d, %v where L2 holds what cannot be decoded, want a load", v, err)
		}
		if st := b.Stats(); st.L2.Foreign == 0 || st.CallbackPanics == 0 {
			t.Errorf("stats %+v, want a foreign value and a panic", st)
		}
	})
}

// brittle is a Tier that panics in Get while a switch is on.
type brittle struct {
	*stratatest.Tier
	on *atomic.Bool
}

func (b brittle) Bind(s remote.Space) remote.Tier {
	return brittle{b.Tier.Bind(s).(*stratatest.Tier), b.on}
}

func (b brittle) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	if b.on.Load() {
		panic("tier")
	}
	return b.Tier.Get(ctx, keys, known...)
}

func TestTierThatPanicsIsAnErrorOfEachKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var on atomic.Bool
		on.Store(true)
		s := lab.NewShared()
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = brittle{s.Tier, &on} })
		o := &lab.Origin{}
		many := func(_ context.Context, keys []string) (map[string]int64, error) {
			found := map[string]int64{}
			for _, k := range keys {
				found[k] = 1
			}
			return found, nil
		}
		if _, err := c.GetOrLoad(t.Context(), "k", o.Load); !isLoadPanic(err) {
			t.Errorf("GetOrLoad: %v, want a *LoadPanicError", err)
		}
		var partial *strata.PartialError[string]
		if _, err := c.GetMany(t.Context(), []string{"x", "y"}, many); !errors.As(err, &partial) || len(partial.Failed) != 2 {
			t.Errorf("GetMany: %v, want a *PartialError of both keys", err)
		}
		on.Store(false) // nothing is left behind: all keys can be loaded
		found, err := c.GetMany(t.Context(), []string{"k", "x", "y"}, many)
		if len(found) != 3 || err != nil {
			t.Errorf("after the panics: %v, %v", found, err)
		}
	})
}

func TestKeyThatPanicsIsAnErrorOfTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.Instance(t, lab.NewShared(), func(o *strata.Options[string, int64]) {
			o.Remote.Key = func(k string) string {
				if k == "bad" {
					panic("key")
				}
				return k
			}
			o.Remote.ParseKey = func(name string) (string, error) { return name, nil }
		})
		o := &lab.Origin{}
		_, ofGet := c.GetOrLoad(t.Context(), "bad", o.Load)
		found, ofMany := c.GetMany(t.Context(), []string{"good", "bad"}, func(_ context.Context, keys []string) (map[string]int64, error) {
			return map[string]int64{keys[0]: 1}, nil
		})
		if len(found) != 1 {
			t.Errorf("found %v, want the other key", found)
		}
		ran := false
		for what, err := range map[string]error{
			"GetOrLoad": ofGet, "GetMany": ofMany,
			"Set": c.Set(t.Context(), "bad", 1),
			"Update": c.Update(t.Context(), "bad", func(context.Context) (int64, error) {
				ran = true
				return 1, nil
			}),
			"Invalidate": c.Invalidate(t.Context(), "bad", "good"),
			"Explain":    c.Explain(t.Context(), "bad").L2.Err,
		} {
			if err == nil || isLoadPanic(err) || !strings.Contains(err.Error(), "Remote.Key") {
				t.Errorf("%s: %v, want an error about Remote.Key", what, err)
			}
		}
		if ran {
			t.Error("Update has written to the origin what it could not have dropped")
		}
		if c.Explain(t.Context(), "good").L2.Present {
			t.Error("the bad key kept the good one from being invalidated")
		}
	})
}

func TestLifeThatIsNotPositiveStoresNothing(t *testing.T) {
	for _, d := range []time.Duration{0, -1, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			c, o := lab.Instance[string, int64](t, s), &lab.Origin{}
			for what, call := range map[string]func(key string) error{
				"load": func(k string) error { _, err := c.GetOrLoad(t.Context(), k, o.Load, strata.WithTTL(d)); return err },
				"says": func(k string) error {
					_, err := c.GetOrLoad(t.Context(), k, saying(func(l *strata.Load) { l.SetTTL(d) }), strata.WithTTL(time.Hour))
					return err
				},
				"set": func(k string) error { return c.Set(t.Context(), k, 1, strata.WithTTL(d)) },
				"update": func(k string) error {
					return c.Update(t.Context(), k, func(context.Context) (int64, error) { return 1, nil }, strata.WithTTL(d))
				},
				"skip": func(k string) error {
					_, err := c.GetOrLoad(t.Context(), k, o.Load, strata.SkipRead(), strata.WithTTL(d))
					return err
				},
			} {
				lab.Must(t, call(what))
				if r := c.Explain(t.Context(), what); r.L1.Present || r.L2.Present {
					t.Errorf("%s with a life of %v: kept: %+v", what, d, r)
				}
			}
		})
	}
}
