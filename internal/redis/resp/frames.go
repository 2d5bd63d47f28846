package resp

// The methods for a connection that many callers share: they take whole replies
// from the received bytes, and never wait in the middle of a reply.

// Fill reads from the source once. It may be called only after Next has
// returned nil. After an error of the source, such as a passed deadline, Fill
// can be called again. The memory grows with the received bytes that Next has
// not returned.
func (r *Reader) Fill() error { return r.Buffer.Fill(&r.scan) }

// Next takes the next reply from the received bytes, and returns nil if it is
// not complete. The returned bytes are well formed, for [Parse], and valid
// until the next call of Fill. After Next has returned nil, only Fill, Buffered
// and Received may be called until Next returns a reply.
func (r *Reader) Next() (raw []byte, err error) {
	if r.Pos == r.End && !r.scanning {
		return nil, nil
	}
	if !r.scanning {
		if p := r.Unread(); p[0] == '$' { // the usual case: a complete string
			if _, size := r.shortBulk(p); size > 0 {
				r.Take(size)
				return p[:size:size], nil
			}
		}
		r.scan.reset(&r.lim)
		r.scanning, r.push = true, r.Unread()[0] == '>'
	}
	raw, err = r.Buffer.Next(&r.scan)
	r.scanning = raw == nil && err == nil
	return raw, err
}

// Pushing reports whether the received bytes that Next has not returned begin a push. It is
// called after Next has returned nil.
func (r *Reader) Pushing() bool { return r.scanning && r.push }

// Parse returns the value of a reply that [Reader.Next] has returned. It shares
// the bytes of raw.
func Parse(raw []byte) Value {
	h, _ := parseHeader(raw)
	if h.kind == Array {
		// The elements end with raw, so their end need not be searched.
		return Value{kind: Array, n: h.n, body: raw[h.size:]}
	}
	v, _ := parse(raw)
	return v
}

// IsPush reports whether a reply that [Reader.Next] has returned is a push.
func IsPush(raw []byte) bool {
	return raw[0] == '>' || raw[0] == '|' && Parse(raw).kind == Push
}
