package castier

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// A large value has an item of its own, on the server of its key, and the state of the key has
// the number of that item. So a lease, a drop or a new life of the value does not move it, and
// a reader with the value does not receive it again. The item is written before the state that
// refers to it, and never changes: a reader finds the bytes of the state that it has read, or
// nothing. After the last state that refers to it, the item lives on for a second, for readers
// between their two round trips. A state may outlive the item, which the server may evict: the
// value is absent then.
//
// Earlier versions, which have all values in the states, take a number for the bytes of a
// bad value, and load the key again.

// largeFrom is the least number of bytes of a value with an item of its own: at 1 Gbit/s they
// take about as long as the second round trip of a read.
const largeFrom = 32 << 10

const (
	// referMark begins the bytes in place of a value in a state: the number of the value's item.
	referMark = "st\xe3\x01"
	// largeMark begins the item of a value.
	largeMark = "st\xe4\x01"
)

// isLarge reports whether a value of key gets an item of its own. A value that could be
// mistaken for the number of an item gets one, too.
func (t *Tier) isLarge(ctx context.Context, key string, data []byte) bool {
	if bytes.HasPrefix(data, []byte(referMark)) {
		return true
	}
	least := t.least.Load()
	// The Store says it, and can be asked only when there is a connection to it. Then the answer is
	// kept.
	if least == 0 {
		item, _ := t.entry(key)
		s, err := t.servers.On(ctx, t.servers.Home(item))
		if err != nil {
			return false // neither is the value stored
		}
		least = leastLarge(s)
		t.least.Store(least)
	}
	return int64(len(data)) >= least
}

// leastLarge returns the least number of bytes of a value with an item of its own in s.
func leastLarge(s Store) int64 {
	toucher, ok := s.(Toucher)
	if !ok {
		return math.MaxInt64
	}
	return int64(cmp.Or(max(0, toucher.Large()), largeFrom))
}

// large is a large value on its way to an item of its own. The state has refer in its place.
type large struct {
	value, refer []byte
	written      bool
}

// refer returns the bytes that stand in a state for the value in the item with a number.
func refer(number uint64) []byte {
	return binary.AppendUvarint([]byte(referMark), number)
}

// referred returns the number of the item in which a value is, if it has one.
func referred(data []byte) (number uint64, is bool) {
	d := decoder{rest: data}
	d.mark(referMark)
	number = d.number()
	return number, !d.bad
}

// appendEarlier appends the earlier IDs of a value to the number of its item.
func appendEarlier(b []byte, ids []uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = binary.AppendUvarint(b, id)
	}
	return b
}

// takeEarlier takes the earlier IDs of v out of its Data.
func (d *decoder) takeEarlier(v *entryrules.Value) {
	in := decoder{rest: v.Data}
	in.mark(referMark)
	if number := in.number(); !in.bad {
		v.Data = refer(number)
		n := in.number()
		for ; n > 0 && len(v.Earlier) < entryrules.Remembered && !in.bad; n-- {
			v.Earlier = append(v.Earlier, in.number())
		}
		if in.bad || n > 0 || len(in.rest) > 0 {
			d.fail()
		}
	}
}

// largeKey returns the key of the item of a value, and the name that the item holds.
func (t *Tier) largeKey(key string, number uint64) (item, name string) {
	// The number is in the name, so that values of one key have items of their own.
	name = strconv.FormatUint(number, 36) + ":" + key
	item, hashed := itemKey(t.names.prefix, largeItem, hashedLarge, name)
	if !hashed {
		name = ""
	}
	return item, name
}

// encodeLarge returns the item of a value; name is as in encodeEntry.
func encodeLarge(name string, data []byte) []byte {
	b := append(make([]byte, 0, len(largeMark)+len(name)+len(data)+binary.MaxVarintLen64), largeMark...)
	return append(appendText(b, name), data...)
}

