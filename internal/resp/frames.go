package resp

// What one reader does on behalf of many callers: it takes whole replies out
// of what has arrived, and never waits in the middle of one.

// collectFrom is how much of one reply has come when Next begins to collect it in
// steps: to have it in one piece, the buffer would have to grow ahead of it.
const collectFrom = bufSize / 2

// Fill reads from the source, once, beside what is there already, behind a call
// of Next that has returned nil. Errors of the source, such as a passed deadline,
// change nothing; Fill can be called again. The memory grows with what has
// arrived and has not been taken.
func (r *Reader) Fill() error {
	if r.collected > 0 && r.pos == r.end && r.scan.mode == inBulk && r.scan.rest >= direct {
		have := r.scan.rest
		err := r.advance()
		r.collected += int(have - r.scan.rest)
		return err
	}
	return r.fill()
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
	done := r.scan.done()
	switch {
	case err != nil:
		r.sink.drop()
		r.collected = 0
		return nil, err
	case r.collected > 0 || !done && r.scanned >= collectFrom:
		r.sink.write(r.buf[r.pos : r.pos+r.scanned])
		r.collected += r.scanned
		r.pos, r.scanned = r.pos+r.scanned, 0
		if done {
			raw = r.sink.take(nil)
			r.collected, r.scanning = 0, false
		}
		return raw, nil
	case !done:
		return nil, nil
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
