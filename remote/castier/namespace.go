package castier

import (
	"context"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// age is the age at which an instance reads counters again, and so the longest time
// until it notices that another instance has dropped everything.
const age = time.Second

// namespace is the knowledge about one cache name: for each server the counters of
// drops of everything there, and the tag clock.
type namespace struct {
	prefix string
	fleet  Fleet
	// asideTags asks for the tag clock, asideEarlier for the counts of earlier versions.
	asideTags, asideEarlier aside

	mu     sync.Mutex        // guards below; never held while a server is asked
	clocks map[string]*clock // of the servers, by their names
	states map[int]*counts
	tags   remembered[uint64] // the tag clock; its value is kept as the newest known
	// tagsList is the number of the first server of the list whose clock tags has.
	tagsList int
	earlier  remembered[earlier]
	tickets  uint64
}

// several reports whether there are several servers.
func (n *namespace) several() bool {
	_, servers := n.fleet.Servers()
	return servers > 1
}

// counts is the namespace state of a server. begun says that it was known before, so this server
// has begun.
type counts struct {
	remembered[string]
	begun bool
}

// of returns the state of a server. The states of earlier lists are forgotten with the first
// of another one. mu is held.
func (n *namespace) of(server int) *counts {
	c := n.states[server]
	if c == nil {
		first, _ := n.fleet.Servers()
		maps.DeleteFunc(n.states, func(other int, _ *counts) bool { return other < first })
		c = &counts{}
		n.states[server] = c
	}
	return c
}

// unused reports whether no operation has used the namespace yet.
func (n *namespace) unused() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.states) == 0
}

// clock returns the clock of a server.
func (n *namespace) clock(server int) *clock {
	name := n.fleet.Name(server)
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.clocks[name]
	if c == nil {
		c = &clock{}
		n.clocks[name] = c
	}
	return c
}

// ticket returns the ticket of the next request.
func (n *namespace) ticket() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tickets++
	return n.tickets
}

// remembered is an answer of a server, used again while it is young.
type remembered[T any] struct {
	value T
	known bool
	asked time.Time
	// ticket orders requests by when they were sent. An answer to an earlier one than
	// least is not remembered.
	ticket, least uint64
}

// fresh reports whether the value may be used at the time now.
func (r *remembered[T]) fresh(now time.Time) bool { return r.known && now.Sub(r.asked) < age }

// keep remembers the answer to a request.
func (r *remembered[T]) keep(ticket uint64, asked time.Time, v T) {
	if ticket >= r.least && ticket > r.ticket {
		r.value, r.known, r.asked, r.ticket = v, true, asked, ticket
	}
}

// forget makes the next caller ask.
func (r *remembered[T]) forget(tickets uint64) { r.known, r.least = false, tickets+1 }

func newNamespace(name string, f Fleet) *namespace {
	_, alone := f.(single)
	return &namespace{prefix: prefixOf(name), fleet: f, asideTags: aside{alone: alone}, clocks: map[string]*clock{}, states: map[int]*counts{}}
}

// recheck makes all later operations ask for everything again.
func (n *namespace) recheck() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.states {
		c.forget(n.tickets)
	}
	n.tags.forget(n.tickets)
	n.earlier.forget(n.tickets)
}

// request is one reading of the counters of a server. If none is needed, it is done.
type request struct {
	server int
	ticket uint64
	asked  time.Time
	state  string
	done   bool
	// fleet says that there are several servers. begins says that the list has changed
	// since the server was used last: it may have items that missed drops made on other
	// servers, so all values there are dropped first.
	fleet, begins bool
	// drops and expiries are the counters.
	drops, expiries uint64
}

// ask begins a reading of the counters of a server.
func (t *Tier) ask(ctx context.Context, server int) request {
	n, now := t.names, time.Now()
	r, fresh := n.known(server, now)
	if !fresh {
		t.askEarlier(ctx)
	}
	return r
}

// known returns a finished request if the counters of a server are known.
func (n *namespace) known(server int, now time.Time) (r request, fresh bool) {
	first, servers := n.fleet.Servers()
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.of(server)
	if c.fresh(now) {
		return request{server: server, state: c.value, done: true}, true
	}
	n.tickets++
	return request{server: server, ticket: n.tickets, asked: now, fleet: servers > 1, begins: first > 0 && !c.begun}, false
}

// keys returns the keys of the items that r needs, with room for more of them.
func (r *request) keys(n *namespace, more int) []string {
	keys := append(make([]string, 0, more+3), n.counter(r.fleet, dropsItem, 0).Key, n.counter(r.fleet, expiriesItem, 0).Key)
	if r.fleet {
		keys = append(keys, n.prefix+string(byte(carriedItem)))
	}
	return keys
}

