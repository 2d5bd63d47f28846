package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/strata-cache/strata/internal/netpool"
	"github.com/strata-cache/strata/internal/resp"
)

// Script is a Lua script that the server runs. It is sent once; later calls
// name it by its digest. Make it with [NewScript]; it can be shared.
type Script struct {
	text, digest string
}

// NewScript returns the script with this text. Nothing is sent.
func NewScript(text string) *Script {
	// SHA-1 is a name here, prescribed by the protocol.
	sum := sha1.Sum([]byte(text))
	return &Script{text: text, digest: hex.EncodeToString(sum[:])}
}

// Eval runs a script with keys and arguments, which may be of the types that
// [Client.Do] takes. A script that the server does not know is sent and run.
//
// In a cluster all keys must be in one slot, or else the error is ErrCrossSlot;
// a script without keys runs on any primary.
func (c *Client) Eval(ctx context.Context, s *Script, keys []string, args ...any) Reply {
	reply := c.eval(ctx, "EVALSHA", s.digest, keys, args)
	if unknownScript(reply.err) {
		reply = c.eval(ctx, "EVAL", s.text, keys, args)
	}
	return reply
}

func (c *Client) eval(ctx context.Context, name, script string, keys []string, args []any) (reply Reply) {
	put := func(dst []byte) ([]byte, error) { return resp.AppendEval(dst, name, script, keys, args) }
	if c.cluster == nil {
		return c.home.eval(ctx, name, weight(args), put)
	}
	slot, err := sameSlot(keys)
	if err == nil {
		err = c.cluster.follow(ctx, name, slot, func(ctx context.Context, h hop) error {
			reply = h.eval(ctx, name, weight(args), put)
			return reply.err
		})
	}
	if err != nil {
		return Reply{err: err}
	}
	return reply
}

func unknownScript(err error) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Code == "NOSCRIPT"
}

// Pipeline collects commands and sends them together, in one round trip. Get
// it from [Client.Pipeline]. It is not safe for concurrent use; after Do it is
// empty and can be used again.
//
// In a cluster each command goes to the node that serves its first key, all
// nodes at once. Commands about one key are carried out in order, unless its
// slot moves meanwhile; commands about keys in several slots are not split, but
// refused by the server.
type Pipeline struct {
	c     *Client
	buf   []byte
	cmds  []queued
	reads bool // all commands only read
	err   error
}

// queued is what a pipeline remembers of a command: where it ends in the
// buffer, and of a call of a script, where what follows the script begins.
type queued struct {
	end    int
	script *Script
	args   int
	argc   int
	slot   int // in a cluster; negative if there is no key
	reads  bool
}

// Pipeline returns an empty pipeline.
func (c *Client) Pipeline() *Pipeline { return &Pipeline{c: c, reads: true} }

// Len is the number of commands queued.
func (p *Pipeline) Len() int { return len(p.cmds) }

// Add queues a command. Arguments are copied; they and the commands allowed
// are as for [Client.Do]. What is wrong with them is the error of Do.
func (p *Pipeline) Add(args ...any) {
	name, err := commandName(args)
	if err == nil {
		var out []byte
		if out, err = resp.AppendCommand(p.buf, args...); err == nil {
			p.buf = out
			q := queued{end: len(out), reads: resp.ReadsOnly(name)}
			if p.c.cluster != nil {
				q.slot = slotOf(name, args)
			}
			p.cmds = append(p.cmds, q)
			p.reads = p.reads && q.reads
			return
		}
		err = argError(err)
	}
	p.err = errors.Join(p.err, err)
}

