package l1

import (
	"fmt"
	"testing"
)

// validate checks the whole structure: tables, policy queues and wheels hold
// the same entries, every link has its counterpart, and counts and weights are
// the true sums. No writer may run at the same time.
func validate[K comparable, V any](t *testing.T, c *Cache[K, V]) {
	t.Helper()
	var entries, weight int64
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		err := validateShard(c, i)
		s.mu.Unlock()
		if err != nil {
			t.Fatalf("shard %d: %v", i, err)
		}
		entries += s.entries.Load()
		weight += s.weight.Load()
	}
	if entries != c.entries.Load() || weight != c.weight.Load() {
		t.Fatalf("shards hold %d entries of weight %d, the cache says %d of %d", entries, weight, c.entries.Load(), c.weight.Load())
	}
	if c.over(change{}) {
		t.Fatalf("%d entries of weight %d exceed the bounds %d and %d", entries, weight, c.maxEntries.Load(), c.maxWeight.Load())
	}
}

func validateShard[K comparable, V any](c *Cache[K, V], i int) error {
	s := &c.shards[i]
	held, err := validateTable(s.table.Load(), s.hashOf)
	if err != nil {
		return err
	}
	var weight int64
	timed := 0
	for h := range held {
		e := entryOf[K, V](h)
		if h.shard() != i || !s.nodes.holds(h) {
			return fmt.Errorf("%v says it is node %d of shard %d", e.Key, h.node, h.shard())
		}
		if e.Key == e.Key && (int(c.hash(e.Key)>>c.shift) != i || c.find(c.hash(e.Key), e.Key) != e) {
			return fmt.Errorf("%v is in the table but the search does not find it", e.Key)
		}
		weight += s.nodes.weight(h.node)
		if e.Dead != Forever {
			timed++
		}
	}
	if int64(len(held)) != s.entries.Load() || weight != s.weight.Load() || len(held) != s.len() {
		return fmt.Errorf("table holds %d of weight %d, shard says %d of %d", len(held), weight, s.entries.Load(), s.weight.Load())
	}
	for queue, l := range map[uint32]*list{inSmall: &s.policy.small, inMain: &s.policy.main} {
		if err := validateList(s, l, queue, held); err != nil {
			return err
		}
	}
	if err := validateSlab(&s.nodes, held); err != nil {
		return err
	}
	return validateWheel(s, held, timed)
}

// validateTable checks one table, and recounts the overflow count of each
// group.
func validateTable(t *table, hashOf func(*head) uint32) (map[*head]bool, error) {
	held := make(map[*head]bool)
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
				return nil, fmt.Errorf("node %d is in the table twice", h.node)
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

func validateList(s *shard, l *list, queue uint32, held map[*head]bool) error {
	n, size := 0, int64(0)
	var last uint32
	for i := l.head; i != 0; last, i = i, s.nodes.node(i).next {
		h := s.nodes.head(i)
		if !held[h] {
			return fmt.Errorf("node %d is in queue %d but not in the table", i, queue)
		}
		if x := s.nodes.node(i); x.prev != last || x.mark&queueMask != queue {
			return fmt.Errorf("node %d does not link back in queue %d", i, queue)
		}
		n++
		size += s.policy.size(i)
	}
	if l.tail != last || l.n != n || l.size != size {
		return fmt.Errorf("queue %d holds %d of size %d, says %d of %d", queue, n, size, l.n, l.size)
	}
	return nil
}

// validateSlab checks that every node is either free or that of an entry.
func validateSlab(b *slab, held map[*head]bool) error {
	free := 0
	for i := b.free; i != 0; i = b.node(i).next {
		if b.head(i) != nil {
			return fmt.Errorf("free node %d has an entry", i)
		}
		free++
	}
	if free+len(held) != int(b.used) {
		return fmt.Errorf("%d nodes are free and %d held of %d", free, len(held), b.used)
	}
	return nil
}

func validateWheel(s *shard, held map[*head]bool, timed int) error {
	w := &s.wheel
	n := 0
	for slot, first := range w.slots {
		// turn is the next tick at which this slot is emptied.
		turn := w.tick + (int64(slot)-w.tick)&wheelMask
		last := uint32(slot) | slotMark
		for i := first; i != 0; last, i = i, s.nodes.timer(i).next {
			h := s.nodes.head(i)
			if !held[h] {
				return fmt.Errorf("node %d is in the wheel but not in the table", i)
			}
			if s.nodes.timer(i).prev != last {
				return fmt.Errorf("node %d does not link back in the wheel", i)
			}
			if turn > max(tickOf(h.Dead), w.tick) {
				return fmt.Errorf("node %d is dead in tick %d and looked at in tick %d", i, tickOf(h.Dead), turn)
			}
			n++
		}
	}
	if len(w.slots) > 0 && w.slots[dueSlot] != 0 {
		return fmt.Errorf("sweep left node %d unfinished", w.slots[dueSlot])
	}
	if n != w.n || n != timed {
		return fmt.Errorf("wheel holds %d, says %d, %d entries have a deadline", n, w.n, timed)
	}
	return nil
}
