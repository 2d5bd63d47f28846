// Stores of values under leases and tokens, and the other uses of a lease: Extend,
// Release and Renew.
// Invariant: the server stores a value only while it knows the value's lease or
// token, and uses this right up in the same step. A refused value is reported by
// its index.

package tier

import (
	"context"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// Put stores values under their leases or tokens. In a cluster the error is
// [remote.KeyErrors] if only some servers have answered.
func (t *Tier) Put(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	for i := range puts {
		if err := tooLong(puts[i].Key); err != nil {
			return nil, err
		}
		if len(puts[i].Data) > t.maxValue() {
			return nil, remote.ErrValueTooLarge
		}
	}
	if len(puts) == 0 {
		return nil, ctx.Err()
	}
	term := t.term()
	// As for a drop, the term is checked only after the values are stored. A Put that only fills in
	// a loaded value needs no proof: at worst the value is missing on the new server.
	refused, err = t.putAll(ctx, puts)
	for i := range puts {
		if drops(puts[i]) {
			t.made.add(t.Lane(puts[i].Key))
		}
	}
	if _, partly := err.(remote.KeyErrors); err != nil && !partly { //nolint:errorlint // wrapped it is the error of all keys
		return nil, err
	}
	if slices.ContainsFunc(puts, drops) {
		if gone := t.holds(ctx, term); gone != nil {
			return nil, t.explained(gone)
		}
	}
	return refused, err
}

// drops reports whether a value replaces the values on other instances.
func drops(p remote.Put) bool { return p.Drops || !isLease(p.Lease.Token) }

func (t *Tier) putAll(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	if len(puts) == 1 {
		stored, err := t.put(ctx, &puts[0])
		if !stored {
			refused = []int{0}
		}
		return refused, t.explained(err)
	}
	stored := make([]bool, len(puts))
	err = eachKey(t, len(puts), func(i int) string { return t.names.Entry(puts[i].Key) }, func(part []int) error {
		return t.putTo(ctx, puts, part, stored)
	})
	for i, ok := range stored {
		if !ok && remote.ErrorOf(err, i) == nil {
			refused = append(refused, i)
		}
	}
	return refused, err
}

// putTo stores a part of the values with one server.
func (t *Tier) putTo(ctx context.Context, puts []remote.Put, part []int, stored []bool) (err error) {
	replies := make([]resp.Value, len(part)) // null: not done yet
	// A batch that may have been executed is not sent again: the rights of its values are used up
	// then, and the second answer would be that the stored values were refused.
	if len(part) > 1 && t.scripted() {
		err = t.atKey(ctx, puts[part[0]].Key, false, func(ctx context.Context, s *site) error {
			if slices.ContainsFunc(part, func(i int) bool { return drops(puts[i]) }) {
				s.state.Drops()
			}
			replies, err = s.doAll(ctx, len(part), false, func(j int) (string, entryrules.Operation) {
				p := &puts[part[j]]
				return p.Key, t.putting(p)
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	alone := func(j int) bool { return t.undone(replies[j]) }
	return inPart(t, part, alone, func(j, i int) (err error) {
		if alone(j) {
			stored[i], err = t.put(ctx, &puts[i])
		} else {
			stored[i], err = isDone(replies[j])
		}
		return err
	})
}

func (t *Tier) put(ctx context.Context, p *remote.Put) (stored bool, err error) {
	if t.all == nil {
		return t.one.do(ctx, p.Key, t.putting(p))
	}
	return t.putThere(ctx, p)
}

// putThere is put in a cluster.
func (t *Tier) putThere(ctx context.Context, p *remote.Put) (stored bool, err error) {
	err = t.atKey(ctx, p.Key, false, func(ctx context.Context, s *site) error {
		if drops(*p) {
			s.state.Drops()
		}
		stored, err = s.do(ctx, p.Key, t.putting(p))
		return err
	})
	return stored, err
}

// putting is a Put of one value.
func (t *Tier) putting(p *remote.Put) entryrules.Put {
	return entryrules.Put{
		Schema: t.names.Schema, Token: p.Lease.Token, Fresh: millis(p.Fresh), Left: millis(p.Left),
		Namespace: p.Lease.State, Data: p.Data, Drops: p.Drops, Quiet: p.Lease.Quiet,
	}
}

// Extend gives the held value new lives.
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	if err := tooLong(key); err != nil {
		return false, err
	}
	done, err := t.change(ctx, key, entryrules.Extend{
		Schema: t.names.Schema, Token: l.Token, ID: uint64(id), Fresh: millis(fresh), Left: millis(left), Namespace: l.State,
	})
	return err == nil && !done, err
}

// Release ends a lease.
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	if err := tooLong(key); err != nil {
		return err
	}
	_, err := t.change(ctx, key, entryrules.Release{Schema: t.names.Schema, Token: l.Token})
	return err
}

// Renew prolongs a lease.
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	if err := tooLong(key); err != nil {
		return false, err
	}
	return t.change(ctx, key, entryrules.Renew{Schema: t.names.Schema, Token: l.Token, Length: millis(d)})
}
