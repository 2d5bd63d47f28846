package castier

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// maxTurns bounds how often a change begins again because others were first. Each time
// another change of the key has succeeded.
const maxTurns = 1000

// errContended means that a change was overtaken too often.
var errContended = errors.New("castier: too many changes of one key at once")

// change is an operation on the entry of one key, on its way.
type change struct {
	key string
	op  func(namespace string) entryrules.Operation
	// early says that the operation is decided at the earliest time that it can be now,
	// else at the latest. So lives end early rather than late, and holds late: a Put, an
	// Acquire, a Renew and a Release are early, a Drop is late, and values are read at the latest time. An
	// Acquire of a value that only the early time makes fresh is decided at the latest.
	early bool

	// of is the index of the operation in its call.
	of int
	// large is the large value to store, if there is one.
	large *large
	// ahead comes before the state is written. unused are the items not needed after it, and
	// lost is an item that the server does not have.
	ahead  ahead
	unused []uint64
	lost   uint64
	// tried says that the store has answered a write of the state with "not written".
	tried bool

	place
	server int
	state  string // the namespace state from before the operation
	late   int64  // the latest possible time at the decision on the item
	answer entryrules.Answer
	done   bool
	err    error
}

func (c *change) failure() error { return c.err }

// apply executes changes, the servers side by side. Changes of one key are executed
// in order. The error of each is in it.
func (t *Tier) apply(ctx context.Context, all []*change) {
	byServer := map[int][]*change{}
	for _, c := range all {
		c.item, c.name = t.entry(c.key)
		c.server = t.servers.Home(c.item)
		byServer[c.server] = append(byServer[c.server], c)
	}
	each(byServer, func(server int, some []*change) {
		err := t.of(server, t.applyOn(ctx, server, some))
		for _, c := range some {
			if err != nil && !c.done {
				c.err = err
			} else {
				c.err = t.of(server, c.err)
			}
		}
	})
}

// each calls f for each server, at once if there are several.
func each[T any](byServer map[int]T, f func(server int, of T)) {
	if len(byServer) == 1 {
		for server, of := range byServer {
			f(server, of)
		}
		return
	}
	var wg sync.WaitGroup
	for server, of := range byServer {
		wg.Go(func() { f(server, of) })
	}
	wg.Wait()
}

// applyOn executes the changes of one server in turns: each reads the rest, decides
// and writes. Of several changes of one key, each turn takes the first.
func (t *Tier) applyOn(ctx context.Context, server int, some []*change) error {
	for range maxTurns {
		some = pending(some)
		if len(some) == 0 {
			return nil
		}
		if err := t.turn(ctx, server, firsts(some)); err != nil {
			return err
		}
	}
	return errContended
}

// pending returns the unfinished changes.
func pending(some []*change) (left []*change) {
	for _, c := range some {
		if !c.done {
			left = append(left, c)
		}
	}
	return left
}

// place is where a change takes place: the key of an item, and the name inside it if
// the key is its hash.
type place struct{ item, name string }

func (p place) at() string { return p.item }

// firsts returns the first change of each item.
func firsts[C interface{ at() string }](some []C) (first []C) {
	if len(some) == 1 {
		return some
	}
	seen := make(map[string]bool, len(some))
	for _, c := range some {
		if !seen[c.at()] {
			seen[c.at()] = true
			first = append(first, c)
		}
	}
	return first
}

// turn reads, decides and writes once. Changes that another client has overtaken are
// not done afterwards.
func (t *Tier) turn(ctx context.Context, server int, some []*change) error {
	if _, err := t.now(ctx, server); err != nil {
		return err
	}
	r := t.ask(ctx, server)
	keys := make([]string, len(some))
	for i, c := range some {
		keys[i] = c.item
	}
	items, errs, err := t.readBehind(ctx, &r, keys)
	if err != nil {
		return err
	}
	at := t.names.clock(server).at(time.Now()) // not before the read: a lease given meanwhile would seem too long
	var writes []Swap
	var written []*change
	for i, c := range some {
		if c.err = errs.at(i); c.err != nil {
			c.done = true
		} else if write, needed := t.decide(c, items[i], r.state, at); needed {
			writes, written = append(writes, write), append(written, c)
		}
	}
	written, writes, err = t.prepare(ctx, server, written, writes)
	if err != nil {
		return err
	}
	if err := t.write(ctx, server, written, writes); err != nil {
		return err
	}
	t.retire(ctx, server, some)
	return nil
}

