package tier

import (
	"context"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// Drop makes keys absent or stale for values of all types.
func (t *Tier) Drop(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	for i := range drops {
		if err := tooLong(drops[i].Key); err != nil {
			return nil, err
		}
	}
	if len(drops) == 0 {
		return nil, ctx.Err()
	}
	leases := make([]remote.Lease, len(drops))
	for i := range drops {
		if drops[i].Token > 0 {
			leases[i] = remote.Lease{Token: newToken(), Grant: remote.Granted}
		}
	}
	if len(drops) == 1 {
		if err := t.dropped(ctx, &drops[0], &leases[0], resp.Value{}); err != nil {
			return nil, err
		}
		return leases, nil
	}
	err := t.each(len(drops), func(i int) string { return t.names.Entry(drops[i].Key) }, func(part []int) error {
		return t.dropFrom(ctx, drops, part, leases)
	})
	if err != nil {
		return nil, err
	}
	return leases, nil
}

// dropFrom drops a part of the keys from one server.
func (t *Tier) dropFrom(ctx context.Context, drops []remote.Drop, part []int, leases []remote.Lease) error {
	replies := make([]resp.Value, len(part)) // null: not done yet
	if len(part) > 1 && t.scripted() {
		err := t.atKey(ctx, drops[part[0]].Key, true, func(ctx context.Context, s *site) (err error) {
			replies, err = s.dropAll(ctx, drops, part, leases)
			return err
		})
		if err != nil {
			return err
		}
	}
	for j, i := range part {
		if err := t.dropped(ctx, &drops[i], &leases[i], replies[j]); err != nil {
			return err
		}
	}
	return nil
}

// dropAll drops many keys in one round trip.
func (s *site) dropAll(ctx context.Context, drops []remote.Drop, part []int, leases []remote.Lease) (replies []resp.Value, err error) {
	for _, i := range part {
		if err := s.vouch(ctx, &leases[i]); err != nil {
			return nil, err
		}
	}
	err = s.srv.Together(ctx, true, func(ask watch.Ask) (err error) {
		replies, err = runAll(ask, len(part), func(dst []byte, head func(*script) string, j int) []byte {
			i := part[j]
			return s.appendDrop(dst, head(s.scripts.drop), &drops[i], leases[i].Token)
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

// vouch completes the lease that comes of a drop, unless it is none.
func (s *site) vouch(ctx context.Context, l *remote.Lease) error {
	if l.Token == 0 {
		return nil
	}
	w, err := s.current(ctx)
	if err == nil {
		l.Word, l.Clock = w.Text, w.Clock
	}
	return err
}

// dropped looks at the reply to one drop, and carries it out if there is none,
// or if scripts or something foreign were in its way.
func (t *Tier) dropped(ctx context.Context, d *remote.Drop, l *remote.Lease, v resp.Value) error {
	err := refusal(v)
	if v.Kind() == resp.Null || t.forbids(v) || t.elsewhere(err) {
		err = t.drop(ctx, d, l)
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
	return t.drop(ctx, d, l)
}

func (t *Tier) drop(ctx context.Context, d *remote.Drop, l *remote.Lease) error {
	return t.atKey(ctx, d.Key, true, func(ctx context.Context, s *site) error {
		if err := s.vouch(ctx, l); err != nil {
			return err
		}
		_, err := s.either(ctx, s.scripts.drop, func(dst []byte, head string) []byte {
			return s.appendDrop(dst, head, d, l.Token)
		}, func(ask watch.Ask) (bool, error) {
			loss := watch.Loss{Soft: d.Soft, Nonce: layout.Hex(nonce()), Life: millis(d.Token), Hold: millis(d.Hold), Left: millis(d.Left)}
			if l.Token != 0 {
				loss.Token = layout.Hex(l.Token)
			}
			return true, s.entry(ask, d.Key).Drop(loss)
		})
		return err
	})
}

func (t *Tier) appendDrop(dst []byte, head string, d *remote.Drop, token uint64) []byte {
	usual := !d.Soft && token == 0 && d.Hold <= 0
	if usual {
		dst = appendCall(dst, head, 6)
	} else {
		dst = appendCall(dst, head, 11)
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
	return appendInt(appendInt(appendInt(dst, millis(d.Token)), millis(d.Hold)), millis(d.Left))
}
