package link

import (
	"math/rand/v2"
	"time"
)

// phase is the state of a link that doc.go draws.
type phase uint8

const (
	silent    phase = iota // the bus has no subscription
	joining                // the bus has subscribed, and the position is not known
	connected              // messages arrive, and what was missed before is known
)

// state is what a link knows, and when it has to do what. Times are those of
// Options.Now; zero means that there is nothing to do, or that it is not known.
// Link.mu is held by callers of its methods.
type state struct {
	phase phase
	// why says why the link is not connected, as far as that is known.
	why error
	// trusted says that L1 is used although the link is not connected: patience
	// is not over.
	trusted bool
	// subscription counts subscriptions and suspensions, so that an answer to an
	// earlier one is recognised.
	subscription int
	// heardAt is when something came over the bus, or began to be waited for.
	heardAt int64
	// lostAt is since when messages may be lost, until a position tells which.
	lostAt int64
	// pause follows the next attempt to join that fails.
	pause time.Duration
	// verify says that another instance has seen the tier in a state that is
	// unknown here. verifiedAt is when the tier was asked about that last, and
	// strangeAt when such a state was first seen, while the tier owes an answer.
	verify     bool
	verifiedAt int64
	strangeAt  int64
	due        timers
}

// timers are the times at which something is to be done.
type timers struct {
	join    int64 // ask for the position, to be connected
	beat    int64 // send a heartbeat, unless another instance's is heard
	tell    int64 // log that the bus has not connected at all
	settle  int64 // lanes whose versions no message explains become suspect
	overdue int64 // messages that an early heartbeat has told of must have come
	drop    int64 // apply a drop of everything that was put off
	expire  int64 // apply an expiry of everything that was put off
}

// take reports whether the time at has come, and unsets it then.
func take(at *int64, now int64) bool {
	if *at == 0 || now < *at {
		return false
	}
	*at = 0
	return true
}

// subscribed begins to join: the bus has acknowledged a subscription.
func (s *state) subscribed(now int64) {
	s.lose(s.heardAt)
	s.disconnect(s.why)
	s.phase, s.heardAt = joining, now
	s.joinSoon(now, firstRetry)
}

// joinSoon plans the next attempt to join. Answers to earlier ones do not count.
func (s *state) joinSoon(at int64, pause time.Duration) {
	s.subscription++
	s.due.join, s.pause = at, pause
}

// unsubscribed ends the subscription because of why.
func (s *state) unsubscribed(why error) {
	s.disconnect(why)
	s.phase = silent
	s.subscription++
	s.due.join = 0
}

// disconnect goes back from the phase connected to joining, because of why.
// Patience begins.
func (s *state) disconnect(why error) {
	s.why = why
	if s.phase == connected {
		s.phase, s.trusted = joining, true
	}
}

// suspend goes back to joining because of why, with a next attempt at some time.
func (s *state) suspend(at int64, pause time.Duration, why error) {
	s.disconnect(why)
	s.subscription++
	if s.phase == joining {
		s.due.join, s.pause = at, pause
	}
}

// resume tries to join at once, if the link is not connected.
func (s *state) resume(now int64) {
	s.subscription++
	if s.phase == joining {
		s.due.join, s.pause = now, firstRetry
	}
}

// alive notes that something came over the bus. A subscription that had counted
// as dead is joined again, which alive reports.
func (s *state) alive(now int64) (join bool) {
	if s.phase != connected && s.deaf(now) {
		s.lose(s.heardAt)
	}
	s.heardAt = now
	if join = s.phase == joining && s.due.join == 0; join {
		s.joinSoon(now, firstRetry)
	}
	return join
}

// deaf reports whether nothing came for as long as a healthy bus is never quiet.
func (s *state) deaf(now int64) bool { return now-s.heardAt >= int64(SilentAfter) }

// lose notes that messages may be lost since then, until the tier has told its
// position: later messages do not bring them back.
func (s *state) lose(since int64) {
	if s.lostAt == 0 {
		s.lostAt = since
	}
}

// completeUntil is until when every message was heard.
func (s *state) completeUntil() int64 {
	if s.lostAt != 0 {
		return s.lostAt
	}
	return s.heardAt
}

// joinFailed plans another attempt to join, after a pause that doubles.
func (s *state) joinFailed(now int64, err error) {
	s.why = err
	s.due.join = now + int64(s.pause)
	s.pause = min(2*s.pause, lastRetry)
}

// joined enters the phase connected, and returns since when messages may have
// been lost. Drops of everything that were put off stay due.
func (s *state) joined(now int64) (lostSince int64) {
	lostSince = now
	if s.lostAt != 0 {
		lostSince = s.lostAt
	}
	s.phase, s.trusted, s.verify = connected, false, false
	s.lostAt, s.strangeAt = 0, 0
	s.due = timers{beat: s.due.beat, drop: s.due.drop, expire: s.due.expire}
	return lostSince
}

// strange asks for a comparison with the tier. While the link is not connected,
// messages count as lost if the tier has not answered in time.
func (s *state) strange(now int64) {
	s.verify = true
	switch {
	case s.phase == connected:
	case s.strangeAt == 0:
		s.strangeAt = now
	case s.unexplained(now):
		s.loseUnexplained()
	}
}

// unexplained reports whether the tier has had its time to explain a strange
// state.
func (s *state) unexplained(now int64) bool { return now-s.strangeAt >= int64(verifyWithin) }

// loseUnexplained counts messages as lost since before the strange state was
// seen: heartbeats are not rarer than SilentAfter.
func (s *state) loseUnexplained() { s.lose(max(1, s.strangeAt-int64(SilentAfter))) }

// unverified notes that the tier has not answered a comparison. It reports true
// if the link must not count as connected any more.
func (s *state) unverified(now int64) (over bool) {
	s.verify = true
	if !s.unexplained(now) {
		return false
	}
	s.verify = false
	s.loseUnexplained()
	if s.phase != silent {
		s.joinSoon(now+int64(firstRetry), firstRetry)
	}
	return true
}

// beatLater puts the next heartbeat off by every, or up to a quarter more: not
// all instances send it at once, and once one has sent it the others need not.
func (s *state) beatLater(now int64, every time.Duration) {
	s.due.beat = now + int64(every) + rand.Int64N(int64(every/4))
}

// next is when there is something to do.
func (s *state) next(now int64, patience time.Duration) int64 {
	first := now + int64(beatEvery)
	at := func(t int64) {
		if t != 0 {
			first = min(first, t)
		}
	}
	at(s.due.settle)
	at(s.due.overdue)
	at(s.due.drop)
	at(s.due.expire)
	if s.phase != silent {
		at(s.due.beat)
	}
	switch {
	case s.phase == connected && s.verify:
		at(s.verifiedAt + int64(beatEvery))
	case s.phase == connected:
		at(s.heardAt + int64(SilentAfter))
	default:
		at(s.due.join)
		if s.trusted {
			at(s.completeUntil() + int64(patience))
		}
	}
	return first
}
