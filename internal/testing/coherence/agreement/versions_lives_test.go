package agreement_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/gob"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

func TestOlderValueThatCannotBeConvertedIsLoadedAnew(t *testing.T) {
	bad := errors.New("bad")
	for what, convert := range map[string]func(personV1) (personV2, error){
		"error": func(personV1) (personV2, error) { return personV2{N: 99}, bad },
		"panic": func(personV1) (personV2, error) { panic("convert") },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				convertsBadly(t, codec.Versioned(codec.JSON[personV2](), codec.From(codec.JSON[personV1](), convert)))
			})
		})
	}
	t.Run("panic of a Decode", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			older := fromV1()
			older.Decode = func([]byte) (personV2, error) { panic("decode") }
			convertsBadly(t, codec.Versioned(codec.JSON[personV2](), older))
		})
	})
}

func convertsBadly(t *testing.T, c codec.Codec[personV2]) {
	p := newPeople(t)
	old := p.v1()
	old.get("k")
	now := start(p, c, newV2, func(v personV2) int { return v.N })
	if n := now.get("k"); n != 0 || p.loads["k"] != 2 {
		t.Errorf("got %d after %d loads, want 0 after 2", n, p.loads["k"])
	}
	if s := now.Stats(); s.L2.Foreign != 1 {
		t.Errorf("%d values counted as unreadable, want 1", s.L2.Foreign)
	}
	if r := p.v2().Explain(t.Context(), "k"); !r.L2.Present {
		t.Errorf("the loaded value was not stored: %+v", r.L2)
	}
}

func TestOlderValueIsServedStaleAndGetsANewLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		p.v1().get("k")
		now := p.v2()
		time.Sleep(90 * time.Second) // stale since 30 s
		down := errors.New("down")
		v, err := now.GetOrLoad(t.Context(), "k", func(context.Context, string) (personV2, error) { return personV2{}, down })
		if v != newV2(0) || err != nil {
			t.Errorf("while the origin is down: %+v, %v; want the older value", v, err)
		}
		v, err = now.GetOrLoad(t.Context(), "k", func(context.Context, string) (personV2, error) { return personV2{}, strata.ErrNotModified })
		if v != newV2(0) || err != nil {
			t.Errorf("not modified: %+v, %v", v, err)
		}
		other := p.v2()
		if v, ok := other.Get(t.Context(), "k"); !ok || v != newV2(0) {
			t.Errorf("the new life is not in L2: %+v, %t", v, ok)
		}
	})
}

func TestNotFoundOfARefreshEndsTheOlderValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		old := p.v1()
		old.get("k")
		now := p.v2(func(o *strata.Options[string, personV2]) {
			o.RefreshAt = 0.5
			o.Loader = func(context.Context, string) (personV2, error) { return personV2{}, strata.ErrNotFound }
		})
		now.get("k")
		time.Sleep(40 * time.Second)
		now.get("k") // starts the refresh
		synctest.Wait()
		for name, r := range map[string]strata.Report{"old": old.Explain(t.Context(), "k"), "new": now.Explain(t.Context(), "k")} {
			if r.L1.Present || r.L2.Present {
				t.Errorf("%s: still there: %+v", name, r)
			}
		}
	})
}

func TestRefreshOfAnOlderValueIsOneLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		p.v1().get("k")
		early := func(o *strata.Options[string, personV2]) { o.RefreshAt = 0.5 }
		all := []program{p.v2(early), p.v2(early), p.v2(early)}
		for _, c := range all {
			c.get("k")
		}
		p.now["k"] = 1
		time.Sleep(40 * time.Second)
		for _, c := range all {
			c.get("k") // the first one refreshes it, the others get the new value from L2
			synctest.Wait()
		}
		for i, c := range all {
			if n := c.get("k"); n != 1 {
				t.Errorf("program %d has %d after the refresh", i, n)
			}
		}
		if n := p.v1().get("k"); n != 0 || p.loads["k"] != 2 {
			t.Errorf("the old version has %d after %d loads, want its own value and 2 loads", n, p.loads["k"])
		}
	})
}

func TestTagsOfAnOlderValueDropIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		old := p.v1(func(o *strata.Options[string, personV1]) {
			o.Tags = func(string, personV1) []string { return []string{"tag"} }
		})
		for _, k := range []string{"a", "b"} {
			old.get(k)
		}
		now := p.v2()
		now.get("a")
		if r := now.Explain(t.Context(), "b"); len(r.L2.Tags) != 1 || !r.L2.Present {
			t.Errorf("Explain: %+v, want the tag of the older value", r.L2)
		}
		if err := old.InvalidateTags(t.Context(), "tag"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := now.getMany("a", "b"); len(n) != 2 || p.all() != 4 {
			t.Errorf("%d loads, want 4: an older value has outlived its tag", p.all())
		}
	})
}

func TestL2ThatFailsAtTheOlderVersionCostsOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		var gets atomic.Int64
		now := p.v2(func(o *strata.Options[string, personV2]) {
			o.Remote.Tier = stratatest.FaultyTier(p.s.Tier, func(op, _ string) (time.Duration, error) {
				if op == "Get" && gets.Add(1)%2 == 0 {
					return time.Hour, nil // at the question for the older version
				}
				return 0, nil
			})
		})
		begun := time.Now()
		now.get("k")
		if took := time.Since(begun); took > lab.RemoteTimeout || p.loads["k"] != 1 {
			t.Errorf("took %v and %d loads", took, p.loads["k"])
		}
		if n := now.getMany("x", "y"); len(n) != 2 || p.all() != 3 {
			t.Errorf("a batch: %d loads, want 3", p.all())
		}
	})
}

func TestVersionsThatCannotBeToldApartAreRefused(t *testing.T) {
	_, err := strata.New(strata.Options[string, personV2]{
		Name: "n", TTL: time.Minute,
		Remote: strata.Remote[string, personV2]{
			Tier:  lab.NewShared().Tier,
			Codec: codec.Versioned(codec.JSON[personV2](), fromV1(), fromV1()),
		},
	})
	if err == nil {
		t.Error("the same version twice was accepted")
	}
}

func TestNewWarnsOfFieldsThatL2DoesNotKeep(t *testing.T) {
	type address struct {
		Street string
		number int
	}
	type account struct {
		Home address
		Next *account
		At   time.Time
		note string
	}
	for name, c := range map[string]codec.Codec[account]{"json": nil, "gob": gob.New[account]()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &lab.LogText{}
				s := lab.NewShared()
				lab.NewCache(t, func(o *strata.Options[string, account]) {
					o.Remote.Tier, o.Remote.Codec, o.Logger = s.Tier, c, lab.TextLogger(log)
				})
				want := name + " does not keep all of agreement_test.account: Home.number, note: values that come from L2, or from an encoded L1, lack these parts"
				if n := len(lines(log, want)); n != 1 {
					t.Errorf("%d lines with %q in:\n%s", n, want, log)
				}
			})
		})
	}
	_ = account{note: "", Home: address{number: 1}}
}
