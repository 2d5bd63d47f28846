package resp

// What one reader does on behalf of many callers: it takes whole replies out
// of what has arrived, and never waits in the middle of one.

// Fill reads from the source, once, beside what is there already. Errors of
// the source, such as a passed deadline, change nothing; Fill can be called
// again. The memory grows with what has arrived and has not been taken.
func (r *Reader) Fill() error {
	switch {
	case r.pos == r.end:
		r.pos, r.end = 0, 0
		if len(r.buf) > bufSize {
			r.buf = make([]byte, bufSize)
		}
	case len(r.buf)-r.end < headerMax:
		buf := r.buf
		if r.pos < len(buf)/2 {
			buf = make([]byte, 2*len(buf))
		}
		r.end = copy(buf, r.buf[r.pos:r.end])
		r.buf, r.pos = buf, 0
	}
	n, err := r.read(r.buf[r.end:])
	r.end += n
	return err
}

// Next takes the next reply out of what has arrived, and returns nil if it is
// not complete. Its bytes are sound, for [Parse], and valid until the next
// call of Fill. Between Next returning nil and a reply no other method but
// Fill, Buffered and Received may be called.
func (r *Reader) Next() (raw []byte, err error) {
	if r.pos == r.end {
		return nil, nil
	}
	if !r.scanning {
		if p := r.buf[r.pos:r.end]; p[0] == '$' { // most are strings that are there
			if _, size := r.shortBulk(p); size > 0 {
				r.pos += size
				return p[:size:size], nil
			}
		}
		r.scan.reset(&r.lim)
		r.scanning, r.scanned = true, 0
	}
	n, err := r.scan.feed(r.buf[r.pos+r.scanned : r.end])
	r.scanned += n
	if err != nil || !r.scan.done() {
		return nil, err
	}
	raw = r.buf[r.pos : r.pos+r.scanned : r.pos+r.scanned]
	r.pos += r.scanned
	r.scanning = false
	return raw, nil
}

// Parse returns the reply that [Reader.Next] has found. It shares its bytes.
func Parse(raw []byte) Value {
	h, _ := parseHeader(raw)
	if h.kind == Array {
		// The whole reply is its elements: there is no end to look for.
		return Value{kind: Array, n: h.n, body: raw[h.size:]}
	}
	v, _ := parse(raw)
	return v
}

// IsPush reports whether the reply that [Reader.Next] has found is a push.
func IsPush(raw []byte) bool {
	return raw[0] == '>' || raw[0] == '|' && Parse(raw).kind == Push
}
