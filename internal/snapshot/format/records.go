package format

import "fmt"

// section reads a section and its position.
func (r *Reader) section(c *cutter, rec *Record) error {
	if r.begun {
		return corrupt("section behind entries")
	}
	index := c.upTo(MaxSections - 1)
	s, position := c.section()
	if c.bad || index != uint64(len(r.sections)) {
		return corrupt("malformed section")
	}
	r.sections = append(r.sections, seen{name: s.Name})
	r.at, r.named = int(index), true
	// The sum is bounded, too: many sections with a long position each would be a lot of memory
	// before the first entry.
	if r.positions += position; r.positions > MaxPositions {
		return fmt.Errorf("positions: %w", ErrTooLarge)
	}
	var err error
	if s.Position, err = r.collect(framePosition, position, nil, nil); err != nil {
		return err
	}
	rec.Kind, rec.Index, rec.Section = KindSection, r.at, &s
	return nil
}

// collect returns total bytes: first, and the payloads of the frames of a kind that
// follow. It uses the memory of b, and allocates in proportion to the bytes read so
// far.
func (r *Reader) collect(kind byte, total int, first, b []byte) ([]byte, error) {
	b = grow(b[:0], first, total)
	for len(b) < total {
		k, payload, err := r.frames.read()
		if err != nil {
			return nil, err
		}
		if k != kind || len(payload) == 0 || len(payload) > total-len(b) {
			return nil, corrupt("a piece is missing or does not fit")
		}
		b = grow(b, payload, total)
	}
	return b, nil
}

// grow appends data to b, which has total bytes at the end. It at least doubles the
// memory when there is too little.
func grow(b, data []byte, total int) []byte {
	if n := len(b) + len(data); n > cap(b) {
		b = append(make([]byte, 0, min(total, max(2*cap(b), n))), b...)
	}
	return append(b, data...)
}

// inside reads the index of the section that a frame belongs to.
func (r *Reader) inside(c *cutter) error {
	r.begun = true
	index := c.number()
	if c.bad || index >= uint64(len(r.sections)) {
		return corrupt("no such section")
	}
	r.at, r.named = int(index), true
	if r.sections[index].ended {
		return corrupt("the section has ended before")
	}
	return nil
}

// records checks a frame of entries or drops, and makes it the current one.
func (r *Reader) records(c *cutter) error {
	if err := r.inside(c); err != nil {
		return err
	}
	// A frame is used as a whole or not at all: a record behind a malformed one may be anything.
	n, err := r.check(*c)
	if err == nil {
		r.accept(*c, n)
	}
	return err
}

// accept makes the checked records in c the next results of Next.
func (r *Reader) accept(c cutter, n Counts) {
	r.rest = c
	if s := &r.sections[r.at]; n.Entries > 0 {
		r.noted, s.noted = s.noted, nil
	}
	r.sections[r.at].counts.add(n)
	r.total.add(n)
}

// check counts the records in c, and refuses them all if one is malformed.
func (r *Reader) check(c cutter) (n Counts, err error) {
	c.check(len(c.b) > 0)
	for len(c.b) > 0 {
		var rec Record
		before := len(c.b)
		n.add(r.cut(&c, &rec))
		// The limit of this reader may be smaller than a frame.
		if before-len(c.b) > r.limits.MaxEntry && !c.bad {
			return n, ErrTooLarge
		}
	}
	if c.bad {
		return n, corrupt("malformed record")
	}
	return n, nil
}

// cut cuts the next record of the current frame.
func (r *Reader) cut(c *cutter, rec *Record) Counts {
	rec.Index = r.at
	r.tags = cutter{}
	switch {
	case r.kind == frameDrops:
		rec.Kind, rec.Drop = KindDrop, c.drop()
		return Counts{Drops: 1}
	case r.header.Mode == Keys:
		rec.Kind, rec.Key = KindKey, c.text()
		return Counts{Entries: 1, Bytes: uint64(len(rec.Key))}
	}
	r.tags = c.entry(&r.entry, r.kind == framePart)
	rec.Kind, rec.Entry = KindEntry, &r.entry
	return Counts{Entries: 1, Bytes: uint64(len(r.entry.Key) + len(r.entry.Value))}
}

// parts reads an entry longer than a frame.
func (r *Reader) parts(c *cutter) error {
	if err := r.inside(c); err != nil {
		return err
	}
	total := c.number()
	if total > uint64(r.limits.MaxEntry) {
		return fmt.Errorf("entry of %d bytes: %w", total, ErrTooLarge)
	}
	if c.bad || len(c.b) == 0 || len(c.b) > int(total) {
		return corrupt("malformed part")
	}
	b, err := r.collect(framePart, int(total), c.b, r.part)
	if err != nil {
		return err
	}
	// The memory is used again, unless values refer to it.
	if !r.limits.Keep {
		r.part = b
	}
	n, err := r.check(cutter{b: b})
	if err == nil && n.Entries != 1 {
		err = corrupt("several entries in the parts of one")
	}
	if err == nil {
		r.accept(cutter{b: b}, n)
	}
	return err
}

// end compares the counts at the end of a section.
func (r *Reader) end(c *cutter, rec *Record) error {
	if err := r.inside(c); err != nil {
		return err
	}
	said := c.counts()
	if c.bad || len(c.b) > 0 {
		return corrupt("malformed end of a section")
	}
	s := &r.sections[r.at]
	// Only the writer knows what it has left out. All other counts are compared.
	s.counts.Skipped = said.Skipped
	r.total.Skipped += said.Skipped
	s.ended = true
	rec.Index, rec.Counts = r.at, said
	if said != s.counts {
		return fmt.Errorf("%w: %+v, and there are %+v", ErrCounts, said, s.counts)
	}
	rec.Kind = KindSectionEnd
	return nil
}

// trailer returns io.EOF if the snapshot is whole and the stream ends.
func (r *Reader) trailer(c *cutter) error {
	sections, said := c.number(), c.counts()
	if c.bad || len(c.b) > 0 {
		return corrupt("malformed trailer")
	}
	// Without its end, the counts of a section were never compared.
	for _, s := range r.sections {
		if !s.ended {
			return corrupt(fmt.Sprintf("trailer before the end of section %.64q", s.name))
		}
	}
	if sections != uint64(len(r.sections)) || said != r.total {
		return fmt.Errorf("%w: %d sections, %+v, and there are %d, %+v", ErrCounts, sections, said, len(r.sections), r.total)
	}
	return r.frames.finish()
}

// log reads a piece of a log of drops.
func (r *Reader) log(c *cutter, rec *Record) error {
	if err := r.inside(c); err != nil {
		return err
	}
	rec.Kind, rec.Index, rec.Log = KindLog, r.at, c.b
	return nil
}

// left reads the numbers of missing entries.
func (r *Reader) left(c *cutter, rec *Record) error {
	if err := r.inside(c); err != nil {
		return err
	}
	rec.Kind, rec.Index = KindLeft, r.at
	rec.Left = Left{Busy: c.number(), Gone: c.number(), Beyond: c.number(), Coarse: c.upTo(1) == 1}
	if c.bad {
		return corrupt("malformed numbers of missing entries")
	}
	return nil
}

func (r *Reader) abort(payload []byte, rec *Record) error {
	if len(payload) > MaxReason {
		return corrupt("reason that is too long")
	}
	rec.Kind, rec.Reason = KindAbort, string(payload)
	return nil
}
