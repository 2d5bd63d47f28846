// Drops, and values that callers write. A drop is sent (but not while the breaker of its
// server is open), then either confirmed and announced, or pending: the queue tries it
// again until L2 confirms it. If the caller has left, its drop goes to the queue at once.
// Invariant: without an error the caller's drop is confirmed by L2 and announced. Any
// other drop is pending, unless L2 cannot hold its key or the store is closed. A
// confirmed drop is noted before its call returns: so it is repeated if another
// server had taken over.

package l2

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/retry"
	"github.com/strata-cache/strata/remote"
)

// ownFor is the time during which L2 may still execute a drop that got no answer.
const ownFor = time.Minute

var (
	errBreaker   = errors.New("strata: the circuit breaker of L2 is open: it has failed too often")
	errNotStored = errors.New("strata: L2 has failed to store too often and is not asked to")
)

// Unconfirmed is the error of a drop or store that L2 or the bus has not
// confirmed.
type Unconfirmed struct {
	// Pending is the number of pending drops.
	Pending int
	// Dropped: L2 has confirmed the drop, and only the value is not stored.
	Dropped bool
	// Err is the cause. It wraps the error of the caller's context if the context has
	// ended, and Options.Closed if the drop is not tried again.
	Err error
}

// Error returns the text of the cause.
func (e *Unconfirmed) Error() string { return e.Err.Error() }

// Describe returns a text with the unconfirmed part, the cause and the number of
// pending drops.
func (e *Unconfirmed) Describe() string {
	text := "not confirmed by L2 and the bus"
	if e.Dropped {
		text = "the old value is dropped, and the new one is not stored in L2"
	}
	text += fmt.Sprintf(": %v", e.Err)
	if e.Pending > 0 {
		text += fmt.Sprintf(" (%d pending)", e.Pending)
	}
	return text
}

// Unwrap returns the cause.
func (e *Unconfirmed) Unwrap() error { return e.Err }

// Unconfirmed returns the error of a call after one of its operations, under
// ctx, has failed with err.
func (s *Store) Unconfirmed(ctx context.Context, err error) error { return s.unconfirmed(ctx, err) }

func (s *Store) unconfirmed(ctx context.Context, err error) *Unconfirmed {
	if gone := CallerLeft(ctx); gone != nil && !errors.Is(err, gone) {
		err = fmt.Errorf("%w: %w", gone, err)
	}
	return &Unconfirmed{Pending: s.Pending(), Err: err}
}

// Drop executes drops in L2 and announces them. An unconfirmed drop is retried in the
// background; the error is an *Unconfirmed then. If it wraps [remote.KeyErrors], the leases
// of the confirmed drops come with it. A key too long for L2 is announced only: other
// instances may have loaded it.
func (s *Store) Drop(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	if !s.Used() {
		return nil, nil
	}
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	leases, err := s.dropGuarded(ctx, drops)
	some, partly := err.(remote.KeyErrors) //nolint:errorlint // joined it is the error of all keys
	switch {
	case err == nil:
		return leases, nil
	case partly:
		return leases, s.makePending(ctx, err, func(when retry.When) bool { return s.pending.Add(pick(drops, unconfirmed(some), true), when) })
	case !errors.Is(err, remote.ErrKeyTooLong):
		return nil, s.makePending(ctx, err, func(when retry.When) bool { return s.pending.Add(drops, when) })
	case len(drops) > 1:
		return s.dropEach(ctx, drops)
	case s.o.Bus != nil:
		// A loss of this message is never detected. So instances keep values that L2
		// cannot hold for a short time only.
		_ = s.o.Bus.Publish(ctx, s.news.messages(drops))
	}
	return nil, s.Unconfirmed(ctx, err)
}

// whole returns err as the error of all keys.
func whole(err error) error {
	if some, ok := err.(remote.KeyErrors); ok { //nolint:errorlint // wrapped it is the error of all keys
		return errors.Join(some.Unwrap()...)
	}
	return err
}

// pick returns the failed ones of drops, or the others.
func pick(drops []remote.Drop, errs remote.KeyErrors, failed bool) (some []remote.Drop) {
	for i, d := range drops {
		if (errs[i] != nil) == failed {
			some = append(some, d)
		}
	}
	return some
}

// makePending makes a drop pending after it has failed with err under ctx, and
// returns the error of its call. add adds the drop to the queue. If the caller
// has left, L2 may be well, and the drop is retried at once.
func (s *Store) makePending(ctx context.Context, err error, add func(retry.When) bool) error {
	if confirmedByL2(err) {
		return s.Unconfirmed(ctx, err) // the message is pending
	}
	if !add(whenFailed(ctx)) {
		err = fmt.Errorf("%w, and is not tried again: %w", err, s.o.Closed)
	}
	return s.Unconfirmed(ctx, err)
}

// whenFailed returns the time of the first retry after an operation has failed under
// ctx.
func whenFailed(ctx context.Context) retry.When { return retry.When(CallerLeft(ctx) != nil) }

