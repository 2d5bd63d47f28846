package redis

import (
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata/redis/internal/layout"
	"github.com/strata-cache/strata/remote"
)

// Acquire asks for the right to fill key.
func (t *Tier) Acquire(ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	var none remote.Lease
	if err := tooLong(key); err != nil {
		return remote.Held{}, none, err
	}
	w, err := t.current(ctx)
	if err != nil {
		return remote.Held{}, none, err
	}
	token, entry := newToken(), t.names.Entry(key)
	ask := func() Reply {
		return t.c.Eval(ctx, t.scripts.acquire, []string{entry}, t.names.Schema, layout.Hex(token), millis(d), w.text)
	}
	r := ask()
	if wrongType(r.Err()) {
		if err := t.clean(ctx, entry); err != nil {
			return remote.Held{}, none, err
		}
		r = ask()
	}
	return t.acquired(r, token, w)
}

// acquired makes sense of what the acquire script returns.
func (t *Tier) acquired(r Reply, token uint64, w *word) (h remote.Held, l remote.Lease, err error) {
	if err := r.Err(); err != nil {
		return h, l, err
	}
	var parts [5]Reply
	for i, e := range r.All() {
		if i < len(parts) {
			parts[i] = e
		}
	}
	grant, err := parts[0].String()
	if err != nil {
		return h, l, err
	}
	wait, err := parts[1].Int()
	if err != nil {
		return h, l, err
	}
	if h, err = t.open(parts[4], parts[3], w); err != nil {
		return h, l, err
	}
	l = remote.Lease{Word: w.text, Wait: time.Duration(wait) * time.Millisecond}
	switch grant {
	case "granted":
		l.Grant, l.Token, l.Wait = remote.Granted, token, 0
	case "busy":
		l.Grant = remote.Busy
	case "hold":
		l.Grant = remote.OnHold
	case "free":
		l.Grant = remote.Free
	default:
		return h, l, errors.New("redis: tier: unknown answer to acquire")
	}
	return h, l, nil
}

// clean removes from keys what is none of ours.
func (t *Tier) clean(ctx context.Context, keys ...string) error {
	for _, k := range keys {
		if err := t.c.Eval(ctx, t.scripts.clean, []string{k}).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Put stores values under their leases or tokens. It returns an error when any
// of the values got no answer.
func (t *Tier) Put(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	for i := range puts {
		if err := tooLong(puts[i].Key); err != nil {
			return nil, err
		}
		if len(puts[i].Data) > t.maxValue() {
			return nil, remote.ErrValueTooLarge
		}
	}
	if len(puts) == 1 {
		keys, args := t.putArgs(&puts[0])
		n, err := t.c.Eval(ctx, t.scripts.put, keys, args...).Int()
		if err == nil && n == 0 {
			refused = []int{0}
		}
		return refused, err
	}
	p := t.c.Pipeline()
	for i := range puts {
		keys, args := t.putArgs(&puts[i])
		p.Eval(t.scripts.put, keys, args...)
	}
	replies, err := p.Do(ctx)
	if err != nil {
		return nil, err
	}
	for i, r := range replies {
		n, err := r.Int()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			refused = append(refused, i)
		}
	}
	return refused, ctx.Err()
}

func (t *Tier) putArgs(p *remote.Put) (keys []string, args []any) {
	return []string{t.names.Entry(p.Key), t.names.Lane(p.Key)},
		[]any{
			t.names.Schema, layout.Hex(p.Lease.Token), p.Lease.Word, millis(p.Fresh), millis(p.Left), p.Data,
			t.names.Channel, t.names.DropHead(p.Key, false), p.Key,
		}
}

// maxValue is the largest value that the client would read back.
func (t *Tier) maxValue() int {
	if t.c.o.MaxValue > 0 {
		return t.c.o.MaxValue
	}
	return 512 << 20
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
	var text string
	if wantsToken {
		w, err := t.current(ctx)
		if err != nil {
			return nil, err
		}
		text = w.text
	}
	leases := make([]remote.Lease, len(drops))
	p := t.c.Pipeline()
	for i := range drops {
		if drops[i].Token > 0 {
			leases[i] = remote.Lease{Token: newToken(), Word: text, Grant: remote.Granted}
		}
		keys, args := t.dropArgs(&drops[i], leases[i].Token)
		p.Eval(t.scripts.drop, keys, args...)
	}
	replies, err := p.Do(ctx)
	if err != nil {
		return nil, err
	}
	for i, r := range replies {
		if err := t.dropped(ctx, &drops[i], leases[i].Token, r); err != nil {
			return nil, err
		}
	}
	return leases, nil
}

// dropped looks at one reply, and repeats the drop if something foreign was in
// its way.
func (t *Tier) dropped(ctx context.Context, d *remote.Drop, token uint64, r Reply) error {
	if !wrongType(r.Err()) {
		return r.Err()
	}
	if err := t.clean(ctx, t.names.Entry(d.Key), t.names.Lane(d.Key)); err != nil {
		return err
	}
	keys, args := t.dropArgs(d, token)
	return t.c.Eval(ctx, t.scripts.drop, keys, args...).Err()
}

func (t *Tier) dropArgs(d *remote.Drop, token uint64) (keys []string, args []any) {
	how, tok := "hard", ""
	if d.Soft {
		how = "soft"
	}
	if token != 0 {
		tok = layout.Hex(token)
	}
	return []string{t.names.Entry(d.Key), t.names.Lane(d.Key)},
		[]any{how, tok, millis(d.Token), millis(d.Hold), t.names.Channel, t.names.DropHead(d.Key, d.Soft), d.Key}
}

// Extend gives the held value new lives.
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	if err := tooLong(key); err != nil {
		return false, err
	}
	n, err := t.c.Eval(ctx, t.scripts.extend, []string{t.names.Entry(key)},
		t.names.Schema, layout.Hex(l.Token), l.Word, millis(fresh), millis(left), layout.Hex(uint64(id))).Int()
	return n == 0, err
}

// Release gives a lease back.
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	if err := tooLong(key); err != nil {
		return err
	}
	return t.c.Eval(ctx, t.scripts.release, []string{t.names.Entry(key)}, t.names.Schema, layout.Hex(l.Token)).Err()
}

// Renew prolongs a lease.
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	if err := tooLong(key); err != nil {
		return false, err
	}
	n, err := t.c.Eval(ctx, t.scripts.renew, []string{t.names.Entry(key)}, t.names.Schema, layout.Hex(l.Token), millis(d)).Int()
	return n == 1, err
}
