// The knowledge of one read about L2. A session is open at first, and Down after L2
// has failed, while the breaker is open, or while a drop of its key is pending. It
// stays Down until its read ends.
// Invariant: a Down session sends one request at most: the release of a lease that L2
// may have granted.

package l2

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/wire/overdue"
	"github.com/strata-cache/strata/remote"
)

// Session is the knowledge of one read about L2. A dead L2 costs a read one
// timeout, not one per step: after a failure the session sends no more
// requests. The zero Session has sent none. It is not safe for concurrent use.
type Session struct {
	// Name is the key's name in L2.
	Name string
	// Down says that the session sends no more requests, because L2 has failed or the
	// breaker is open.
	Down bool
	// KeyTooLong says that L2 cannot hold the key.
	KeyTooLong bool
	// NoStore says that the key's server gets no requests for leases, and no stores.
	NoStore bool
	// Cancelled says that a lease is released although L2 is Down: the read was
	// cancelled, or L2 has refused an operation.
	Cancelled bool

	// lost is set when an operation of one of the sessions of a batch, on the key's server, has got no answer in
	// time: the others do not wait for theirs. Nil for a session alone.
	lost      *atomic.Bool
	probes    Probes // the breakers that its operations decide on
	collapses uint64 // of pending drops, from before the first request
	repeats   uint64 // of confirmed drops, from before the first request
}

// Allowed reports whether the breaker of the key's server lets the session use L2. If
// not, the session is Down.
func (x *Session) Allowed(s *Store) bool {
	g := s.guards.at(x.Name)
	if g == nil || g.all.Calm() {
		return true
	}
	ok, probe := g.all.Allow(s.o.Now())
	x.Down, x.probes.All = !ok, probe
	return ok
}

// MayStore finds out whether the key's server gets requests for leases, and stores.
func (x *Session) MayStore(s *Store) {
	ok, probe := s.mayStore(x.Name)
	x.NoStore, x.probes.Stores, x.lost = !ok, probe, nil
}

// Lost reports that the session sends no more requests, as [Session.Down], or because another session of its batch
// has got no answer.
func (x *Session) Lost() bool { return x.Down || x.lost != nil && x.lost.Load() }

// Sessions are the sessions of several reads: N of them, of which At returns the i-th.
type Sessions struct {
	N  int
	At func(i int) *Session
}

func (xs Sessions) name(i int) string { return xs.At(i).Name }

// AllowAll is [Session.Allowed] for several sessions: the first of each server decides for
// the others.
func (s *Store) AllowAll(xs Sessions) {
	for _, part := range s.guards.split(xs.N, false, xs.name) {
		if xs.At(part[0]).Allowed(s) {
			continue
		}
		for _, i := range part {
			xs.At(i).Down = true
		}
	}
}

// MayStoreAll is [Session.MayStore] for several sessions: the first of each server decides
// for the others. From then on the sessions of a server know of each other's lost operations.
func (s *Store) MayStoreAll(xs Sessions) {
	for _, part := range s.guards.split(xs.N, false, xs.name) {
		first := xs.At(part[0])
		first.MayStore(s)
		lost := new(atomic.Bool)
		for _, i := range part {
			xs.At(i).NoStore, xs.At(i).lost = first.NoStore, lost
		}
	}
}

// AnsweredAll is [Session.Answered] for an operation of several sessions. For each server
// one session reports the outcome for the others: the first that has failed for another reason than
// its value, or else the first.
func (s *Store) AnsweredAll(ctx context.Context, op string, xs Sessions, err error) {
	of := func(i int) error { return remote.ErrorOf(err, i) }
	failure := func(i int) error {
		if e := of(i); !unkept(e) {
			return e
		}
		return nil
	}
	for _, part := range s.guards.split(xs.N, err != nil, xs.name) {
		at, failed := firstOf(part, failure)
		first := xs.At(at)
		first.probes = xs.At(part[0]).probes
		ok := first.Answered(ctx, s, op, failed)
		if err == nil && ok {
			continue
		}
		for _, i := range part {
			switch e := of(i); {
			case i == at:
			case e != nil:
				xs.At(i).FailedAlone(first, e)
			case !ok && failed == nil:
				xs.At(i).Failed(first)
			}
		}
	}
}

// Probing reports whether the session's operations are probes of the breaker
// for all operations.
func (x *Session) Probing() bool { return x.probes.All }

// PassesBy reports whether a drop of the key is pending, so that the value in
// L2 must not be used. L2 is Down for the session then.
func (x *Session) PassesBy(s *Store) bool {
	x.collapses, x.repeats = s.pending.Collapses(), s.moves.repeats.Load()
	x.Down = s.pending.Blocks(x.Name)
	return x.Down
}

