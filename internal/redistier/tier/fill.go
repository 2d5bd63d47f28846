package tier

import (
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/redistier/plain"
	"github.com/strata-cache/strata/internal/redistier/words"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// wish is a lease that is asked for: on key, under token, for d. The value with
// that id counts as stale; zero is none.
type wish struct {
	key   string
	id    remote.ID
	token uint64
	d     time.Duration
}

// Acquire asks for the right to fill key.
func (t *Tier) Acquire(ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	return t.Refresh(ctx, key, 0, d)
}

// Refresh is Acquire, but that the value with this id counts as stale.
func (t *Tier) Refresh(ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
	if err := tooLong(key); err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	q := wish{key: key, id: id, token: newLease(), d: d}
	a, w, err := t.acquire(ctx, q)
	if wrongType(err) {
		t.foreign.Add(1)
		if err = t.clean(ctx, "hash", t.names.Entry(key)); err == nil {
			a, w, err = t.acquire(ctx, q)
		}
	}
	if err != nil {
		return remote.Held{}, remote.Lease{}, t.cleanWord(ctx, err)
	}
	h, l := t.granted(a, q.token, w)
	return h, l, nil
}

// granted is what is told of an answer that can be judged by w.
func (t *Tier) granted(a plain.Acquired, token uint64, w *words.Word) (remote.Held, remote.Lease) {
	l := remote.Lease{Word: w.Text, Clock: w.Clock, Grant: a.Grant, Wait: time.Duration(a.Wait) * time.Millisecond}
	if a.Grant == remote.Granted {
		l.Token, l.Wait = token, 0
	}
	return t.open(a.Value, a.State, w), l
}

// acquire asks for a lease, and for the word before if it is due or a
// connection was opened meanwhile. It returns a word by which the answer can be
// judged.
func (t *Tier) acquire(ctx context.Context, q wish) (a plain.Acquired, w *words.Word, err error) {
	ask, w := t.word.Due(time.Now(), t.srv.Opened())
	if !ask && t.scripted() {
		v, err := t.run(ctx, t.scripts.acquire, func(dst []byte, head string) []byte {
			return t.appendAcquire(dst, head, q, w)
		})
		if err != nil {
			return a, w, err
		}
		ask = !t.fits(w)
		if !ask && !t.forbids(v) {
			a, err = parseAcquired(v)
			return a, w, err
		}
	}
	err = t.srv.Together(ctx, true, func(send plain.Ask) (err error) {
		for {
			if ask {
				if w, err = t.askWord(send); err != nil {
					return err
				}
			}
			if a, err = t.acquireOver(send, q, w); err != nil || ask || t.fits(w) {
				return err
			}
			ask = true
		}
	})
	if err != nil {
		t.word.Answered(nil)
	}
	return a, w, err
}

// AcquireMany is Acquire for many keys in one round trip.
func (t *Tier) AcquireMany(ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
	if err := tooLong(keys...); err != nil {
		return nil, nil, err
	}
	if len(keys) == 0 {
		return nil, nil, ctx.Err()
	}
	wishes := make([]wish, len(keys))
	for i, key := range keys {
		wishes[i] = wish{key: key, token: newLease(), d: d}
	}
	var w *words.Word
	var answers []acquired
	ask, known := t.word.Due(time.Now(), t.srv.Opened())
	err := t.srv.Together(ctx, true, func(send plain.Ask) (err error) {
		for w = known; ; ask = true {
			if ask {
				if w, err = t.askWord(send); err != nil {
					return err
				}
			}
			if answers, err = t.acquireAll(send, wishes, w); err != nil || ask || t.fits(w) {
				return err
			}
		}
	})
	if err != nil {
		t.word.Answered(nil)
		return nil, nil, t.cleanWord(ctx, err)
	}
	held, leases := make([]remote.Held, len(keys)), make([]remote.Lease, len(keys))
	for i, a := range answers {
		if a.err == nil {
			held[i], leases[i] = t.granted(a.Acquired, wishes[i].token, w)
		} else if held[i], leases[i], err = t.Acquire(ctx, keys[i], d); err != nil { // it cleans up
			return nil, nil, err
		}
	}
	return held, leases, nil
}

// acquired is the answer for one key of many.
type acquired struct {
	plain.Acquired
	err error
}

// acquireAll asks for many leases. Its error is about the connection.
func (t *Tier) acquireAll(send plain.Ask, wishes []wish, w *words.Word) ([]acquired, error) {
	answers := make([]acquired, len(wishes))
	if t.scripted() {
		replies, err := runAll(send, len(wishes), func(dst []byte, head func(*script) string, i int) []byte {
			return t.appendAcquire(dst, head(t.scripts.acquire), wishes[i], w)
		})
		if err != nil {
			return nil, err
		}
		for i, v := range replies {
			answers[i].Acquired, answers[i].err = parseAcquired(v)
		}
		if !t.forbids(replies[0]) {
			return answers, nil
		}
	}
	for i, q := range wishes {
		var err error
		answers[i].Acquired, err = t.acquirePlain(send, q, w)
		var refused *plain.Refusal
		if answers[i].err = err; err != nil && !errors.As(err, &refused) {
			return nil, err
		}
	}
	return answers, nil
}

func (t *Tier) acquireOver(send plain.Ask, q wish, w *words.Word) (plain.Acquired, error) {
	if t.scripted() {
		v, err := runOver(send, t.scripts.acquire, func(dst []byte, head string) []byte {
			return t.appendAcquire(dst, head, q, w)
		})
		if err != nil {
			return plain.Acquired{}, err
		}
		if !t.forbids(v) {
			return parseAcquired(v)
		}
	}
	return t.acquirePlain(send, q, w)
}

func (t *Tier) acquirePlain(send plain.Ask, q wish, w *words.Word) (plain.Acquired, error) {
	return t.entry(send, q.key).Acquire(layout.Hex(q.token), millis(q.d), w.Text, uint64(q.id))
}

func (t *Tier) appendAcquire(dst []byte, head string, q wish, w *words.Word) []byte {
	args := 6
	if q.id != 0 {
		args++
	}
	dst = t.appendEntry(appendCall(dst, head, args), q.key)
	dst = resp.AppendString(dst, t.names.Schema)
	dst = appendInt(appendHex(dst, q.token), millis(q.d))
	dst = appendInt(dst, w.Past(time.Now())+millis(q.d))
	dst = resp.AppendString(dst, w.Text)
	if q.id != 0 {
		dst = appendHex(dst, uint64(q.id))
	}
	return dst
}

// entry is a key for those who work without scripts.
func (t *Tier) entry(ask plain.Ask, key string) plain.Entry {
	return plain.Entry{Ask: ask, Names: &t.names, Key: key}
}

// parseAcquired makes sense of what the acquire script returns.
func parseAcquired(v resp.Value) (a plain.Acquired, err error) {
	if err := refusal(v); err != nil {
		return a, err
	}
	if v.Kind() == resp.Int && v.Int() == 1 {
		return plain.Acquired{Grant: remote.Granted}, nil
	}
	var parts [4]resp.Value
	i := 0
	for e := range v.Elems() {
		if i < len(parts) {
			parts[i] = e
		}
		i++
	}
	a = plain.Acquired{Wait: parts[1].Int(), State: parts[2], Value: parts[3]}
	switch string(parts[0].Bytes()) {
	case "granted":
		a.Grant = remote.Granted
	case "busy":
		a.Grant = remote.Busy
	case "hold":
		a.Grant = remote.OnHold
	case "free":
		a.Grant = remote.Free
	default:
		return a, errAnswer
	}
	return a, nil
}

// Put stores values under their leases or tokens.
func (t *Tier) Put(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	for i := range puts {
		if err := tooLong(puts[i].Key); err != nil {
			return nil, err
		}
		if len(puts[i].Data) > t.srv.MaxValue() {
			return nil, remote.ErrValueTooLarge
		}
	}
	switch len(puts) {
	case 0:
		return nil, ctx.Err()
	case 1:
		stored, err := t.put(ctx, &puts[0])
		if err == nil && !stored {
			refused = []int{0}
		}
		return refused, err
	}
	if t.scripted() {
		refused, err, done := t.putScripts(ctx, puts)
		if done {
			return refused, err
		}
	}
	for i := range puts {
		stored, err := t.put(ctx, &puts[i])
		if err != nil {
			return nil, err
		}
		if !stored {
			refused = append(refused, i)
		}
	}
	return refused, nil
}

// putScripts stores many values in one round trip. It is not done if scripts
// are forbidden.
func (t *Tier) putScripts(ctx context.Context, puts []remote.Put) (refused []int, err error, done bool) {
	var replies []resp.Value
	w, err := t.clock(ctx)
	if err == nil {
		err = t.srv.Together(ctx, false, func(ask plain.Ask) (err error) {
			replies, err = runAll(ask, len(puts), func(dst []byte, head func(*script) string, i int) []byte {
				return t.appendPut(dst, head(t.storing(&puts[i])), &puts[i], w)
			})
			return err
		})
	}
	for i, v := range replies {
		switch {
		case err != nil:
		case t.forbids(v):
			return nil, nil, false
		case v.Kind() == resp.Error:
			err = refusal(v)
		case v.Kind() != resp.Int:
			err = errAnswer
		case v.Int() != 1:
			refused = append(refused, i)
		}
	}
	if err != nil {
		refused = nil
	}
	return refused, err, true
}

func (t *Tier) put(ctx context.Context, p *remote.Put) (stored bool, err error) {
	w, err := t.clock(ctx)
	if err != nil {
		return false, err
	}
	return t.either(ctx, t.storing(p), func(dst []byte, head string) []byte {
		return t.appendPut(dst, head, p, w)
	}, func(ask plain.Ask) (bool, error) {
		return t.entry(ask, p.Key).Put(plain.Value{
			Token: layout.Hex(p.Lease.Token), Word: p.Lease.Word, Nonce: layout.Hex(nonce()),
			Fresh: millis(p.Fresh), Left: millis(p.Left), Data: p.Data,
		})
	})
}

// storing is the script that stores p.
func (t *Tier) storing(p *remote.Put) *script {
	if isLease(p.Lease.Token) {
		return t.scripts.fill
	}
	return t.scripts.put
}

// appendPut appends a call of the script that stores p.
func (t *Tier) appendPut(dst []byte, head string, p *remote.Put, w *words.Word) []byte {
	lease := isLease(p.Lease.Token)
	if lease {
		dst = t.appendEntry(appendCall(dst, head, 8), p.Key)
	} else {
		dst = t.appendEntry(appendCall(dst, head, 11), p.Key)
		dst = resp.AppendString(dst, t.names.Lane(p.Key))
	}
	dst = resp.AppendString(dst, t.names.Schema)
	dst = appendHex(dst, p.Lease.Token)
	now, left := w.Past(time.Now()), millis(p.Left)
	s := layout.State{Fresh: now + millis(p.Fresh), Left: now + left, ID: p.Lease.Token, Word: p.Lease.Word}
	var b [128]byte
	dst = resp.AppendBulk(dst, s.Append(b[:0]))
	dst = appendInt(dst, left)
	dst = resp.AppendBulk(dst, p.Data)
	dst = resp.AppendString(dst, t.names.Channel)
	if lease {
		return t.appendEnded(dst, p.Key)
	}
	dst = resp.AppendString(dst, t.names.Dropped(p.Key, false))
	return resp.AppendString(appendHex(dst, nonce()), p.Key)
}

// appendEnded appends the message that a lease on key has ended.
func (t *Tier) appendEnded(dst []byte, key string) []byte {
	head := t.names.Ended
	dst = resp.AppendBulkHeader(dst, int64(len(head)+len(key)))
	dst = append(append(dst, head...), key...)
	return append(dst, "\r\n"...)
}

// Drop makes keys absent or stale for values of all types.
func (t *Tier) Drop(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	wantsToken := false
	for i := range drops {
		if err := tooLong(drops[i].Key); err != nil {
			return nil, err
		}
		wantsToken = wantsToken || drops[i].Token > 0
	}
	if len(drops) == 0 {
		return nil, ctx.Err()
	}
	leases := make([]remote.Lease, len(drops))
	if wantsToken {
		w, err := t.current(ctx)
		if err != nil {
			return nil, err
		}
		for i := range drops {
			if drops[i].Token > 0 {
				leases[i] = remote.Lease{Token: newToken(), Word: w.Text, Clock: w.Clock, Grant: remote.Granted}
			}
		}
	}
	replies := make([]resp.Value, len(drops)) // null: not done yet
	if len(drops) > 1 && t.scripted() {
		err := t.srv.Together(ctx, true, func(ask plain.Ask) (err error) {
			replies, err = runAll(ask, len(drops), func(dst []byte, head func(*script) string, i int) []byte {
				return t.appendDrop(dst, head(t.scripts.drop), &drops[i], leases[i].Token)
			})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for i, v := range replies {
		if err := t.dropped(ctx, &drops[i], leases[i].Token, v); err != nil {
			return nil, err
		}
	}
	return leases, nil
}

// dropped looks at the reply to one drop, and carries it out if there is none,
// or if scripts or something foreign were in its way.
func (t *Tier) dropped(ctx context.Context, d *remote.Drop, token uint64, v resp.Value) error {
	err := refusal(v)
	if v.Kind() == resp.Null || t.forbids(v) {
		err = t.drop(ctx, d, token)
	}
	if !wrongType(err) {
		return err
	}
	t.foreign.Add(1)
	if err := t.clean(ctx, "hash", t.names.Entry(d.Key)); err != nil {
		return err
	}
	if err := t.clean(ctx, "string", t.names.Lane(d.Key)); err != nil {
		return err
	}
	return t.drop(ctx, d, token)
}

func (t *Tier) drop(ctx context.Context, d *remote.Drop, token uint64) error {
	_, err := t.either(ctx, t.scripts.drop, func(dst []byte, head string) []byte {
		return t.appendDrop(dst, head, d, token)
	}, func(ask plain.Ask) (bool, error) {
		l := plain.Loss{Soft: d.Soft, Nonce: layout.Hex(nonce()), Life: millis(d.Token), Hold: millis(d.Hold)}
		if token != 0 {
			l.Token = layout.Hex(token)
		}
		return true, t.entry(ask, d.Key).Drop(l)
	})
	return err
}

func (t *Tier) appendDrop(dst []byte, head string, d *remote.Drop, token uint64) []byte {
	usual := !d.Soft && token == 0 && d.Hold <= 0
	if usual {
		dst = appendCall(dst, head, 6)
	} else {
		dst = appendCall(dst, head, 10)
	}
	dst = t.appendEntry(dst, d.Key)
	dst = appendStrings(dst, t.names.Lane(d.Key), t.names.Channel, t.names.Dropped(d.Key, d.Soft))
	dst = resp.AppendString(appendHex(dst, nonce()), d.Key)
	switch {
	case usual:
		return dst
	case d.Soft:
		dst = resp.AppendString(dst, "soft")
	default:
		dst = resp.AppendString(dst, "hard")
	}
	if token == 0 {
		dst = resp.AppendString(dst, "")
	} else {
		dst = appendHex(dst, token)
	}
	return appendInt(appendInt(dst, millis(d.Token)), millis(d.Hold))
}

// Extend gives the held value new lives.
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	if err := tooLong(key); err != nil {
		return false, err
	}
	done, err := t.either(ctx, t.scripts.extend, func(dst []byte, head string) []byte {
		dst = t.appendEntry(appendCall(dst, head, 9), key)
		dst = resp.AppendString(dst, t.names.Schema)
		dst = resp.AppendString(appendHex(dst, l.Token), l.Word)
		dst = appendInt(appendInt(dst, millis(fresh)), millis(left))
		dst = resp.AppendString(appendHex(dst, uint64(id)), t.names.Channel)
		return t.appendEnded(dst, key)
	}, func(ask plain.Ask) (bool, error) {
		v := plain.Value{Token: layout.Hex(l.Token), Word: l.Word, Fresh: millis(fresh), Left: millis(left)}
		return t.entry(ask, key).Extend(v, uint64(id))
	})
	return err == nil && !done, err
}

// Release gives a lease back.
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	if err := tooLong(key); err != nil {
		return err
	}
	_, err := t.either(ctx, t.scripts.release, func(dst []byte, head string) []byte {
		dst = t.appendEntry(appendCall(dst, head, 5), key)
		dst = appendHex(resp.AppendString(dst, t.names.Schema), l.Token)
		return t.appendEnded(resp.AppendString(dst, t.names.Channel), key)
	}, func(ask plain.Ask) (bool, error) {
		return true, t.entry(ask, key).Release(layout.Hex(l.Token))
	})
	return err
}

// Renew prolongs a lease.
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	if err := tooLong(key); err != nil {
		return false, err
	}
	return t.either(ctx, t.scripts.renew, func(dst []byte, head string) []byte {
		dst = t.appendEntry(appendCall(dst, head, 4), key)
		dst = appendHex(resp.AppendString(dst, t.names.Schema), l.Token)
		return appendInt(dst, millis(d))
	}, func(ask plain.Ask) (bool, error) {
		return t.entry(ask, key).Renew(layout.Hex(l.Token), millis(d))
	})
}