// readBehind reads the items that r needs, and behind them the items of keys, all of them
// distinct. From then on r is done.
func (t *Tier) readBehind(ctx context.Context, r *request, keys []string) ([]Item, keyErrors, error) {
	if r.done {
		return t.get(ctx, r.server, keys)
	}
	all := append(r.keys(t.names, len(keys)), keys...)
	items, errs, err := t.get(ctx, r.server, all)
	if err != nil {
		return nil, nil, err
	}
	own := len(all) - len(keys)
	if err := errs[:min(own, len(errs))].first(); err != nil {
		return nil, nil, err
	}
	if err := t.answer(ctx, r, items[:own]); err != nil {
		return nil, nil, err
	}
	if errs != nil {
		errs = errs[own:]
	}
	return items[own:], errs, nil
}

// answer takes the items that r needs.
func (t *Tier) answer(ctx context.Context, r *request, own []Item) error {
	n := t.names
	if err := t.count(ctx, r, own); err != nil {
		return err
	}
	if r.fleet {
		if err := t.carry(ctx, r, own[2]); err != nil {
			return err
		}
	}
	r.state, r.done = spell(r.drops, r.expiries), true
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.of(r.server)
	c.begun = true
	c.keep(r.ticket, r.asked, r.state)
	return nil
}

// count takes the counters from their items. It makes a lost or damaged counter, and on a
// server that begins it counts a drop of everything.
func (t *Tier) count(ctx context.Context, r *request, own []Item) error {
	sums := [2]uint64{}
	var adds []Add
	var of []int
	for i, kind := range []byte{dropsItem, expiriesItem} {
		delta := uint64(0)
		if r.begins && kind == dropsItem {
			delta = 1
		}
		ok := false
		if sums[i], ok = number(own[i]); !ok || delta > 0 {
			adds, of = append(adds, t.names.counter(r.fleet, kind, delta)), append(of, i)
		}
	}
	if len(adds) > 0 {
		counted, err := t.add(ctx, r.server, adds)
		if err != nil {
			return err
		}
		for k, i := range of {
			sums[i] = counted[k]
		}
	}
	r.drops, r.expiries = sums[0], sums[1]
	return nil
}

// spell returns the namespace state of two counters, as entryrules compares it.
func spell(drops, expiries uint64) string {
	return strconv.FormatUint(drops, 16) + "." + strconv.FormatUint(expiries, 16)
}

// counter returns the addition to the counter of a server. A lost or damaged counter
// begins at a random number, which no value has. In a fleet the counters have other keys
// than in earlier versions, which shared one counter of each kind among all servers.
func (n *namespace) counter(fleet bool, kind byte, delta uint64) Add {
	if fleet {
		kind = map[byte]byte{dropsItem: fleetDropsItem, expiriesItem: fleetExpiriesItem}[kind]
	}
	return Add{Key: n.prefix + string(kind), Delta: delta, First: rand.Uint64()>>2 | 1}
}

// of returns the error of a server, with its name if there are others.
func (t *Tier) of(server int, err error) error {
	if err == nil || !t.names.several() {
		return err
	}
	return &remote.ServerError{Server: t.servers.Name(server), Err: err}
}

// aside asks a server that may not be the server of the operation which needs the
// answer. The operation can do with an older answer, so it waits for part of its time
// only. Once a server has not answered in that, no operation waits for it: one question at
// a time is under way beside them, until an answer is quick again.
type aside struct {
	silent atomic.Bool
	alone  bool // no other server is asked: each operation waits, and it has no time beyond its own
}

// share says for which part of its time an operation waits for a server other than its own: for one
// in so many parts. An operation asks such a server twice at most.
const share = 8

// ask calls f, which asks and remembers the answer. f has ended when ask returns, unless
// the server is silent: then beside runs it.
func (a *aside) ask(ctx context.Context, beside func(what any, f func(context.Context)), f func(context.Context) error) {
	wait := age / share
	if _, end := remote.Split(ctx); !end.IsZero() {
		wait = time.Until(end) / share
	}
	if a.silent.Load() {
		beside(a, func(ctx context.Context) {
			some, cancel := context.WithTimeout(ctx, age)
			defer cancel()
			begun := time.Now()
			err := f(some)
			a.silent.Store(err != nil || time.Since(begun) > wait)
		})
		return
	}
	some, cancel := remote.WithTimeout(ctx, wait)
	defer cancel()
	if err := f(some); err != nil && ctx.Err() == nil {
		a.silent.Store(!a.alone)
	}
}
