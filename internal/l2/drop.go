// Drops and values that callers write. A drop is sent (unless the breaker is open),
// then either confirmed and announced, or pending: the queue tries it again until L2
// confirms it. A drop of a caller that has left goes to the queue at once.
// Invariant: a caller that gets no error knows that its drop is confirmed by L2 and
// was announced. Any other drop is pending, unless L2 cannot hold its key or the
// store is closed. A confirmed drop is noted before its caller returns, so that it is
// repeated if another server had taken over.

package l2

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strata-cache/strata/internal/retry"
	"github.com/strata-cache/strata/remote"
)

// ownFor is the time for which a drop that has ended without an answer may
// still be executed.
const ownFor = time.Minute

var (
	errBreaker   = errors.New("strata: L2 has failed too often and is left alone")
	errNotStored = errors.New("strata: L2 has refused to store too often and is not asked to")
)

// Unconfirmed is the error of a drop or store that L2 or the bus has not
// confirmed.
type Unconfirmed struct {
	// Pending is the number of drops that are pending.
	Pending int
	// Err is the cause. It wraps the error of the caller's context if that has
	// ended, and Options.Closed if the drop is not tried again.
	Err error
}

// Error returns the text of the cause.
func (e *Unconfirmed) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Unconfirmed) Unwrap() error { return e.Err }

// Unconfirmed returns the error of a call after one of its operations, under
// ctx, has failed with err.
func (s *Store) Unconfirmed(ctx context.Context, err error) error {
	if gone := CallerLeft(ctx); gone != nil && !errors.Is(err, gone) {
		err = fmt.Errorf("%w: %w", gone, err)
	}
	return &Unconfirmed{Pending: s.pending.Len(), Err: err}
}

// Drop executes drops in L2 and announces them. A drop that is not confirmed is
// retried in the background; the error is an *Unconfirmed then. A key that is
// too long for L2 is announced only: other instances may have loaded it.
func (s *Store) Drop(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	if !s.Used() {
		return nil, nil
	}
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	leases, err := s.dropGuarded(ctx, drops)
	switch {
	case err == nil:
		return leases, nil
	case !errors.Is(err, remote.ErrKeyTooLong):
		return nil, s.makePending(ctx, err, func(when retry.When) bool { return s.pending.Add(drops, when) })
	case len(drops) > 1:
		return s.dropEach(ctx, drops)
	case s.o.Bus != nil:
		// A loss of this message is never detected. So instances keep values that L2
		// cannot hold for a short time only.
		_ = s.o.Bus.Publish(ctx, s.messages(drops))
	}
	return nil, s.Unconfirmed(ctx, err)
}

// makePending makes a drop pending that has failed with err under ctx, and
// returns the error of its call. add adds the drop to the queue. If the caller
// has left, L2 may be well, and the drop is retried at once.
func (s *Store) makePending(ctx context.Context, err error, add func(retry.When) bool) error {
	if !add(whenFailed(ctx)) {
		err = fmt.Errorf("%w, and is not tried again: %w", err, s.o.Closed)
	}
	return s.Unconfirmed(ctx, err)
}

// whenFailed is the time of the first retry of an operation that has failed
// under ctx.
func whenFailed(ctx context.Context) retry.When { return retry.When(CallerLeft(ctx) != nil) }

// DropSoon executes drops in the background, at once.
func (s *Store) DropSoon(drops []remote.Drop) { s.pending.Add(drops, retry.AtOnce) }

// dropGuarded is one attempt at drops, unless the breaker is open.
func (s *Store) dropGuarded(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	if err := CallerLeft(ctx); err != nil {
		return nil, err // the drops are sent in the background
	}
	ok, probe := true, false
	if s.tier != nil {
		ok, probe = s.all.Allow(s.o.Now())
	}
	if !ok {
		return nil, errBreaker
	}
	return s.dropOnce(ctx, drops, probe)
}

