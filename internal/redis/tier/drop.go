// Drops of keys: for each key one script, or one transaction, makes its values absent or stale,
// gives the lane another version and announces the drop. Keys are grouped by server.
// Invariant: a nil error means that every drop was executed and announced by the server that
// serves its key, and that this server was the right one afterwards, as far as its client can
// tell.

package tier

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// Drop makes keys absent or stale for values of all types. In a cluster the error is
// [remote.KeyErrors] if only some servers have confirmed.
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
	// The term is noted before the drops are sent, and checked after they are confirmed. If another
	// server took over in between, the confirmation may come from the deposed one.
	term := t.term()
	err := t.dropAll(ctx, drops, leases)
	for i := range drops { // also after an error: some may have been made
		if !leases[i].Quiet {
			t.made.add(t.Lane(drops[i].Key))
		}
	}
	some, partly := err.(remote.KeyErrors) //nolint:errorlint // wrapped it is the error of all keys
	if err != nil && !partly {
		return nil, err
	}
	if gone := t.holds(ctx, term); gone != nil {
		return nil, t.explained(gone)
	}
	for i, failed := range some {
		if failed != nil {
			leases[i] = remote.Lease{}
		}
	}
	return leases, err
}

func (t *Tier) dropAll(ctx context.Context, drops []remote.Drop, leases []remote.Lease) error {
	if len(drops) == 1 {
		return t.explained(t.dropped(ctx, &drops[0], &leases[0], resp.Value{}))
	}
	return eachKey(t, len(drops), func(i int) string { return t.names.Entry(drops[i].Key) }, func(part []int) error {
		return t.dropFrom(ctx, drops, part, leases)
	})
}

// term returns the number of the present term, for holds.
func (t *Tier) term() uint64 {
	if t.terms == nil {
		return 0
	}
	return t.terms.Term()
}

// holds returns an error if the server that confirmed an operation of a term may have
// lost its place: then no other server may ever hear of the operation.
func (t *Tier) holds(ctx context.Context, term uint64) error {
	if t.terms == nil {
		return nil
	}
	return t.terms.Holds(ctx, term)
}

