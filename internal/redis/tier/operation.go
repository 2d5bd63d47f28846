// One operation of package entryrules on one key: by its script, or by WATCH and
// MULTI on a server that runs no scripts. In a batch, an operation without a usable
// reply counts as not done; it is executed alone then.
// Invariant: an operation that must not be executed twice is sent again only if the
// server has not executed it.

package tier

import (
	"context"
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
)

// change executes an operation on a key on the server of its slot, and reports
// whether it was done. It reads no namespace state.
func (t *Tier) change(ctx context.Context, key string, op entryrules.Operation) (done bool, err error) {
	err = t.atSlot(ctx, t.names.Entry(key), func(ctx context.Context, s *site) error {
		done, err = s.do(ctx, key, op)
		return err
	})
	return done, t.explained(err)
}

// do executes an operation on a key, and reports whether it was done: by its
// script, or by WATCH and MULTI if the server runs no scripts.
func (s *site) do(ctx context.Context, key string, op entryrules.Operation) (done bool, err error) {
	if s.scripted() {
		ns, err := s.clockOf(ctx, op)
		if err != nil {
			return false, err
		}
		v, err := s.run(ctx, s.scriptOf(op), func(dst []byte, head string) []byte {
			return s.appendOperation(dst, head, key, op, ns)
		})
		if err != nil {
			return false, err
		}
		// The server has begun to forbid scripts, for instance by a change of rights.
		if !s.forbids(v) {
			return isDone(v)
		}
	}
	return s.doWatching(ctx, key, op)
}

// doWatching executes an operation by WATCH and MULTI.
func (s *site) doWatching(ctx context.Context, key string, op entryrules.Operation) (done bool, err error) {
	// Together begins again only if the connection is lost before its first reply. This reply is to
	// a read, so nothing was written by then, and no operation is executed twice.
	err = s.srv.Together(ctx, true, func(ask layout.Ask) error {
		a, err := s.entry(ask, key).Do(op)
		done = a.Done
		return err
	})
	return done, err
}

// doAll executes operations in one round trip, by their scripts, and returns
// the replies. op returns the i-th of n. twice says that they may be executed
// twice.
func (s *site) doAll(ctx context.Context, n int, twice bool, op func(i int) (key string, op entryrules.Operation)) (replies []resp.Value, err error) {
	// All operations of a batch are of one kind, so the first one tells whether the server's clock
	// is needed.
	_, first := op(0)
	ns, err := s.clockOf(ctx, first)
	if err != nil {
		return nil, err
	}
	err = s.srv.Together(ctx, twice, func(ask layout.Ask) (err error) {
		replies, err = runAll(ask, n, func(dst []byte, head func(*script) string, i int) []byte {
			key, op := op(i)
			return s.appendOperation(dst, head(s.scriptOf(op)), key, op, ns)
		})
		return err
	})
	if err == nil {
		if moved := allElsewhere(s.Tier, n, func(i int) error { return refusal(replies[i]) }); moved != nil {
			return nil, moved
		}
	}
	return replies, err
}

// undone reports, by the reply to it, whether one operation of many has to be
// executed alone: the reply is missing, or the server runs no scripts or does
// not serve the key.
func (t *Tier) undone(v resp.Value) bool {
	return v.Kind() == resp.Null || t.forbids(v) || t.elsewhere(refusal(v))
}

// isDone parses the reply of a script that answers with 1 or 0.
func isDone(v resp.Value) (bool, error) {
	if err := refusal(v); err != nil {
		return false, err
	}
	if v.Kind() != resp.Int {
		return false, errAnswer
	}
	return v.Int() == 1, nil
}

// entry returns a key in the form that transactions change.
func (t *Tier) entry(ask layout.Ask, key string) layout.Entry {
	return layout.Entry{Ask: ask, Names: &t.names, Key: key, Nonce: layout.Hex(nonce())}
}

