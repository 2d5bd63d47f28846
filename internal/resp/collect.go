package resp

import (
	"io"
	"slices"
)

// Collector is an io.Writer that takes the bytes of one value, for those who
// read replies by way of another client. It refuses a write as soon as the
// bytes so far break the format or a limit, so that whoever writes to it stops
// there. It holds at most twice the bytes that were written and 64 KiB,
// whatever they announce. It is for one value and not safe for concurrent use.
// The zero Collector has the default limits.
type Collector struct {
	// Limits bound the value. They are set before the first write.
	Limits Limits

	raw  []byte
	seen int // how many bytes of raw the scanner has taken
	scan scanner
	open [4]frame // what scan.open begins with
	err  error    // of the first write that was refused
}

var (
	_ io.Writer     = (*Collector)(nil)
	_ io.ReaderFrom = (*Collector)(nil)
)

// Len is the number of bytes that were taken.
func (c *Collector) Len() int { return len(c.raw) }

// Write takes the next bytes. The error is a [*ProtocolError], and stays.
func (c *Collector) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.raw == nil {
		c.raw = make([]byte, 0, 64) // enough for most, or a header and what is to follow
	}
	c.raw = append(c.raw, p...)
	return len(p), c.check()
}

// ReadFrom is Write for all that src has.
func (c *Collector) ReadFrom(src io.Reader) (total int64, err error) {
	for idle := 0; c.err == nil; {
		space := c.space()
		n, err := src.Read(space)
		c.raw = c.raw[:len(c.raw)+n]
		total += int64(n)
		if c.check() != nil {
			break
		}
		if idle++; n > 0 {
			idle = 0
		}
		switch {
		case err == io.EOF:
			return total, nil
		case err != nil:
			return total, err
		case idle == idleReads:
			return total, io.ErrNoProgress
		}
	}
	return total, c.err
}

// space returns where the next bytes go. What is missing of a string is reserved
// at once if it is no more than there is already.
func (c *Collector) space() []byte {
	if len(c.raw) == cap(c.raw) {
		const least = 64
		want := int64(least)
		if c.scan.mode == inBulk {
			want = min(c.scan.rest+least, max(step, int64(len(c.raw))))
		}
		c.raw = slices.Grow(c.raw, int(want))
	}
	return c.raw[len(c.raw):cap(c.raw)]
}

// check scans what the scanner has not seen.
func (c *Collector) check() error {
	if c.scan.lim == nil {
		c.Limits = c.Limits.withDefaults()
		c.scan.open = c.open[:0]
		c.scan.reset(&c.Limits)
	}
	n, err := c.scan.feed(c.raw[c.seen:])
	c.seen += n
	if err == nil && c.scan.done() && c.seen < len(c.raw) {
		err = broken("more than one value")
	}
	c.err = err
	return err
}

// Value returns the value, which keeps the memory of the Collector. If it is
// not complete the error is io.ErrUnexpectedEOF; if a write was refused, the
// error of that.
func (c *Collector) Value() (Value, error) {
	switch {
	case c.err != nil:
		return Value{}, c.err
	case c.scan.lim == nil || !c.scan.done():
		return Value{}, io.ErrUnexpectedEOF
	}
	v, _ := parse(c.raw)
	return v, nil
}
