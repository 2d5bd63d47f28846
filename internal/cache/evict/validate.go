package evict

import (
	"fmt"
	"maps"
)

// Validate checks the whole structure for tests: queues and wheel hold the given
// entries, every link has its counterpart, and sums are the true ones at now.
func (o *Order) Validate(entries map[*Head]bool, now int64) error {
	if o.Len() != len(entries) {
		return fmt.Errorf("%d entries, want %d", o.Len(), len(entries))
	}
	queued := maps.Clone(entries)
	maps.DeleteFunc(queued, func(h *Head, _ bool) bool { return o.Pinned(h) })
	if err := o.policy.validate(queued); err != nil {
		return err
	}
	if err := o.validateSlab(entries); err != nil {
		return err
	}
	return o.validateWheel(entries, now)
}

// validate checks both queues, and that each node says in which of them it is.
func (p *a3fifo) validate(entries map[*Head]bool) error {
	for _, queue := range []uint32{inSmall, inMain} {
		l := p.queue(queue)
		if err := l.validate(p.nodes, entries, p.size); err != nil {
			return fmt.Errorf("queue %d: %w", queue, err)
		}
		for i := l.head; i != 0; i = p.nodes.node(i).next {
			if p.queue(p.nodes.node(i).mark&queueMask) != l {
				return fmt.Errorf("node %d is in queue %d and says another", i, queue)
			}
		}
	}
	if n := p.small.n + p.main.n; n != len(entries) {
		return fmt.Errorf("queues hold %d, want %d", n, len(entries))
	}
	return nil
}

// validate checks a list of nodes with the given sizes. Each must belong to an
// entry.
func (l *list) validate(b *slab, entries map[*Head]bool, sizeOf func(i uint32) int64) error {
	n, size := 0, int64(0)
	var last uint32
	for i := l.head; i != 0; last, i = i, b.node(i).next {
		if !entries[b.head(i)] {
			return fmt.Errorf("node %d is of no entry", i)
		}
		if b.node(i).prev != last {
			return fmt.Errorf("node %d does not link back", i)
		}
		n++
		size += sizeOf(i)
	}
	if l.tail != last || l.n != n || l.size != size {
		return fmt.Errorf("list holds %d of size %d, says %d of %d", n, size, l.n, l.size)
	}
	return nil
}

// validateSlab checks that every node is either free or belongs to an entry.
func (o *Order) validateSlab(entries map[*Head]bool) error {
	free, last := 0, uint32(0)
	for i := o.nodes.free; i != 0; i = o.nodes.node(i).next {
		if o.nodes.head(i) != nil {
			return fmt.Errorf("free node %d has an entry", i)
		}
		if o.nodes.node(i).prev != last {
			return fmt.Errorf("free node %d does not link back", i)
		}
		last = i
		free++
	}
	if free+len(entries) != int(o.nodes.used) {
		return fmt.Errorf("%d nodes are free and %d held of %d", free, len(entries), o.nodes.used)
	}
	if chunks := int(o.nodes.used)>>chunkBits + 1; o.nodes.used > 0 && len(o.nodes.chunks) != chunks {
		return fmt.Errorf("%d chunks for %d nodes", len(o.nodes.chunks), o.nodes.used)
	}
	return nil
}

// validateWheel checks that the wheel has each entry with a deadline, once.
func (o *Order) validateWheel(entries map[*Head]bool, now int64) error {
	n, timed := 0, 0
	for h := range entries {
		if o.nodes.idle.End(h, now) != Forever {
			timed++
		}
	}
	for slot := range o.wheel.slots {
		m, err := o.validateSlot(slot, entries, now)
		if err != nil {
			return err
		}
		n += m
	}
	if n != o.wheel.n || n != timed {
		return fmt.Errorf("wheel holds %d, says %d, %d entries have a deadline", n, o.wheel.n, timed)
	}
	return nil
}

// validateSlot checks the links of a slot, and that no entry in it is looked at later than in the
// tick of its deadline. It returns the number of entries.
func (o *Order) validateSlot(slot int, entries map[*Head]bool, now int64) (n int, err error) {
	w := &o.wheel
	turn := w.tick + (int64(slot)-w.tick)&wheelMask // the next tick at which this slot is emptied
	last := uint32(slot) | slotMark
	for i := w.slots[slot]; i != 0; last, i = i, o.nodes.timer(i).next {
		h := o.nodes.head(i)
		end := TickOf(o.nodes.idle.End(h, now))
		switch {
		case slot == dueSlot:
			return 0, fmt.Errorf("sweep left node %d unfinished", i)
		case !entries[h]:
			return 0, fmt.Errorf("node %d is in the wheel but of no entry", i)
		case o.nodes.timer(i).prev != last:
			return 0, fmt.Errorf("node %d does not link back in the wheel", i)
		case turn > max(end, w.tick):
			return 0, fmt.Errorf("node %d ends in tick %d and is looked at in tick %d", i, end, turn)
		}
		n++
	}
	return n, nil
}
