package resp

// The methods for a connection that many callers share: they take whole replies
// from the received bytes, and never wait in the middle of a reply.

// collectFrom is the number of received bytes of one reply from which Next
// collects the reply in steps, instead of growing the buffer.
const collectFrom = bufSize / 2

// Fill reads from the source once. It may be called only after a call of Next
// that has returned nil. After an error of the source, such as a passed
// deadline, Fill can be called again. The memory grows with the bytes that were
// received and not yet returned.
func (r *Reader) Fill() error {
	if r.collected > 0 && r.pos == r.end && r.scan.mode == inBulk && r.scan.rest >= direct {
		have := r.scan.rest
		err := r.advance()
		r.collected += int(have - r.scan.rest)
		return err
	}
	return r.fill()
}

// Next takes the next reply from the received bytes, and returns nil if it is
// not complete. The returned bytes are well formed, for [Parse], and valid
// until the next call of Fill. After Next has returned nil, only Fill, Buffered
// and Received may be called until Next returns a reply.
func (r *Reader) Next() (raw []byte, err error) {
	if r.pos == r.end {
		return nil, nil
	}
	if !r.scanning {
		if p := r.buf[r.pos:r.end]; p[0] == '$' { // the usual case: a complete string
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

// Parse returns the value of a reply that [Reader.Next] has returned. It shares
// the bytes of raw.
func Parse(raw []byte) Value {
	h, _ := parseHeader(raw)
	if h.kind == Array {
		// The elements end with raw, so there is no need to search for the end.
		return Value{kind: Array, n: h.n, body: raw[h.size:]}
	}
	v, _ := parse(raw)
	return v
}

// IsPush reports whether a reply that [Reader.Next] has returned is a push.
func IsPush(raw []byte) bool {
	return raw[0] == '>' || raw[0] == '|' && Parse(raw).kind == Push
}
