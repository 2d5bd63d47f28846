package resp

import (
	"io"
	"slices"
)

// Collector is an io.Writer for the bytes of one value, for replies that
// another client reads. It returns an error as soon as the bytes violate the
// format or a limit, so that the writer stops. It holds at most twice the
// written bytes plus 64 KiB, for any announced length. It is for one value and
// not safe for concurrent use. The zero Collector has the default limits.
type Collector struct {
	// Limits bound the value. They must be set before the first write.
	Limits Limits

	raw  []byte
	seen int // number of scanned bytes of raw
	scan scanner
	open [4]frame // initial memory of scan.open
	err  error    // of the first refused write
}

var (
	_ io.Writer     = (*Collector)(nil)
	_ io.ReaderFrom = (*Collector)(nil)
)

// Len returns the number of bytes written.
func (c *Collector) Len() int { return len(c.raw) }

// Write adds the next bytes. The error is a [*ProtocolError]; later calls
// return the same.
func (c *Collector) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.raw == nil {
		c.raw = make([]byte, 0, 64) // enough for most values, or for a header
	}
	c.raw = append(c.raw, p...)
	return len(p), c.check()
}

// ReadFrom writes all bytes of src.
func (c *Collector) ReadFrom(src io.Reader) (total int64, err error) {
	for idle := 0; c.err == nil; {
		space := c.space()
		n, err := src.Read(space)
		c.raw = c.raw[:len(c.raw)+n]
		total += int64(n)
		if c.check() != nil {
			break
		}
		// A source that returns neither bytes nor an error would spin here.
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

// space returns memory for the next bytes. The rest of a string is reserved at
// once if it is at most as long as the bytes so far: so memory follows the
// bytes received, not a length that the peer announces.
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

// check scans the new bytes.
func (c *Collector) check() error {
	if c.scan.lim == nil {
		c.Limits = c.Limits.withDefaults()
		c.scan.open = c.open[:0]
		c.scan.reset(&c.Limits)
	}
	n, err := c.scan.Feed(c.raw[c.seen:])
	c.seen += n
	if err == nil && c.scan.Done() && c.seen < len(c.raw) {
		err = broken("more than one value")
	}
	c.err = err
	return err
}

// Value returns the value, which shares the memory of the Collector. The error
// is io.ErrUnexpectedEOF if the value is not complete, or the error of a
// refused write.
func (c *Collector) Value() (Value, error) {
	switch {
	case c.err != nil:
		return Value{}, c.err
	case c.scan.lim == nil || !c.scan.Done():
		return Value{}, io.ErrUnexpectedEOF
	}
	v, _ := parse(c.raw)
	return v, nil
}