// Answered reports the outcome of an operation under ctx, the context of the
// read, and returns whether L2 has executed it, and its answer can be used.
func (x *Session) Answered(ctx context.Context, s *Store, op string, err error) bool {
	x.KeyTooLong = x.KeyTooLong || errors.Is(err, remote.ErrKeyTooLong)
	if err != nil && Over(ctx) {
		x.Down, x.Cancelled = true, true
		return false
	}
	name := x.Name
	if op == "tags" { // which may be on other servers
		name = ""
	}
	s.Report(ctx, op, name, err, x.probes)
	if x.Down = x.Down || err != nil && !unkept(err); x.lost != nil && timedOut(err) {
		x.lost.Store(true)
	}
	x.Cancelled = x.Cancelled || errors.Is(err, remote.ErrRefused)
	if s.repeat(); err == nil && x.repeats != s.moves.repeats.Load() {
		// The answer may come from a server that has not heard of a drop yet.
		x.Down, x.Cancelled = true, true
		return false
	}
	return err == nil
}

// Failed notes the failure of an operation that several sessions share. The
// session first has reported it.
func (x *Session) Failed(first *Session) {
	x.Down, x.KeyTooLong, x.Cancelled = true, first.KeyTooLong, first.Cancelled
}

// FailedAlone is [Session.Failed] for an operation in which each session has an
// error of its own.
func (x *Session) FailedAlone(first *Session, err error) {
	x.Down, x.KeyTooLong, x.Cancelled = x.Down || !unkept(err), errors.Is(err, remote.ErrKeyTooLong), first.Cancelled
}

// TagDrops asks for the drops of tags, which values of several sessions have, and returns
// them by tag, without the tags of which L2 does not tell. It reports false if it has
// none.
func (x *Session) TagDrops(ctx, read context.Context, s *Store, tags []string) (drops map[string]remote.Tag, ok bool) {
	if s.can.tag == nil {
		return nil, true
	}
	known, err := s.tags(ctx, tags)
	some, partly := err.(remote.KeyErrors) //nolint:errorlint // wrapped it is the error of all keys
	if was := *x; !x.Answered(read, s, "tags", err) {
		if !partly || Over(read) {
			return nil, false
		}
		*x = was // its own tags may be there
	}
	drops = make(map[string]remote.Tag, len(tags))
	for i, t := range known {
		if !partly || some[i] == nil {
			drops[tags[i]] = t
		}
	}
	return drops, true
}

// Knows reports whether the drops of all tags of a value of the session are among drops. If
// not, L2 is Down for it.
func (x *Session) Knows(s *Store, drops map[string]remote.Tag, tags []string) bool {
	for _, t := range tags {
		if _, ok := drops[t]; !ok && s.can.tag != nil {
			x.Down = true
		}
	}
	return !x.Down
}

// BlocksTags reports whether a value with these tags must not be used: L2 has no
// tags, or a drop of one of them is pending. It is called before [Session.TagDrops]:
// a drop pending now may be confirmed before an answer arrives that the tier gave before
// the drop.
func (x *Session) BlocksTags(s *Store, tags []string) bool {
	return s.can.tag == nil || s.pending.BlocksTags(tags, x.collapses)
}

// LatestDrop returns the latest drops of any of tags, which are in drops.
func LatestDrop(drops map[string]remote.Tag, tags []string) (latest remote.Tag) {
	for _, tag := range tags {
		t := drops[tag]
		latest.Dropped = max(latest.Dropped, t.Dropped)
		latest.Expired = max(latest.Expired, t.Expired)
	}
	return latest
}

// Expire makes the session's key stale in L2, for at most left from now on.
func (x *Session) Expire(ctx, read context.Context, s *Store, left time.Duration) bool {
	if x.Lost() {
		return false
	}
	_, err := s.drop(ctx, []remote.Drop{{Key: x.Name, Soft: true, Left: left}})
	return x.Answered(read, s, "drop", err)
}

// Extend gives a value of the session's key a new life. It reports whether L2 has answered, and has refused that.
func (x *Session) Extend(read context.Context, s *Store, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused, answered bool) {
	if x.Lost() {
		return false, false
	}
	ctx, cancel := s.Bound(read)
	defer cancel()
	begun := time.Now()
	refused, err := s.tier.Extend(ctx, x.Name, fresh, left, l, id)
	return refused, x.Answered(read, s, "extend", s.meter.end(ctx, Extend, begun, err))
}

// Release ends a lease that was not used, so that no instance waits for it. It also ends
// the lease of a read cancelled while it stored: if the value was stored nevertheless,
// the lease is void already.
func (x *Session) Release(read context.Context, s *Store, l remote.Lease) {
	if l.Token == 0 || x.Lost() && !x.Cancelled || s.tier == nil {
		return
	}
	ctx, cancel := s.Bound(context.WithoutCancel(read))
	defer cancel()
	begun := time.Now()
	x.Answered(read, s, "release", s.meter.end(ctx, Release, begun, s.tier.Release(ctx, x.Name, l)))
}

// Over reports whether ctx has ended or its deadline has passed: a connection
// may notice that first.
func Over(ctx context.Context) bool { return overdue.Err(ctx) != nil }

// CallerLeft returns the error of the caller's context if its end has ended an
// operation. It is nil if that context has not ended, and also if the operation
// has had all the time that L2 gets: then L2 has not answered in time. ctx is
// the operation's.
func CallerLeft(ctx context.Context) error {
	caller, deadline := remote.Split(ctx)
	theirs, bounded := caller.Deadline()
	ours := !deadline.IsZero() && (!bounded || deadline.Before(theirs))
	if ours && !time.Now().Before(deadline) {
		return nil
	}
	return overdue.Err(caller)
}