// decodeLarge is the inverse of encodeLarge. The value is part of item.
func decodeLarge(item []byte, name string) (data []byte, err error) {
	d := decoder{rest: item}
	d.mark(largeMark)
	if d.text() != name || d.bad {
		return nil, errForeign
	}
	return d.rest, nil
}

// ahead is the work, if any, before the state of a change is written: the value of a Put is
// stored, or the item of an extended value gets the longer life.
type ahead struct {
	store Swap
	touch Touch
}

// ahead returns the work before the state of a change is written.
func (t *Tier) ahead(c *change, next entryrules.State, at instant) (a ahead) {
	v := next.Slot(t.schema).Value
	number, is := referred(v.Data)
	// A refused change must leave nothing in the store.
	if !is || !c.answer.Done {
		return ahead{}
	}
	item, name := t.largeKey(c.key, number)
	switch _, extends := c.op(c.state).(entryrules.Extend); {
	case extends:
		a.touch = Touch{Key: item, Life: life(v.Left, at)}
	// A change that is decided again, after another client was first, need not send its bytes
	// again.
	case c.large != nil && !c.large.written:
		a.store = Swap{Key: item, Value: encodeLarge(name, c.large.value), Life: life(v.Left, at)}
	}
	return a
}

// prepare does the work before the states of changes are written. It returns the changes that
// are still to be written, and their writes.
func (t *Tier) prepare(ctx context.Context, server int, changes []*change, writes []Swap) ([]*change, []Swap, error) {
	var stores []Swap
	var touches []Touch
	var storing, touching []*change
	for _, c := range changes {
		switch {
		case c.ahead.store.Key != "":
			stores, storing = append(stores, c.ahead.store), append(storing, c)
		case c.ahead.touch.Key != "":
			touches, touching = append(touches, c.ahead.touch), append(touching, c)
		}
	}
	if len(stores)+len(touches) == 0 {
		return changes, writes, nil
	}
	// The bytes come before the state that refers to them: a reader of the state finds them.
	if err := t.storeLarge(ctx, server, storing, stores); err != nil {
		return nil, nil, err
	}
	if err := t.extendLarge(ctx, server, touching, touches); err != nil {
		return nil, nil, err
	}
	var left []*change
	var leftWrites []Swap
	for i, c := range changes {
		if !c.done {
			left, leftWrites = append(left, c), append(leftWrites, writes[i])
		}
	}
	return left, leftWrites, nil
}

// storeLarge stores the values of changes. An item with the random number of a value has that
// value. So if one exists already, an earlier write has stored it, although the store reported
// that write as lost.
func (t *Tier) storeLarge(ctx context.Context, server int, changes []*change, stores []Swap) error {
	if len(stores) == 0 {
		return nil
	}
	_, errs, err := t.swap(ctx, server, stores)
	if err != nil {
		return err
	}
	for i, c := range changes {
		c.err = errs.at(i)
		c.done, c.large.written = c.err != nil, c.err == nil
	}
	return nil
}

// extendLarge gives the values of changes their longer lives.
func (t *Tier) extendLarge(ctx context.Context, server int, changes []*change, touches []Touch) error {
	if len(touches) == 0 {
		return nil
	}
	touched, errs, err := t.touch(ctx, server, touches)
	if err != nil {
		return err
	}
	for i, c := range changes {
		switch c.err = errs.at(i); {
		case c.err != nil:
			c.done = true
		case !touched[i]: // the value to extend is lost
			c.done, c.answer = true, entryrules.Answer{}
		}
	}
	return nil
}

// retire gives a second to the items of values to which the states of changes do not refer any
// more. If that fails, they live as long as their values would have.
func (t *Tier) retire(ctx context.Context, server int, changes []*change) {
	// Readers who have read the state before are about to ask for these items.
	var last []Touch
	for _, c := range changes {
		if c.done && c.err == nil {
			for _, number := range c.unused {
				item, _ := t.largeKey(c.key, number)
				last = append(last, Touch{Key: item, Life: time.Second})
			}
		}
	}
	if len(last) > 0 {
		_, _, _ = t.touch(ctx, server, last)
	}
}

