package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/slots"
)

// scatter sends many commands to the nodes that serve their slots, all nodes at
// once. A command is pending until it has a reply or a final error; after each
// round, unfinished judges the errors as follow does. The commands that begin at one
// node have rounds of their own: no command waits for a node that hangs, unless it is
// sent there. Invariant: the commands that begin at one node are sent in their order, and
// commands about one slot are sent on in their order; an error says that nothing was sent
// only if no command may have had an effect.

// commandInfo is the knowledge about one of several commands, as far as sending
// them to several nodes needs it.
type commandInfo struct {
	slot  int // negative: any node
	reads bool
	text  func() *resp.Batch // returns the call of a script, with the text of that; nil for other commands
}

// do is Client.Do.
func (k *cluster) do(ctx context.Context, name string, args []any) (reply Reply) {
	slot, parts := k.parts(name, args)
	if parts != nil {
		return k.split(ctx, name, args, parts)
	}
	err := k.follow(ctx, k.target(name, slot), func(ctx context.Context, r route) error {
		reply = r.do(ctx, name, args)
		return reply.err
	})
	if err != nil {
		return Reply{err: err}
	}
	return reply
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
	// The usual call has its keys in one slot, and goes out unchanged.
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
	var cmds []commandInfo
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
		cmds = append(cmds, commandInfo{slot: slot, reads: resp.ReadsOnly(name)})
		of = append(of, keys)
	}
	replies := make([]Reply, len(cmds))
	// From here on the parts are commands like any others: each follows redirections by itself.
	if err := k.scatter(ctx, &b, cmds, replies); err != nil {
		return Reply{err: err}
	}
	// The whole fails if a part does. The error must not say that nothing was sent if another part
	// may have had an effect.
	for _, r := range replies {
		if r.err != nil {
			return Reply{err: partError(r.err, cmds, replies)}
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
	// A server that answers with another number of values would shift them to wrong keys, so its
	// reply is refused.
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

// pendingCommand is one of the commands without a reply.
type pendingCommand struct {
	*commandInfo
	at   int // its place among all
	to   route
	err  error       // why there is no reply yet
	hops int         // redirections since the last pause
	told *resp.Batch // the command in place of the one in the batch, once it has the text of its script
}

// untold reports whether a node has not run a script because it needs the text.
func (c *pendingCommand) untold() bool {
	return c.text != nil && c.told == nil && unknownScript(c.err)
}

// scatter sends the commands of b, which cmds describe, each to its node, all
// nodes at once, and fills in their replies. The error is the first about a
// connection.
func (k *cluster) scatter(ctx context.Context, b *resp.Batch, cmds []commandInfo, replies []Reply) error {
	ctx, cancel := within(ctx, time.Now(), k.o.Timeout)
	defer cancel()
	all := make([]pendingCommand, len(cmds))
	todo := make([]*pendingCommand, len(cmds))
	// Commands about a slot that the batch writes go to one server: at a replica a read could overtake
	// a write in front of it, or be overtaken by one behind it.
	written := map[int]bool{}
	for i := range cmds {
		if k.o.ReplicaReads && !cmds[i].reads {
			written[cmds[i].slot] = true
		}
	}
	for i := range cmds {
		c := &all[i]
		*c = pendingCommand{commandInfo: &cmds[i], at: i}
		c.to, c.err = k.pick(c.slot, k.o.ReplicaReads && !written[c.slot] && c.reads)
		todo[i] = c
	}
	atOnce(todo, func(some []*pendingCommand) { k.carry(ctx, b, some, replies) })
	for _, r := range replies {
		var broken *ConnError
		if errors.As(r.err, &broken) || errors.Is(r.err, ErrClosed) {
			return partError(r.err, cmds, replies)
		}
	}
	return nil
}

// carry sends commands that begin at one node, or at none, until all have replies or the time
// of the call is over.
func (k *cluster) carry(ctx context.Context, b *resp.Batch, todo []*pendingCommand, replies []Reply) {
	for pauses := 0; len(todo) > 0; {
		k.send(ctx, b, todo, replies)
		// A redirected command is sent at once, before a pause for the others.
		var due bool
		if todo, due = k.unfinished(todo, replies); due || len(todo) == 0 {
			continue
		}
		// No time is left: each pending command gets the reason for which it is pending.
		if !k.pause(ctx, pauses) {
			for _, c := range todo {
				replies[c.at] = Reply{err: late(ctx, k.dismissed(c.err))}
			}
			return
		}
		pauses++
		for _, c := range todo {
			// During the pause a refresh may have found another primary. A command that was sent to
			// a replica in vain goes to the primary.
			c.to, c.err = k.pick(c.slot, false)
			c.hops = 0
		}
	}
}

// partError returns the error of a call in which a command failed with err, while
// others may have been carried out.
func partError(err error, cmds []commandInfo, replies []Reply) error {
	for i, r := range replies {
		if !cmds[i].reads && !SafeToRetry(r.err) {
			return asSent(err)
		}
	}
	return err
}

// asSent returns err, if there is one, as the error of a call that the server may
// have carried out.
func asSent(err error) error {
	if err == nil || !SafeToRetry(err) {
		return err
	}
	var broken *ConnError
	if errors.As(err, &broken) {
		return &ConnError{Op: broken.Op, Sent: true, Err: broken.Err}
	}
	return &ConnError{Op: "route", Sent: true, Err: err}
}

// unfinished returns the commands to send again, in order, and whether any of them is sent
// at once, to another node or with the text of its script. Those that wait for a pause have an error. The others have their
// replies.
func (k *cluster) unfinished(sent []*pendingCommand, replies []Reply) (again []*pendingCommand, due bool) {
	waiting := map[int]bool{} // slots of commands that wait: later commands about them wait, too, and stay in order
	way := map[int]route{}    // to where commands of a slot go on: later commands about it go there, too
	for _, c := range sent {
		if c.err == nil {
			c.err = replies[c.at].err
		}
		next, v := c.to, final
		untold := c.untold()
		switch {
		case untold: // each node learns a script for itself: no call of it waits for another node
			v = elsewhere
		case c.err != nil:
			next, v = k.judge(c.to, c.reads, c.err)
		}
		switch {
		// The bound on redirections is for each command: two servers that name each other end it,
		// and do not hold up the rest.
		case v == final || v == elsewhere && c.hops == maxHops && !untold:
			if c.err != nil {
				replies[c.at] = Reply{err: k.dismissed(c.err)}
			}
			continue
		case v == elsewhere && !waiting[c.slot]:
			// While a slot moves, its next server may be named for a key or for the slot: one way for both.
			if first, ok := way[c.slot]; ok && c.slot >= 0 {
				next = first
			}
			way[c.slot] = next
			c.to, c.err = next, nil
			if untold {
				c.told = c.text()
			} else {
				c.hops++
			}
			due = true
		default:
			waiting[c.slot] = true
		}
		again = append(again, c)
	}
	return again, due
}

// send sends each command to its node, in order, all nodes at once. Commands that wait for
// a node are left out.
func (k *cluster) send(ctx context.Context, b *resp.Batch, pending []*pendingCommand, replies []Reply) {
	due := slices.DeleteFunc(slices.Clone(pending), func(c *pendingCommand) bool { return c.err != nil })
	atOnce(due, func(group []*pendingCommand) { k.sendTo(ctx, group[0].to, b, group, replies) })
}

// atOnce calls f with the commands of each route, in order, for all routes at once.
func atOnce(pending []*pendingCommand, f func(group []*pendingCommand)) {
	if len(pending) == 0 {
		return
	}
	first := pending[0].to
	// One group needs no goroutine. It is the usual case of a pipeline about one key.
	if !slices.ContainsFunc(pending, func(c *pendingCommand) bool { return c.to != first }) {
		f(pending)
		return
	}
	groups := map[route][]*pendingCommand{}
	for _, c := range pending {
		groups[c.to] = append(groups[c.to], c)
	}
	var wg sync.WaitGroup
	for _, group := range groups {
		wg.Go(func() { f(group) })
	}
	wg.Wait()
}

// sendTo sends commands of b to one node. The error of a command that fails is in
// its reply.
func (k *cluster) sendTo(ctx context.Context, r route, b *resp.Batch, group []*pendingCommand, replies []Reply) {
	// The name stands for the whole batch: if all commands only read, the batch may be sent twice
	// when the connection turns out to be dead.
	name, per := "GET", 1
	if r.asking {
		per = 2
	}
	var part resp.Batch
	for _, c := range group {
		if !c.reads {
			name = "EVAL" // or any other that may not be sent twice
		}
		if r.asking {
			part.Text = append(part.Text, asking...)
			part.End()
		}
		if c.told != nil {
			part.AddFrom(c.told, 0)
		} else {
			part.AddFrom(b, c.at)
		}
	}
	got := 0
	err := r.n.round(ctx, name, &part, func(cn *conn) error {
		v, err := cn.read()
		if err == nil {
			replies[group[got/per].at] = newReply(v)
			got++
		}
		return err
	})
	// Replies that came before the connection broke are good. The other commands of the node share
	// its error.
	for i := got / per; i < len(group) && err != nil; i++ {
		replies[group[i].at] = Reply{err: err}
	}
}
