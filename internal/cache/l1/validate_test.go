package l1

import (
	"fmt"
	"testing"

	"github.com/strata-cache/strata/internal/cache/evict"
)

// validate checks the whole structure: tables, policy queues and wheels hold
// the same entries, every link has its counterpart, and counts and weights are
// the true sums. No writer may run at the same time.
func validate[K comparable, V any](t *testing.T, c *Cache[K, V]) {
	t.Helper()
	var entries, weight, pinned int64
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		err := validateShard(c, i)
		pinned += pinnedIn(s)
		weight += s.held.weight
		s.mu.Unlock()
		if err != nil {
			t.Fatalf("shard %d: %v", i, err)
		}
		entries += s.entries.Load()
	}
	if entries != c.entries.Load() || weight != c.weight.Load() {
		t.Fatalf("shards hold %d entries of weight %d, the cache says %d of %d", entries, weight, c.entries.Load(), c.weight.Load())
	}
	if pinned != c.pinned.Load() {
		t.Fatalf("%d entries are pinned, the cache says %d", pinned, c.pinned.Load())
	}
	if c.over(change{}) {
		t.Fatalf("%d entries of weight %d exceed the bounds %d and %d", entries, weight, c.maxEntries.Load(), c.maxWeight.Load())
	}
}

// pinnedIn returns the number of pinned entries of a shard.
func pinnedIn(s *shard) (n int64) {
	s.table.Load().each(func(h *evict.Head) bool {
		if s.order.Pinned(h) {
			n++
		}
		return true
	})
	return n
}

func validateShard[K comparable, V any](c *Cache[K, V], i int) error {
	s := &c.shards[i]
	held, err := validateTable(s.table.Load(), s.order.Hash)
	if err != nil {
		return err
	}
	var weight int64
	for h := range held {
		e := entryOf[K, V](h)
		if h.Shard() != i || !s.order.Holds(h) {
			return fmt.Errorf("%v says it is in shard %d", e.Key, h.Shard())
		}
		if e.Key == e.Key && (c.shard(c.hash(e.Key)) != s || c.find(c.hash(e.Key), e.Key) != e) {
			return fmt.Errorf("%v is in the table but the search does not find it", e.Key)
		}
		weight += evict.Counted(s.order.Weight(h))
	}
	if int64(len(held)) != s.entries.Load() || weight != s.held.weight {
		return fmt.Errorf("table holds %d of weight %d, shard says %d of %d", len(held), weight, s.entries.Load(), s.held.weight)
	}
	return s.order.Validate(held, c.clock.exact())
}

// validateTable checks one table, and recounts the overflow count of each
// group.
func validateTable(t *table, hashOf func(*evict.Head) uint32) (map[*evict.Head]bool, error) {
	held := make(map[*evict.Head]bool)
	passed := make([]uint64, len(t.groups))
	for i := range t.groups {
		g := &t.groups[i]
		for j := range g.slots {
			h, tag := g.slots[j].Load(), g.tags.Load()>>(8*j)&0xff
			if h == nil && tag == 0 {
				continue
			}
			if h == nil || tag != tagOf(hashOf(h)) {
				return nil, fmt.Errorf("group %d slot %d has tag %x for %v", i, j, tag, h)
			}
			if held[h] {
				return nil, fmt.Errorf("%p is in the table twice", h)
			}
			held[h] = true
			for at := t.home(hashOf(h)); at != i; at = t.after(at) {
				passed[at]++
			}
		}
	}
	for i := range t.groups {
		if n := t.groups[i].tags.Load() >> overShift; n != passed[i] && n != overMax {
			return nil, fmt.Errorf("group %d counts %d passed by, %d did", i, n, passed[i])
		}
	}
	if len(held) > t.room() {
		return nil, fmt.Errorf("%d entries in a table for %d", len(held), t.room())
	}
	return held, nil
}
