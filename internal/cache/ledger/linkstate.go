// The state of a link: its phase, the unexplained losses, and the times of its
// actions. All decisions about these are here, without waiting.
//
// States: silent, joining, connected; doc.go draws them.
//
// Invariant: lostAt is set from the first message that may be lost until the tier's
// position is known, so that patience runs from there and never begins again.

package ledger

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// phase is the state of a link that doc.go draws.
type phase uint8

const (
	silent    phase = iota // the bus has no subscription
	joining                // the bus has subscribed, and the position is not known
	connected              // messages arrive, and earlier losses are known
)

// state is the phase of a link, its knowledge about losses, and the times at which
// it acts. Times are by Options.Now; zero means that there is nothing to do, or that
// the time is not known. Callers of its methods hold Link.mu.
type state struct {
	phase phase
	// why is the reason why the link is not connected, as far as it is known.
	why error
	// patient says that L1 is used although the link is not connected:
	// Options.Patience is not over.
	patient bool
	// subscription counts subscriptions and suspensions, so that an answer to an
	// earlier one is recognised.
	subscription int
	// arrivedAt is the time of the last delivery of the bus, or of the begin of the
	// wait for one.
	arrivedAt int64
	// lostAt is the time from which on messages may be lost. A position of the tier
	// ends it.
	lostAt int64
	// pause is the time from the next failed attempt to join to another one.
	pause time.Duration
	// verify says that a heartbeat had an unknown digest, so that the position has
	// to be compared with the tier's. verifiedAt is the time of the last such
	// question to the tier, and unknownAt the arrival of the first such heartbeat
	// that nothing has explained. unknown is the digest of the last one; empty if
	// messages have had their time.
	verify     bool
	verifiedAt int64
	unknownAt  int64
	unknown    string
	due        timers
	// alone says that the tier has no positions and its breaker is open: no position
	// tells whether the tier answers again, so the link joins when the breaker is closed.
	alone bool
}

// timers are times of actions.
type timers struct {
	join           int64 // ask for the position, to be connected
	heartbeat      int64 // send a heartbeat, unless another instance's arrives
	logUnconnected int64 // log that the bus has never connected
	settle         int64 // lanes with unexplained versions become suspect
	overdue        int64 // the messages announced by a heartbeat ahead must have arrived
	explain        int64 // the messages up to an unknown digest must have arrived, if the tier cannot be asked
	drop           int64 // apply a delayed drop of everything
	expire         int64 // apply a delayed expiry of everything
}

// take reports whether the time in *at has come, and unsets it then.
func take(at *int64, now int64) bool {
	if *at == 0 || now < *at {
		return false
	}
	*at = 0
	return true
}

// subscribed begins to join: the bus has acknowledged a subscription.
func (s *state) subscribed(now int64) {
	s.lose(s.arrivedAt)
	s.disconnect(s.why)
	s.phase, s.arrivedAt = joining, now
	s.joinSoon(now, firstRetry)
}

// joinSoon plans the next attempt to join. Answers to earlier attempts are ignored.
func (s *state) joinSoon(at int64, pause time.Duration) {
	s.subscription++
	s.due.join, s.pause = at, pause
}

// unsubscribed ends the subscription. why is the cause.
func (s *state) unsubscribed(why error) {
	s.disconnect(why)
	s.phase = silent
	s.subscription++
	s.due.join = 0
}

// disconnect goes back from the phase connected to joining. why is the cause.
// Patience begins.
func (s *state) disconnect(why error) {
	s.why = why
	if s.phase == connected {
		s.phase, s.patient = joining, true
	}
}

// suspend goes back to joining, with the next attempt at the time at. why is the cause.
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

// arrived notes that the bus has delivered something. If the subscription had
// counted as dead, the link joins again, and arrived returns true.
func (s *state) arrived(now int64) (join bool) {
	if s.phase != connected && s.quietTooLong(now) {
		s.lose(s.arrivedAt)
	}
	s.arrivedAt = now
	if join = s.phase == joining && s.due.join == 0; join {
		s.joinSoon(now, firstRetry)
	}
	return join
}

