package resp

// Borrow is [Reader.Read] with one difference: the Reader owns the value, which
// is valid until the next call of a method. Values of less than 32 KiB and
// strings of less than 64 KiB need no allocation. Call [Reader.Release] after
// the last value of a row.
func (r *Reader) Borrow() (Value, error) {
	if err := r.Wait(); err != nil {
		return Value{}, err
	}
	p := r.Buf[r.Pos:r.End]
	// Most replies of a cache are strings, and most of them are complete in the buffer: they cost
	// neither a copy nor a scan.
	if p[0] == '$' {
		if body, size := r.shortBulk(p); size > 0 {
			r.Pos += size
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
		r.Pos += 5
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
	// A value that cannot be a string is refused by its type byte, before the rest of it is read.
	switch p := r.Buf[r.Pos:r.End]; p[0] {
	case '$':
		if body, size := r.shortBulk(p); size > 0 {
			r.Pos += size
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

// ArrayHeader reads the header of the next value if it is an array, and returns
// the number of its elements. The caller then reads them one by one; limits
// apply to each of them. If the value is null or of another kind, n is -1 and v
// holds it.
func (r *Reader) ArrayHeader() (n int, v Value, err error) {
	if err = r.begin(); err != nil {
		return -1, v, err
	}
	if r.Buf[r.Pos] != '*' {
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
	if body, err = r.Buffer.Borrow(n); err == nil {
		err = r.EndBulk()
	}
	return body, err
}

// borrowWhole is whole for a borrowed value: the value stays in the buffer if
// there is room for it.
func (r *Reader) borrowWhole() ([]byte, error) {
	r.scan.reset(&r.lim)
	for seen := 0; ; {
		n, err := r.scan.Feed(r.Buf[r.Pos+seen : r.End])
		if err != nil {
			return nil, err
		}
		seen += n
		if r.scan.Done() {
			raw := r.Buf[r.Pos : r.Pos+seen]
			r.Pos += seen
			return raw, nil
		}
		// The value does not fit into the buffer: its bytes move to memory of their own.
		if r.End-r.Pos > len(r.Buf)-headerMax {
			return r.Rest(&r.scan, seen)
		}
		if err := r.More(); err != nil {
			return nil, err
		}
	}
}

// begin waits for the next value and skips the attributes before it.
func (r *Reader) begin() error {
	if err := r.Wait(); err != nil || r.Buf[r.Pos] != '|' {
		return err
	}
	// The elements of all attributes before one value are counted together: otherwise a row of
	// attributes without end would keep the reader at work for ever.
	for all := int64(0); r.Buf[r.Pos] == '|'; {
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

// skipScanned skips the remaining elements in r.scan, unless empty, and waits
// for the first byte after them.
func (r *Reader) skipScanned(empty bool) error {
	for !empty && !r.scan.Done() {
		used, err := r.scan.Feed(r.Buf[r.Pos:r.End])
		if r.Pos += used; err == nil && !r.scan.Done() {
			err = r.More()
		}
		if err != nil {
			return err
		}
	}
	if r.Pos == r.End {
		return r.More()
	}
	return nil
}
