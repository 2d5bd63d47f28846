package resp

// Calls are the calls of scripts in a [Batch]. Scripts are named by their
// digests; calls that the server did not know are repeated with the text.
type Calls struct {
	made  []made // and not yet heard of
	again []made // to be repeated
	late  []made // repeated
	at    int    // the reply that comes next
}

// made is a call: its command, where that is in the text of its batch, and the
// number of its arguments with EVALSHA itself.
type made struct {
	i, from, to  int
	text, digest string
	argc         int
}

// Add adds the call of a script to b. On error nothing is added.
func (c *Calls) Add(b *Batch, text, digest string, keys []string, args []any) error {
	from := len(b.Text)
	out, err := AppendEval(b.Text, "EVALSHA", digest, keys, args)
	if err != nil {
		return err
	}
	b.Text = out
	c.made = append(c.made, made{i: b.Len(), from: from, to: len(out), text: text, digest: digest, argc: 3 + len(keys) + len(args)})
	b.End()
	return nil
}

// Hear takes the next reply and returns which command it is for. unknown says
// that it is the error for an unknown script; if that was one of the calls,
// again is set: it is to be repeated.
func (c *Calls) Hear(unknown bool) (i int, again bool) {
	i = c.at
	c.at++
	switch {
	case c.late != nil:
		return c.late[i].i, false
	case len(c.made) == 0 || c.made[0].i != i:
		return i, false
	}
	m := c.made[0]
	if c.made = c.made[1:]; unknown {
		c.again = append(c.again, m)
		return i, true
	}
	return i, false
}

// Heard is the number of replies taken.
func (c *Calls) Heard() int { return c.at }

// Unknown reports whether calls are to be repeated.
func (c *Calls) Unknown() bool { return len(c.again) > 0 }

// Repeat returns the calls of b that are to be repeated with their texts, or
// unless all is set only the first of each script, which makes it known to the
// others. Hear takes the replies to them from then on.
func (c *Calls) Repeat(b *Batch, all bool) Batch {
	var r Batch
	sent := map[string]bool{}
	for _, m := range c.again {
		if sent[m.digest] && !all {
			r.Text = AppendEvalHead(r.Text, "EVALSHA", m.digest, m.argc)
		} else {
			sent[m.digest] = true
			r.Text = AppendEvalHead(r.Text, "EVAL", m.text, m.argc)
		}
		call := b.Text[m.from:m.to]
		h, _ := parseHeader(call)
		r.Text = append(r.Text, skip(call[h.size:], 2)...) // behind the digest
		r.End()
	}
	*c = Calls{late: c.again}
	return r
}

// Late returns the commands that were repeated and not yet heard of.
func (c *Calls) Late() []int {
	var all []int
	for _, m := range c.late[min(c.at, len(c.late)):] {
		all = append(all, m.i)
	}
	return all
}