// clockOf returns a state with the server's clock if the script of an operation
// needs it. A Put does, and a drop that gives a token: the ends of lives are stored as points in
// time.
func (s *site) clockOf(ctx context.Context, op entryrules.Operation) (*layout.State, error) {
	switch op := op.(type) {
	case entryrules.Put:
		return s.clock(ctx)
	case entryrules.Drop:
		if op.Token != 0 {
			return s.clock(ctx)
		}
	}
	return nil, nil
}

// scriptOf returns the script that executes an operation.
func (t *Tier) scriptOf(op entryrules.Operation) *script {
	switch op := op.(type) {
	case entryrules.Acquire:
		return t.scripts.acquire
	case entryrules.Put:
		switch {
		case fills(&op):
			return t.scripts.fill
		case op.Quiet:
			return t.scripts.set
		}
		return t.scripts.put
	case entryrules.Drop:
		if op.Quiet {
			return t.scripts.token
		}
		return t.scripts.drop
	case entryrules.Extend:
		return t.scripts.extend
	case entryrules.Release:
		return t.scripts.release
	}
	return t.scripts.renew
}

// appendOperation appends a call of the script that executes an operation. ns
// has the server's clock for Acquire and Put, and for a Drop with a token.
func (t *Tier) appendOperation(dst []byte, head, key string, op entryrules.Operation, ns *layout.State) []byte {
	switch op := op.(type) {
	case entryrules.Acquire:
		return t.appendAcquire(dst, head, key, &op, ns)
	case entryrules.Put:
		return t.appendPut(dst, head, key, &op, ns)
	case entryrules.Drop:
		if op.Quiet {
			return appendToken(t.appendEntry(appendCall(dst, head, 3), key), &op, ns)
		}
		return t.appendDrop(dst, head, key, &op)
	case entryrules.Extend:
		return t.appendExtend(dst, head, key, &op)
	case entryrules.Release:
		dst = t.appendLease(dst, head, 5, key, op.Token)
		return t.appendEnded(resp.AppendString(dst, t.names.Channel), key)
	case entryrules.Renew:
		return appendInt(t.appendLease(dst, head, 4, key, op.Token), op.Length)
	}
	return dst
}

// appendLease appends the beginning of a call about a lease on a key, up to the
// token. args is the number of its arguments.
func (t *Tier) appendLease(dst []byte, head string, args int, key string, token uint64) []byte {
	dst = t.appendEntry(appendCall(dst, head, args), key)
	return appendHex(resp.AppendString(dst, t.names.Schema), token)
}

func (t *Tier) appendAcquire(dst []byte, head, key string, op *entryrules.Acquire, ns *layout.State) []byte {
	args := 7
	if op.ID != 0 || op.Known != 0 {
		args++
	}
	if op.Known != 0 {
		args++
	}
	dst = t.appendLease(dst, head, args, key, op.Token)
	dst = appendInt(dst, op.Length)
	dst = appendInt(dst, ns.Past(time.Now())+op.Length)
	dst = appendInt(resp.AppendString(dst, op.Namespace), op.Latest)
	switch {
	case op.ID != 0:
		dst = appendHex(dst, op.ID)
	case op.Known != 0:
		// The place of the ID stays, since arguments are known by their places.
		dst = resp.AppendString(dst, "")
	}
	if op.Known != 0 {
		dst = appendHex(dst, op.Known)
	}
	return dst
}

// fills reports whether a Put only fills in a loaded value, under a lease, and
// drops nothing.
func fills(op *entryrules.Put) bool { return isLease(op.Token) && !op.Drops }

