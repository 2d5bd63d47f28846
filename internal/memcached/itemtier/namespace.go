package itemtier

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
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
	store  Store
	// asideTags asks for the tag clock, asideEarlier for the counts of earlier versions.
	asideTags, asideEarlier aside

	mu      sync.Mutex        // guards below; never held while a server is asked
	clocks  map[string]*clock // of the servers, by their names
	states  map[int]*counts
	tags    remembered[uint64] // the tag clock; its value is kept as the newest known
	earlier remembered[earlier]
	tickets uint64
}

// fleet reports whether there are several servers.
func (n *namespace) fleet() bool {
	_, servers := n.store.Servers()
	return servers > 1
}

// counts is the namespace state of a server. begun says that it was known at any time.
type counts struct {
	remembered[string]
	begun bool
}

// of returns the state of a server. The states of earlier lists are forgotten with the first
// of another one. mu is held.
func (n *namespace) of(server int) *counts {
	c := n.states[server]
	if c == nil {
		first, _ := n.store.Servers()
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
	name := n.store.Name(server)
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

// remembered is an answer of a server that is used again while it is young.
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

func newNamespace(name string, s Store) *namespace {
	return &namespace{prefix: prefixOf(name), store: s, clocks: map[string]*clock{}, states: map[int]*counts{}}
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
	// since the server was used last: it may have items that have missed drops, which were
	// made on other servers, so all values there are dropped first.
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

// known returns a request that is done if the counters of a server are known.
func (n *namespace) known(server int, now time.Time) (r request, fresh bool) {
	first, servers := n.store.Servers()
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.of(server)
	if c.fresh(now) {
		return request{state: c.value, done: true}, true
	}
	n.tickets++
	return request{server: server, ticket: n.tickets, asked: now, fleet: servers > 1, begins: first > 0 && !c.begun}, false
}

// ops returns the operations that r needs.
func (r *request) ops(n *namespace) []Op {
	if r.done {
		return nil
	}
	dropped := uint64(0)
	if r.begins {
		dropped = 1
	}
	ops := []Op{n.counter(r.fleet, dropsItem, dropped), n.counter(r.fleet, expiriesItem, 0)}
	if r.fleet {
		ops = append(ops, Op{Kind: Read, Key: n.prefix + string(byte(carriedItem))})
	}
	return ops
}

// answer takes the results of ops from the front of those of a call, and returns the
// others. From then on r is done.
func (t *Tier) answer(ctx context.Context, r *request, results []Result) ([]Result, error) {
	if r.done {
		return results, nil
	}
	n := t.names
	own := results[:len(r.ops(n))]
	for _, result := range own {
		if result.Err != nil {
			return nil, result.Err
		}
	}
	r.drops, r.expiries = own[0].Count, own[1].Count
	if r.fleet {
		if err := t.carry(ctx, r, own[2]); err != nil {
			return nil, err
		}
	}
	r.state, r.done = spell(r.drops, r.expiries), true
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.of(r.server)
	c.begun = true
	c.keep(r.ticket, r.asked, r.state)
	return results[len(own):], nil
}

// spell returns the namespace state of two counters, as entryrules compares it.
func spell(drops, expiries uint64) string {
	return strconv.FormatUint(drops, 16) + "." + strconv.FormatUint(expiries, 16)
}

// counter returns the operation that adds to the counter of a server. One that was
// lost or damaged begins at a random number, which no value has. In a fleet the counters
// have other keys than those of earlier versions, which no server has for itself.
func (n *namespace) counter(fleet bool, kind byte, delta uint64) Op {
	if fleet {
		kind = map[byte]byte{dropsItem: fleetDropsItem, expiriesItem: fleetExpiriesItem}[kind]
	}
	return Op{Kind: Count, Key: n.prefix + string(kind), Delta: delta, First: rand.Uint64()>>2 | 1}
}

// tagClock returns the tag clock: one that is at most [age] old, or, if its server
// does not answer, the newest that is known. An older clock is safe: values seem older
// than they are. Without any the clock is 0, and values with tags count as dropped.
func (t *Tier) tagClock(ctx context.Context) uint64 {
	if !t.names.freshClock() {
		t.askClock(ctx, 0)
	}
	return t.names.newestClock()
}

// askClock asks for the tag clock beside an operation. If the clock is behind least, it was
// damaged: it is set to that, unless least itself cannot be.
func (t *Tier) askClock(ctx context.Context, least uint64) {
	t.names.asideTags.ask(ctx, t.store.Beside, func(ctx context.Context) error {
		c, err := t.countTags(ctx, 0)
		if err == nil && c < least && least <= t.latestClock() {
			_, err = t.countTags(ctx, least-c)
		}
		return err
	})
}

// aheadOfTime is how much later than the server's time the drop of a tag may be.
const aheadOfTime = time.Hour

// latestClock returns the latest number that the drop of a tag may have.
func (t *Tier) latestClock() uint64 {
	server := t.store.Home(t.names.prefix + string(byte(clockItem)))
	at := t.names.clock(server).at(time.Now())
	return uint64(at.late+aheadOfTime.Milliseconds()) << clockShift
}

// clockFrom returns the tag clock for the latest drop of some tags that were read before:
// no drop is later, unless its tag is damaged. If that cannot be known, it returns the
// latest number.
func (t *Tier) clockFrom(ctx context.Context, latest uint64) uint64 {
	n := t.names
	if clock := n.newestClock(); latest <= clock {
		return clock
	}
	begun := time.Now()
	t.askClock(ctx, latest)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tags.asked.Before(begun) {
		return math.MaxUint64
	}
	return n.tags.value
}

// freshClock reports whether the tag clock was asked for lately.
func (n *namespace) freshClock() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tags.fresh(time.Now())
}

// newestClock returns the newest tag clock that is known.
func (n *namespace) newestClock() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tags.value
}

// clockShift leaves room for the drops of a millisecond in a clock that begins at the
// time in ms.
const clockShift = 22

// countTags adds to the tag clock, and returns it. If the clock is behind one that this
// instance has seen, it was lost or damaged: it is set beyond that. A drop takes it to the
// server's time, which no clock was ahead of before, so the drop counts even if the clock
// was damaged.
func (t *Tier) countTags(ctx context.Context, delta uint64) (uint64, error) {
	op := Op{Kind: Count, Key: t.names.prefix + string(byte(clockItem)), Delta: delta}
	server := t.store.Home(op.Key)
	at, err := t.now(ctx, server)
	if err != nil {
		return 0, t.of(server, err)
	}
	op.First = uint64(at.late)<<clockShift + delta
	c, least, err := t.countOnce(ctx, server, op)
	if delta > 0 {
		least = max(least, uint64(at.early)<<clockShift)
	}
	if err == nil && c < least+delta {
		op.Delta += least - c
		c, _, err = t.countOnce(ctx, server, op)
	}
	return c, err
}

// countOnce is countTags for one operation. seen is the newest clock that was known
// before it.
func (t *Tier) countOnce(ctx context.Context, server int, op Op) (c, seen uint64, err error) {
	n := t.names
	ticket, asked := n.ticket(), time.Now()
	seen = n.newestClock()
	r, err := t.do(ctx, server, op)
	if err != nil {
		return 0, 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tags.keep(ticket, asked, max(r.Count, n.tags.value))
	return r.Count, seen, nil
}

// do executes one operation.
func (t *Tier) do(ctx context.Context, server int, op Op) (Result, error) {
	results, err := t.store.Do(ctx, server, []Op{op})
	if err != nil {
		return Result{}, t.of(server, err)
	}
	return results[0], t.of(server, results[0].Err)
}

// of returns the error of a server, with its name if there are others.
func (t *Tier) of(server int, err error) error {
	if err == nil || !t.names.fleet() {
		return err
	}
	return &remote.ServerError{Server: t.store.Name(server), Err: err}
}
