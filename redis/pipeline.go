package redis

import (
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/remote"
)

// Pipeline collects commands and sends them together: they take one round trip
// instead of one each. Get it from [Client.Pipeline], or from [Client.Multi]
// for a transaction. It is not safe for concurrent use. After Do or Each it is
// empty and can be used again; it keeps its memory for that.
//
// Many commands are sent in pieces, with replies read in between, so that
// neither side waits for the other to read.
//
// In a cluster each command goes to the node that serves its first key, all
// nodes at once. Commands about one key are carried out in order, unless its
// slot moves to and fro meanwhile; commands about keys in several slots are not split, but
// refused by the server.
type Pipeline struct {
	c     *Client
	b     resp.Batch
	calls resp.Calls
	cmds  []commandInfo // in a cluster, one for each command
	reads bool          // all commands only read
	multi bool          // they are a transaction
	watch bool          // which Watch sends
	err   error
}

// Pipeline returns an empty pipeline.
func (c *Client) Pipeline() *Pipeline { return &Pipeline{c: c, reads: true} }

// Len is the number of commands queued.
func (p *Pipeline) Len() int {
	if p.multi {
		return p.b.Len() - 1
	}
	return p.b.Len()
}

// Add queues a command. Arguments are copied; they and the commands allowed
// are as for [Client.Do]. An error about them is the error of Do.
func (p *Pipeline) Add(args ...any) {
	name, err := p.c.o.checkCommand(args)
	if err == nil {
		var out []byte
		if out, err = resp.AppendCommand(p.b.Text, args...); err == nil {
			slot := -1
			if p.c.cluster != nil {
				slot = slotOf(name, args)
			}
			p.b.Text = out
			p.end(resp.ReadsOnly(name), slot)
		}
	}
	p.fail(err)
}

// Get queues a GET.
func (p *Pipeline) Get(key string) {
	p.b.Text = resp.AppendGet(p.b.Text, key)
	p.end(true, p.slot(key))
}

// Set queues a SET with a life of ttl (zero: for ever; rounded up to whole
// milliseconds). A value of 4 KiB or more is not copied: it must stay as it is
// until Do or Each has returned. A value larger than Options.MaxValue makes
// them return [ErrTooLarge].
func (p *Pipeline) Set(key string, value []byte, ttl time.Duration) {
	if err := p.c.o.checkSet(int64(len(value)), ttl); err != nil {
		p.fail(err)
		return
	}
	p.b.Text = resp.AppendSetHead(p.b.Text, key, ttl)
	p.b.String(value)
	p.b.Text = resp.AppendLife(p.b.Text, ttl)
	p.end(false, p.slot(key))
}

// slot returns the slot of key in a cluster.
func (p *Pipeline) slot(key string) int {
	if p.c.cluster == nil {
		return -1
	}
	return slots.Of(key)
}

// end completes a command.
func (p *Pipeline) end(reads bool, slot int) {
	p.b.End()
	p.note(reads, slot)
}

// note notes the properties of a command.
func (p *Pipeline) note(reads bool, slot int) {
	p.reads = p.reads && reads
	if p.c.cluster != nil {
		p.cmds = append(p.cmds, commandInfo{slot: slot, reads: reads})
	}
}

// fail notes an error about an argument.
func (p *Pipeline) fail(err error) {
	if err != nil {
		p.err = errors.Join(p.err, argError(err))
	}
}

// Do sends the queued commands and returns one reply for each command, in order.
// The error is about the connection, or about an argument, in which case
// nothing was sent; errors of the server are in the replies. If the connection
// fails in the middle, the replies that came are returned with it and the
// others hold the error.
func (p *Pipeline) Do(ctx context.Context) ([]Reply, error) {
	defer p.reset()
	err := p.ready()
	switch {
	case err != nil || p.Len() == 0:
		return nil, err
	case p.multi:
		return p.transact(ctx)
	case p.c.cluster != nil:
		return p.scatter(ctx)
	}
	replies := make([]Reply, p.Len())
	onReply := func(cn *conn) error {
		v, err := cn.read()
		if err == nil {
			i, _ := p.calls.Hear(unknown(v))
			replies[i] = newReply(v)
		}
		return err
	}
	// The replies that came before the connection broke are good, and the rest share the error.
	start := time.Now()
	err = p.send(ctx, onReply)
	for i := p.calls.Heard(); i < len(replies) && err != nil; i++ {
		replies[i] = Reply{err: err}
	}
	if err == nil {
		// Calls of scripts that the server did not know were not executed. They are repeated with
		// the text, after all other commands: their order to each other stays. A failure there must
		// not say that nothing was sent, since the others were executed.
		err = p.repeat(ctx, start, onReply)
		for _, i := range p.calls.Late() {
			replies[i] = Reply{err: err}
		}
		err = asSent(err)
	}
	return replies, err
}

