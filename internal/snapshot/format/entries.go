package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Reasons to leave an entry out.
var (
	errNegative = errors.New("negative weight")
	errTags     = fmt.Errorf("more than %d tags", MaxTags)
	errAppend   = errors.New("the codec has not appended to its argument")
	errMode     = fmt.Errorf("%w: Key is for the mode Keys, Entry for Values", ErrUse)
)

// Key writes an entry of a snapshot in the mode Keys. A key too long for the format
// is left out. Key then returns a SkipError.
func (w *Writer) Key(section int, key string) error {
	if w.header.Mode != Keys {
		return errMode
	}
	s, err := w.open(section, frameEntries)
	if err != nil {
		return err
	}
	from := len(s.open)
	return w.record(s, appendText(s.open, key), from, Counts{Entries: 1, Bytes: uint64(len(key))})
}

// Drop writes a drop of a key. It returns ErrTooLarge, and goes on, if the key is too
// long for a frame; DropAll can stand for such a drop.
func (w *Writer) Drop(section int, name string, expire bool) error {
	if len(name) > MaxPayload-2*binary.MaxVarintLen32 {
		return fmt.Errorf("format: drop of %.64q: %w", name, ErrTooLarge)
	}
	return w.drop(section, name, expire, false)
}

// DropAll writes a drop of all entries of a section.
func (w *Writer) DropAll(section int, expire bool) error {
	return w.drop(section, "", expire, true)
}

// Log writes a piece of the drops that the cache of a section knows, in a form of its own. It
// comes before records that are still in memory. It returns ErrTooLarge, and goes on, if the
// piece is longer than MaxLog.
func (w *Writer) Log(section int, piece []byte) error {
	if _, err := w.section(section); err != nil {
		return err
	}
	if len(piece) > MaxLog {
		return fmt.Errorf("format: log of drops: %w", ErrTooLarge)
	}
	w.control(frameLog, append(binary.AppendUvarint(w.out[:atPayload], uint64(section)), piece...))
	return w.err
}

// Left writes the numbers of missing entries of a section. They come before records
// that are still in memory.
func (w *Writer) Left(section int, l Left) error {
	if _, err := w.section(section); err != nil {
		return err
	}
	b := binary.AppendUvarint(w.out[:atPayload], uint64(section))
	for _, n := range [...]uint64{l.Busy, l.Gone, l.Beyond, uint64(flag(1, l.Coarse))} {
		b = binary.AppendUvarint(b, n)
	}
	w.control(frameLeft, b)
	return w.err
}

func (w *Writer) drop(section int, name string, expire, all bool) error {
	s, err := w.open(section, frameDrops)
	if err != nil {
		return err
	}
	from := len(s.open)
	return w.record(s, appendDrop(s.open, name, expire, all), from, Counts{Drops: 1})
}

// Entry writes an entry of a snapshot in the mode Values. appendValue appends the value
// to its argument, which is memory of the frame, and returns the result. If it is nil,
// the value is e.Value. If it fails, or the entry cannot be written, the entry is left
// out, and the error is a SkipError. The Writer keeps neither e nor its parts.
func (w *Writer) Entry(section int, e *Entry, appendValue func(dst []byte) ([]byte, error)) error {
	if w.header.Mode != Values {
		return errMode
	}
	s, err := w.open(section, frameEntries)
	if err != nil {
		return err
	}
	if err := checkEntry(e); err != nil {
		return w.skip(s, err)
	}
	e = w.note(s, e)
	from := len(s.open)
	b := appendEntry(s.open, e)
	c := Counts{Entries: 1, Bytes: uint64(len(e.Key))}
	if e.NotFound {
		return w.record(s, b, from, c)
	}
	// The length of the value is known when the codec has appended it: its place stays free until
	// then.
	at := len(b)
	b, err = withValue(append(b, make([]byte, valueLength)...), e, appendValue)
	if err != nil {
		return w.skip(s, err)
	}
	c.Bytes += uint64(len(b) - at - valueLength)
	// A value longer than a frame is sent in parts, which is rare.
	if len(b)-from > maxRecord {
		return w.long(s, b, from, at, c)
	}
	putLength(b[at:], len(b)-at-valueLength)
	return w.record(s, b, from, c)
}

// checkEntry returns why an entry cannot be written, apart from its value.
func checkEntry(e *Entry) error {
	switch {
	case e.Weight < 0:
		return errNegative
	case len(e.Tags) > MaxTags:
		return errTags
	}
	return nil
}

// withValue returns b with the value of an entry behind it. A function that returns the
// value alone, instead of appending it, would damage the frame.
func withValue(b []byte, e *Entry, appendValue func(dst []byte) ([]byte, error)) ([]byte, error) {
	if appendValue == nil {
		return append(b, e.Value...), nil
	}
	out, err := appendValue(b)
	if err == nil && (len(out) < len(b) || &out[0] != &b[0] && !bytes.Equal(out[:len(b)], b)) {
		err = errAppend
	}
	return out, err
}

// skip counts an omitted entry. Its bytes in the open frame do not belong to the
// frame.
func (w *Writer) skip(s *section, why error) error {
	s.noted = nil
	w.count(s, Counts{Skipped: 1})
	return &SkipError{why}
}

// maxRecord is the greatest length in bytes of a record with room in a frame of any
// section.
const maxRecord = MaxPayload - 2

// record accepts the record that begins at from of b. The bytes before from are the
// open frame of s.
func (w *Writer) record(s *section, b []byte, from int, c Counts) error {
	if len(b)-from > maxRecord {
		return w.long(s, b, from, len(b), c)
	}
	// The frame is full: it is sent without this record, with which the next one begins.
	if len(b)-atPayload > MaxPayload {
		w.send(b[:from], s.kind)
		record := b[from:]
		b = append(s.begin(b), record...)
	}
	s.open = b
	w.sendNote(s)
	if w.err == nil {
		w.count(s, c)
	}
	return w.err
}

// long writes the record that begins at from of b as parts. The length of its value, at
// the index at of b, is left out: the value is the rest of the record.
func (w *Writer) long(s *section, b []byte, from, at int, c Counts) error {
	head, value := b[from:at], b[min(at+valueLength, len(b)):]
	if len(head)+len(value) > MaxEntry {
		return w.skip(s, ErrTooLarge)
	}
	s.open = b[:from]
	w.flush(s)
	w.sendNote(s)
	first := binary.AppendUvarint(w.out[:atPayload], uint64(s.index))
	first = binary.AppendUvarint(first, uint64(len(head)+len(value)))
	w.parts(first, head, value)
	if cap(b) > reusable {
		s.open = nil
	}
	if w.err == nil {
		w.count(s, c)
	}
	return w.err
}

// parts sends data, behind the bytes in first, as frames.
func (w *Writer) parts(b []byte, data ...[]byte) {
	for _, d := range data {
		for len(d) > 0 {
			n := min(len(d), MaxPayload+atPayload-len(b))
			b, d = append(b, d[:n]...), d[n:]
			if len(b) == MaxPayload+atPayload {
				w.control(framePart, b)
				b = b[:atPayload]
			}
		}
	}
	if len(b) > atPayload {
		w.control(framePart, b)
	}
}