// Eval queues a call of a script. Arguments are copied. If the server does not
// know the script, the call is repeated with the script's text after all other
// commands of the pipeline.
func (p *Pipeline) Eval(s *Script, keys []string, args ...any) {
	slot := -1
	if p.c.cluster != nil {
		var err error
		if slot, err = sameSlot(keys); err != nil {
			p.err = errors.Join(p.err, err)
			return
		}
	}
	argc := 3 + len(keys) + len(args)
	p.buf = slices.Grow(p.buf, 128) // for the head that is only measured
	head := len(resp.AppendEvalHead(p.buf, "EVALSHA", s.digest, argc))
	out, err := resp.AppendEval(p.buf, "EVALSHA", s.digest, keys, args)
	if err != nil {
		p.err = errors.Join(p.err, argError(err))
		return
	}
	p.buf = out
	p.cmds = append(p.cmds, queued{end: len(out), script: s, args: head, argc: argc, slot: slot})
	p.reads = false
}

// Do sends what was queued and returns one reply for each command, in order.
// The error is about the connection, or about an argument, in which case
// nothing was sent; errors of the server are in the replies. If the connection
// fails in the middle, the replies that came are returned with it and the
// others hold the error.
func (p *Pipeline) Do(ctx context.Context) ([]Reply, error) {
	defer p.reset()
	if p.err != nil || len(p.cmds) == 0 {
		return nil, p.err
	}
	name := "EVAL"
	if p.reads {
		name = "GET"
	}
	replies := make([]Reply, len(p.cmds))
	err := p.c.roundTrips(ctx, name, p.buf, p.cmds, replies)
	if err != nil {
		return replies, err
	}
	return replies, p.sendScripts(ctx, replies)
}

func (p *Pipeline) reset() {
	p.buf, p.cmds, p.reads, p.err = p.buf[:0], p.cmds[:0], true, nil
	if cap(p.buf) > keepBuffer {
		p.buf = nil
	}
}

// sendScripts repeats the calls of scripts that the server did not know: the
// first call of each with its text, which makes it known to the others.
func (p *Pipeline) sendScripts(ctx context.Context, replies []Reply) error {
	var again []int
	for i, r := range replies {
		if p.cmds[i].script != nil && unknownScript(r.err) {
			again = append(again, i)
		}
	}
	if len(again) == 0 {
		return nil
	}
	var buf []byte
	var cmds []queued
	sent := map[*Script]bool{}
	for _, i := range again {
		q := p.cmds[i]
		if sent[q.script] && p.c.cluster == nil { // nodes of a cluster each learn it for themselves
			buf = resp.AppendEvalHead(buf, "EVALSHA", q.script.digest, q.argc)
		} else {
			sent[q.script] = true
			buf = resp.AppendEvalHead(buf, "EVAL", q.script.text, q.argc)
		}
		buf = append(buf, p.buf[q.args:q.end]...)
		cmds = append(cmds, queued{end: len(buf), slot: q.slot})
	}
	late := make([]Reply, len(again))
	err := p.c.roundTrips(ctx, "EVAL", buf, cmds, late)
	for j, i := range again {
		replies[i] = late[j]
	}
	return err
}

// roundTrips sends commands and fills in their replies.
func (c *Client) roundTrips(ctx context.Context, name string, commands []byte, cmds []queued, replies []Reply) error {
	if c.cluster != nil {
		parts := make([]command, len(cmds))
		from := 0
		for i, q := range cmds {
			parts[i] = command{text: commands[from:q.end], slot: q.slot, reads: q.reads}
			from = q.end
		}
		return c.cluster.scatter(ctx, parts, replies)
	}
	got := 0
	err := c.home.run(ctx, name, func(cn *conn) error {
		got = 0
		return cn.converse(commands, len(replies), func(v resp.Value) {
			replies[got] = newReply(v)
			got++
		})
	})
	for i := got; i < len(replies) && err != nil; i++ {
		replies[i] = Reply{err: err}
	}
	return err
}

// converse sends commands and passes on their n replies.
func (c *conn) converse(commands []byte, n int, got func(resp.Value)) error {
	write := func() error { return c.send(commands, n == 1) }
	read := func() error {
		for range n {
			v, err := c.read()
			if err != nil {
				return err
			}
			got(v)
		}
		return nil
	}
	if n > 1 && len(commands) >= duplexFrom {
		return netpool.Duplex(write, read, c.interrupt)
	}
	if err := write(); err != nil {
		return err
	}
	return read()
}
