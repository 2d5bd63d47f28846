// Values that callers have written. Each value is stored under the token of its drop,
// independently of the others: if its server gets no stores, or does not answer, its key has
// an error, and the other values are stored.
// Invariant: if it is unknown whether a value was stored after its confirmed drop, its key is
// dropped again, if the server that has confirmed the drop may be gone. If the put was to be the
// drop, its key is dropped at once, or later by a put of nothing under the same token: a drop
// that comes late could remove the value of a later write, a put of nothing cannot.

package l2

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/retry"
	"github.com/strata-cache/strata/remote"
)

// PutWritten stores written values under the tokens of their drops. The error is an
// *Unconfirmed, which wraps [remote.KeyErrors] if some are stored. If the way to L2 has
// broken, the drops are pending again: the server that has confirmed them may be gone, and
// another one may hold older values. Values are not sent again.
func (s *Store) PutWritten(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	if len(puts) == 1 || s.guards.alike() {
		err = errNotStored
		if ok, probe := s.mayStore(puts[0].Key); ok {
			refused, err = s.put(ctx, puts)
			s.Report(ctx, "put", puts[0].Key, firstError(err), Probes{Stores: probe})
		}
	} else {
		refused, err = s.putSome(ctx, puts)
	}
	if err == nil {
		return refused, nil
	}
	var drops []remote.Drop
	var quiet []remote.Put // puts that were to drop their keys
	for i := range puts {
		// A value that was never sent leaves its confirmed drop as it is.
		e := remote.ErrorOf(err, i)
		if uncertain(e) {
			s.applyOwn()
		}
		switch {
		case e == nil:
		case e != errNotStored && broken(e):
			drops = append(drops, remote.Drop{Key: puts[i].Key})
		case puts[i].Lease.Quiet:
			quiet = append(quiet, remote.Put{Key: puts[i].Key, Lease: puts[i].Lease, Drops: true})
		}
	}
	if len(quiet) > 0 && ctx.Err() == nil {
		if _, failed := s.dropOnce(ctx, dropsOf(quiet), never); withoutUnsaid(failed) == nil {
			quiet = nil
		}
	}
	if len(drops)+len(quiet) == 0 {
		return refused, s.notStored(ctx, err)
	}
	return refused, s.makePending(ctx, err, func(when retry.When) bool {
		return s.pending.AddPuts(quiet, when) && s.pending.Add(drops, when)
	})
}

func dropsOf(puts []remote.Put) []remote.Drop {
	drops := make([]remote.Drop, len(puts))
	for i := range puts {
		drops[i].Key = puts[i].Key
	}
	return drops
}

// putNothing is one attempt at puts of nothing in place of puts that have failed, under the same
// quiet tokens. A refused one is done: the tier drops older values then, too.
func putNothing(ctx context.Context, s *Store, puts []remote.Put) error {
	s.applyOwn() // the put that has failed may still be executed, and announced
	_, err := s.put(ctx, puts)
	s.Report(ctx, "put", puts[0].Key, firstError(err), Probes{})
	drops := dropsOf(puts)
	done := made(drops, nil, err)
	if len(done) == 0 || !s.announces() {
		return err
	}
	if failed := s.news.announceDrops(ctx, done); failed != nil {
		return alsoFailed(drops, nil, err, failed)
	}
	return err
}

// PutClaimed is PutWritten for values stored or removed under the leases of their keys, without
// drops before. Each is noted as a drop, and repeated as one if another server takes over. If the
// tier has learned of another server meanwhile, it is not known which server has the value. Then
// PutClaimed drops the keys, and each value to store counts as refused.
func (s *Store) PutClaimed(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	before := s.moves.count()
	refused, err = s.PutWritten(ctx, puts)
	if u := (*Unconfirmed)(nil); errors.As(err, &u) {
		u.Dropped = false // there was no drop before
		for i := range puts {
			if !uncertain(u.Err) { // else the put may still come, and needs its lease
				begun := time.Now()
				_ = s.meter.end(ctx, Release, begun, s.tier.Release(ctx, puts[i].Key, puts[i].Lease))
			}
		}
	}
	if err != nil || s.moves.tier == nil {
		return refused, err
	}
	var drops []remote.Drop
	lost := slices.Clone(refused)
	for i := range puts {
		if slices.Contains(refused, i) {
			continue
		}
		drops = append(drops, remote.Drop{Key: puts[i].Key})
		if puts[i].Left > 0 {
			lost = append(lost, i)
		}
	}
	// Noted first, as in confirmed.
	if s.pending.Confirmed(drops); s.moves.count() == before || len(drops) == 0 {
		return refused, nil
	}
	s.repeat()
	_, err = s.Drop(ctx, drops)
	return lost, err
}

// notStored returns the error of a call with confirmed drops, but without stored values.
func (s *Store) notStored(ctx context.Context, err error) error {
	u := s.unconfirmed(ctx, err)
	u.Dropped = true
	return u
}

// putSome stores the values of servers that get stores.
func (s *Store) putSome(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	name := func(i int) string { return puts[i].Key }
	sent, errs, probing := s.admit(len(puts), name, s.mayStore, func(string) error { return errNotStored })
	if len(sent) == 0 {
		return nil, errNotStored
	}
	refused, err = s.put(ctx, choose(puts, sent))
	for _, part := range s.guards.split(len(sent), err != nil, func(j int) string { return name(sent[j]) }) {
		at, e := firstOf(part, func(j int) error { return remote.ErrorOf(err, j) })
		s.Report(ctx, "put", name(sent[at]), e, Probes{Stores: probing[sent[part[0]]]})
	}
	for j, i := range sent {
		errs[i] = remote.ErrorOf(err, j)
	}
	// Places among the sent values become places among all.
	for k, j := range refused {
		refused[k] = sent[j]
	}
	return refused, remote.JoinKeys(errs)
}

// firstError returns the first of the errors of several keys.
func firstError(err error) error {
	if some, ok := err.(remote.KeyErrors); ok { //nolint:errorlint // wrapped it is the error of all keys
		return some.Unwrap()[0]
	}
	return err
}

// uncertain reports whether L2 may still store a value after the error err, and announce it.
func uncertain(err error) bool {
	return err != nil && !slices.ContainsFunc([]error{errNotStored, remote.ErrRefused, remote.ErrValueTooLarge, remote.ErrKeyTooLong},
		func(never error) bool { return errors.Is(err, never) })
}

// broken reports whether an error means that the server of the earlier operation may be gone. A
// server that refuses is there, unless it has lost its place. A slow server is there, too, and
// a drop in the background could take a later write of another instance.
func broken(err error) bool {
	if errors.Is(err, remote.ErrRefused) {
		return errors.Is(err, remote.ErrMoved)
	}
	for _, harmless := range []error{remote.ErrValueTooLarge, remote.ErrKeyTooLong, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, harmless) {
			return false
		}
	}
	return true
}