// dropEach drops one key at a time, so that a key that is too long for L2, for
// which a retry is useless, does not hold up the others.
func (s *Store) dropEach(ctx context.Context, drops []remote.Drop) (leases []remote.Lease, err error) {
	leases = make([]remote.Lease, len(drops))
	for i := range drops {
		l, e := s.Drop(ctx, drops[i:i+1])
		if e != nil {
			err = e
		} else if len(l) > 0 {
			leases[i] = l[0]
		}
	}
	return leases, err
}

// dropAgain is one more attempt at pending drops, even while the breaker is
// open. A key that is too long for L2 is announced only.
func (s *Store) dropAgain(ctx context.Context, drops []remote.Drop) error {
	_, err := s.dropOnce(ctx, drops, false)
	if len(drops) > 1 || !errors.Is(err, remote.ErrKeyTooLong) {
		return err // several keys are tried one by one later
	}
	if s.o.Bus != nil {
		return s.o.Bus.Publish(ctx, s.messages(drops))
	}
	return nil
}

// dropOnce is one attempt at drops.
func (s *Store) dropOnce(ctx context.Context, drops []remote.Drop, probe bool) (leases []remote.Lease, err error) {
	if s.tier != nil {
		err = s.confirmed(func() error {
			leases, err = s.drop(ctx, drops)
			return err
		}, func() { s.pending.Confirmed(drops) })
		s.Report(ctx, "drop", err, Probes{All: probe})
		if err != nil {
			s.applyOwn()
			return nil, err
		}
	}
	if !s.announces() {
		return leases, nil
	}
	return leases, s.o.Bus.Publish(ctx, s.messages(drops))
}

// DropAll makes all keys of the cache's namespace absent, or stale. If that is
// not confirmed, the error is an *Unconfirmed, and the drop is pending.
func (s *Store) DropAll(ctx context.Context, soft bool) error {
	return s.dropSpace(ctx,
		func(ctx context.Context) error { return s.dropAllOnce(ctx, soft) },
		func(when retry.When) bool { return s.pending.AddAll(soft, when) })
}

// DropTags makes all entries with one of tags absent, or stale. Errors are
// those of [Store.DropAll].
func (s *Store) DropTags(ctx context.Context, tags []string, soft bool) error {
	return s.dropSpace(ctx,
		func(ctx context.Context) error { return s.dropTagsOnce(ctx, tags, soft) },
		func(when retry.When) bool { return s.pending.AddTags(tags, soft, when) })
}

// dropSpace executes a drop that concerns no single key.
func (s *Store) dropSpace(ctx context.Context, once func(context.Context) error, add func(retry.When) bool) error {
	if !s.Used() {
		return nil
	}
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	err := CallerLeft(ctx)
	if err == nil {
		err = once(ctx)
	}
	if err == nil {
		return nil
	}
	return s.makePending(ctx, err, add)
}

// dropAllOnce is one attempt at a drop of everything.
func (s *Store) dropAllOnce(ctx context.Context, soft bool) error {
	if s.tier != nil {
		err := s.confirmed(func() error {
			begun := time.Now()
			return s.meter.end(ctx, DropAll, begun, s.tier.DropAll(ctx, soft))
		}, func() { s.pending.ConfirmedAll(soft) })
		s.Report(ctx, "drop all", err, Probes{})
		if err != nil {
			s.applyOwn()
			return err
		}
	}
	if !s.announces() {
		return nil
	}
	m := remote.Message{Name: s.Space(), Kind: remote.AllDropped, From: s.o.Instance}
	if soft {
		m.Kind = remote.AllExpired
	}
	return s.o.Bus.Publish(ctx, []remote.Message{m})
}

