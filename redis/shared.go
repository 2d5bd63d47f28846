package redis

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/mux"
)

// The shared connection of a node carries commands of which text and reply are
// expected to be small. A command is taken from a pool by newCommand, filled in
// by its user, sent by share, and free again, unless the connection may still
// look at it. Invariant: a command has one user at a time; while share runs, the
// reader of the connection writes to raw or to the answer, and afterwards only
// the caller does.

const (
	// small is the size, in bytes, up to which commands are thought to be quick,
	// so that others can wait behind them: a command costs several times as much
	// on a connection of its own.
	small = 16 << 10
	// lent is the size, in bytes, up to which the reader copies a reply and
	// leaves it to the command's caller to reserve memory for the answer.
	lent = 16 << 10
	// streamFrom is the size, in bytes, from which a value is read over a connection of its
	// own if the caller only copies it to a writer. lentWhole is lent for such a caller.
	streamFrom = 30 << 10
	lentWhole  = streamFrom + 64
)

// command is a command for the shared connection.
type command struct {
	mux.Ticket
	// key is the name by which the size of the reply is remembered.
	key string
	// text is the command as it is sent, raw a reply before it is taken apart.
	text, raw []byte
	// get says that a string is appended to dst.
	get bool
	// lend is the size of a reply up to which the answer may share the memory of raw.
	lend int
	node *node
	answer
}

// answer is the outcome of a command.
type answer struct {
	// found says that the reply was a string, which was appended to dst. Any
	// other reply is in value.
	found bool
	dst   []byte
	value resp.Value
	size  int
	// loan is the command that lends its memory to value; nil: value has its
	// own.
	loan *command
}

// free ends the loan of an answer, if it is one.
func (a *answer) free() {
	if a.loan != nil {
		a.loan.Free()
	}
}

// Free ends the loan of an answer: its value must not be used any more.
func (c *command) Free() { c.node.free(c) }

// newCommand returns a command without text, or nil if it has to go over a
// connection of its own: its reply is expected to be large.
func (n *node) newCommand(key string) *command {
	if n.o.MaxConns < 2 || n.sizes.Large(key) {
		return nil
	}
	c, _ := n.commands.Get().(*command)
	if c == nil {
		c = &command{node: n}
	}
	c.key = key
	return c
}

// free lets c be used again.
func (n *node) free(c *command) {
	c.key, c.get, c.lend, c.Until, c.answer = "", false, 0, time.Time{}, answer{}
	if c.text, c.raw = c.text[:0], c.raw[:0]; cap(c.text) > 2*small {
		c.text = nil
	}
	if cap(c.raw) > 2*lentWhole {
		c.raw = nil
	}
	n.commands.Put(c)
}

// share sends c over the shared connection; name is the name of its command. If
// the connection dies before the reply, and the command either was not sent or
// only reads, share sends it once more. c belongs to share.
func (n *node) share(ctx context.Context, name string, c *command, now time.Time) (answer, error) {
	if len(c.text) > small {
		n.free(c)
		return answer{}, mux.ErrElsewhere
	}
	kept, err := n.lines.Do(ctx, now, resp.ReadsOnly(name), &c.Ticket, c.text, c)
	switch {
	case err == nil:
		return n.accept(c, kept), nil
	case !kept:
		if c.Begun() && errors.Is(err, ErrProtocol) { // it may be over the limit, and fails all calls behind it
			n.sizes.Note(c.key, math.MaxInt32)
		}
		n.free(c)
	}
	return answer{}, err
}

// accept returns the answer of c, learns from it, and frees c unless it is kept or
// lent.
func (n *node) accept(c *command, kept bool) answer {
	lends := c.lend > 0 && len(c.raw) > 0
	switch {
	case lends:
		c.value = resp.Parse(c.raw)
	case len(c.raw) > 0:
		c.take(c.raw)
	}
	a := c.answer
	n.sizes.Note(c.key, a.size)
	switch {
	case kept: // its memory is never used again
	case lends:
		a.loan = c
	default:
		n.free(c)
	}
	if unfit(a.value) {
		n.renew()
	}
	return a
}

// Answer implements mux.Answerer. The reader of the connection only copies a
// reply that needs new memory: to take it apart and to reserve that memory is
// left to the command's caller.
func (c *command) Answer(reply []byte) bool {
	c.size = len(reply)
	if c.get && cap(c.dst)-len(c.dst) >= len(reply) || len(reply) > max(lent, c.lend) {
		c.take(reply)
		return true
	}
	c.raw = append(c.raw[:0], reply...)
	return true
}

// take makes the answer of a reply.
func (c *command) take(reply []byte) {
	v := resp.Parse(reply)
	if !c.get || v.Kind() != resp.Bulk {
		c.value = v.Clone()
		return
	}
	c.found = true
	if c.dst = append(c.dst, v.Bytes()...); c.dst == nil {
		c.dst = []byte{} // there is a string, if an empty one
	}
}
