package format

import (
	"fmt"
	"io"
)

// Limits bound the work of a Reader. The zero Limits are good for streams of any
// origin.
type Limits struct {
	// MaxEntry is the largest length of an entry in bytes. A long entry takes up to
	// twice that in memory while it is read. Zero means the constant MaxEntry.
	MaxEntry int
	// Keep gives each frame memory of its own, never written again: keys and values
	// may be kept, and keep their frame of up to 64 KiB alive. Without it they are
	// valid until the next call.
	Keep bool
}

// Reader reads one stream of a snapshot, of any origin. Its memory stays below a few
// frames, one entry, and the texts of the sections, which the format bounds. A Reader
// is not safe for concurrent use.
type Reader struct {
	frames   frames
	limits   Limits
	header   Header
	sections []seen
	// positions is the length of all positions, begun says that no more sections come.
	positions int
	begun     bool
	// rest has the records of the current frame not returned yet, all checked, and
	// kind is the kind of the frame.
	rest cutter
	kind byte
	// noted are the lives of the first record of rest.
	noted *noted
	// at is the index of the section that the frame belongs to.
	at int
	// named says that the frame in hand belongs to the section at.
	named bool
	// part is the memory of long entries, entry the one returned last, and
	// tags its tags as they are in the stream.
	part  []byte
	entry Entry
	tags  cutter
	total Counts
	err   error
}

// seen is a section after the read of its frame.
type seen struct {
	name   string
	counts Counts
	ended  bool
	// noted are the lives of the next entry.
	noted *noted
}

// NewReader returns a Reader of r. It reads nothing yet, never more than one frame and
// eight bytes ahead, and does not wait for bytes behind a complete frame; behind
// the trailer it waits for the end of the stream.
func NewReader(r io.Reader, l Limits) *Reader {
	if l.MaxEntry <= 0 {
		l.MaxEntry = MaxEntry
	}
	return &Reader{frames: frames{r: r, keep: l.Keep}, limits: l}
}

// Header returns the header of the stream, which it reads if Next has not done so. An
// error is an *Error, which all further calls return. Only Next returns later errors.
func (r *Reader) Header() (Header, error) {
	if r.start(); r.header.Version == 0 {
		return Header{}, r.err
	}
	return r.header, nil
}

// start reads the header, once.
func (r *Reader) start() {
	if r.header.Version == 0 && r.err == nil {
		r.fail(r.readHeader())
	}
}

func (r *Reader) readHeader() error {
	if err := r.frames.magic(); err != nil {
		return err
	}
	kind, payload, err := r.frames.read()
	if err != nil {
		return err
	}
	c := cutter{b: payload}
	version := c.number()
	if kind != frameHeader || version == 0 {
		return corrupt("no header")
	}
	if version > Version {
		return newer(fmt.Sprintf("format %d, known up to %d", min(version, 1<<32), Version))
	}
	h := c.header()
	if c.bad {
		return corrupt("malformed header")
	}
	r.header = h
	return nil
}

func newer(why string) error { return fmt.Errorf("%w: %s", ErrVersion, why) }

// fail makes err, unless it is nil, the error of this call and all further ones.
func (r *Reader) fail(err error) {
	if err == nil || err == io.EOF {
		r.err = err
		return
	}
	e := &Error{Frame: int(r.frames.number), Offset: r.frames.offset, Err: err}
	if r.named {
		e.Section = r.sections[r.at].name
	}
	r.err = e
}

// Next returns the next record. Its keys, values and names are valid until the next
// call, unless Limits.Keep is set. The error is io.EOF behind a whole snapshot with right
// counts, and else an *Error; all further calls return it as well. The records
// before an *Error are usable.
func (r *Reader) Next() (Record, error) {
	var rec Record
	r.start()
	for r.err == nil && rec.Kind == 0 {
		if len(r.rest.b) > 0 {
			r.cut(&r.rest, &rec)
			r.entry.Tags = r.tags.strings(r.limits.Keep)
			r.relive()
			return rec, nil
		}
		r.fail(r.frame(&rec))
	}
	if rec.Kind == KindAbort {
		r.fail(ErrAborted)
		return rec, nil
	}
	return rec, r.err
}

// frame reads a frame. It sets rec if the frame is one record, and rest if it has
// several.
func (r *Reader) frame(rec *Record) error {
	r.named = false
	if cap(r.part) > reusable {
		r.part = nil
	}
	kind, payload, err := r.frames.read()
	if err != nil {
		return err
	}
	c := cutter{b: payload}
	r.kind = kind
	switch kind {
	case frameSection:
		return r.section(&c, rec)
	case frameEntries, frameDrops:
		return r.records(&c)
	case framePart:
		return r.parts(&c)
	case frameEnd:
		return r.end(&c, rec)
	case frameTrailer:
		return r.trailer(&c)
	case frameAbort:
		return r.abort(payload, rec)
	case frameLog:
		return r.log(&c, rec)
	case frameLeft:
		return r.left(&c, rec)
	case frameLives:
		return r.lives(&c)
	case 0, frameHeader, framePosition:
		return corrupt(fmt.Sprintf("unexpected frame of kind %d", kind))
	}
	if kind < frameSkipped {
		return newer(fmt.Sprintf("frame of kind %d", kind))
	}
	return nil
}