// DropSoon executes drops in the background, at once.
func (s *Store) DropSoon(drops []remote.Drop) { s.pending.Add(drops, retry.AtOnce) }

// dropGuarded is one attempt at drops, except on servers with an open breaker.
func (s *Store) dropGuarded(ctx context.Context, drops []remote.Drop) ([]remote.Lease, error) {
	if err := CallerLeft(ctx); err != nil {
		return nil, err // the drops are sent in the background
	}
	if s.tier == nil {
		return s.dropOnce(ctx, drops, never)
	}
	if len(drops) == 1 || s.guards.alike() {
		switch ok, probe := s.allow(drops[0].Key); {
		case !ok:
			return nil, s.aloneError(drops[0].Key)
		case probe:
			return s.dropOnce(ctx, drops, always)
		}
		return s.dropOnce(ctx, drops, never)
	}
	sent, errs, probing := s.admit(len(drops), nameOf(drops), s.allow, s.aloneError)
	if len(sent) == 0 {
		return nil, remote.JoinKeys(errs)
	}
	some, err := s.dropOnce(ctx, choose(drops, sent), func(j int) bool { return probing[sent[j]] })
	if errors.Is(err, remote.ErrKeyTooLong) {
		return nil, err
	}
	// The servers left out keep their errors; the others get theirs by the places of their keys.
	leases := make([]remote.Lease, len(drops))
	for j, i := range sent {
		if errs[i] = remote.ErrorOf(err, j); errs[i] == nil && len(some) > 0 {
			leases[i] = some[j]
		}
	}
	if slices.ContainsFunc(errs, confirmedByL2) {
		return leases, remote.KeyErrors(errs) // although all have an error: some are not pending
	}
	return leases, remote.JoinKeys(errs)
}

// aloneError returns the error of an operation not sent because its server is left alone.
func (s *Store) aloneError(name string) error {
	if server := s.guards.serverOf(name); server != "" {
		return &remote.ServerError{Server: server, Err: errBreaker}
	}
	return errBreaker
}

func nameOf(drops []remote.Drop) func(i int) string {
	return func(i int) string { return drops[i].Key }
}

func never(int) bool  { return false }
func always(int) bool { return true }

// dropEach drops one key at a time. So a key too long for L2, for which a retry is
// useless, does not hold up the others.
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

// again is one more attempt at what is pending, even while the breaker is open. A key too long for
// L2 is announced only.
func (s *Store) again(ctx context.Context, a retry.Attempt) error {
	switch {
	case a.All:
		return withoutUnsaid(s.dropAllOnce(ctx, a.Soft, Probes{}))
	case len(a.Tags) > 0:
		return withoutUnsaid(s.dropTagsOnce(ctx, a.Tags, a.Soft, Probes{}))
	case len(a.Puts) > 0:
		return withoutUnsaid(putNothing(ctx, s, a.Puts))
	}
	_, err := s.dropOnce(ctx, a.Drops, never)
	if err = withoutUnsaid(err); err == nil || len(a.Drops) > 1 || !errors.Is(err, remote.ErrKeyTooLong) {
		return err // several keys are tried one by one later
	}
	if s.o.Bus != nil {
		return s.o.Bus.Publish(ctx, s.news.messages(a.Drops))
	}
	return nil
}

// dropOnce is one attempt at drops. It announces the confirmed ones.
func (s *Store) dropOnce(ctx context.Context, drops []remote.Drop, probe func(i int) bool) (leases []remote.Lease, err error) {
	if s.tier != nil {
		done, moves := drops, s.moves.count()
		err = s.confirmed(func() error {
			leases, err = s.drop(ctx, drops)
			return err
		}, func() { s.pending.Confirmed(drops) })
		some, partly := err.(remote.KeyErrors) //nolint:errorlint // wrapped it is the error of all keys
		if partly {
			done = pick(drops, some, false)
			s.pending.Confirmed(done) // noted first, as in confirmed
		}
		if err != nil && (!partly || moves != s.moves.count()) {
			done = nil
		}
		s.reportDrops(ctx, drops, err, probe)
		if err != nil {
			s.applyOwn()
		}
		if len(done) == 0 {
			return nil, whole(err)
		}
	}
	if !s.announces() {
		return leases, err
	}
	if some := made(drops, leases, err); len(some) > 0 {
		if failed := s.news.announceDrops(ctx, some); failed != nil {
			return leases, alsoFailed(drops, leases, err, failed)
		}
	}
	return leases, err
}

// alsoFailed is the error of drops of which L2 has not confirmed some, with err, and the bus has not taken the messages
// about the others, with failed.
func alsoFailed(drops []remote.Drop, leases []remote.Lease, err, failed error) error {
	if err == nil {
		return failed
	}
	errs := make(remote.KeyErrors, len(drops))
	for i := range errs {
		if errs[i] = remote.ErrorOf(err, i); errs[i] == nil && !(i < len(leases) && leases[i].Quiet) {
			errs[i] = failed
		}
	}
	return errs
}

