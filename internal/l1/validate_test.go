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
	held, err := validateTable(s.table.Load())
	if err != nil {
		return err
	}
	var weight int64
	timed := 0
	for e := range held {
		if int(e.hash>>c.shift) != i {
			return fmt.Errorf("%v belongs to shard %d", e.Key, e.hash>>c.shift)
		}
		if got := s.find(e.hash, e.Key); e.Key == e.Key && got != e {
			return fmt.Errorf("%v is in the table but the search finds %p", e.Key, got)
		}
		weight += e.weight
		if e.Dead != Forever {
			timed++
		}
	}
	if int64(len(held)) != s.entries.Load() || weight != s.weight.Load() {
		return fmt.Errorf("table holds %d of weight %d, shard says %d of %d", len(held), weight, s.entries.Load(), s.weight.Load())
	}
	if err := validateQueue(&s.queue, held); err != nil {
		return err
	}
	return validateWheel(&s.wheel, held, timed)
}

// validateTable checks one table, and recounts the overflow count of each
// group.
func validateTable[K comparable, V any](t *table[K, V]) (map[*Entry[K, V]]bool, error) {
	held := make(map[*Entry[K, V]]bool)
	passed := make([]uint64, len(t.groups))
	for i := range t.groups {
		g := &t.groups[i]
		for j := range g.slots {
			e, tag := g.slots[j].Load(), g.tags.Load()>>(8*j)&0xff
			if e == nil && tag == 0 {
				continue
			}
			if e == nil || tag != tagOf(e.hash) {
				return nil, fmt.Errorf("group %d slot %d has tag %x for %v", i, j, tag, e)
			}
			if held[e] {
				return nil, fmt.Errorf("%v is in the table twice", e.Key)
			}
			held[e] = true
			for at := home(e.hash) & t.mask; at != uint64(i); at = (at + 1) & t.mask {
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

func validateQueue[K comparable, V any](q *queue[K, V], held map[*Entry[K, V]]bool) error {
	n := 0
	var last *Entry[K, V]
	for e := q.head; e != nil; last, e = e, e.next {
		if !held[e] {
			return fmt.Errorf("%v is in the queue but not in the table", e.Key)
		}
		if e.prev != last {
			return fmt.Errorf("%v does not link back in the queue", e.Key)
		}
		if e.use.Load() > maxUse {
			return fmt.Errorf("%v has counter %d", e.Key, e.use.Load())
		}
		n++
	}
	if q.tail != last || q.n != n || n != len(held) {
		return fmt.Errorf("queue holds %d, says %d, table holds %d", n, q.n, len(held))
	}
	return nil
}

func validateWheel[K comparable, V any](w *wheel[K, V], held map[*Entry[K, V]]bool, timed int) error {
	n := 0
	for i := range w.slots {
		// next is the tick at which this slot is emptied.
		turn := w.tick + (int64(i)-w.tick)&wheelMask
		at := &w.slots[i]
		for e := *at; e != nil; at, e = &e.wnext, e.wnext {
			if !held[e] {
				return fmt.Errorf("%v is in the wheel but not in the table", e.Key)
			}
			if e.wprev != at {
				return fmt.Errorf("%v does not link back in the wheel", e.Key)
			}
			if turn > max(tickOf(e.Dead), w.tick) {
				return fmt.Errorf("%v is dead in tick %d and looked at in tick %d", e.Key, tickOf(e.Dead), turn)
			}
			n++
		}
	}
	if w.due != nil {
		return fmt.Errorf("sweep left %v unfinished", w.due.Key)
	}
	if n != w.n || n != timed {
		return fmt.Errorf("wheel holds %d, says %d, %d entries have a deadline", n, w.n, timed)
	}
	return nil
}