// Each sends the queued commands and calls f with the reply to each command, i
// being its position. A reply holds during the call only; so nothing is
// allocated for strings of less than 64 KiB when a pipeline is used again. The
// replies come in order, except that calls of scripts unknown to the server may
// come last.
//
// When f returns an error it is not called again. Each reads the other replies
// and returns this error. Other errors are as for Do. The time that f takes
// counts as time of the call. In a cluster, and for a transaction, all replies
// are read before f is called, into memory of their own. In a cluster f also gets
// the errors of the commands of a node that fails, each as a reply.
func (p *Pipeline) Each(ctx context.Context, f func(i int, r Reply) error) error {
	if p.multi || p.c.cluster != nil {
		return p.eachOf(ctx, f)
	}
	defer p.reset()
	if err := p.ready(); err != nil || p.Len() == 0 {
		return err
	}
	var own error
	onReply := func(cn *conn) error {
		v, err := cn.borrow()
		if err != nil {
			return err
		}
		// After an error of f the replies are still read, or the connection could not be used
		// again.
		if i, again := p.calls.Hear(unknown(v)); !again && own == nil {
			own = f(i, newReply(v))
		}
		return nil
	}
	start := time.Now()
	err := p.send(ctx, onReply)
	if err == nil {
		err = asSent(p.repeat(ctx, start, onReply))
	}
	if own != nil {
		return own
	}
	return err
}

// eachOf is Each by means of Do.
func (p *Pipeline) eachOf(ctx context.Context, f func(i int, r Reply) error) error {
	replies, err := p.Do(ctx)
	// The failure of one node says nothing about the replies of the others. A transaction that
	// fails has executed nothing.
	if err != nil && p.multi {
		return err
	}
	for i, r := range replies {
		if own := f(i, r); own != nil {
			return own
		}
	}
	return err
}

func (p *Pipeline) ready() error {
	if p.watch {
		return errors.New("redis: the pipeline of a Tx is sent by Watch")
	}
	return p.err
}

func (p *Pipeline) reset() {
	p.b.Reset()
	p.calls, p.cmds, p.reads, p.err = resp.Calls{}, p.cmds[:0], true, nil
	if p.multi {
		p.begin()
	}
}

// send sends all commands and calls onReply for the reply to each.
func (p *Pipeline) send(ctx context.Context, onReply func(*conn) error) error {
	// The name stands for all commands: a pipeline that only reads may be sent twice.
	name := "EVAL"
	if p.reads {
		name = "GET"
	}
	return p.c.home.round(ctx, name, &p.b, onReply)
}

// repeat sends the calls of scripts that the server did not know once more, in the rest of the
// time of a call that began at start.
func (p *Pipeline) repeat(ctx context.Context, start time.Time, onReply func(*conn) error) error {
	if !p.calls.Unknown() {
		return nil
	}
	ctx, cancel := within(ctx, start, p.c.o.Timeout)
	defer cancel()
	b := p.calls.Repeat(&p.b)
	return p.c.home.round(ctx, "EVAL", &b, onReply)
}

// scatter is Do in a cluster.
func (p *Pipeline) scatter(ctx context.Context) ([]Reply, error) {
	replies := make([]Reply, p.Len())
	err := p.c.cluster.scatter(ctx, &p.b, p.cmds, replies)
	return replies, err
}

func (p *Pipeline) begin() {
	p.b.Text = append(p.b.Text, "*1\r\n$5\r\nMULTI\r\n"...)
	p.b.End()
	p.reads = false
}

// transact is Do for a transaction.
func (p *Pipeline) transact(ctx context.Context) (replies []Reply, err error) {
	// A transaction runs on one server. Keys in several slots are refused here, before anything is
	// sent.
	slot, err := p.oneSlot()
	if err != nil {
		return nil, err
	}
	n := p.exec()
	err = p.c.follow(ctx, "EXEC", slot, func(ctx context.Context, r route) error {
		// An attempt on another node begins with a transaction of which nothing was heard.
		t := &resp.Transaction{N: n}
		return r.n.traced(ctx, remote.Command{Name: "MULTI", Batch: n}, func() error {
			err := r.run(ctx, "EXEC", func(cn *conn) error { return cn.transact(&p.b, t) })
			if err == nil {
				replies, err = outcome(t)
			}
			return err
		})
	})
	return replies, err
}

// oneSlot returns the slot that all commands are about, or -1 if they are about
// none.
func (p *Pipeline) oneSlot() (slot int, err error) {
	slot = -1
	for _, cmd := range p.cmds {
		if cmd.slot >= 0 && slot >= 0 && cmd.slot != slot {
			return -1, ErrCrossSlot
		}
		slot = max(slot, cmd.slot)
	}
	return slot, nil
}

// exec ends the list of commands and returns their number.
func (p *Pipeline) exec() int {
	n := p.Len()
	p.b.Text = append(p.b.Text, "*1\r\n$4\r\nEXEC\r\n"...)
	p.b.End()
	return n
}
