package itemtier_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/itemtier"
)

// memory is a Store in memory, whose clock shows whole seconds of time.Now.
type memory struct {
	t       testing.TB
	mu      sync.Mutex // guards below
	servers []map[string]item
	cas     uint64
	dead    map[int]bool
	// between runs before each Do that writes, while nothing is locked.
	between func(server int, ops []itemtier.Op)
	// after runs after each Do, while nothing is locked.
	after func(ops []itemtier.Op)
	trips int
}

type item struct {
	data  []byte
	cas   uint64
	until time.Time
	count uint64
}

func newMemory(t testing.TB, servers int) *memory {
	m := &memory{t: t, dead: map[int]bool{}}
	for range servers {
		m.servers = append(m.servers, map[string]item{})
	}
	return m
}

func (m *memory) Servers() int { return len(m.servers) }

func (m *memory) Home(key string) int {
	h := 0
	for _, c := range []byte(key) {
		h = h*31 + int(c)
	}
	return int(uint(h) % uint(len(m.servers)))
}

var errDead = errors.New("dead")

func (m *memory) Seconds(ctx context.Context, server int) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead[server] {
		return 0, errDead
	}
	return time.Now().Unix(), ctx.Err()
}

func (m *memory) Do(ctx context.Context, server int, ops []itemtier.Op) ([]itemtier.Result, error) {
	if m.between != nil && ops[len(ops)-1].Kind > itemtier.Read {
		m.between(server, ops)
	}
	if m.after != nil {
		defer func() { m.after(ops) }()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.dead[server] {
		return nil, errDead
	}
	m.trips++
	results := make([]itemtier.Result, len(ops))
	seen := map[string]bool{}
	for i, op := range ops {
		if seen[op.Key] && op.Kind != itemtier.Look {
			m.t.Errorf("%q is there twice", op.Key)
		}
		seen[op.Key] = true
		if len(op.Key) == 0 || len(op.Key) > 250 || strings.ContainsFunc(op.Key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			m.t.Errorf("bad key %q", op.Key)
		}
		results[i] = m.one(server, op)
	}
	return results, nil
}

func (m *memory) one(server int, op itemtier.Op) itemtier.Result {
	items := m.servers[server]
	is, ok := items[op.Key]
	if ok && !is.until.IsZero() && !time.Now().Before(is.until) {
		delete(items, op.Key)
		is, ok = item{}, false
	}
	version := itemtier.Version{CAS: is.cas}
	switch op.Kind {
	case itemtier.Look, itemtier.Read:
		return itemtier.Result{Done: ok, Data: append([]byte{}, is.data...), Version: version}
	case itemtier.Write:
		if version != op.Version {
			return itemtier.Result{}
		}
		m.cas++
		is = item{data: append([]byte{}, op.Data...), cas: m.cas}
		if op.Life > 0 {
			is.until = time.Now().Add(time.Duration(op.Life) * time.Second)
		}
		items[op.Key] = is
		return itemtier.Result{Done: true}
	default:
		m.cas++
		if ok {
			is.count += op.Delta
		} else {
			is.count = op.First
		}
		is.cas = m.cas
		items[op.Key] = is
		return itemtier.Result{Count: is.count}
	}
}

// lose removes each item whose key match reports.
func (m *memory) lose(match func(key string) bool) {
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

// kill makes a server fail, or answer again.
func (m *memory) kill(server int, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead[server] = dead
}

// evict removes an item in n.
func (m *memory) evict(n int) {
	m.lose(func(string) bool { return rand.IntN(n) == 0 })
}