// made returns the confirmed drops, except the ones left to the puts under their tokens.
func made(drops []remote.Drop, leases []remote.Lease, err error) (some []remote.Drop) {
	for i, d := range drops {
		if quiet := i < len(leases) && leases[i].Quiet; !quiet && remote.ErrorOf(err, i) == nil {
			some = append(some, d)
		}
	}
	return some
}

// DropAll makes all keys of the cache's namespace absent, or stale. If L2 does not
// confirm, the error is an *Unconfirmed, and the drop is pending. If only some servers
// have confirmed, it is pending for the keys of the others.
func (s *Store) DropAll(ctx context.Context, soft bool) error {
	return s.dropSpace(ctx,
		func(ctx context.Context, p Probes) error { return s.dropAllOnce(ctx, soft, p) },
		func(err error, when retry.When) bool { return s.pending.AddAll(soft, when, s.untold(err)...) })
}

// DropTags makes all entries with one of tags absent, or stale. Errors are as for
// [Store.DropAll].
func (s *Store) DropTags(ctx context.Context, tags []string, soft bool) error {
	return s.dropSpace(ctx,
		func(ctx context.Context, p Probes) error { return s.dropTagsOnce(ctx, tags, soft, p) },
		func(err error, when retry.When) bool { return s.pending.AddTags(retry.Failed(tags, err), soft, when) })
}

// dropSpace executes a drop that concerns no single key. It is not sent while the breaker of the only server
// is open; a fleet gets it, for the servers that answer.
func (s *Store) dropSpace(ctx context.Context, once func(context.Context, Probes) error, add func(error, retry.When) bool) error {
	if !s.Used() {
		return nil
	}
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	err, p := CallerLeft(ctx), Probes{}
	if err == nil && s.tier != nil && s.guards.fleet == nil {
		ok, probe := s.allow("")
		if p.All = probe; !ok {
			err = errBreaker
		}
	}
	if err == nil {
		err = once(ctx, p)
	}
	if err == nil {
		return nil
	}
	return s.makePending(ctx, err, func(when retry.When) bool { return add(err, when) })
}

// dropAllOnce is one attempt at a drop of everything. If some servers have not
// confirmed, the drop is announced even so: other instances have values from the
// servers that have.
func (s *Store) dropAllOnce(ctx context.Context, soft bool, p Probes) (err error) {
	if s.tier != nil {
		err = s.confirmed(func() error {
			begun := time.Now()
			return s.meter.end(ctx, DropAll, begun, s.tier.DropAll(ctx, soft))
		}, func() { s.pending.ConfirmedAll(soft) })
		s.Report(ctx, "drop all", "", err, p)
		if err != nil {
			s.applyOwn()
		}
		if err != nil && s.untold(err) == nil {
			return err
		}
	}
	if !s.announces() {
		return err
	}
	if failed := s.news.announceAll(ctx, soft); err == nil {
		return failed
	}
	return err
}

// untold returns the servers not told of a drop of everything. It returns none if the
// tier does not tell its servers apart: then the whole drop is tried again.
func (s *Store) untold(err error) []string {
	if s.guards.fleet == nil {
		return nil
	}
	return retry.Untold(err)
}

// dropAllOf is one attempt at a drop of all keys of a server.
func (s *Store) dropAllOf(ctx context.Context, server string, soft bool) error {
	begun := time.Now()
	err := s.meter.end(ctx, DropAll, begun, s.guards.fleet.DropAllOf(ctx, server, soft))
	s.Report(ctx, "drop all", "", err, Probes{})
	if err != nil {
		s.applyOwn()
		return err
	}
	if !s.announces() {
		return nil
	}
	return withoutUnsaid(s.news.announceAll(ctx, soft))
}

// dropTagsOnce is one attempt at a drop of tags. It announces the confirmed tags.
func (s *Store) dropTagsOnce(ctx context.Context, tags []string, soft bool, p Probes) (err error) {
	if s.tier != nil {
		err = s.confirmed(func() error {
			begun := time.Now()
			return s.meter.end(ctx, DropTags, begun, s.can.tag.DropTags(ctx, tags, soft))
		}, func() { s.pending.ConfirmedTags(tags, soft) })
		s.Report(ctx, "drop tags", "", err, p)
		if err != nil {
			s.applyOwn()
			failed := retry.Failed(tags, err)
			if tags = slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return slices.Contains(failed, t) }); len(tags) == 0 {
				return err
			}
			s.pending.ConfirmedTags(tags, soft)
		}
	}
	if !s.announces() {
		return err
	}
	if failed := s.news.announceTags(ctx, tags, soft); err == nil {
		return failed
	}
	return err
}

// applyOwn makes this instance apply its own announcements for a while: one of
// its drops has ended without an answer and may still be executed.
func (s *Store) applyOwn() { s.ownUntil.Store(s.o.Now() + int64(ownFor)) }

// Mine reports whether m is from a call of this instance that carries m out
// here itself. A call that ended without an answer does not.
func (s *Store) Mine(m *remote.Message) bool {
	return m.From == s.o.Instance && s.o.Now() >= s.ownUntil.Load()
}
