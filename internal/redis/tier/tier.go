// Package tier is the Tier over Redis, for either client. It reads entries and
// judges them by the namespace state, and has the server decide on changes: by
// the scripts of package layout, or by its transactions. A [Tier]
// sends each operation to a site: the server that serves the slot of the key. A site
// judges by a namespace state of at most two seconds ago. Packages redis and
// contrib/goredis reach the servers for it.
//
// Invariant: no value is returned that carries another epoch, or fewer drops of
// everything, than the state that judges it.
package tier

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// maxKey is the length in bytes of the longest key or tag. Redis would take
// longer ones, but they are most likely values by mistake.
const maxKey = 64 << 10

// Server is the way of a [Tier] to its server. Errors are about connections;
// every answer of the server, also an error, is a reply.
type Server interface {
	// Send sends one command, which put appends, and returns the reply. If it
	// may have been sent it is not sent again. Put is given head.
	Send(ctx context.Context, put func(dst []byte, head string) []byte, head string) (resp.Value, error)
	// Read is Send at the time now, for a command about key that may be sent twice. It
	// ends after the timeout, unless the timeout is zero. With a Loan, the reply is
	// valid until the Loan is freed.
	Read(ctx context.Context, timeout time.Duration, now time.Time, put func(dst []byte, key string) []byte, key string) (resp.Value, Loan, error)
	// Together gives f one connection for several round trips. If twice is set
	// and a connection was lost before its first reply, f gets another one.
	Together(ctx context.Context, twice bool, f func(layout.Ask) error) error
	// Opened returns the number of connections opened so far. A connection counts
	// before its first use.
	Opened() uint64
	// MaxValue returns the size of the largest readable value, in bytes.
	MaxValue() int
}

// Terms is a [Server] that can tell whether another server has taken its place since a
// reply. The number of a term belongs to the time in which one server is the right one.
type Terms interface {
	// Term returns the number of the present term, without waiting.
	Term() uint64
	// Holds returns an error, which is a [remote.ErrMoved], if the term with that number
	// is over, or may be over. It may ask servers about the term.
	Holds(ctx context.Context, term uint64) error
}

// Loan is the memory of a reply.
type Loan interface {
	// Free lets the memory be used again.
	Free()
}

// Cluster is the way of a [Tier] to several servers, each of which serves some
// slots.
type Cluster interface {
	// Follow gives f the node that serves a key. It calls f again, with another
	// node, if f returns a [*layout.Refusal] that leads there, or if a node is
	// gone and f has had no effect or may be executed twice.
	Follow(ctx context.Context, key string, twice bool, f func(context.Context, Node) error) error
	// Split returns the indexes of n keys in parts: each part has the keys of one
	// node, as far as the topology is known.
	Split(n int, key func(i int) string) [][]int
	// Serving returns the nodes that serve slots, at least one, as of the last
	// topology read.
	Serving(ctx context.Context) ([]Node, error)
	// Refresh reads the topology again, from n if n answers: another node has not
	// heard of the newest topology yet.
	Refresh(n Node)
	// MaxValue returns the size of the largest readable value, in bytes.
	MaxValue() int
}

// Node is one server of a [Cluster], in one role: a server that has lost its
// role and has it again is another node.
type Node interface {
	Server
	// Home is the last report of the server. It belongs to the node.
	Home() *layout.Home
	// Settled reports whether the node serves the slot. It is false while the slot
	// moves, and the node has only some of its keys.
	Settled() bool
}

// Tier is the part of a store that belongs to one instance of a cache. It is a
// [remote.Tier] with all abilities. Clients embed it in the types that they
// export, so all its exported methods are public.
type Tier struct {
	one     *site   // the server, or nil
	all     Cluster // the servers, or nil
	terms   Terms   // the terms of the server, or nil
	db      int     // of the server
	scripts *scripts
	states  *layout.Holders
	changes *changes

	// The fields above are shared by all views of a store, the ones below belong to one view. Bind
	// makes them.
	names   layout.Names
	state   *layout.Holder
	foreign *atomic.Uint64
	made    *made
	explain func(error) error
	get     func(dst []byte, key string) []byte // appendGet, made once
}

