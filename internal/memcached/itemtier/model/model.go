// Package model is a Store of package itemtier in memory, for tests. Items can be lost,
// and servers can fail.
package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/memcached/itemtier"
)

// ErrDead is the error of a server that fails.
var ErrDead = errors.New("model: dead")

// Store is an itemtier.Store, whose clock shows whole seconds of time.Now. An operation
// that no Store allows fails the test. Make it with [New].
type Store struct {
	// Between, if not nil, runs before each Do that writes, After behind each Do. They
	// are called while nothing is locked.
	Between func(server int, ops []itemtier.Op)
	After   func(ops []itemtier.Op)

	t       testing.TB
	mu      sync.Mutex // guards below
	servers []map[string]Item
	// at are the servers by their numbers, of which those from first on are the present list.
	at     []int
	first  int
	cas    uint64
	dead   map[int]bool
	trips  int
	beside map[any]bool
	runs   sync.WaitGroup
}

// Item is an item of a server.
type Item struct {
	Data []byte
	// Until is when the server forgets the item; zero means never.
	Until time.Time
	cas   uint64
}

var _ itemtier.Store = (*Store)(nil)

// New returns a store with a number of servers.
func New(t testing.TB, servers int) *Store {
	m := &Store{t: t, dead: map[int]bool{}, beside: map[any]bool{}}
	for i := range servers {
		m.servers, m.at = append(m.servers, map[string]Item{}), append(m.at, i)
	}
	return m
}

// List changes the list to some of the servers that New has made.
func (m *Store) List(servers ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.first, m.at = len(m.at), append(m.at, servers...)
}

// Servers implements itemtier.Store.
func (m *Store) Servers() (first, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first, len(m.at) - m.first
}

// Name implements itemtier.Store.
func (m *Store) Name(server int) string { return fmt.Sprint("s", m.place(server)) }

// place returns which server has a number.
func (m *Store) place(server int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at[server]
}

// Beside implements itemtier.Store.
func (m *Store) Beside(what any, f func(context.Context)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.beside[what] {
		return
	}
	m.beside[what] = true
	m.runs.Go(func() {
		f(context.Background())
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.beside, what)
	})
}

// Home implements itemtier.Store.
func (m *Store) Home(key string) int {
	h := 0
	for _, c := range []byte(key) {
		h = h*31 + int(c)
	}
	first, n := m.Servers()
	return first + int(uint(h)%uint(n))
}

// Seconds implements itemtier.Store.
func (m *Store) Seconds(ctx context.Context, server int) (int64, error) {
	server = m.place(server)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead[server] {
		return 0, ErrDead
	}
	return time.Now().Unix(), ctx.Err()
}

// Do implements itemtier.Store.
func (m *Store) Do(ctx context.Context, server int, ops []itemtier.Op) ([]itemtier.Result, error) {
	server = m.place(server)
	if m.Between != nil && ops[len(ops)-1].Kind > itemtier.Read {
		m.Between(server, ops)
	}
	if m.After != nil {
		defer func() { m.After(ops) }()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.dead[server] {
		return nil, ErrDead
	}
	m.trips++
	results := make([]itemtier.Result, len(ops))
	seen := map[string]bool{}
	for i, op := range ops {
		m.verify(op, seen)
		results[i] = m.one(server, op)
	}
	return results, nil
}

// verify looks for an operation that no Store allows. seen are the keys of those before.
func (m *Store) verify(op itemtier.Op, seen map[string]bool) {
	if seen[op.Key] && op.Kind != itemtier.Look {
		m.t.Errorf("%q is there twice", op.Key)
	}
	seen[op.Key] = true
	if len(op.Key) == 0 || len(op.Key) > 250 || strings.ContainsFunc(op.Key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		m.t.Errorf("bad key %q", op.Key)
	}
}

// one carries out an operation. m.mu is locked.
func (m *Store) one(server int, op itemtier.Op) itemtier.Result {
	items := m.servers[server]
	is, ok := items[op.Key]
	if ok && !is.Until.IsZero() && !time.Now().Before(is.Until) {
		delete(items, op.Key)
		is, ok = Item{}, false
	}
	version := itemtier.Version{CAS: is.cas}
	switch op.Kind {
	case itemtier.Look, itemtier.Read:
		return itemtier.Result{Done: ok, Data: append([]byte{}, is.Data...), Version: version}
	case itemtier.Touch:
		if ok {
			is.Until = until(op.Life)
			items[op.Key] = is
		}
		return itemtier.Result{Done: ok}
	case itemtier.Write, itemtier.Set:
		if op.Kind == itemtier.Write && version != op.Version {
			return itemtier.Result{}
		}
		m.cas++
		items[op.Key] = Item{Data: append([]byte{}, op.Data...), Until: until(op.Life), cas: m.cas}
		return itemtier.Result{Done: true}
	default:
		return m.count(items, op)
	}
}

// until returns the end of a life that begins now.
func until(life int64) (t time.Time) {
	if life > 0 {
		t = time.Now().Add(time.Duration(life) * time.Second)
	}
	return t
}

// count adds to a counter. Data is its text. m.mu is locked.
func (m *Store) count(items map[string]Item, op itemtier.Op) itemtier.Result {
	is, ok := items[op.Key]
	n, err := strconv.ParseUint(string(is.Data), 10, 64)
	if ok && err == nil {
		n += op.Delta
	} else if n = op.First; n == 0 {
		return itemtier.Result{}
	}
	m.cas++
	items[op.Key] = Item{Data: strconv.AppendUint(nil, n, 10), Until: is.Until, cas: m.cas}
	return itemtier.Result{Done: true, Count: n}
}

// Each calls f for each item of a server, which f may change.
func (m *Store) Each(server int, f func(key string, is *Item)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, is := range m.servers[server] {
		f(key, &is)
		m.servers[server][key] = is
	}
}

// Lose removes each item with a key that match reports.
func (m *Store) Lose(match func(key string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, items := range m.servers {
		for key := range items {
			if match(key) {
				delete(items, key)
			}
		}
	}
}

// Evict removes about one item in n.
func (m *Store) Evict(n int) { m.Lose(func(string) bool { return rand.IntN(n) == 0 }) }

// Restart makes a server empty.
func (m *Store) Restart(server int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.servers[server])
}

// Kill makes a server fail, or answer again with what it had.
func (m *Store) Kill(server int, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead[server] = dead
}

// Trips returns the number of Dos since it was last called.
func (m *Store) Trips() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, m.trips = m.trips, 0
	return n
}