// quietTooLong reports whether the bus has delivered nothing for longer than a
// healthy bus ever does.
func (s *state) quietTooLong(now int64) bool { return now-s.arrivedAt >= int64(SilentAfter) }

// lose notes that messages may be lost since some time. Only the position of the
// tier ends that: later messages do not repeat lost ones.
func (s *state) lose(since int64) {
	if s.lostAt == 0 {
		s.lostAt = since
	}
}

// completeUntil returns the time until which every message has arrived.
func (s *state) completeUntil() int64 {
	if s.lostAt != 0 {
		return s.lostAt
	}
	return s.arrivedAt
}

// joinFailed plans another attempt to join, after a pause that doubles.
func (s *state) joinFailed(now int64, err error) {
	s.why = err
	s.due.join = now + int64(s.pause)
	s.pause = min(2*s.pause, lastRetry)
}

// joined enters the phase connected, and returns since when messages may have
// been lost. Delayed drops of everything stay due.
func (s *state) joined(now int64) (lostSince int64) {
	lostSince = cmp.Or(s.lostAt, now)
	s.phase, s.patient, s.verify = connected, false, false
	s.lostAt, s.unknownAt = 0, 0
	s.due = timers{heartbeat: s.due.heartbeat, drop: s.due.drop, expire: s.due.expire}
	return lostSince
}

// unknownDigest asks for a comparison with the tier. While the link is not connected,
// messages have settleAfter to bring this instance to the digest.
func (s *state) unknownDigest(now int64, digest string) {
	s.verify, s.unknown = true, digest
	if s.unknownAt = cmp.Or(s.unknownAt, now); !s.unexplained(now) {
		s.due.explain = now + int64(settleAfter)
	}
}

// mustExplain reports whether messages have had their time to explain an unknown digest, and the
// tier cannot be asked.
func (s *state) mustExplain(now int64) bool {
	return s.phase != connected && s.unknownAt != 0 && now >= s.due.explain
}

// unexplained reports whether the tier has had its time to explain an unknown
// digest.
func (s *state) unexplained(now int64) bool { return now-s.unknownAt >= int64(verifyWithin) }

// loseUnexplained counts messages as lost since before the unknown digest
// arrived: heartbeats are not rarer than SilentAfter.
func (s *state) loseUnexplained() {
	s.lose(max(1, s.unknownAt-int64(SilentAfter)))
	s.unknownAt = 0
}

// unverified notes that the tier has not told its position for a comparison. It
// returns true if the link must cease to count as connected.
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

// delayHeartbeat delays the next heartbeat by every, or up to a quarter more, so
// that one instance sends it first. Its heartbeat delays the heartbeats of the
// others.
func (s *state) delayHeartbeat(now int64, every time.Duration) {
	s.due.heartbeat = now + int64(every) + rand.Int64N(int64(every/4))
}

// next returns the time of the next action.
func (s *state) next(now int64, patience time.Duration) int64 {
	first := now + int64(heartbeatEvery)
	at := func(t int64) {
		if t != 0 {
			first = min(first, t)
		}
	}
	at(s.due.settle)
	at(s.due.overdue)
	at(s.due.drop)
	at(s.due.expire)
	if s.phase != connected && s.unknownAt != 0 {
		at(s.due.explain)
	}
	if s.phase != silent {
		at(s.due.heartbeat)
	}
	switch {
	case s.phase == connected && s.verify:
		at(s.verifiedAt + int64(heartbeatEvery))
	case s.phase == connected:
		at(s.arrivedAt + int64(SilentAfter))
	default:
		at(s.due.join)
		if s.patient {
			at(s.completeUntil() + int64(patience))
		}
	}
	return first
}
