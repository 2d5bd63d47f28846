package resp

import "slices"

// Calls are the script calls in a [Batch]. A call names its script by the
// digest. If the server does not know a script, the call is repeated with the
// text.
type Calls struct {
	sent     []call // by EVALSHA, without a reply yet
	unknown  []call // scripts unknown to the server; to be repeated
	repeated []call
	at       int // number of the next reply
}

// call is a script call: the number of its command, its position in the text of
// the batch, and the number of its arguments including EVALSHA itself.
type call struct {
	i, from, to  int
	text, digest string
	argc         int
}

// Add adds a script call to b. On error it adds nothing.
func (c *Calls) Add(b *Batch, text, digest string, keys []string, args []any) error {
	from := len(b.Text)
	out, err := AppendEval(b.Text, "EVALSHA", digest, keys, args)
	if err != nil {
		return err
	}
	b.Text = out
	c.sent = append(c.sent, call{i: b.Len(), from: from, to: len(out), text: text, digest: digest, argc: 3 + len(keys) + len(args)})
	b.End()
	return nil
}

// Hear processes the next reply and returns the number of its command. unknown
// is true if the reply is the error for an unknown script. If the command is
// one of the calls, again is then true: the call will be repeated.
func (c *Calls) Hear(unknown bool) (i int, again bool) {
	i = c.at
	c.at++
	switch {
	// A second error for an unknown script is final: repeating it again could go on for ever.
	case c.repeated != nil:
		return c.repeated[i].i, false
	case len(c.sent) == 0 || c.sent[0].i != i:
		return i, false
	}
	m := c.sent[0]
	if c.sent = c.sent[1:]; unknown {
		c.unknown = append(c.unknown, m)
		return i, true
	}
	return i, false
}

// Heard returns the number of replies processed.
func (c *Calls) Heard() int { return c.at }

// Unknown reports whether there are calls to repeat.
func (c *Calls) Unknown() bool { return len(c.unknown) > 0 }

// Repeat returns a batch that repeats the unknown calls of b with the texts of
// their scripts. Only the first call of each script has the text, which makes
// the script known for the others. From then on, Hear processes the replies to
// that batch.
func (c *Calls) Repeat(b *Batch) Batch {
	var r Batch
	sent := map[string]bool{}
	for _, m := range c.unknown {
		r.repeat(b, m, !sent[m.digest])
		sent[m.digest] = true
	}
	*c = Calls{repeated: c.unknown}
	return r
}

// WithText returns the i-th command of b, a call of which no reply was heard,
// with the text of its script. Several goroutines may call it.
func (c *Calls) WithText(b *Batch, i int) *Batch {
	at, _ := slices.BinarySearchFunc(c.sent, i, func(m call, i int) int { return m.i - i })
	var r Batch
	r.repeat(b, c.sent[at], true)
	return &r
}

// repeat adds a call of old.
func (b *Batch) repeat(old *Batch, m call, withText bool) {
	if withText {
		b.Text = AppendEvalHead(b.Text, "EVAL", m.text, m.argc)
	} else {
		b.Text = AppendEvalHead(b.Text, "EVALSHA", m.digest, m.argc)
	}
	// The arguments are copied from the first batch: only the name of the command and the
	// script differ.
	text := old.Text[m.from:m.to]
	h, _ := parseHeader(text)
	b.Text = append(b.Text, skip(text[h.size:], 2)...) // the part after the digest
	b.End()
}

// Late returns the numbers of the repeated commands without a reply.
func (c *Calls) Late() []int {
	var all []int
	for _, m := range c.repeated[min(c.at, len(c.repeated)):] {
		all = append(all, m.i)
	}
	return all
}
