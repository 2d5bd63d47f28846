// The guards of a tier: one for each of its servers, with the breakers of the server and
// the state of it that is in the log. A tier with one server, or without the ability
// [remote.Fleet], has one guard.
// Invariant: the guard of the key's server alone decides on an operation on a key. So a
// silent server stops no operation on the keys of others.

package l2

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/cache/limit"
	states "github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

// guard is the health of one server.
type guard struct {
	server  string         // empty if the tier has one
	all     *limit.Breaker // for all operations
	stores  *limit.Breaker // for leases and stores
	silent  states.Health  // the server does not answer
	refuses [operations]states.Health
	broken  states.Health // the breaker is open
	full    states.Health // nothing is stored on it
	// refusing: the last failed store was refused. Else it got no answer.
	refusing atomic.Bool
}

// quiet reports whether a successful operation of a kind needs no log line.
func (g *guard) quiet(k operation) bool {
	return g.silent.Quiet() && g.refuses[k].Quiet() && g.broken.Quiet() && g.full.Quiet()
}

// calm reports whether nothing has failed lately.
func (g *guard) calm() bool {
	for k := range g.refuses {
		if !g.refuses[k].Quiet() {
			return false
		}
	}
	return g.all.Calm() && g.stores.Calm() && g.quiet(reading)
}

// guards are the guards of all servers.
type guards struct {
	whole *guard       // of a tier without servers to tell apart
	fleet remote.Fleet // nil if the tier has one server
	make  func(server string) *guard
	// uneasy is the number of guards with a recent failure: all but the calm ones. While
	// it is zero, an operation costs one atomic load.
	uneasy atomic.Int64

	mu sync.Mutex // guards of
	of map[string]*guard
}

// watch makes a guard for each server of a tier.
func (u *guards) watch(t remote.Tier) {
	if f, ok := remote.As[remote.Fleet](t); ok && len(f.Servers()) > 1 {
		u.fleet, u.of = f, map[string]*guard{}
	}
}

// serverOf returns the server of a name, and "" if the tier has one.
func (u *guards) serverOf(name string) string {
	if u.fleet == nil {
		return ""
	}
	return u.fleet.ServerOf(name)
}

// at returns the guard of the server of a name, and nil if the server is well.
func (u *guards) at(name string) *guard {
	switch {
	case u.fleet == nil:
		return u.whole
	case u.uneasy.Load() == 0:
		return nil
	}
	return u.find(u.fleet.ServerOf(name), false)
}

// find returns the guard of a server. If there is none, it makes one if made is set, and
// else returns nil.
func (u *guards) find(server string, made bool) *guard {
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.of[server]
	if g == nil && made {
		g = u.make(server)
		u.of[server] = g
	}
	return g
}

// about returns the guard that the outcome of an operation on a name concerns, and nil if
// it concerns none. An operation without a name, as on tags, may have met any server.
func (u *guards) about(name string, err error) *guard {
	if u.fleet == nil {
		return u.whole
	}
	server := remote.FailedServer(err)
	switch {
	// A success is news only for a guard that has seen a failure.
	case err == nil && (name == "" || u.uneasy.Load() == 0):
		return nil
	case server == "" && name == "":
		return nil
	case server == "":
		server = u.fleet.ServerOf(name)
	}
	// A server gets its guard with its first failure, so that a fleet in which all is well needs
	// none.
	return u.find(server, err != nil)
}

// settle counts the uneasy guards, and forgets the guards of servers that have left the
// fleet.
func (u *guards) settle() {
	if u.fleet == nil {
		return
	}
	servers := u.fleet.Servers()
	u.mu.Lock()
	defer u.mu.Unlock()
	n := int64(0)
	for server, g := range u.of {
		// A server that comes back under its name begins without a record of failures.
		switch {
		case !slices.Contains(servers, server):
			delete(u.of, server)
		case !g.calm():
			n++
		}
	}
	u.uneasy.Store(n)
}

