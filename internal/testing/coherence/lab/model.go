// A Fleet of package castier in memory. Items can be lost, and servers can fail.

package lab

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

	"github.com/strata-cache/strata/remote/castier"
)

// ErrDead is the error of a server that fails.
var ErrDead = errors.New("casmodel: dead")

// Model is a castier.Fleet. Each of its servers is a Clock that shows whole steps, a
// Counter and a Toucher, unless Plain. A call that no Store allows fails the test. Make it with
// [NewModel].
type Model struct {
	// Plain says that the servers have no abilities.
	Plain bool
	// LargeFrom is the result of Large.
	LargeFrom int
	// Behind is how much later than time.Now the servers count a step of their clocks. Step is one, zero for a second.
	Behind, Step time.Duration
	// Between, if not nil, runs before each call that writes, After behind each call. They
	// are called while nothing is locked.
	Between func(server int, c *ModelCall)
	After   func(c *ModelCall)

	t       testing.TB
	mu      sync.Mutex // guards below
	servers []map[string]ModelItem
	// at are the servers by their numbers, of which those from first on are the present list.
	at     []int
	first  int
	cas    uint64
	dead   map[int]bool
	trips  int
	beside map[any]bool
	runs   sync.WaitGroup
}

// ModelItem is an item of a server.
type ModelItem struct {
	Data []byte
	// Until is when the server forgets the item; zero means never.
	Until time.Time
	cas   uint64
}

var _ castier.Fleet = (*Model)(nil)

// NewModel returns a store with a number of servers.
func NewModel(t testing.TB, servers int) *Model {
	m := &Model{t: t, dead: map[int]bool{}, beside: map[any]bool{}}
	for i := range servers {
		m.servers, m.at = append(m.servers, map[string]ModelItem{}), append(m.at, i)
	}
	return m
}

// List changes the list to some of the servers that New has made.
func (m *Model) List(servers ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.first, m.at = len(m.at), append(m.at, servers...)
}

// Servers implements castier.Fleet.
func (m *Model) Servers() (first, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first, len(m.at) - m.first
}

// Name implements castier.Fleet.
func (m *Model) Name(server int) string { return fmt.Sprint("s", m.place(server)) }

// place returns which server has a number.
func (m *Model) place(server int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at[server]
}

// Beside implements castier.Fleet.
func (m *Model) Beside(what any, f func(context.Context)) {
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

// Home implements castier.Fleet.
func (m *Model) Home(key string) int {
	h := 0
	for _, c := range []byte(key) {
		h = h*31 + int(c)
	}
	first, n := m.Servers()
	return first + int(uint(h)%uint(n))
}

// On implements castier.Fleet. Calls of a dead server fail.
func (m *Model) On(_ context.Context, number int) (castier.Store, error) {
	return m.store(number, m.call), nil
}

func (m *Model) store(number int, call func(ctx context.Context, server int, c *ModelCall) error) castier.Store {
	if s := (server{number, m, call}); !m.Plain {
		return able{s}
	}
	return server{number, m, call}
}

// call carries out a call.
func (m *Model) call(ctx context.Context, server int, c *ModelCall) error {
	server = m.place(server)
	if m.Between != nil && len(c.Swaps)+len(c.Adds)+len(c.Touches) > 0 {
		m.Between(server, c)
	}
	if m.After != nil && !c.Clock {
		defer func() { m.After(c) }()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.dead[server] {
		return ErrDead
	}
	if c.Clock {
		c.now = time.Now().Add(-m.Behind)
		return nil
	}
	m.trips++
	m.carryOut(m.servers[server], c)
	return nil
}

// carryOut executes the parts of a call. m.mu is locked.
func (m *Model) carryOut(items map[string]ModelItem, c *ModelCall) {
	seen := map[string]bool{}
	for _, key := range c.Keys {
		m.verify(key, seen)
		is := m.present(items, key)
		c.Items = append(c.Items, castier.Item{Value: append([]byte{}, is.Data...), Version: castier.Version{Number: is.cas}})
	}
	for _, s := range c.Swaps {
		m.verify(s.Key, seen)
		m.verifyLife(s.Life)
		same := castier.Version{Number: m.present(items, s.Key).cas} == s.Version
		if c.swapped = append(c.swapped, same); same {
			m.write(items, s.Key, s.Value, until(s.Life))
		}
	}
	for _, a := range c.Adds {
		m.verify(a.Key, seen)
		c.sums = append(c.sums, m.count(items, a))
	}
	for _, touch := range c.Touches {
		m.verify(touch.Key, seen)
		m.verifyLife(touch.Life)
		is := m.present(items, touch.Key)
		if c.swapped = append(c.swapped, is.cas > 0); is.cas > 0 {
			is.Until = until(touch.Life)
			items[touch.Key] = is
		}
	}
}

// verify looks for a key that no Store has to take. seen are the keys of those before.
func (m *Model) verify(key string, seen map[string]bool) {
	if seen[key] {
		m.t.Errorf("%q is there twice", key)
	}
	seen[key] = true
	if len(key) == 0 || len(key) > 250 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		m.t.Errorf("bad key %q", key)
	}
}

func (m *Model) verifyLife(life time.Duration) {
	if life < 0 || life%time.Second != 0 {
		m.t.Errorf("an item is to live for %v", life)
	}
}

// present returns an item, after it was forgotten if its life is over. m.mu is locked.
func (m *Model) present(items map[string]ModelItem, key string) ModelItem {
	is := items[key]
	if !is.Until.IsZero() && !time.Now().Before(is.Until) {
		delete(items, key)
		return ModelItem{}
	}
	return is
}

// write stores an item. m.mu is locked.
func (m *Model) write(items map[string]ModelItem, key string, data []byte, until time.Time) {
	m.cas++
	items[key] = ModelItem{Data: append([]byte{}, data...), Until: until, cas: m.cas}
}

// until returns the end of a life that begins now.
func until(life time.Duration) (t time.Time) {
	if life > 0 {
		t = time.Now().Add(life)
	}
	return t
}

// count adds to a counter. Data is its text. m.mu is locked.
func (m *Model) count(items map[string]ModelItem, a castier.Add) (sum uint64) {
	is := m.present(items, a.Key)
	n, err := strconv.ParseUint(string(is.Data), 10, 64)
	if err == nil {
		n += a.Delta
	} else if n = a.First; n == 0 {
		return 0
	}
	m.write(items, a.Key, strconv.AppendUint(nil, n, 10), is.Until)
	return n
}

// Each calls f for each item of a server, which f may change.
func (m *Model) Each(server int, f func(key string, is *ModelItem)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, is := range m.servers[server] {
		f(key, &is)
		m.servers[server][key] = is
	}
}

// Lose removes each item whose key match reports.
func (m *Model) Lose(match func(key string) bool) {
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
func (m *Model) Evict(n int) { m.Lose(func(string) bool { return rand.IntN(n) == 0 }) }

// Restart makes a server empty.
func (m *Model) Restart(server int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.servers[server])
}

// Kill makes a server fail, or answer again with what it had.
func (m *Model) Kill(server int, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead[server] = dead
}

// Trips returns the number of calls since it was last called.
func (m *Model) Trips() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, m.trips = m.trips, 0
	return n
}