func (t *Tier) appendPut(dst []byte, head, key string, op *entryrules.Put, ns *layout.State) []byte {
	// A Put that drops names the lane as well, which gets another version.
	switch {
	case fills(op):
		dst = t.appendEntry(appendCall(dst, head, 8), key)
	case op.Quiet:
		dst = t.appendLane(t.appendEntry(appendCall(dst, head, 11), key), key)
	default:
		dst = t.appendLane(t.appendEntry(appendCall(dst, head, 12), key), key)
	}
	dst = appendHex(resp.AppendString(dst, t.names.Schema), op.Token)
	// The ends of the value's lives are times of the server's clock. Past is never ahead of it, so
	// a value ends early rather than late.
	now := ns.Past(time.Now())
	var b [128]byte
	dst = resp.AppendBulk(dst, layout.AppendState(b[:0], &entryrules.Value{
		Fresh: now + op.Fresh, Left: now + op.Left, ID: op.Token, Namespace: op.Namespace,
	}))
	dst = appendInt(dst, op.Left)
	dst = resp.AppendBulk(dst, op.Data)
	dst = resp.AppendString(dst, t.names.Channel)
	if fills(op) {
		return t.appendEnded(dst, key)
	}
	dst = t.appendDropped(dst, key, false)
	dst = resp.AppendString(appendHex(dst, nonce()), key)
	switch {
	case op.Quiet:
		return dst
	case isLease(op.Token):
		return resp.AppendString(dst, t.names.Lease)
	}
	return resp.AppendString(dst, "t")
}

// appendToken appends the token of a quiet drop with its end, and its life.
func appendToken(dst []byte, op *entryrules.Drop, ns *layout.State) []byte {
	var b [64]byte
	text := append(strconv.AppendUint(append(b[:0], '0'), op.Token, 16), ' ')
	text = strconv.AppendInt(text, ns.Past(time.Now())+op.Life, 10)
	return appendInt(resp.AppendBulk(dst, text), op.Life)
}

func (t *Tier) appendDrop(dst []byte, head, key string, op *entryrules.Drop) []byte {
	usual := !op.Soft && op.Token == 0 && op.Hold <= 0
	// A plain invalidation is the usual drop. It sends no arguments for the rest.
	if usual {
		dst = appendCall(dst, head, 6)
	} else {
		dst = appendCall(dst, head, 11)
	}
	dst = t.appendEntry(dst, key)
	dst = resp.AppendString(t.appendLane(dst, key), t.names.Channel)
	dst = t.appendDropped(dst, key, op.Soft)
	dst = resp.AppendString(appendHex(dst, nonce()), key)
	switch {
	case usual:
		return dst
	case op.Soft:
		dst = resp.AppendString(dst, "soft")
	default:
		dst = resp.AppendString(dst, "hard")
	}
	if op.Token == 0 {
		dst = resp.AppendString(dst, "")
	} else {
		dst = appendHex(dst, op.Token)
	}
	return appendInt(appendInt(appendInt(dst, op.Life), op.Hold), op.Left)
}

func (t *Tier) appendExtend(dst []byte, head, key string, op *entryrules.Extend) []byte {
	dst = t.appendLease(dst, head, 9, key, op.Token)
	dst = resp.AppendString(dst, op.Namespace)
	dst = appendInt(appendInt(dst, op.Fresh), op.Left)
	dst = resp.AppendString(appendHex(dst, op.ID), t.names.Channel)
	return t.appendEnded(dst, key)
}

// appendLane appends the key of the version of key's lane.
func (t *Tier) appendLane(dst []byte, key string) []byte {
	var b [128]byte
	return resp.AppendBulk(dst, t.names.AppendLane(b[:0], layout.LaneOf(key)))
}

// appendDropped appends the beginning of the message about a drop of key.
func (t *Tier) appendDropped(dst []byte, key string, soft bool) []byte {
	var b [64]byte
	return resp.AppendBulk(dst, t.names.AppendDropped(b[:0], key, soft))
}

// appendEnded appends the message that a lease on key has ended.
func (t *Tier) appendEnded(dst []byte, key string) []byte {
	head := t.names.Ended
	dst = resp.AppendBulkHeader(dst, int64(len(head)+len(key)))
	dst = append(append(dst, head...), key...)
	return append(dst, "\r\n"...)
}
