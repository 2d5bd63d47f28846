package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/gob"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
)

// Three versions of a type. The first program knows nothing of versions.
type (
	personV1 struct {
		N    int
		Name string
	}
	personV2 struct {
		N       int
		Name    string
		Country string
	}
	personV3 struct {
		N           int
		First, Last string
		Country     string
	}
)

func newV1(n int) personV1 { return personV1{n, fmt.Sprintf("Ann-%d Lee", n)} }
func newV2(n int) personV2 { return personV2{n, fmt.Sprintf("Ann-%d Lee", n), "NL"} }
func newV3(n int) personV3 { return personV3{n, fmt.Sprintf("Ann-%d", n), "Lee", "NL"} }

func toV2(p personV1) (personV2, error) { return personV2{p.N, p.Name, "NL"}, nil }

func toV3(p personV2) (personV3, error) {
	first, last, ok := strings.Cut(p.Name, " ")
	if !ok {
		return personV3{}, errors.New("no last name")
	}
	return personV3{p.N, first, last, p.Country}, nil
}

func fromV1() codec.Older[personV2] { return codec.From(codec.JSON[personV1](), toV2) }

func codecV2() codec.Codec[personV2] { return codec.Versioned(codec.JSON[personV2](), fromV1()) }

// codecV3 also changes the encoding.
func codecV3() codec.Codec[personV3] {
	return codec.Versioned(gob.New[personV3](),
		codec.From(codec.JSON[personV2](), toV3),
		codec.From(codec.JSON[personV1](), func(p personV1) (personV3, error) {
			next, _ := toV2(p)
			return toV3(next)
		}))
}

// people is the origin of all versions. The number of a key is the number of its last change. Reads of a
// GetMany that wait for other instances load side by side.
type people struct {
	mu    sync.Mutex // guards loads
	t     *testing.T
	s     *lab.Shared
	now   map[string]int
	loads map[string]int
	log   *lab.LogText
	alone bool // the tier has one view
}

func newPeople(t *testing.T) *people {
	return &people{t: t, s: lab.NewShared(), now: map[string]int{}, loads: map[string]int{}, log: &lab.LogText{}}
}

func (p *people) load(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loads[key]++
	return p.now[key]
}

func (p *people) all() (n int) {
	for _, loads := range p.loads {
		n += loads
	}
	return n
}

// program is one instance of some version.
type program interface {
	// get reads a key and returns the number in the value. The value must have the form
	// of the version.
	get(key string) int
	getMany(keys ...string) []int
	set(key string, n int) error
	invalidate(key string) error
	stats() strata.Stats
}

type version[V comparable] struct {
	*strata.Cache[string, V]
	p      *people
	make   func(int) V
	number func(V) int
}

// start starts an instance of a version.
func start[V comparable](p *people, c codec.Codec[V], make func(int) V, number func(V) int, change ...func(*strata.Options[string, V])) *version[V] {
	p.t.Helper()
	v := &version[V]{p: p, make: make, number: number}
	v.Cache = lab.Instance(p.t, p.s, append([]func(*strata.Options[string, V]){func(o *strata.Options[string, V]) {
		o.Remote.Codec = c
		o.Logger = slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		o.Loader = func(_ context.Context, key string) (V, error) { return make(p.load(key)), nil }
		if p.alone {
			o.Remote.Tier = struct{ remote.Tier }{p.s.Tier.Bind(remote.Space{Name: o.Name})}
		}
	}}, change...)...)
	return v
}

func (p *people) v1(change ...func(*strata.Options[string, personV1])) *version[personV1] {
	return start(p, codec.JSON[personV1](), newV1, func(v personV1) int { return v.N }, change...)
}

func (p *people) v2(change ...func(*strata.Options[string, personV2])) *version[personV2] {
	return start(p, codecV2(), newV2, func(v personV2) int { return v.N }, change...)
}

func (p *people) v3(change ...func(*strata.Options[string, personV3])) *version[personV3] {
	return start(p, codecV3(), newV3, func(v personV3) int { return v.N }, change...)
}

func (v *version[V]) get(key string) int {
	v.p.t.Helper()
	got, err := v.GetOrLoad(v.p.t.Context(), key, nil)
	v.p.check(key, err, got == v.make(v.number(got)), got)
	return v.number(got)
}

func (v *version[V]) getMany(keys ...string) (numbers []int) {
	v.p.t.Helper()
	found, err := v.GetMany(v.p.t.Context(), keys, func(_ context.Context, keys []string) (map[string]V, error) {
		all := map[string]V{}
		for _, k := range keys {
			all[k] = v.make(v.p.load(k))
		}
		return all, nil
	})
	for _, k := range keys {
		v.p.check(k, err, found[k] == v.make(v.number(found[k])), found[k])
		numbers = append(numbers, v.number(found[k]))
	}
	return numbers
}

func (v *version[V]) set(key string, n int) error {
	v.p.now[key] = n
	return v.Set(v.p.t.Context(), key, v.make(n))
}

func (v *version[V]) invalidate(key string) error {
	v.p.now[key]++
	return v.Invalidate(v.p.t.Context(), key)
}

func (v *version[V]) stats() strata.Stats { return v.Stats() }

// check reports a value that does not have the form of its version.
func (p *people) check(key string, err error, good bool, got any) {
	p.t.Helper()
	if err != nil || !good {
		p.t.Errorf("%s: %+v, %v: not a value of this version", key, got, err)
	}
}

