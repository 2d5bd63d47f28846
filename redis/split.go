package redis

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/internal/slots"
)

// command is what one of several commands is about, which may go to several
// nodes.
type command struct {
	slot  int // negative: any node
	reads bool
}

// do is Client.Do.
func (k *cluster) do(ctx context.Context, name string, args []any) (reply Reply) {
	slot, parts := k.parts(name, args)
	if parts != nil {
		return k.split(ctx, name, args, parts)
	}
	err := k.follow(ctx, k.way(name, slot), func(ctx context.Context, h hop) error {
		reply = h.do(ctx, name, args)
		return reply.err
	})
	if err != nil {
		return Reply{err: err}
	}
	return reply
}

// slotOf returns the slot of a command's first key, or -1 if it has none.
func slotOf(name string, args []any) int {
	i := slots.FirstKey(name, len(args), func(i int) string { return argText(args[i]) })
	if i == 0 {
		return -1
	}
	return slots.Of(argText(args[i]))
}

// argText is an argument as a server gets it.
func argText(arg any) string {
	if s, ok := textArg(arg); ok {
		return s
	}
	b, err := resp.AppendArg(nil, arg)
	if err != nil {
		return "" // the command is refused for it
	}
	_, b, _ = bytes.Cut(b, []byte("\r\n"))
	return string(bytes.TrimSuffix(b, []byte("\r\n")))
}

// sameSlot returns the slot of keys, or -1 if there are none.
func sameSlot(keys []string) (slot int, err error) {
	slot = -1
	for _, key := range keys {
		s := slots.Of(key)
		if slot >= 0 && s != slot {
			return -1, ErrCrossSlot
		}
		slot = s
	}
	return slot, nil
}

// parts returns the slot of a command or, if it has to be split, the positions
// of the keys that belong to each slot.
func (k *cluster) parts(name string, args []any) (slot int, parts map[int][]int) {
	slot = slotOf(name, args)
	step, ok := slots.Splits(name)
	if !ok || (len(args)-1)%step != 0 {
		return slot, nil
	}
	of := make([]int, len(args))
	whole := true
	for i := 1; i < len(args); i += step {
		of[i] = slots.Of(argText(args[i]))
		whole = whole && of[i] == slot
	}
	if whole {
		return slot, nil
	}
	parts = map[int][]int{}
	for i := 1; i < len(args); i += step {
		parts[of[i]] = append(parts[of[i]], i)
	}
	return slot, parts
}

// split carries a command out by slots and joins the replies.
func (k *cluster) split(ctx context.Context, name string, args []any, parts map[int][]int) Reply {
	step, _ := slots.Splits(name)
	var b resp.Batch
	var cmds []command
	var of [][]int
	for slot, keys := range parts {
		part := []any{name}
		for _, i := range keys {
			part = append(part, args[i:i+step]...)
		}
		var err error
		if b.Text, err = resp.AppendCommand(b.Text, part...); err != nil {
			return Reply{err: argError(err)}
		}
		b.End()
		cmds = append(cmds, command{slot: slot, reads: resp.ReadsOnly(name)})
		of = append(of, keys)
	}
	replies := make([]Reply, len(cmds))
	if err := k.scatter(ctx, &b, cmds, replies); err != nil {
		return Reply{err: err}
	}
	for _, r := range replies {
		if r.err != nil {
			return Reply{err: partly(r.err, cmds, replies)}
		}
	}
	switch name {
	case "MGET":
		return joinValues(len(args)-1, of, replies)
	case "MSET":
		return replies[0]
	}
	return joinCounts(replies)
}

// joinCounts adds up the replies of a command that counts.
func joinCounts(replies []Reply) Reply {
	sum := int64(0)
	for _, r := range replies {
		n, err := r.Int()
		if err != nil {
			return Reply{err: err}
		}
		sum += n
	}
	return Reply{v: resp.IntOf(sum)}
}

// joinValues puts the elements of replies where their keys were.
func joinValues(n int, of [][]int, replies []Reply) Reply {
	values := make([]resp.Value, n)
	for p, r := range replies {
		if r.v.Kind() != resp.Array || r.v.Len() != len(of[p]) {
			return Reply{err: errParts}
		}
		i := 0
		for v := range r.v.Elems() {
			values[of[p][i]-1] = v
			i++
		}
	}
	var body []byte
	for _, v := range values {
		switch v.Kind() {
		case resp.Bulk:
			body = resp.AppendBulk(body, v.Bytes())
		case resp.Null:
			body = resp.AppendNull(body)
		default:
			return Reply{err: errParts}
		}
	}
	return Reply{v: resp.ArrayOf(n, body)}
}

