package resp

const (
	// widenFrom is the size of a string from which Borrow uses a larger buffer.
	// A larger buffer is moved to its beginning less often.
	widenFrom = 4 << 10
)

// Borrow is [Reader.Read] with one difference: the Reader owns the value, which
// is valid until the next call of a method. Values of less than 32 KiB and
// strings of less than 64 KiB need no allocation. Call [Reader.Release] after
// the last value of a row.
func (r *Reader) Borrow() (Value, error) {
	if err := r.Wait(); err != nil {
		return Value{}, err
	}
	p := r.buf[r.pos:r.end]
	if p[0] == '$' {
		if body, size := r.shortBulk(p); size > 0 {
			r.pos += size
			return Value{kind: Bulk, body: body}, nil
		}
		n, _, err := r.bulkHeader(Value{})
		if err != nil || n < 0 {
			return Value{}, err
		}
		body, err := r.borrowBulk(int(n))
		return Value{kind: Bulk, body: body}, err
	}
	if len(p) >= 5 && string(p[:5]) == "+OK\r\n" {
		r.pos += 5
		return Value{kind: Status, n: 1}, nil
	}
	raw, err := r.borrowWhole()
	if err != nil {
		return Value{}, err
	}
	v, _ := parse(raw)
	return v, nil
}

// BorrowString is Borrow for a string or null; other values are a
// [*ProtocolError]. found is false for null.
func (r *Reader) BorrowString() (s []byte, found bool, err error) {
	if err := r.Wait(); err != nil {
		return nil, false, err
	}
	switch p := r.buf[r.pos:r.end]; p[0] {
	case '$':
		if body, size := r.shortBulk(p); size > 0 {
			r.pos += size
			return body, true, nil
		}
	case '_', '|':
	default:
		return nil, false, broken("not a string")
	}
	v, err := r.Borrow()
	if err == nil && v.kind != Bulk && v.kind != Null {
		err = broken("not a string")
	}
	return v.body, v.kind == Bulk, err
}

// Some returns the next 1 to n bytes of a string after its header. They are
// valid until the next call of a method. Call Release after the last of them.
func (r *Reader) Some(n int64) ([]byte, error) {
	if r.pos == r.end {
		if r.narrow == nil && n >= widenFrom {
			r.widen()
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
	p := r.buf[r.pos:r.end]
	p = p[:min(int64(len(p)), n)]
	r.pos += len(p)
	return p, nil
}

// Release gives back the larger buffer of Borrow and Some.
func (r *Reader) Release() {
	if r.narrow == nil || r.end-r.pos > len(r.narrow) {
		return
	}
	wide := r.buf
	r.end = copy(r.narrow, wide[r.pos:r.end])
	r.pos, r.buf, r.narrow = 0, r.narrow, nil
	r.sink.steps.Put(wide)
}

// widen makes the Reader use a larger buffer of one step.
func (r *Reader) widen() {
	wide := r.sink.steps.Get()[:step]
	r.end = copy(wide, r.buf[r.pos:r.end])
	r.pos, r.buf, r.narrow = 0, wide, r.buf
}

// ArrayHeader reads the header of the next value if it is an array, and returns
// the number of its elements. The caller then reads them one by one; limits
// apply to each of them. If the value is null or of another kind, n is -1 and v
// holds it.
func (r *Reader) ArrayHeader() (n int, v Value, err error) {
	if err = r.begin(); err != nil {
		return -1, v, err
	}
	if r.buf[r.pos] != '*' {
		v, err = r.Read()
		return -1, v, err
	}
	h, err := r.header()
	switch {
	case err != nil || h.kind == Null:
		return -1, v, err
	case h.n > int64(r.lim.Elements):
		return -1, v, broken("too many elements")
	}
	return int(h.n), v, nil
}

// shortBulk returns the string at the start of p and its size with header and
// CRLF. size is zero if the string is not complete in p.
func (r *Reader) shortBulk(p []byte) (body []byte, size int) {
	n, head := shortLength(p)
	end := head + int(n)
	if head == 0 || int(n) > min(r.lim.Bulk, r.lim.Reply) || end+2 > len(p) || p[end] != '\r' || p[end+1] != '\n' {
		return nil, 0
	}
	return p[head:end:end], end + 2
}

// borrowBulk reads the n bytes of a string and its CRLF.
func (r *Reader) borrowBulk(n int) (body []byte, err error) {
	if n >= widenFrom && r.narrow == nil && r.end-r.pos < n+2 {
		r.widen()
	}
	if n+2 > len(r.buf) {
		body, err = r.large(nil, n)
	} else if err = r.gather(n + 2); err == nil {
		body = r.buf[r.pos : r.pos+n : r.pos+n]
		r.pos += n
	}
	if err == nil {
		err = r.EndBulk()
	}
	return body, err
}

// gather reads until the next n bytes are in the buffer, which has room for
// them.
func (r *Reader) gather(n int) error {
	if r.pos+n > len(r.buf) {
		r.shift()
	}
	for r.end-r.pos < n {
		if err := r.more(); err != nil {
			return err
		}
	}
	return nil
}

// shift moves the unused bytes to the beginning of the buffer.
func (r *Reader) shift() {
	r.end = copy(r.buf, r.buf[r.pos:r.end])
	r.pos = 0
}

// borrowWhole is whole for a borrowed value: the value stays in the buffer if
// there is room for it.
func (r *Reader) borrowWhole() ([]byte, error) {
	r.scan.reset(&r.lim)
	for seen := 0; ; {
		n, err := r.scan.feed(r.buf[r.pos+seen : r.end])
		if err != nil {
			return nil, err
		}
		seen += n
		if r.scan.done() {
			raw := r.buf[r.pos : r.pos+seen]
			r.pos += seen
			return raw, nil
		}
		if r.end-r.pos > len(r.buf)-headerMax {
			return r.rest(seen)
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
}

// begin waits for the next value and skips the attributes before it.
func (r *Reader) begin() error {
	if err := r.Wait(); err != nil || r.buf[r.pos] != '|' {
		return err
	}
	for all := int64(0); r.buf[r.pos] == '|'; {
		h, err := r.header()
		if err != nil {
			return err
		}
		r.scan.reset(&r.lim)
		r.scan.open = append(r.scan.open, frame{left: h.n})
		r.scan.elems = all + h.n + 1
		if h.n > int64(r.lim.Elements) || r.scan.elems > int64(r.lim.Elements) {
			return broken("too many elements")
		}
		if err = r.skipScanned(h.n == 0); err != nil {
			return err
		}
		all = r.scan.elems
	}
	return nil
}

// skipScanned skips the elements that are left in r.scan, unless empty, and
// waits for the first byte after them.
func (r *Reader) skipScanned(empty bool) error {
	for !empty && !r.scan.done() {
		used, err := r.scan.feed(r.buf[r.pos:r.end])
		if r.pos += used; err == nil && !r.scan.done() {
			err = r.more()
		}
		if err != nil {
			return err
		}
	}
	if r.pos == r.end {
		return r.more()
	}
	return nil
}