// dropTagsOnce is one attempt at a drop of tags.
func (s *Store) dropTagsOnce(ctx context.Context, tags []string, soft bool) error {
	if s.tier != nil {
		err := s.confirmed(func() error {
			begun := time.Now()
			return s.meter.end(ctx, DropTags, begun, s.can.tag.DropTags(ctx, tags, soft))
		}, func() { s.pending.ConfirmedTags(tags, soft) })
		s.Report(ctx, "drop tags", err, Probes{})
		if err != nil {
			s.applyOwn()
			return err
		}
	}
	if !s.announces() {
		return nil
	}
	kind := remote.TagDropped
	if soft {
		kind = remote.TagExpired
	}
	ms := make([]remote.Message, len(tags))
	for i, t := range tags {
		ms[i] = remote.Message{Name: s.Space(), Kind: kind, From: s.o.Instance, Key: t}
	}
	return s.o.Bus.Publish(ctx, ms)
}

// announces reports whether the cache announces drops: there is a bus, and the
// tier does not announce them itself.
func (s *Store) announces() bool { return s.o.Bus != nil && !s.tierAnnounces }

// Announce announces the drops of a Put, unless the tier has done so. A message
// that is not confirmed makes its drop pending; the error is that of the bus.
func (s *Store) Announce(ctx context.Context, drops []remote.Drop) error {
	if !s.announces() {
		return nil
	}
	err := s.o.Bus.Publish(ctx, s.messages(drops))
	if err != nil {
		s.pending.Add(drops, whenFailed(ctx))
	}
	return err
}

// Publish announces drops that are not sent to L2.
func (s *Store) Publish(ctx context.Context, drops []remote.Drop) {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	_ = s.o.Bus.Publish(ctx, s.messages(drops)) // other instances keep such values for a short time only
}

func (s *Store) messages(drops []remote.Drop) []remote.Message {
	ms := make([]remote.Message, len(drops))
	for i, d := range drops {
		ms[i] = remote.Message{Name: s.Space(), Kind: remote.Dropped, From: s.o.Instance, Key: d.Key, Hold: d.Hold}
		if d.Soft {
			ms[i].Kind = remote.Expired
		}
	}
	return ms
}

// applyOwn makes this instance apply its own announcements for a while: one of
// its drops has ended without an answer and may still be executed.
func (s *Store) applyOwn() { s.ownUntil.Store(s.o.Now() + int64(ownFor)) }

// Mine reports whether m is from a call of this instance that carries m out
// here itself. A call that ended without an answer does not.
func (s *Store) Mine(m *remote.Message) bool {
	return m.From == s.o.Instance && s.o.Now() >= s.ownUntil.Load()
}

// PutWritten stores values that were written, under the tokens of their drops.
// The error is an *Unconfirmed. If the way to L2 has broken, the drops are pending
// again: the server that has confirmed them may be gone, and another one may hold
// older values. Values are not sent again.
func (s *Store) PutWritten(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	ok, probe := s.MayStore()
	if !ok {
		return nil, s.Unconfirmed(ctx, errNotStored)
	}
	refused, err = s.put(ctx, puts)
	s.Report(ctx, "put", err, Probes{Stores: probe})
	switch {
	case err == nil:
		return refused, nil
	case !broken(err):
		return nil, s.Unconfirmed(ctx, err)
	}
	drops := make([]remote.Drop, len(puts))
	for i := range puts {
		drops[i].Key = puts[i].Key
	}
	return nil, s.makePending(ctx, err, func(when retry.When) bool { return s.pending.Add(drops, when) })
}

// broken reports whether an error means that the server of the operation before may
// be gone. A server that refuses is there, unless it has lost its place. So is one that
// is slow, and a drop in the background could take a later write of another instance.
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

// AnnounceWritten is [Store.Announce] for values that were written. The error is
// an *Unconfirmed.
func (s *Store) AnnounceWritten(ctx context.Context, drops []remote.Drop) error {
	if err := s.Announce(ctx, drops); err != nil {
		return s.Unconfirmed(ctx, err)
	}
	return nil
}