// New returns a tier on a database of one server, without a name. An error
// reply of the server is a [*layout.Refusal]; explain turns it into the error
// that callers get, and a nil explain leaves errors as they are.
func New(srv Server, db int, explain func(error) error) *Tier {
	t := &Tier{one: &site{srv: srv}, db: db, explain: explain, scripts: newScripts(), states: &layout.Holders{}, changes: &changes{}}
	t.terms, _ = srv.(Terms)
	return t.Bind(remote.Space{})
}

// NewOnCluster is New on a cluster.
func NewOnCluster(all Cluster, explain func(error) error) *Tier {
	t := &Tier{all: all, explain: explain, scripts: newScripts(), states: &layout.Holders{}, changes: &changes{}}
	return t.Bind(remote.Space{})
}

// Bind returns the part of the store that belongs to s.
func (t *Tier) Bind(s remote.Space) *Tier {
	b := *t
	b.foreign, b.made = new(atomic.Uint64), new(made)
	b.state = t.states.Of(s.Name)
	b.names = layout.NewNames(s, t.db)
	b.get = b.appendGet
	// The site of the only server is made once for each view, so that an operation allocates none.
	// In a cluster the server of a key is known only when the key is: a site is made for each
	// operation.
	if t.one != nil {
		b.one = &site{Tier: &b, srv: sendFor(t.one.srv, s.Name)}
	} else {
		b.all = sendFor(t.all, s.Name)
	}
	return &b
}

// sendFor returns a server or a cluster that sends commands for a space. It is srv itself
// if srv has no method For, and so does not tell for which cache it sends.
func sendFor[S any](srv S, space string) S {
	if named, ok := any(srv).(interface{ For(space string) S }); ok {
		return named.For(space)
	}
	return srv
}

func (t *Tier) maxValue() int {
	if t.all != nil {
		return t.all.MaxValue()
	}
	return t.one.srv.MaxValue()
}

// Announces is true: a drop and its announcement are one step. The end of a
// lease is announced too if another instance was told that the lease is taken.
func (t *Tier) Announces() bool { return true }

// Moves returns the number of times that another epoch, or another server with
// lanes, has become known.
func (t *Tier) Moves() uint64 { return t.state.Moves() }

// Foreign returns the number of values found unreadable, or written by another
// program.
func (t *Tier) Foreign() uint64 { return t.foreign.Load() }

func tooLong(keys ...string) error {
	for _, k := range keys {
		if len(k) > maxKey {
			return remote.ErrKeyTooLong
		}
	}
	return nil
}

// nonce returns a random number other than zero. It has 52 bits: with 64 the state of a
// value is longer than the 64 bytes up to which Redis packs the fields of a hash by
// default, and an entry takes 165 bytes more. Nonces are compared within one key, lane or
// name only.
func nonce() uint64 { return rand.Uint64()>>12 | 2 }

// newLease and newToken draw tokens for leases and for drops. The lowest bit
// tells them apart, and so selects the script that stores under them.
func newLease() uint64 { return nonce() | 1 }
func newToken() uint64 { return nonce() &^ 1 }

func isLease(token uint64) bool { return token&1 == 1 }

// millis is d in milliseconds, at least one if d is positive.
func millis(d time.Duration) int64 {
	if d > 0 && d < time.Millisecond {
		return 1
	}
	return d.Milliseconds()
}

// Get reads values with their states. For a key with a known value it reads the state
// first, and the value only if the state names another value. If only some servers answer,
// the error is [remote.KeyErrors].
func (t *Tier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	if err := tooLong(keys...); err != nil {
		return nil, err
	}
	switch {
	case len(keys) == 0:
		return nil, ctx.Err()
	// A list that does not fit cannot be trusted to belong to these keys. Without it every value is
	// sent, which is only slower.
	case len(known) < len(keys):
		known = nil
	}
	if t.all == nil {
		held, _, err := t.one.getAll(ctx, keys, known)
		return held, t.explained(err)
	}
	// Each part writes to the places of its own keys, so the goroutines of the parts need no lock.
	held := make([]remote.Held, len(keys))
	return held, eachKey(t, len(keys), func(i int) string { return t.names.Entry(keys[i]) }, func(part []int) error {
		got, err := t.getFrom(ctx, pick(keys, part), pickKnown(known, part))
		for j, h := range got {
			held[part[j]] = h
		}
		return err
	})
}