// nothingSurfaces checks that no instance has met a value that it could not read.
func (p *people) nothingSurfaces(all ...program) {
	p.t.Helper()
	for i, c := range all {
		if s := c.stats(); s.L2.Foreign != 0 || s.L2.Errors != 0 || s.CallbackPanics != 0 {
			p.t.Errorf("program %d: %+v, %d callbacks panicked", i, s.L2, s.CallbackPanics)
		}
	}
	if text := p.log.String(); text != "" {
		p.t.Errorf("logged:\n%s", text)
	}
}

func TestNewVersionsReadWhatOlderOnesHaveStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		keys := []string{"a", "b", "c", "d"}
		old := p.v1()
		for i, k := range keys {
			p.now[k] = i
			old.get(k)
		}
		second, third, batch := p.v2(), p.v3(), p.v3()
		for i, k := range keys {
			if a, b := second.get(k), third.get(k); a != i || b != i {
				t.Errorf("%s: %d and %d, want %d", k, a, b, i)
			}
		}
		if n := batch.getMany(keys...); fmt.Sprint(n) != "[0 1 2 3]" {
			t.Errorf("a batch got %v", n)
		}
		if n := p.all(); n != len(keys) {
			t.Errorf("%d loads, want %d: new versions have loaded what L2 had", n, len(keys))
		}
		p.nothingSurfaces(old, second, third, batch)
	})
}

func TestVersionsDoNotUndoEachOthersStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		noL1 := func(ttl *time.Duration) { *ttl = time.Millisecond } // each round asks L2
		all := []program{
			p.v3(func(o *strata.Options[string, personV3]) { noL1(&o.Memory.TTL) }),
			p.v1(func(o *strata.Options[string, personV1]) { noL1(&o.Memory.TTL) }),
			p.v2(func(o *strata.Options[string, personV2]) { noL1(&o.Memory.TTL) }),
		}
		// The newest loads first, so that each version must load for itself, except the
		// second. It reads the value that the first has stored.
		for range 50 {
			for _, c := range all {
				c.get("k")
			}
			time.Sleep(2 * time.Millisecond)
		}
		if n := p.loads["k"]; n != 2 {
			t.Errorf("%d loads of one life, want 2", n)
		}
		for _, c := range all {
			if s := c.stats(); s.L2.Foreign != 0 {
				t.Errorf("%d values could not be read", s.L2.Foreign)
			}
		}
	})
}

func TestWritesReachAllVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		all := []program{p.v1(), p.v2(), p.v3()}
		for i, writer := range all {
			for round, write := range map[string]func() error{
				"Set":        func() error { return writer.set("k", 10+i) },
				"Invalidate": func() error { return writer.invalidate("k") },
			} {
				for _, c := range all {
					c.get("k")
				}
				if err := write(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for j, c := range all {
					if n := c.get("k"); n != p.now["k"] {
						t.Errorf("%s by %d: program %d reads %d, want %d", round, i, j, n, p.now["k"])
					}
				}
			}
		}
		p.nothingSurfaces(all...)
	})
}

// TestRollingDeployLoadsOncePerVersion replaces instances of one version by instances
// of the next, while all are read and written at random. L2 holds one value per key and
// version. An instance loads only if L2 has no value of its version or an older one,
// and its store removes no other value. So between two writes of a key, and within a
// life, each version loads it once at most.
func TestRollingDeployLoadsOncePerVersion(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { deploy(t, newPeople(t), rand.New(rand.NewPCG(seed, 15))) })
		})
	}
}

// TestRollingDeployOnATierWithOneView does the same on a tier without a
// [remote.Binder], where all versions share one place: a value of the newest one is
// replaced by the others, which newer ones read.
func TestRollingDeployOnATierWithOneView(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeople(t)
				p.alone = true
				deploy(t, p, rand.New(rand.NewPCG(seed, 16)))
			})
		})
	}
}

// deploy runs three versions in turn, two instances of a version and one of the next,
// in one life of all values.
func deploy(t *testing.T, p *people, r *rand.Rand) {
	keys := []string{"a", "b", "c"}
	drops := map[string]int{}
	starts := []func() program{
		func() program { return p.v1() }, func() program { return p.v1() },
		func() program { return p.v2() }, func() program { return p.v2() },
		func() program { return p.v3() }, func() program { return p.v3() },
	}
	var all []program
	for _, next := range starts {
		if all = append(all, next()); len(all) > 3 {
			all = all[1:]
		}
		for range 60 {
			c, k := all[r.IntN(len(all))], keys[r.IntN(len(keys))]
			switch r.IntN(30) {
			case 0:
				drops[k]++
				if err := c.invalidate(k); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			case 1:
				if n := c.getMany(keys...); n[0] != p.now["a"] {
					t.Errorf("a batch got %d, want %d", n[0], p.now["a"])
				}
			default:
				if n := c.get(k); n != p.now[k] {
					t.Errorf("%s: got %d, want %d", k, n, p.now[k])
				}
			}
		}
	}
	for _, k := range keys {
		if most := 3 * (1 + drops[k]); p.loads[k] > most {
			t.Errorf("%s: %d loads with %d writes, want at most %d", k, p.loads[k], drops[k], most)
		}
	}
	if !p.alone {
		p.nothingSurfaces(all...)
	}
}
