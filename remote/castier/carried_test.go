package castier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// earlier is an instance of an earlier version: its counters of drops of everything are on
// the servers of their keys, and it adds to them once for each server.
type earlier struct {
	t      *testing.T
	m      *lab.Model
	prefix string
}

// count adds to a counter as an earlier version does, and returns it.
func (e earlier) count(kind string, delta uint64) uint64 {
	e.t.Helper()
	key := e.prefix + kind
	server, err := e.m.On(e.t.Context(), e.m.Home(key))
	if err != nil {
		e.t.Fatal(err)
	}
	sums, err := server.(castier.Counter).AddMany(e.t.Context(), []castier.Add{{Key: key, Delta: delta, First: rand.Uint64()>>2 | 1}})
	if err != nil {
		e.t.Fatal(err)
	}
	return sums[0]
}

// reads looks at both counters, as each operation on a key does.
func (e earlier) reads() [2]uint64 { return [2]uint64{e.count("d", 0), e.count("x", 0)} }

func (e earlier) dropAll(soft bool) {
	kind := "d"
	if soft {
		kind = "x"
	}
	for range count(e.m) {
		e.count(kind, 1)
	}
}

// prefixIn returns the prefix of the keys of a store with one cache.
func prefixIn(m *lab.Model) (prefix string) {
	for server := range count(m) {
		m.Each(server, func(key string, _ *lab.ModelItem) {
			prefix = key[:strings.IndexByte(key[len("strata:"):], ':')+len("strata:")+1]
		})
	}
	return prefix
}

// count returns the number of servers.
func count(m *lab.Model) int {
	_, n := m.Servers()
	return n
}

// home returns the server of the counter of earlier versions.
func (e earlier) home(kind string) int { return e.m.Home(e.prefix + kind) }

// TestDropOfEverythingByAnEarlierVersionIsCarried rolls a fleet from an earlier version to
// this one: instances of both run side by side, some begin late, and servers restart.
func TestDropOfEverythingByAnEarlierVersionIsCarried(t *testing.T) {
	for round := range 300 {
		synctest.Test(t, func(t *testing.T) { newUpgrade(t, round%2 == 0).run(30) })
	}
}

// upgrade is a fleet with instances of both versions.
type upgrade struct {
	t         *testing.T
	m         *lab.Model
	old       earlier
	instances []*castier.Tier
	stored    map[string]bool // by this version, and not dropped
}

// newUpgrade begins with an earlier version that reads, or else drops first.
func newUpgrade(t *testing.T, reads bool) *upgrade {
	m, tier := open(t, 3)
	keep(t, tier, "first")
	u := &upgrade{t, m, earlier{t, m, prefixIn(m)}, []*castier.Tier{tier, another(m)}, map[string]bool{"first": true}}
	if reads {
		u.old.reads()
	}
	return u
}

func (u *upgrade) run(steps int) {
	for step := range steps {
		one := u.instances[rand.IntN(len(u.instances))]
		switch rand.IntN(8) {
		case 0:
			u.earlierDrops(one, rand.IntN(3) == 0)
		case 1:
			u.drops(one, rand.IntN(3) == 0)
		case 2:
			u.instances = append(u.instances, another(u.m))
		case 3:
			u.m.Restart(rand.IntN(3))
			u.old.reads()
			time.Sleep(1100 * time.Millisecond) // in a bubble
		default:
			u.old.reads()
			key := fmt.Sprint("k", step)
			a := acquire(u.t, one, key)
			if a.Lease.Grant == remote.Granted && put(u.t, one, key, key, a.Lease) {
				u.stored[key] = true
			}
		}
	}
}

// earlierDrops has an earlier version drop everything.
func (u *upgrade) earlierDrops(one *castier.Tier, soft bool) {
	u.old.dropAll(soft)
	time.Sleep(time.Duration(1000+rand.IntN(2)*1100) * time.Millisecond) // in a bubble
	if rand.IntN(2) == 0 {
		one = another(u.m) // begins now
	}
	for key := range u.stored {
		if held := get(u.t, one, key); !held.Absent() && !(soft && held.Soft) {
			u.t.Fatalf("soft %v: %s is there: %+v", soft, key, held)
		}
	}
	if !soft {
		clear(u.stored)
	}
}

// drops has this version drop everything.
func (u *upgrade) drops(one *castier.Tier, soft bool) {
	was := u.old.reads()
	if err := one.DropAll(u.t.Context(), soft); err != nil {
		u.t.Fatal(err)
	}
	if u.old.reads() == was {
		u.t.Fatal("an earlier version does not hear of a drop")
	}
	time.Sleep(1100 * time.Millisecond) // in a bubble
	if !soft {
		clear(u.stored)
	}
}

