package redis

import (
	"context"
	"errors"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// Multi returns an empty transaction: a pipeline of commands that the server
// executes together, with no commands of other clients in between, or not at
// all. It takes one round trip.
//
// A command that the server refuses beforehand, because it does not know it or
// does not permit it, aborts the transaction ([ErrAborted]), and the reply to
// that command says why. A command that fails when it is executed does not: its
// reply is an error, and the others are executed.
//
// In a cluster all keys must be in one slot, or else the error is ErrCrossSlot.
func (c *Client) Multi() *Pipeline {
	p := &Pipeline{c: c, reads: true, multi: true}
	p.begin()
	return p
}

// Tx is a transaction in preparation, while the server watches its keys. It is
// valid until the function given to [Client.Watch] returns, and for one caller
// at a time.
type Tx struct {
	held
	at    route
	slot  int // in a cluster
	queue Pipeline
	err   error // of the connection, or ErrClosed in the end
}

// Watch makes the server watch keys while f reads them with [Tx.Do] and queues
// commands in [Tx.Queue]. Then it executes the queued commands if no key has
// changed since. It returns their replies, or [ErrChanged]: then begin again,
// as long as a repetition makes sense. If f returns an error or queues nothing,
// nothing is executed.
//
// It holds a connection of its own. Options.Timeout bounds each command, ctx
// the whole. In a cluster all keys, also the keys of the queued commands, must
// be in one slot.
func (c *Client) Watch(ctx context.Context, keys []string, f func(*Tx) error) ([]Reply, error) {
	if len(keys) == 0 {
		return nil, errors.New("redis: transaction: keys to watch missing")
	}
	slot := -1
	if c.cluster != nil {
		var err error
		if slot, err = sameSlot(keys); err != nil {
			return nil, err
		}
	}
	t := &Tx{slot: slot, queue: Pipeline{c: c, multi: true, watch: true}}
	err := c.follow(ctx, "WATCH", slot, func(attempt context.Context, r route) (err error) {
		t.at = r
		return r.n.traced(ctx, single("WATCH"), func() error {
			t.held, err = r.watch(attempt, ctx, keys)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	clean := false
	defer func() { // also if f panics
		t.err = ErrClosed
		t.release(clean)
	}()
	t.queue.begin()
	replies, err := t.run(f)
	clean = t.err == nil
	return replies, err
}

// watch is one attempt to begin.
func (r route) watch(attempt, ctx context.Context, keys []string) (held, error) {
	args := []any{"WATCH"}
	for _, k := range keys {
		args = append(args, k)
	}
	// It changes nothing, so it is repeated as reading commands are.
	return r.take(attempt, ctx, "GET", func(cn *conn) (answer, err error) {
		if answer = cn.command(args); answer != nil {
			return answer, nil
		}
		var v resp.Value
		if err = cn.flush(true); err == nil {
			v, err = cn.read()
		}
		answer = newReply(v).Ok()
		cn.entered = answer == nil
		return answer, err
	})
}

func (t *Tx) run(f func(*Tx) error) ([]Reply, error) {
	err := f(t)
	if err == nil {
		err = t.queue.err
	}
	if t.err != nil && err == nil {
		err = t.err
	}
	// ErrCrossSlot promises that nothing was sent, so the keys are compared here.
	if slot, wrong := t.queue.oneSlot(); err == nil && (wrong != nil || slot >= 0 && slot != t.slot) {
		err = ErrCrossSlot
	}
	if err != nil || t.queue.Len() == 0 {
		// The keys would stay watched for the next call on this connection, whose transaction would
		// fail for no reason.
		t.cn.entered = t.ask("UNWATCH").Ok() != nil
		return nil, err
	}
	return t.exec()
}

// exec sends the queued commands.
func (t *Tx) exec() ([]Reply, error) {
	e := &resp.Transaction{N: t.queue.exec()}
	var replies []Reply
	err := t.n.traced(t.ctx, remote.Command{Name: "MULTI", Batch: e.N}, func() (err error) {
		if t.err = t.talk(func(cn *conn) error { return cn.transact(&t.queue.b, e) }); t.err != nil {
			return t.err
		}
		replies, err = outcome(e)
		return err
	})
	if t.err != nil {
		return nil, t.err
	}
	if k := t.queue.c.cluster; k != nil && err != nil {
		k.judge(t.at, false, err) // the next attempt may have to go elsewhere
	}
	return replies, err
}

// Queue returns the pipeline of the commands to execute. Watch sends it; its Do
// and Each only return an error.
func (t *Tx) Queue() *Pipeline { return &t.queue }

// Do sends a command at once, over the connection that watches: with it f reads
// the values that its commands depend on. Otherwise it is [Client.Do], under the
// context given to Watch.
func (t *Tx) Do(args ...any) Reply {
	name, err := t.n.o.checkCommand(args)
	if err != nil {
		return Reply{err: err}
	}
	var reply Reply
	_ = t.n.traced(t.ctx, single(name), func() error {
		reply = t.ask(args...)
		return reply.err
	})
	return reply
}

func (t *Tx) ask(args ...any) Reply {
	if t.err != nil {
		return Reply{err: t.err}
	}
	var reply Reply
	t.err = t.talk(func(cn *conn) error {
		if reply.err = cn.command(args); reply.err != nil {
			return nil
		}
		if err := cn.flush(true); err != nil {
			return err
		}
		v, err := cn.read()
		reply = newReply(v)
		return err
	})
	if t.err != nil {
		return Reply{err: t.err}
	}
	return reply
}

// talk makes f write and read where the keys are. ASKING comes first for a
// server that does not own their slot yet; it holds for one command or
// transaction.
func (t *Tx) talk(f func(*conn) error) error {
	return t.exchange(func() error { return t.at.afterAsking(t.ctx, f)(t.cn) })
}