// where returns the names, sorted, of the servers for whose guard the condition is true.
func (u *guards) where(is func(*guard) bool) (names []string) {
	if u.fleet == nil {
		return nil
	}
	servers := u.fleet.Servers()
	u.mu.Lock()
	defer u.mu.Unlock()
	for server, g := range u.of {
		if slices.Contains(servers, server) && is(g) {
			names = append(names, server)
		}
	}
	slices.Sort(names)
	return names
}

// whenAll reports whether the condition is true for the guards of all servers.
func (u *guards) whenAll(is func(*guard) bool) bool {
	if u.fleet == nil {
		return is(u.whole)
	}
	return u.uneasy.Load() > 0 && len(u.where(is)) >= len(u.fleet.Servers())
}

func open(b *limit.Breaker) bool { return b.State() != limit.Closed }

func leftAlone(g *guard) bool   { return open(g.all) }
func stopsStores(g *guard) bool { return open(g.stores) && g.refusing.Load() }

// alike reports whether all names have the same guard, or guards with nothing to decide.
func (u *guards) alike() bool { return u.fleet == nil || u.uneasy.Load() == 0 }

// split returns the places from 0 to n by the servers of their names, in the order in which
// the servers come first. While all guards are calm, all places are one part. The parts must not
// be changed.
func (u *guards) split(n int, wrong bool, name func(i int) string) (parts [][]int) {
	if n == 0 {
		return nil
	}
	if u.fleet == nil || !wrong && u.alike() {
		return [][]int{places(n)}
	}
	of := map[string]int{}
	for i := range n {
		server := u.fleet.ServerOf(name(i))
		p, ok := of[server]
		if !ok {
			p = len(parts)
			of[server], parts = p, append(parts, nil)
		}
		parts[p] = append(parts[p], i)
	}
	return parts
}

// firstPlaces are the places of most batches; read-only.
var firstPlaces = newPlaces(512)

// places returns the places from 0 to n, which must not be changed.
func places(n int) []int {
	if n <= len(firstPlaces) {
		return firstPlaces[:n:n]
	}
	return newPlaces(n)
}

func newPlaces(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// firstOf returns the first of some places for which err returns an error, and the error;
// the first place of all and nil if there is no error.
func firstOf(some []int, err func(i int) error) (at int, first error) {
	for _, i := range some {
		if e := err(i); e != nil {
			return i, e
		}
	}
	return some[0], nil
}

// allow reports whether the server of a name gets an operation, and whether this operation
// is a probe of its breaker.
func (s *Store) allow(name string) (ok, probe bool) {
	g := s.guards.at(name)
	if g == nil {
		return true, false
	}
	return g.all.Allow(s.o.Now())
}

// mayStore reports whether the server of a name gets stores, and whether the next one is a
// probe of its breaker.
func (s *Store) mayStore(name string) (ok, probe bool) {
	g := s.guards.at(name)
	if g == nil || g.stores.Calm() {
		return true, false
	}
	return g.stores.Allow(s.o.Now())
}

// admit returns the places from 0 to n of the names that may be sent to their servers, the
// errors of the others, and the places that probe a breaker.
func (s *Store) admit(n int, name func(int) string, may func(string) (ok, probe bool), refusal func(string) error) (sent []int, errs []error, probing map[int]bool) {
	errs, probing = make([]error, n), map[int]bool{}
	for _, part := range s.guards.split(n, false, name) {
		// The keys of one server go in one request, so that they are admitted, and probe, together.
		ok, probe := may(name(part[0]))
		for _, i := range part {
			if probing[i] = probe; ok {
				sent = append(sent, i)
			} else {
				errs[i] = refusal(name(i))
			}
		}
	}
	slices.Sort(sent)
	return sent, errs, probing
}

// choose returns the elements of all at some places.
func choose[T any](all []T, places []int) []T {
	some := make([]T, len(places))
	for j, i := range places {
		some[j] = all[i]
	}
	return some
}