// dropFrom drops a part of the keys from one server.
func (t *Tier) dropFrom(ctx context.Context, drops []remote.Drop, part []int, leases []remote.Lease) error {
	replies := make([]resp.Value, len(part)) // null: not done yet
	if len(part) > 1 && t.scripted() {
		err := t.atKey(ctx, drops[part[0]].Key, true, func(ctx context.Context, s *site) (err error) {
			s.state.Drops() // before meet, which may note that there is no report
			s.meet(ctx)
			if !s.scripted() { // as meet may have found out
				return nil
			}
			// The tokens get the state and the tag clock from before the drop. A value stored under
			// one is then judged by all drops of everything and of tags since.
			for _, i := range part {
				if err := s.stamp(ctx, &leases[i]); err != nil {
					return err
				}
			}
			replies, err = s.doAll(ctx, len(part), true, func(j int) (string, entryrules.Operation) {
				i := part[j]
				op := dropping(&drops[i], leases[i].Token)
				op.Quiet = quiet(&drops[i])
				return drops[i].Key, op
			})
			if err == nil {
				s.meet(ctx)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	// The rest of the batch is done one by one: all keys if the server has no scripts, else the keys
	// that have moved or are of another type. A drop may be made twice.
	alone := func(j int) bool { return unmade(t, &drops[part[j]], replies[j]) }
	return inPart(t, part, alone, func(j, i int) error {
		return t.dropped(ctx, &drops[i], &leases[i], replies[j])
	})
}

// meet reads the namespace state if none is known, or if a connection was opened since the
// last drop and no state was read since. It is called before a drop and after it: so an
// instance that only drops learns of another server, and repeats its drops there. A first
// state that arrives after a drop may be of another server, too: all reads that run then would
// pass L2 by. So the state comes first. The drop does not fail if the state cannot be read; the
// next attempt is a second later.
func (s *site) meet(ctx context.Context) {
	now, opened, ns := time.Now(), s.srv.Opened(), s.known()
	if ns != nil && s.fits(ns) {
		return
	}
	if s.state.Meet(now, opened, ns != nil) {
		if _, err := s.current(ctx); err == nil {
			return
		}
		s.state.Missed(now, opened, ns != nil)
	}
	if s.home != nil && ns == nil {
		s.home.Serves(now)
	}
}

// stamp completes the lease of a drop with the namespace state and the tag
// clock. A lease without a token stays as it is.
func (s *site) stamp(ctx context.Context, l *remote.Lease) error {
	if l.Token == 0 {
		return nil
	}
	ns, err := s.current(ctx)
	if err == nil {
		l.State, l.Clock = ns.Text, ns.Clock
	}
	return err
}

// dropped handles the reply to one drop. It executes the drop alone without a reply,
// without permission for scripts, if it could not be quiet, or after it has removed a key of
// another type.
func (t *Tier) dropped(ctx context.Context, d *remote.Drop, l *remote.Lease, v resp.Value) error {
	_, err := isDone(v)
	switch {
	case unmade(t, d, v):
		err = t.drop(ctx, d, l)
	case quiet(d):
		l.Quiet = true
	}
	if !wrongType(err) {
		return err
	}
	// The drop must not fail because another program has written one of the two keys, or the value
	// on other instances would stay. Both are removed, and the drop is made again.
	t.foreign.Add(1)
	if err := t.clean(ctx, "hash", t.names.Entry(d.Key)); err != nil {
		return err
	}
	if err := t.clean(ctx, "string", t.names.Lane(d.Key)); err != nil {
		return err
	}
	return t.drop(ctx, d, l)
}

// unmade reports, by the reply to it, whether a drop has to be executed alone.
func unmade(t *Tier, d *remote.Drop, v resp.Value) bool {
	if quiet(d) {
		done, _ := isDone(v)
		return !done
	}
	return t.undone(v)
}

func (t *Tier) drop(ctx context.Context, d *remote.Drop, l *remote.Lease) error {
	if t.all == nil {
		return t.one.drop(ctx, d, l)
	}
	return t.atKey(ctx, d.Key, true, func(ctx context.Context, s *site) error { return s.drop(ctx, d, l) })
}

func (s *site) drop(ctx context.Context, d *remote.Drop, l *remote.Lease) error {
	s.state.Drops() // before meet, which may note that there is no report
	s.meet(ctx)
	err := s.stamp(ctx, l)
	if err == nil && quiet(d) {
		l.Quiet, err = s.reserve(ctx, d, l.Token)
	}
	if err == nil && !l.Quiet {
		_, err = s.do(ctx, d.Key, dropping(d, l.Token))
	}
	if err == nil {
		s.meet(ctx)
	}
	return err
}

// quiet reports whether a drop may give its token and do nothing else.
func quiet(d *remote.Drop) bool { return d.Quiet && d.Token > 0 && !d.Soft && d.Hold <= 0 }

// reserve gives the token of a quiet drop, and reports whether it has. If the server does not, for
// whatever reason, the key has to be dropped.
func (s *site) reserve(ctx context.Context, d *remote.Drop, token uint64) (done bool, err error) {
	op := dropping(d, token)
	op.Quiet = true
	if !s.scripted() {
		return false, nil
	}
	ns, err := s.clock(ctx)
	if err != nil {
		return false, err
	}
	v, err := s.run(ctx, s.scripts.token, func(dst []byte, head string) []byte {
		return s.appendOperation(dst, head, d.Key, op, ns)
	})
	if err != nil {
		return false, err
	}
	done, _ = isDone(v)
	return done, nil
}

// dropping is the drop of one key, with a token unless token is zero.
func dropping(d *remote.Drop, token uint64) entryrules.Drop {
	return entryrules.Drop{Soft: d.Soft, Left: millis(d.Left), Hold: millis(d.Hold), Token: token, Life: millis(d.Token)}
}
