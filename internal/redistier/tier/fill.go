package tier

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/internal/redistier/words"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// Put stores values under their leases or tokens.
func (t *Tier) Put(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	for i := range puts {
		if err := tooLong(puts[i].Key); err != nil {
			return nil, err
		}
		if len(puts[i].Data) > t.maxValue() {
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
	stored := make([]bool, len(puts))
	err = t.each(len(puts), func(i int) string { return t.names.Entry(puts[i].Key) }, func(part []int) error {
		return t.putTo(ctx, puts, part, stored)
	})
	for i, ok := range stored {
		if err == nil && !ok {
			refused = append(refused, i)
		}
	}
	return refused, err
}

// putTo stores a part of the values with one server.
func (t *Tier) putTo(ctx context.Context, puts []remote.Put, part []int, stored []bool) (err error) {
	replies := make([]resp.Value, len(part)) // null: not done yet
	if len(part) > 1 && t.scripted() {
		err = t.atKey(ctx, puts[part[0]].Key, false, func(ctx context.Context, s *site) error {
			replies, err = s.putAll(ctx, pick(puts, part))
			return err
		})
		if err != nil {
			return err
		}
	}
	for j, i := range part {
		v := replies[j]
		switch err := refusal(v); {
		case v.Kind() == resp.Null || t.forbids(v) || t.elsewhere(err):
			if stored[i], err = t.put(ctx, &puts[i]); err != nil {
				return err
			}
		case err != nil:
			return err
		case v.Kind() != resp.Int:
			return errAnswer
		default:
			stored[i] = v.Int() == 1
		}
	}
	return nil
}

// putAll stores many values in one round trip.
func (s *site) putAll(ctx context.Context, puts []remote.Put) (replies []resp.Value, err error) {
	w, err := s.clock(ctx)
	if err != nil {
		return nil, err
	}
	err = s.srv.Together(ctx, false, func(ask watch.Ask) (err error) {
		replies, err = runAll(ask, len(puts), func(dst []byte, head func(*script) string, i int) []byte {
			return s.appendPut(dst, head(s.storing(&puts[i])), &puts[i], w)
		})
		return err
	})
	if err == nil {
		if first := refusal(replies[0]); s.elsewhere(first) { // and so may be all
			return nil, first
		}
	}
	return replies, err
}

func (t *Tier) put(ctx context.Context, p *remote.Put) (stored bool, err error) {
	err = t.atKey(ctx, p.Key, false, func(ctx context.Context, s *site) error {
		w, err := s.clock(ctx)
		if err != nil {
			return err
		}
		stored, err = s.either(ctx, s.storing(p), func(dst []byte, head string) []byte {
			return s.appendPut(dst, head, p, w)
		}, func(ask watch.Ask) (bool, error) {
			return s.entry(ask, p.Key).Put(watch.Value{
				Token: layout.Hex(p.Lease.Token), Word: p.Lease.Word, Nonce: layout.Hex(nonce()),
				Fresh: millis(p.Fresh), Left: millis(p.Left), Data: p.Data, Drops: p.Drops,
			})
		})
		return err
	})
	return stored, err
}

// storing is the script that stores p.
func (t *Tier) storing(p *remote.Put) *script {
	if fills(p) {
		return t.scripts.fill
	}
	return t.scripts.put
}

// fills reports whether p is no drop.
func fills(p *remote.Put) bool { return isLease(p.Lease.Token) && !p.Drops }

// appendPut appends a call of the script that stores p.
func (t *Tier) appendPut(dst []byte, head string, p *remote.Put, w *words.Word) []byte {
	if fills(p) {
		dst = t.appendEntry(appendCall(dst, head, 8), p.Key)
	} else {
		dst = t.appendEntry(appendCall(dst, head, 12), p.Key)
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
	if fills(p) {
		return t.appendEnded(dst, p.Key)
	}
	dst = resp.AppendString(dst, t.names.Dropped(p.Key, false))
	dst = resp.AppendString(appendHex(dst, nonce()), p.Key)
	if isLease(p.Lease.Token) {
		return resp.AppendString(dst, t.names.Lease)
	}
	return resp.AppendString(dst, "t")
}

// appendEnded appends the message that a lease on key has ended.
func (t *Tier) appendEnded(dst []byte, key string) []byte {
	head := t.names.Ended
	dst = resp.AppendBulkHeader(dst, int64(len(head)+len(key)))
	dst = append(append(dst, head...), key...)
	return append(dst, "\r\n"...)
}

// Extend gives the held value new lives.
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	if err := tooLong(key); err != nil {
		return false, err
	}
	done, err := t.either(ctx, t.names.Entry(key), t.scripts.extend, func(dst []byte, head string) []byte {
		dst = t.appendEntry(appendCall(dst, head, 9), key)
		dst = resp.AppendString(dst, t.names.Schema)
		dst = resp.AppendString(appendHex(dst, l.Token), l.Word)
		dst = appendInt(appendInt(dst, millis(fresh)), millis(left))
		dst = resp.AppendString(appendHex(dst, uint64(id)), t.names.Channel)
		return t.appendEnded(dst, key)
	}, func(ask watch.Ask) (bool, error) {
		v := watch.Value{Token: layout.Hex(l.Token), Word: l.Word, Fresh: millis(fresh), Left: millis(left)}
		return t.entry(ask, key).Extend(v, uint64(id))
	})
	return err == nil && !done, err
}

// Release gives a lease back.
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	if err := tooLong(key); err != nil {
		return err
	}
	_, err := t.either(ctx, t.names.Entry(key), t.scripts.release, func(dst []byte, head string) []byte {
		dst = t.appendEntry(appendCall(dst, head, 5), key)
		dst = appendHex(resp.AppendString(dst, t.names.Schema), l.Token)
		return t.appendEnded(resp.AppendString(dst, t.names.Channel), key)
	}, func(ask watch.Ask) (bool, error) {
		return true, t.entry(ask, key).Release(layout.Hex(l.Token))
	})
	return err
}

// Renew prolongs a lease.
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	if err := tooLong(key); err != nil {
		return false, err
	}
	return t.either(ctx, t.names.Entry(key), t.scripts.renew, func(dst []byte, head string) []byte {
		dst = t.appendEntry(appendCall(dst, head, 4), key)
		dst = appendHex(resp.AppendString(dst, t.names.Schema), l.Token)
		return appendInt(dst, millis(d))
	}, func(ask watch.Ask) (bool, error) {
		return t.entry(ask, key).Renew(layout.Hex(l.Token), millis(d))
	})
}
