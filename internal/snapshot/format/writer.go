package format

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// Writer writes one stream of a snapshot: sections first, then entries and drops of
// all sections in any order, then Close or Abort. Records of one section keep their
// order, records of different sections do not. A Writer is not safe for concurrent
// use.
//
// Each section with entries owns a buffer of a frame, and a full frame becomes one
// Write. After an error of a Write all methods return that error.
type Writer struct {
	w      io.Writer
	header Header
	// sections are the sections that Section has begun, and total the counts of all.
	sections []*section
	total    Counts
	// positions is the length of all positions, begun says that records have come.
	positions int
	begun     bool
	// number is the number of the next frame, seed the checksum of the header.
	number uint64
	seed   uint32
	// out is the memory of frames that do not belong to a section.
	out []byte
	err error
}

// section is a section during the writing.
type section struct {
	index  int
	counts Counts
	// open is a frame with room, of the kind in the next field; it is empty if there
	// is none.
	open []byte
	kind byte
	// noted are the lives of the entry at the begin of open.
	noted *noted
}

// NewWriter returns a Writer to w. It writes nothing yet; an invalid header is
// an error of the first call.
func NewWriter(w io.Writer, h Header) *Writer {
	h.Streams = max(h.Streams, 1)
	return &Writer{w: w, header: h, err: checkHeader(&h)}
}

func checkHeader(h *Header) error {
	ms := h.Created.UnixMilli()
	switch {
	case ms < 0 || ms > maxCreated:
		return misuse("Created is not between 1970 and 9999")
	case h.Streams > MaxStreams || h.Stream < 0 || h.Stream >= h.Streams:
		return misuse(fmt.Sprintf("stream %d of %d, at most %d", h.Stream, h.Streams, MaxStreams))
	case h.Mode != Keys && h.Mode != Values:
		return misuse("no Mode")
	}
	return nil
}

// Section begins a section, and returns its index for the calls that follow. All
// sections come before the first record. It returns ErrTooLarge, and goes on, if the
// texts or the position of s are too long, or all positions together.
func (w *Writer) Section(s Section) (index int, err error) {
	if err := w.start(); err != nil {
		return 0, err
	}
	if w.begun || len(w.sections) == MaxSections {
		return 0, misuse(fmt.Sprintf("a section after the first record, or more than %d", MaxSections))
	}
	if max(len(s.Name), len(s.Space), len(s.Codec)) > MaxName || len(s.Position) > MaxPosition || w.positions+len(s.Position) > MaxPositions {
		return 0, fmt.Errorf("format: section %.64q: %w", s.Name, ErrTooLarge)
	}
	index = len(w.sections)
	w.sections = append(w.sections, &section{index: index})
	w.positions += len(s.Position)
	w.out = appendSection(w.out[:atPayload], index, &s)
	w.send(w.out, frameSection)
	w.pieces(framePosition, s.Position)
	return index, w.err
}

// start writes the magic and the header if they are not written yet.
func (w *Writer) start() error {
	if w.err != nil || w.number > 0 {
		return w.err
	}
	w.out = make([]byte, atPayload, 1<<10)
	frame := appendHeader(w.out, &w.header)
	w.seed = seal(frame, 0, 0, frameHeader)
	w.number = 1
	w.write(append([]byte(magic), frame[atKind:]...))
	return w.err
}

// section returns the section with an index, for records.
func (w *Writer) section(index int) (*section, error) {
	if w.err != nil {
		return nil, w.err
	}
	if index < 0 || index >= len(w.sections) {
		return nil, misuse("no such section")
	}
	w.begun = true
	return w.sections[index], nil
}

// open returns the section with an index after its open frame was made one of a kind.
func (w *Writer) open(index int, kind byte) (*section, error) {
	s, err := w.section(index)
	if err != nil {
		return nil, err
	}
	if s.kind != kind || len(s.open) == 0 {
		w.flush(s)
		s.kind = kind
		s.open = s.begin(s.open)
	}
	return s, w.err
}

// begin returns a frame without records in the memory of b.
func (s *section) begin(b []byte) []byte {
	if cap(b) < atPayload {
		b = make([]byte, atPayload, 4<<10)
	}
	return binary.AppendUvarint(b[:atPayload], uint64(s.index))
}

// empty reports whether the open frame has no records.
func (s *section) empty() bool {
	first := 1
	if s.index > 0x7f {
		first = 2
	}
	return len(s.open) <= atPayload+first
}

// flush sends the open frame of a section, if the frame has records. The section has
// no open frame afterwards.
func (w *Writer) flush(s *section) {
	if !s.empty() {
		w.send(s.open, s.kind)
	}
	s.open = s.open[:0]
}

// Flush sends all entries and drops still in memory. The frames can be smaller than
// they would be otherwise.
func (w *Writer) Flush() error {
	if err := w.start(); err != nil {
		return err
	}
	for _, s := range w.sections {
		w.flush(s)
	}
	return w.err
}

// Counts returns the counts of all sections so far.
func (w *Writer) Counts() Counts { return w.total }

// count adds to the counts of a section and of the whole.
func (w *Writer) count(s *section, c Counts) {
	s.counts.add(c)
	w.total.add(c)
}

// Close sends all records still in memory, the ends of the sections and the trailer.
// It does not close the stream. After it, and after Abort, all methods return
// ErrClosed, but Close returns nil.
func (w *Writer) Close() error {
	if w.err == ErrClosed {
		return nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, s := range w.sections {
		w.control(frameEnd, appendCounts(binary.AppendUvarint(w.out[:atPayload], uint64(i)), s.counts))
	}
	w.control(frameTrailer, appendCounts(binary.AppendUvarint(w.out[:atPayload], uint64(len(w.sections))), w.total))
	return w.end()
}

// Abort ends the stream early, with a reason for the reader, cut to MaxReason bytes.
// The records so far are usable.
func (w *Writer) Abort(reason string) error {
	if err := w.Flush(); err != nil {
		return err
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), MaxReason)], "")
	w.control(frameAbort, append(w.out[:atPayload], reason...))
	return w.end()
}

func (w *Writer) end() error {
	err := w.err
	if err == nil {
		w.err = ErrClosed
	}
	return err
}

// control sends a frame made in the memory of out.
func (w *Writer) control(kind byte, b []byte) {
	w.out = b
	w.send(b, kind)
}

// pieces sends data as frames of a kind. There is none for no data.
func (w *Writer) pieces(kind byte, data []byte) {
	for len(data) > 0 {
		n := min(len(data), MaxPayload)
		w.control(kind, append(w.out[:atPayload], data[:n]...))
		data = data[n:]
	}
}

// send completes the frame b and writes it.
func (w *Writer) send(b []byte, kind byte) {
	if w.err != nil {
		return
	}
	seal(b, w.seed, w.number, kind)
	w.number++
	w.write(b[atKind:])
}

func (w *Writer) write(b []byte) {
	n, err := w.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	w.err = err
}
