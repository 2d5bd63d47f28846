package format

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
)

// noted are the lives of an entry that differ from the lives of its cache. They stand in
// a frame of their own before the frame that begins with the entry. The entry itself
// seems to end with its fresh life: a reader that does not know the frame of lives does
// not serve the entry stale.
type noted struct {
	left time.Duration
	own  expiry.Own
}

// note remembers the lives of e, the next record of the section, and returns the
// entry in the form of its record.
func (w *Writer) note(s *section, e *Entry) *Entry {
	if e.Own == nil || e.NotFound {
		return e
	}
	w.flush(s)
	s.open = s.begin(s.open)
	s.noted = &noted{left: e.Left, own: *e.Own}
	ended := *e
	ended.Left = e.Fresh
	return &ended
}

// sendNote sends the lives of the record that begins the frame to come, if it has any.
func (w *Writer) sendNote(s *section) {
	n := s.noted
	if n == nil {
		return
	}
	s.noted = nil
	b := binary.AppendUvarint(w.out[:atPayload], uint64(s.index))
	if n.left == Forever {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, zigzag(floorMillis(n.left))+1)
	}
	for _, d := range [...]time.Duration{n.own.Revalidate, n.own.OnError, n.own.Memory} {
		b = binary.AppendUvarint(b, uint64(max(expiry.None, d))+1) // None is 0
	}
	w.control(frameLives, b)
}

// lives reads a frame of lives.
func (r *Reader) lives(c *cutter) error {
	if err := r.inside(c); err != nil {
		return err
	}
	n := &noted{left: Forever}
	if u := c.number(); u != 0 {
		ms := unzigzag(u - 1)
		c.check(-maxMillis <= ms && ms <= maxMillis)
		n.left = time.Duration(ms) * time.Millisecond
	}
	for _, d := range [...]*time.Duration{&n.own.Revalidate, &n.own.OnError, &n.own.Memory} {
		*d = time.Duration(c.upTo(math.MaxInt64+1) - 1)
	}
	if c.bad || len(c.b) > 0 {
		return corrupt("malformed lives")
	}
	r.sections[r.at].noted = n
	return nil
}

// relive gives the first entry of a frame the lives noted for it.
func (r *Reader) relive() {
	if n := r.noted; n != nil {
		r.noted = nil
		r.entry.Own, r.entry.Left = &n.own, max(r.entry.Fresh, n.left)
	}
}