// errParts is returned when the reply to a part of a command cannot be joined
// to the others.
const errParts = typeError("to a part of a command is of another kind than asked for")

// errand is one command under way.
type errand struct {
	*command
	at   int // its place among all
	h    hop
	err  error // why there is no reply yet
	hops int
}

// scatter sends the commands of b, which are about cmds, to where each belongs,
// all at once, and fills in their replies. The error is the first about a
// connection.
func (k *cluster) scatter(ctx context.Context, b *resp.Batch, cmds []command, replies []Reply) error {
	ctx, cancel := k.within(ctx, time.Now())
	defer cancel()
	all := make([]errand, len(cmds))
	todo := make([]*errand, len(cmds))
	for i := range cmds {
		e := &all[i]
		*e = errand{command: &cmds[i], at: i}
		e.h, e.err = k.pick(e.slot, k.c.o.ReplicaReads && e.reads)
		todo[i] = e
	}
	for pauses := 0; len(todo) > 0; {
		k.send(ctx, b, todo, replies)
		var wait bool
		if todo, wait = k.unfinished(todo, replies); !wait {
			continue
		}
		if !k.pause(ctx, pauses) {
			for _, e := range todo {
				replies[e.at] = Reply{err: late(ctx, e.err)}
			}
			break
		}
		pauses++
		for _, e := range todo {
			if e.err != nil {
				e.h, e.err = k.pick(e.slot, false)
			}
		}
	}
	for _, r := range replies {
		var broken *ConnError
		if errors.As(r.err, &broken) || errors.Is(r.err, ErrClosed) {
			return partly(r.err, cmds, replies)
		}
	}
	return nil
}

// partly returns what is told of a call in which a command failed with err, while
// others may have been carried out.
func partly(err error, cmds []command, replies []Reply) error {
	for i, r := range replies {
		if !cmds[i].reads && !SafeToRetry(r.err) {
			return begun(err)
		}
	}
	return err
}

// begun returns err, if there is one, as that of a call that may have had an effect.
func begun(err error) error {
	if err == nil || !SafeToRetry(err) {
		return err
	}
	var broken *ConnError
	if errors.As(err, &broken) {
		return &ConnError{Op: broken.Op, Sent: true, Err: broken.Err}
	}
	return &ConnError{Op: "route", Sent: true, Err: err}
}

// unfinished returns what has to be sent again, in order, and whether a pause
// comes first. Those for which it is over have their replies.
func (k *cluster) unfinished(sent []*errand, replies []Reply) (again []*errand, wait bool) {
	for _, e := range sent {
		if e.err == nil {
			e.err = replies[e.at].err
		}
		next, v := e.h, final
		if e.err != nil {
			next, v = k.judge(e.h, e.reads, e.err)
		}
		if v == elsewhere {
			e.hops++
		}
		switch {
		case v == final || e.hops > maxHops:
			if e.err != nil {
				replies[e.at] = Reply{err: k.dismissed(e.err)}
			}
			continue
		case v == elsewhere:
			e.h, e.err = next, nil
		default:
			wait = true
		}
		again = append(again, e)
	}
	return again, wait
}

// send sends each command to its node, in order, all nodes at once. Those that
// have none are left out.
func (k *cluster) send(ctx context.Context, b *resp.Batch, errands []*errand, replies []Reply) {
	groups := map[hop][]*errand{}
	for _, e := range errands {
		if e.err == nil {
			groups[e.h] = append(groups[e.h], e)
		}
	}
	var wg sync.WaitGroup
	for h, group := range groups {
		if len(groups) == 1 {
			k.sendTo(ctx, h, b, group, replies)
			return
		}
		wg.Go(func() { k.sendTo(ctx, h, b, group, replies) })
	}
	wg.Wait()
}

// sendTo sends commands of b to one node. What fails has its error in its
// reply.
func (k *cluster) sendTo(ctx context.Context, h hop, b *resp.Batch, group []*errand, replies []Reply) {
	name, per := "GET", 1
	if h.asking {
		per = 2
	}
	var part resp.Batch
	for _, e := range group {
		if !e.reads {
			name = "EVAL" // or any other that may not be sent twice
		}
		if h.asking {
			part.Text = append(part.Text, asking...)
			part.End()
		}
		part.AddFrom(b, e.at)
	}
	got := 0
	err := h.n.round(ctx, name, &part, func(cn *conn) error {
		v, err := cn.read()
		if err == nil {
			replies[group[got/per].at] = newReply(v)
			got++
		}
		return err
	})
	for i := got / per; i < len(group) && err != nil; i++ {
		replies[group[i].at] = Reply{err: err}
	}
}