// Read reads one value into the memory of dst.
func (t *Tier) Read(ctx context.Context, timeout time.Duration, key string, dst []byte) (h remote.Held, err error) {
	if len(key) > maxKey {
		return h, remote.ErrKeyTooLong
	}
	if t.all == nil {
		h, err = t.one.readOne(ctx, timeout, key, dst)
		return h, t.explained(err)
	}
	ctx, cancel := remote.Within(ctx, timeout)
	defer cancel()
	held, err := t.getFrom(ctx, []string{key}, nil)
	if err != nil {
		return h, t.explained(err)
	}
	return held[0], nil
}

func (s *site) readOne(ctx context.Context, timeout time.Duration, key string, dst []byte) (h remote.Held, err error) {
	now := time.Now()
	ask, ns := s.due(now)
	// The fast path of nearly every read: one command over the shared connection. getOne gives it
	// up if a connection was opened meanwhile, because the state is then too old for the reply.
	if !ask {
		h, ok, err := s.getOne(ctx, timeout, now, ns, key, dst)
		if ok || err != nil {
			return h, err
		}
	}
	ctx, cancel := remote.Within(ctx, timeout)
	defer cancel()
	held, _, err := s.getSome(ctx, true, ns, []string{key})
	if err != nil {
		return h, err
	}
	return held[0], nil
}

// pick returns the elements of all with the indexes in some.
func pick[T any](all []T, some []int) []T {
	picked := make([]T, len(some))
	for j, i := range some {
		picked[j] = all[i]
	}
	return picked
}

// getFrom reads values that most likely are on one server.
func (t *Tier) getFrom(ctx context.Context, keys []string, known []remote.ID) (held []remote.Held, err error) {
	var again []int
	err = t.atKey(ctx, keys[0], true, func(ctx context.Context, s *site) error {
		held, again, err = s.getAll(ctx, keys, known)
		return err
	})
	if err != nil || len(again) == 0 {
		return held, err
	}
	// The other keys are of slots that have moved since the topology was read. They are sent again
	// together: the first of them leads to its new server, and the others most often go there, too.
	// Each turn settles at least one key, so this ends.
	late, err := t.getFrom(ctx, pick(keys, again), pickKnown(known, again))
	for j, h := range late {
		held[again[j]] = h
	}
	if err == nil {
		return held, nil
	}
	errs := make([]error, len(keys))
	for j, i := range again {
		errs[i] = remote.ErrorOf(err, j)
	}
	return held, remote.JoinKeys(errs)
}

// getAll reads values from one server. again are the indexes of the keys on other
// servers; if all keys are, getAll returns the redirection of the first as its error.
func (s *site) getAll(ctx context.Context, keys []string, known []remote.ID) (held []remote.Held, again []int, err error) {
	now := time.Now() // read once: the clock is 2 % of a read
	ask, ns := s.due(now)
	if len(keys) == 1 && len(known) == 0 && !ask {
		h, ok, err := s.getOne(ctx, 0, now, ns, keys[0], nil)
		if ok || err != nil {
			return []remote.Held{h}, nil, err
		}
		// The state was young, but a connection was opened during the read. It may lead to another
		// server, so the value is read again, behind a new state.
		ask = true
	}
	if len(known) > 0 {
		return s.getUnknown(ctx, ask, ns, keys, known)
	}
	return s.getSome(ctx, ask, ns, keys)
}

// getOne reads one value, and judges it by ns, which was young before. ok is false if
// ns has become old meanwhile.
func (s *site) getOne(ctx context.Context, timeout time.Duration, now time.Time, ns *layout.State, key string, dst []byte) (h remote.Held, ok bool, err error) {
	v, loan, err := s.srv.Read(ctx, timeout, now, s.get, key)
	if loan != nil {
		defer loan.Free()
	}
	if err != nil || !s.fits(ns) {
		return h, false, err
	}
	h, err = s.held(v, ns, ns.Now(time.Now()))
	// The reply lies in memory that the loan gives back at the return, so the value is copied.
	if loan != nil && h.Data != nil {
		h.Data = copyTo(dst, h.Data)
	}
	return h, err == nil, err
}

// copyTo copies data, to the memory of dst if there is enough.
func copyTo(dst, data []byte) []byte {
	if cap(dst) < len(data) || dst == nil {
		dst = make([]byte, len(data))
	}
	return append(dst[:0], data...)
}

