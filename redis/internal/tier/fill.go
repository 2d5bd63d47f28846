package tier

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/redis/internal/layout"
	"github.com/strata-cache/strata/redis/internal/plain"
	"github.com/strata-cache/strata/redis/internal/words"
	"github.com/strata-cache/strata/remote"
)

// Acquire asks for the right to fill key.
func (t *Tier) Acquire(ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	if err := tooLong(key); err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	token := newToken()
	a, w, err := t.acquire(ctx, key, token, d)
	if wrongType(err) {
		t.foreign.Add(1)
		if err = t.clean(ctx, "hash", t.names.Entry(key)); err == nil {
			a, w, err = t.acquire(ctx, key, token, d)
		}
	}
	if err != nil {
		return remote.Held{}, remote.Lease{}, t.cleanWord(ctx, err)
	}
	l := remote.Lease{Word: w.Text, Clock: w.Clock, Grant: a.Grant, Wait: time.Duration(a.Wait) * time.Millisecond}
	if a.Grant == remote.Granted {
		l.Token, l.Wait = token, 0
	}
	return t.open(a.Value, a.State, w), l, nil
}

// acquire asks for a lease, and for the word before if it is due or a
// connection was opened meanwhile. It returns a word by which the answer can be
// judged.
func (t *Tier) acquire(ctx context.Context, key string, token uint64, d time.Duration) (a plain.Acquired, w *words.Word, err error) {
	ask, w := t.word.Due(time.Now(), t.srv.Opened())
	if !ask && t.scripted() {
		v, err := t.run(ctx, t.scripts.acquire, func(dst []byte, head string) []byte {
			return t.appendAcquire(dst, head, key, token, d, w)
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
			if a, err = t.acquireOver(send, key, token, d, w); err != nil || ask || t.fits(w) {
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

func (t *Tier) acquireOver(send plain.Ask, key string, token uint64, d time.Duration, w *words.Word) (plain.Acquired, error) {
	if t.scripted() {
		v, err := runOver(send, t.scripts.acquire, 1, func(dst []byte, head string, _ int) []byte {
			return t.appendAcquire(dst, head, key, token, d, w)
		})
		if err != nil {
			return plain.Acquired{}, err
		}
		if !t.forbids(v[0]) {
			return parseAcquired(v[0])
		}
	}
	return t.entry(send, key).Acquire(layout.Hex(token), millis(d), w.Text)
}

func (t *Tier) appendAcquire(dst []byte, head, key string, token uint64, d time.Duration, w *words.Word) []byte {
	dst = t.appendEntry(appendCall(dst, head, 5), key)
	dst = resp.AppendString(dst, t.names.Schema)
	dst = appendInt(appendHex(dst, token), millis(d))
	return resp.AppendString(dst, w.Text)
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
	err = t.srv.Together(ctx, false, func(ask plain.Ask) (err error) {
		replies, err = runOver(ask, t.scripts.put, len(puts), func(dst []byte, head string, i int) []byte {
			return t.appendPut(dst, head, &puts[i])
		})
		return err
	})
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
	return t.either(ctx, t.scripts.put, func(dst []byte, head string) []byte {
		return t.appendPut(dst, head, p)
	}, func(ask plain.Ask) (bool, error) {
		return t.entry(ask, p.Key).Put(plain.Value{
			Token: layout.Hex(p.Lease.Token), Word: p.Lease.Word, Nonce: layout.Hex(newToken()),
			Fresh: millis(p.Fresh), Left: millis(p.Left), Data: p.Data,
		})
	})
}

func (t *Tier) appendPut(dst []byte, head string, p *remote.Put) []byte {
	dst = t.appendEntry(appendCall(dst, head, 13), p.Key)
	dst = appendStrings(dst, t.names.Lane(p.Key), t.names.Schema)
	dst = resp.AppendString(appendHex(dst, p.Lease.Token), p.Lease.Word)
	dst = appendInt(appendInt(dst, millis(p.Fresh)), millis(p.Left))
	dst = resp.AppendBulk(dst, p.Data)
	dst = appendStrings(dst, t.names.Channel, p.Key, t.names.Ended(), t.names.Dropped(p.Key, false))
	return appendHex(dst, newToken())
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
			replies, err = runOver(ask, t.scripts.drop, len(drops), func(dst []byte, head string, i int) []byte {
				return t.appendDrop(dst, head, &drops[i], leases[i].Token)
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
		l := plain.Loss{Soft: d.Soft, Nonce: layout.Hex(newToken()), Life: millis(d.Token), Hold: millis(d.Hold)}
		if token != 0 {
			l.Token = layout.Hex(token)
		}
		return true, t.entry(ask, d.Key).Drop(l)
	})
	return err
}

func (t *Tier) appendDrop(dst []byte, head string, d *remote.Drop, token uint64) []byte {
	how := "hard"
	if d.Soft {
		how = "soft"
	}
	dst = t.appendEntry(appendCall(dst, head, 10), d.Key)
	dst = appendStrings(dst, t.names.Lane(d.Key), how)
	if token == 0 {
		dst = resp.AppendString(dst, "")
	} else {
		dst = appendHex(dst, token)
	}
	dst = appendInt(appendInt(dst, millis(d.Token)), millis(d.Hold))
	dst = appendStrings(dst, t.names.Channel, t.names.Dropped(d.Key, d.Soft))
	return resp.AppendString(appendHex(dst, newToken()), d.Key)
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
		return appendStrings(appendHex(dst, uint64(id)), t.names.Channel, t.names.Ended()+key)
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
		return appendStrings(dst, t.names.Channel, t.names.Ended()+key)
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