// TestDropOfEverythingDropsOnce: beside an earlier version, values stored after a drop
// stay, whichever version has dropped.
func TestDropOfEverythingDropsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 3)
		keep(t, tier, "first")
		old := earlier{t, m, prefixIn(m)}
		old.reads()
		instances := []*castier.Tier{tier, another(m), another(m)}
		var keys []string
		for i := range 12 {
			keys = append(keys, fmt.Sprint("key", i))
		}
		for round := range 10 {
			if round%2 == 0 {
				old.dropAll(false)
			} else if err := tier.DropAll(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			// All have heard within two seconds, each at a time of its own.
			for range 12 {
				time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
				for _, key := range keys {
					get(t, instances[rand.IntN(len(instances))], key)
				}
			}
			keep(t, tier, keys...)
			for range 12 {
				time.Sleep(time.Duration(100+rand.IntN(200)) * time.Millisecond)
				for _, key := range keys {
					here, late := get(t, instances[rand.IntN(len(instances))], key), get(t, another(m), key)
					if here.Absent() || late.Absent() {
						t.Fatalf("round %d: %s is gone", round, key)
					}
				}
			}
		}
	})
}

// TestDropThatAnEarlierVersionCannotHearOfIsNotConfirmed has the server with the counter of
// earlier versions dead.
func TestDropThatAnEarlierVersionCannotHearOfIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 3)
		keep(t, tier, "first")
		old := earlier{t, m, prefixIn(m)}
		was := old.reads()
		m.Kill(old.home("d"), true)
		err := tier.DropAll(t.Context(), false)
		if remote.FailedServer(err) != m.Name(old.home("d")) {
			t.Fatalf("%v", err)
		}
		m.Kill(old.home("d"), false)
		if err := tier.DropAllOf(t.Context(), m.Name(old.home("d")), false); err != nil {
			t.Fatal(err)
		}
		if is := old.reads(); is[0] == was[0] || is[1] != was[1] {
			t.Errorf("the counters of earlier versions were %d and are %d", was, is)
		}
	})
}

// TestFleetWithoutEarlierVersionsHasNoCountersOfThem: and where they have run once, a server
// that restarts costs its own values only.
func TestFleetWithoutEarlierVersionsHasNoCountersOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, tier := open(t, 3)
		keep(t, tier, "first", "second")
		if err := tier.DropAll(context.Background(), false); err != nil {
			t.Fatal(err)
		}
		for server := range 3 {
			m.Each(server, func(key string, _ *lab.ModelItem) {
				if strings.HasSuffix(key, ":d") || strings.HasSuffix(key, ":x") {
					t.Errorf("server %d has %s", server, key)
				}
			})
		}
		old := earlier{t, m, prefixIn(m)}
		old.dropAll(false)
		time.Sleep(1100 * time.Millisecond)
		m.Restart(old.home("d"))
		m.Restart(old.home("x"))
		time.Sleep(1100 * time.Millisecond)
		var keys []string
		for i, s := range tier.Servers() {
			if !slices.Contains([]int{old.home("d"), old.home("x")}, i) {
				keys = append(keys, keysOf(tier, s, 5)...)
			}
		}
		keep(t, tier, keys...)
		for range 3 {
			m.Restart(old.home("d"))
			time.Sleep(1100 * time.Millisecond)
			for _, key := range keys {
				if held := get(t, another(m), key); held.Absent() {
					t.Errorf("%s is gone", key)
				}
			}
		}
	})
}

// TestInstanceThatKnowsLessCarriesNothingBack has an instance that heard of the counts of
// earlier versions before another one has carried newer ones.
func TestInstanceThatKnowsLessCarriesNothingBack(t *testing.T) {
	for _, silent := range []bool{false, true} { // the server of the counters, from then on
		synctest.Test(t, func(t *testing.T) {
			m, tier := open(t, 3)
			keep(t, tier, "first")
			old := earlier{t, m, prefixIn(m)}
			old.reads()
			var servers []string
			for i, s := range tier.Servers() {
				if i != old.home("d") && i != old.home("x") {
					servers = append(servers, s)
				}
			}
			if len(servers) == 0 {
				t.Fatal("the counters are on all servers")
			}
			key, other := keysOf(tier, servers[0], 1)[0], keysOf(tier, m.Name(old.home("x")), 1)[0]
			step := func(after time.Duration, f func()) {
				time.Sleep(after)
				f()
			}
			late := another(m)
			step(0, func() { get(t, late, other) })
			step(500*time.Millisecond, func() { get(t, late, key) })
			step(500*time.Millisecond, func() { get(t, late, other) })
			step(200*time.Millisecond, func() { old.dropAll(false) })
			step(100*time.Millisecond, func() { keep(t, another(m), key) })
			m.Kill(old.home("d"), silent)
			step(200*time.Millisecond, func() {
				if held := get(t, late, key); held.Absent() {
					t.Errorf("silent %v: the instance that knows less does not find the value", silent)
				}
			})
			m.Kill(old.home("d"), false)
			step(1500*time.Millisecond, func() {
				if held := get(t, another(m), key); held.Absent() {
					t.Errorf("silent %v: the value is gone", silent)
				}
			})
		})
	}
}