// write writes the states of changes in one call.
func (t *Tier) write(ctx context.Context, server int, written []*change, writes []Swap) error {
	if len(writes) == 0 {
		return nil
	}
	swapped, errs, err := t.swap(ctx, server, writes)
	if err != nil {
		return err
	}
	for i, c := range written {
		c.err, c.tried = errs.at(i), true
		c.done = swapped[i] || c.err != nil
	}
	return nil
}

// unsure is how much longer a hold or a lease may seem than the caller asked for, in ms: it began at
// the latest time that one instance knew, and another instance looks at it from its
// earliest time. A hold that seems longer still comes from a server with a clock set
// back, and begins anew.
const unsure = 5 * second

// decide decides c on the item read, and returns the write of the result. If nothing
// changes, c is done, and no write is needed.
func (t *Tier) decide(c *change, read Item, state string, at instant) (write Swap, needed bool) {
	var s entryrules.State
	found := read.Version != Version{}
	if found {
		s = without(t.open(read.Value, c.name), c.lost)
	}
	c.late, c.state = at.late, state
	now := at.late
	if c.early {
		now = at.early
	}
	op := c.op(state)
	if d, drops := op.(entryrules.Drop); drops && d.Left > 0 {
		d.Left = max(1, d.Left-(at.late-at.early)) // counted from the latest time, it must not end late
		op = d
	}
	// Only this value is refused: the others of a call have nothing to do with it.
	if c.err = t.tooShort(c.server, op); c.err != nil {
		c.done = true
		return Swap{}, false
	}
	if c.tried && stored(s, op) {
		c.done, c.answer = true, entryrules.Answer{Done: true}
		return Swap{}, false
	}
	next, a := entryrules.Decide(s, op, entryrules.Clock{Now: now, Slack: unsure})
	if _, acquires := op.(entryrules.Acquire); acquires && a.Grant == remote.Free && a.Held.Read(state, at.late).Fresh <= 0 {
		next, a = entryrules.Decide(s, op, entryrules.Clock{Now: at.late, Slack: unsure})
	}
	if _, drops := op.(entryrules.Drop); drops && s.Hold.Until > max(at.early, next.Hold.Until) {
		next.Hold = s.Hold // judged by the latest time, it would seem over, or shorter
		next.Until = max(next.Until, s.Hold.Until)
	}
	if next.Hold != s.Hold && next.Hold.Length > 0 {
		next.Hold.Length += unsure
	}
	if a.Grant == remote.OnHold {
		a.Wait = min(a.Wait, next.Hold.Length-unsure)
	}
	c.answer = a
	c.ahead, c.unused = t.ahead(c, next, at), c.leaves(s, next)
	item := encodeEntry(c.name, next)
	switch {
	case next.Empty() && !found, bytes.Equal(item, read.Value):
		c.done = true
		return Swap{}, false
	case next.Empty():
		// An empty state is written like any other, not left out: so the write needs the version read.
		// The server forgets it soon.
		return Swap{Key: c.item, Value: item, Version: read.Version, Life: time.Second}, true
	}
	return Swap{Key: c.item, Value: item, Version: read.Version, Life: life(next.Until, at)}, true
}

// stored reports whether a state has the value of op already. Then the store has written it,
// although it reported the opposite: each value has the random number of its right.
func stored(s entryrules.State, op entryrules.Operation) bool {
	switch op := op.(type) {
	case entryrules.Put:
		return op.Left > 0 && s.Slot(op.Schema).Value.ID == op.Token
	case entryrules.Extend:
		return s.Slot(op.Schema).Value.ID == op.Token
	}
	return false
}

// life returns for how long a server keeps an item needed until then.
func life(until int64, at instant) time.Duration {
	if until == 0 || until == entryrules.Forever {
		return 0
	}
	return duration((max(0, until-at.early)/second + 2) * second)
}

// open returns the state in an item. An unreadable or foreign item is reported as
// empty, and counted.
func (t *Tier) open(item []byte, name string) entryrules.State {
	s, err := decodeEntry(item, name)
	if err != nil {
		t.foreign.Add(1)
	}
	return s
}

// entry returns the key of an entry's item, and the name that the item holds.
func (t *Tier) entry(key string) (item, name string) {
	item, hashed := itemKey(t.names.prefix, entryItem, hashedEntry, key)
	if hashed {
		name = key
	}
	return item, name
}

// held returns a value as it is read under a namespace state. at is the latest time
// that it can be now.
func held(v entryrules.Value, state string, at int64) remote.Held {
	r := v.Read(state, at)
	if r.ID == 0 {
		return remote.Held{}
	}
	return remote.Held{
		Data: v.Data, ID: remote.ID(r.ID), Fresh: duration(r.Fresh), Left: duration(r.Left), Soft: r.Soft, All: r.All,
	}
}