// leaves returns the numbers of the items that nothing will refer to any more: the state s
// refers to them, or c has written them, and the next state does not refer to them.
func (c *change) leaves(s, next entryrules.State) (numbers []uint64) {
	add := func(data []byte) {
		number, is := referred(data)
		if is && !refers(next, number) {
			numbers = append(numbers, number)
		}
	}
	for i := range s.Slots {
		add(s.Slots[i].Value.Data)
	}
	if c.large != nil && c.large.written {
		add(c.large.refer)
	}
	return numbers
}

// without returns a state without the value in a lost item.
func without(s entryrules.State, lost uint64) entryrules.State {
	for i := range s.Slots {
		if number, is := referred(s.Slots[i].Value.Data); is && number == lost {
			s.Slots[i].Value = entryrules.Value{}
		}
	}
	return s
}

// refers reports whether a value of a state is in the item with a number.
func refers(s entryrules.State, number uint64) bool {
	for i := range s.Slots {
		if n, is := referred(s.Slots[i].Value.Data); is && n == number {
			return true
		}
	}
	return false
}

// wanted is a large value on its way to a reader: the state of its key was read already.
type wanted struct {
	key  string
	held *remote.Held
	// at is the index of the key in a Get, change the change of an Acquire.
	at     int
	change *change
	// lost is the number of the item if the server does not have it.
	lost uint64
	err  error
}

// fetch reads large values of a server. The Held of a lost value is zero then; err is set if a
// value could not be read.
func (t *Tier) fetch(ctx context.Context, server int, some []*wanted) error {
	keys := make([]string, len(some))
	names := make([]string, len(some))
	for i, w := range some {
		number, _ := referred(w.held.Data)
		keys[i], names[i] = t.largeKey(w.key, number)
	}
	distinct, at := distinctOf(keys)
	items, errs, err := t.get(ctx, server, distinct)
	if err != nil {
		return err
	}
	items, errs = spread(items, errs, at)
	for i, w := range some {
		if w.err = errs.at(i); w.err != nil {
			continue
		}
		found := items[i].Version != Version{}
		data, err := decodeLarge(items[i].Value, names[i])
		// The bytes belong to the state that was read: an item never changes.
		if found && err == nil {
			w.held.Data = data
			continue
		}
		if w.lost, _ = referred(w.held.Data); found {
			t.foreign.Add(1)
		}
		*w.held = remote.Held{}
	}
	return nil
}

// fill reads the large values of results. It returns the changes to decide again: their
// states have a fresh value with a lost item.
func (t *Tier) fill(ctx context.Context, some []*change, acquired []remote.Acquired) (again []*change) {
	var byServer map[int][]*wanted
	for _, c := range some {
		a := &acquired[c.of]
		if _, is := referred(a.Held.Data); !is {
			continue
		}
		if byServer == nil {
			byServer = map[int][]*wanted{}
		}
		byServer[c.server] = append(byServer[c.server], &wanted{key: c.key, held: &a.Held, change: c})
	}
	each(byServer, func(server int, values []*wanted) {
		err := t.fetch(ctx, server, values)
		for _, w := range values {
			if err := t.of(server, cmp.Or(err, w.err)); err != nil {
				a := &acquired[w.change.of]
				if w.held.Data = nil; a.Lease.Grant != remote.Granted { // a lease is worth more than a stale value
					w.change.err, *a = err, remote.Acquired{Err: err}
				}
			}
		}
	})
	for _, values := range byServer {
		for _, w := range values {
			if c := w.change; w.lost != 0 && acquired[c.of].Lease.Grant == remote.Free {
				c.done, c.lost, again = false, w.lost, append(again, c)
			}
		}
	}
	return again
}

// leaveOut leaves out the data of h if the caller knows v, the value of h.
func leaveOut(h *remote.Held, v *entryrules.Value, known remote.ID) {
	if h.Data != nil && v.Is(uint64(known)) {
		h.Data, h.Same = nil, true
	}
}