// getSome is getAll. It reads the state ns again if ask is set.
func (s *site) getSome(ctx context.Context, ask bool, ns *layout.State, keys []string) (held []remote.Held, again []int, err error) {
	replies, ns, err := s.read(ctx, ask, ns, func(b *layout.Batch) {
		b.Text = slices.Grow(b.Text, lenOfGets(&s.names, keys))
		for _, k := range keys {
			b.Text, b.N = s.appendGet(b.Text, k), b.N+1
		}
	})
	if err != nil {
		return nil, nil, err
	}
	held = make([]remote.Held, len(keys))
	now := ns.Now(time.Now())
	var moved error
	for i, v := range replies {
		held[i], err = s.held(v, ns, now)
		switch {
		// One key that has moved does not fail the others. If all have, the caller follows the
		// redirection of the first one.
		case s.elsewhere(err):
			again, moved = append(again, i), cmp.Or(moved, err)
		case err != nil:
			return nil, nil, err
		}
	}
	if len(again) == len(keys) {
		return nil, nil, moved
	}
	return held, again, nil
}

const hmget = "*4\r\n$5\r\nHMGET\r\n"

// lenOfGets returns the length of the commands that appendGet appends for keys, or a little more.
func lenOfGets(names *layout.Names, keys []string) (n int) {
	const heads = len("$65536\r\n\r\n$18\r\n\r\n$18\r\n\r\n") // of the three arguments
	for _, k := range keys {
		n += len(hmget) + heads + names.EntryLen(k) + len(names.Value) + len(names.State)
	}
	return n
}

func (t *Tier) appendGet(dst []byte, key string) []byte {
	dst = append(dst, hmget...)
	dst = t.appendEntry(dst, key)
	dst = resp.AppendString(dst, t.names.Value)
	return resp.AppendString(dst, t.names.State)
}

// held parses a value with its state, the reply of HMGET, at the time now of the server's clock.
func (t *Tier) held(v resp.Value, ns *layout.State, now int64) (remote.Held, error) {
	if err := refusal(v); err != nil {
		// Another program has written the key. It counts as absent, so that the cache loads, and
		// the lease request that follows removes it.
		if wrongType(err) {
			t.foreign.Add(1)
			return remote.Held{}, nil
		}
		return remote.Held{}, err
	}
	var value, state resp.Value
	i := 0
	for e := range v.Elems() {
		switch i {
		case 0:
			value = e
		case 1:
			state = e
		}
		i++
	}
	found := stored(value, state, ns)
	return t.open(&found, ns, now), nil
}

// open judges a value by ns, at the time now of the server's clock.
func (t *Tier) open(v *entryrules.Value, ns *layout.State, now int64) remote.Held {
	if v.Unreadable {
		t.foreign.Add(1)
		return remote.Held{}
	}
	return layout.Held(v, ns.Text, now)
}

// stored parses a value with its state.
func stored(data, state resp.Value, ns *layout.State) entryrules.Value {
	v := layout.Value(state, ns.Text)
	switch data.Kind() {
	case resp.Bulk:
		v.Data = data.Bytes()
	case resp.Int:
		v.Same = true // the scripts say so of a value that their caller has
	}
	return v
}

// wrongType reports whether err says that a key is of another type. The error
// of a script has such a text inside.
func wrongType(err error) bool {
	if err == nil {
		return false
	}
	var refused *layout.Refusal
	return errors.As(err, &refused) && strings.Contains(refused.Text, "WRONGTYPE")
}

// clean removes a key that another program has written, if it is not of this
// type.
func (t *Tier) clean(ctx context.Context, kind, key string) error {
	return t.atSlot(ctx, key, func(ctx context.Context, s *site) error {
		// The type is checked on the server, in the same step as the key is removed: by now an
		// instance may have stored an entry there.
		if s.scripted() {
			v, err := s.run(ctx, s.scripts.clean, func(dst []byte, head string) []byte {
				return appendStrings(appendCall(dst, head, 2), key, kind)
			})
			if err != nil {
				return err
			}
			if !s.forbids(v) {
				return refusal(v)
			}
		}
		return s.srv.Together(ctx, true, func(ask layout.Ask) error { return layout.CleanKey(ask, key, kind) })
	})
}
