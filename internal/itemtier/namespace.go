package itemtier

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// age is the age at which an instance reads counters again, and so the longest time
// until it notices that another instance has dropped everything.
const age = time.Second

// namespace is the knowledge about one cache name: for each server the counters of
// drops of everything there, and the tag clock.
type namespace struct {
	prefix string
	clocks []clock // of the servers

	mu      sync.Mutex // guards below; never held while a server is asked
	states  []remembered[string]
	tags    remembered[uint64] // the tag clock; its value is kept as the newest known
	tickets uint64
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

func newNamespace(name string, servers int) *namespace {
	return &namespace{prefix: prefixOf(name), clocks: make([]clock, servers), states: make([]remembered[string], servers)}
}

// recheck makes all later operations ask for everything again.
func (n *namespace) recheck() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.states {
		n.states[i].forget(n.tickets)
	}
	n.tags.forget(n.tickets)
}

// request is one reading of the counters of a server. If none is needed, it is done.
type request struct {
	server int
	ticket uint64
	asked  time.Time
	state  string
	done   bool
}

// ask begins a reading of the counters of a server.
func (n *namespace) ask(server int, now time.Time) request {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := &n.states[server]; r.fresh(now) {
		return request{state: r.value, done: true}
	}
	n.tickets++
	return request{server: server, ticket: n.tickets, asked: now}
}

// ops returns the operations that r needs.
func (r *request) ops(n *namespace) []Op {
	if r.done {
		return nil
	}
	return []Op{n.counter(dropsItem, 0), n.counter(expiriesItem, 0)}
}

// answer takes the results of ops from the front of those of a call, and returns the
// others. From then on r is done.
func (r *request) answer(n *namespace, results []Result) ([]Result, error) {
	if r.done {
		return results, nil
	}
	drops, expiries := results[0], results[1]
	if drops.Err != nil {
		return nil, drops.Err
	}
	if expiries.Err != nil {
		return nil, expiries.Err
	}
	r.state, r.done = spell(drops.Count, expiries.Count), true
	n.mu.Lock()
	defer n.mu.Unlock()
	n.states[r.server].keep(r.ticket, r.asked, r.state)
	return results[2:], nil
}

// spell returns the namespace state of two counters, as entryrules compares it.
func spell(drops, expiries uint64) string {
	return strconv.FormatUint(drops, 16) + "." + strconv.FormatUint(expiries, 16)
}

// counter returns the operation that adds to the counter of a server. One that was
// lost begins at a random number, which no value has.
func (n *namespace) counter(kind byte, delta uint64) Op {
	return Op{Kind: Count, Key: n.prefix + string(kind), Delta: delta, First: rand.Uint64() >> 2}
}

// tagClock returns the tag clock: one that is at most [age] old, or, if its server
// does not answer, the newest that is known. An older clock is safe: values seem older
// than they are. Without any the clock is 0, and values with tags count as dropped.
func (t *Tier) tagClock(ctx context.Context) uint64 {
	n := t.names
	n.mu.Lock()
	if n.tags.fresh(time.Now()) {
		defer n.mu.Unlock()
		return n.tags.value
	}
	n.mu.Unlock()
	c, err := t.countTags(ctx, 0)
	if err != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.tags.value
	}
	return c
}

// clockShift leaves room for the drops of a millisecond in a clock that begins at the
// time in ms.
const clockShift = 22

// countTags adds to the tag clock, and returns it. If the clock is behind one that this
// instance has seen, it was lost: it is set beyond that.
func (t *Tier) countTags(ctx context.Context, delta uint64) (uint64, error) {
	op := Op{Kind: Count, Key: t.names.prefix + string(byte(clockItem)), Delta: delta}
	server := t.store.Home(op.Key)
	at, err := t.now(ctx, server)
	if err != nil {
		return 0, err
	}
	op.First = uint64(at.late)<<clockShift + delta
	c, seen, err := t.countOnce(ctx, server, op)
	if err == nil && c < seen+delta {
		op.Delta += seen - c
		c, _, err = t.countOnce(ctx, server, op)
	}
	return c, err
}

// countOnce is countTags for one operation. seen is the newest clock that was known
// before it.
func (t *Tier) countOnce(ctx context.Context, server int, op Op) (c, seen uint64, err error) {
	n := t.names
	n.mu.Lock()
	n.tickets++
	ticket, asked, seen := n.tickets, time.Now(), n.tags.value
	n.mu.Unlock()
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
		return Result{}, err
	}
	return results[0], results[0].Err
}
