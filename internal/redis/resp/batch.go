package resp

const (
	// referFrom is the size from which a Batch refers to a string instead of
	// copying it.
	referFrom = 4 << 10
	// piece is the number of bytes of a Batch in one write. The server begins
	// to work on the first piece while the next is built.
	piece = 32 << 10
)

// Batch collects commands to send together. The zero Batch is empty.
type Batch struct {
	// Text holds the commands, without the large strings that [Batch.String]
	// has added by reference.
	Text  []byte
	large []insert
	// extra is the length of the strings in large.
	extra int64
	ends  []end
}

// end is the end of a command: its position in the bytes to send, in the text,
// and in the list of large strings.
type end struct {
	sent        int64
	text, large int
}

// insert is a string to be sent before Text[at].
type insert struct {
	at   int
	body []byte
}

// String adds a string to the present command. A string of 4 KiB or more is not
// copied, and must not be changed until the Batch has been sent.
func (b *Batch) String(s []byte) {
	if len(s) < referFrom {
		b.Text = AppendBulk(b.Text, s)
		return
	}
	b.Text = AppendBulkHeader(b.Text, int64(len(s)))
	b.large = append(b.large, insert{at: len(b.Text), body: s})
	b.extra += int64(len(s))
	b.Text = append(b.Text, '\r', '\n')
}

// BatchOf returns a Batch of the n commands in text.
func BatchOf(text []byte, n int) Batch {
	b := Batch{Text: text, ends: make([]end, 0, n)}
	for rest := text; len(rest) > 0; {
		rest = skip(rest, 1)
		at := len(text) - len(rest)
		b.ends = append(b.ends, end{sent: int64(at), text: at})
	}
	return b
}

// End completes the present command.
func (b *Batch) End() {
	b.ends = append(b.ends, end{sent: b.Size(), text: len(b.Text), large: len(b.large)})
}

// AddFrom adds the i-th command of src.
func (b *Batch) AddFrom(src *Batch, i int) {
	var from end
	if i > 0 {
		from = src.ends[i-1]
	}
	to := src.ends[i]
	// Positions in src become positions in b.
	for _, s := range src.large[from.large:to.large] {
		b.large = append(b.large, insert{at: len(b.Text) + s.at - from.text, body: s.body})
		b.extra += int64(len(s.body))
	}
	b.Text = append(b.Text, src.Text[from.text:to.text]...)
	b.End()
}

// Len returns the number of commands.
func (b *Batch) Len() int { return len(b.ends) }

// Size returns the length of all commands in bytes.
func (b *Batch) Size() int64 { return int64(len(b.Text)) + b.extra }

// EndOf returns the end of the i-th command, in bytes from the beginning.
func (b *Batch) EndOf(i int) int64 { return b.ends[i].sent }

// Reset empties the Batch. It keeps the memory of the Batch and drops its
// references to large strings.
func (b *Batch) Reset() {
	clear(b.large)
	*b = Batch{Text: b.Text[:0], large: b.large[:0], ends: b.ends[:0]}
}

// Pieces iterates over the bytes of a Batch.
type Pieces struct {
	b     *Batch
	buf   []byte // joins small parts
	steps *Steps
	// pos is the position in b.Text. done is the number of strings of b.large
	// already returned, and off the number of returned bytes of the next one.
	pos, done, off int
}

// Pieces returns the bytes to write. It borrows memory from s.
func (b *Batch) Pieces(s *Steps) Pieces { return Pieces{b: b, steps: s} }

// Next returns the next bytes, at most 32 KiB, or none at the end. They are
// valid until the next call.
func (p *Pieces) Next() []byte {
	if len(p.b.large) == 0 {
		return p.take(p.run())
	}
	if p.buf == nil {
		p.buf = p.steps.Get()
	}
	p.buf = p.buf[:0]
	// Small parts are joined to pieces of the full size, so that a batch with many values is sent
	// with few writes. A long contiguous run is returned without a copy.
	for {
		run := p.run()
		if len(run) == 0 || len(p.buf) == 0 && len(run) >= piece {
			if len(p.buf) > 0 {
				return p.buf
			}
			return p.take(run)
		}
		part := p.take(run[:min(len(run), piece-len(p.buf))])
		if p.buf = append(p.buf, part...); len(p.buf) == piece {
			return p.buf
		}
	}
}

// run returns the next bytes, as far as they are contiguous in memory.
func (p *Pieces) run() []byte {
	end := len(p.b.Text)
	if p.done < len(p.b.large) {
		next := &p.b.large[p.done]
		if end = next.at; p.pos == end {
			return next.body[p.off:]
		}
	}
	return p.b.Text[p.pos:end]
}

// take consumes and returns at most one piece of the run.
func (p *Pieces) take(run []byte) []byte {
	run = run[:min(len(run), piece)]
	if p.done < len(p.b.large) && p.pos == p.b.large[p.done].at {
		if p.off += len(run); p.off == len(p.b.large[p.done].body) {
			p.done, p.off = p.done+1, 0
		}
		return run
	}
	p.pos += len(run)
	return run
}

// Release gives back the borrowed memory.
func (p *Pieces) Release() {
	if p.buf != nil {
		p.steps.Put(p.buf)
		p.buf = nil
	}
}
