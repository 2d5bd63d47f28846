package link

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/trust"
	"github.com/strata-cache/strata/remote"
)

// keep does what is due, until ctx ends.
func (l *Link) keep(ctx context.Context) {
	timer := time.NewTimer(time.Hour) // set anew before it is looked at
	defer timer.Stop()
	for ctx.Err() == nil {
		l.tend(ctx)
		timer.Reset(max(time.Duration(l.nextDue()-l.o.Now()), 1))
		select {
		case <-ctx.Done():
		case <-l.kick:
		case <-timer.C:
		}
	}
}

// tend does what is due.
func (l *Link) tend(ctx context.Context) {
	now := l.o.Now()
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	connected := l.connected.Load()
	if connected && now-s.heardAt >= int64(SilentAfter) {
		l.gaps.Add(1)
		l.fallSilent(errNothing)
		connected = false
	}
	if !connected && s.silent && now-s.allHeardAt() >= int64(l.o.Patience) {
		l.giveUp()
	}
	l.tell(now)
	if l.joined.Load() { // what there was no room for in the log
		l.report()
	}
	l.obeyLate(now)
	l.overdue(now)
	switch {
	case !s.subscribed:
	case !connected && s.joinAt != 0 && now >= s.joinAt:
		l.join(ctx, s.life)
	case s.beatAt != 0 && now >= s.beatAt:
		l.beat(ctx, connected)
	case connected && s.verify && now-s.verifiedAt >= int64(beatEvery):
		l.verifyNow(ctx)
	}
	l.settle(now)
}

// nextDue is when there is something to do next.
func (l *Link) nextDue() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.o.Now() + int64(beatEvery)
	at := func(t int64) {
		if t != 0 {
			due = min(due, t)
		}
	}
	at(l.settleAt)
	at(l.overdueAt)
	at(l.dropAt)
	at(l.expireAt)
	if l.subscribed {
		at(l.beatAt) // zero if none is due
	}
	switch connected := l.connected.Load(); {
	case connected && l.verify:
		at(l.verifiedAt + int64(beatEvery))
	case connected:
		at(l.heardAt + int64(SilentAfter))
	default:
		at(l.joinAt)
		if l.silent {
			at(l.allHeardAt() + int64(l.o.Patience))
		}
	}
	return due
}

// due reports whether the time at has come, and unsets it if so.
func (l *Link) due(at *int64, now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *at == 0 || now < *at {
		return false
	}
	*at = 0
	return true
}

// allHeardAt is until when everything was heard.
func (s *state) allHeardAt() int64 {
	if s.lostAt != 0 {
		return s.lostAt
	}
	return s.heardAt
}

// giveUp ends the trust in L1: nothing was heard for too long.
func (l *Link) giveUp() {
	l.mu.Lock()
	l.silent = false
	l.mu.Unlock()
	if l.o.Strict {
		l.mute.Store(true)
	}
	l.o.Trust.Disown()
	l.o.Part()
}

// tell tells once of a bus that has not connected since the start: nobody else
// would, for it has not fallen silent.
func (l *Link) tell(now int64) {
	if !l.due(&l.tellAt, now) {
		return
	}
	l.mu.Lock()
	why := l.why
	l.mu.Unlock()
	if x, ok := l.o.Bus.(remote.Explainer); ok && why == nil {
		why = x.Err()
	}
	about := []any{slog.String("cache", l.o.Name)}
	if why != nil {
		about = append(about, slog.Any("error", why))
	}
	l.o.Logger.Warn("strata: bus has not connected: it is out of reach, or the right to SUBSCRIBE is missing", about...)
}

// obeyLate obeys drops of everything that were put off.
func (l *Link) obeyLate(now int64) {
	if l.due(&l.dropAt, now) {
		l.o.DropAll(false)
	}
	if l.due(&l.expireAt, now) {
		l.o.DropAll(true)
	}
}

// join makes the instance connected: messages arrive, and what was missed
// before is found out. What is suspect is confirmed by L2 when it is next asked
// for.
func (l *Link) join(ctx context.Context, life int) {
	var p remote.Position
	var err error
	changes, _ := l.changes(ctx)
	if l.o.Position != nil {
		p, err = l.o.Position(ctx)
	}
	if l.o.Doubt != nil {
		l.o.Doubt()
	}
	hits, now := l.o.Hits(), l.o.Now()
	l.mu.Lock()
	if l.life != life || !l.subscribed {
		l.mu.Unlock()
		return
	}
	if err != nil {
		l.why = fmt.Errorf("L2 does not tell what was missed: %w", err)
		l.joinAt = now + int64(l.pause)
		l.pause = min(2*l.pause, lastRetry)
		l.mu.Unlock()
		return
	}
	since := now
	if l.lostAt != 0 {
		since = l.lostAt
	}
	l.joinAt, l.lostAt, l.strangeAt, l.silent, l.verify, l.settleAt, l.overdueAt, l.tellAt = 0, 0, 0, false, false, 0, 0, 0
	l.beaten(now)
	l.rejoin(p, since)
	l.settled = changes
	if from := l.degradedFrom.Swap(0); from > 0 {
		l.degraded.Add(hits + 1 - from)
	}
	l.connected.Store(true)
	l.mu.Unlock()
	l.mute.Store(false)
	l.report()
}

// rejoin takes the trust from what may have been missed since some time.
func (l *Link) rejoin(p remote.Position, since int64) {
	switch {
	case l.o.Position != nil:
		if n := l.o.Trust.Rejoin(p, since); n > 0 {
			l.missed.Add(uint64(n))
		}
	case l.o.Confirms:
		l.o.Trust.Doubt(since)
	default:
		l.o.Trust.Disown()
	}
	l.o.Part()
}

// beat sends a sign of life, and with it a sign of where the tier stands, unless
// nothing was dropped since it was last compared. Over a bus that needs no sign
// of life it sends none without the other.
func (l *Link) beat(ctx context.Context, connected bool) {
	m := remote.Message{Name: l.o.Name, Kind: remote.Beat, From: l.o.Instance}
	idle := false
	if connected && l.o.Position != nil {
		var changes string
		changes, idle = l.changes(ctx)
		if p, ok := l.whereabouts(ctx, idle); ok {
			l.compare(p)
			l.settled = changes
			m.Key = trust.Sign(p)
		}
	}
	if !l.checks || m.Key != "" {
		ctx, cancel := remote.WithTimeout(ctx, l.o.Timeout)
		defer cancel()
		// If it is not heard, the bus is silent soon, and that is seen to.
		_ = l.o.Bus.Publish(ctx, []remote.Message{m})
	}
	now := l.o.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beaten(now)
	if l.checks && idle {
		l.beatAt = now + int64(lookEvery)
	}
}

// whereabouts asks for the position, unless the tier is idle. Without an answer a
// sign of life says that the bus is well, and no more.
func (l *Link) whereabouts(ctx context.Context, idle bool) (p remote.Position, ok bool) {
	if idle {
		return p, false
	}
	p, err := l.o.Position(ctx)
	return p, err == nil
}

// changes asks the tier how far all that it holds has changed, and reports
// whether that is where a position was last compared. It is asked before the
// position, so what changes in between counts as later.
func (l *Link) changes(ctx context.Context) (text string, idle bool) {
	if l.o.Changes == nil {
		return "", false
	}
	ctx, cancel := remote.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	text, err := l.o.Changes(ctx)
	if err != nil {
		return "", false
	}
	return text, text != "" && text == l.settled
}

// beaten puts the next sign of life off. Not all instances send it at once:
// when one was first the others are quiet. mu is held.
func (l *Link) beaten(now int64) {
	every := beatEvery
	switch {
	case l.checks && l.o.Position == nil:
		l.beatAt = 0
		return
	case l.checks:
		every = signEvery
	}
	l.beatAt = now + int64(every) + rand.Int64N(int64(every/4))
}

// hearBeat takes a sign of life, and looks into it if it comes from a state of
// the tier that this instance has not heard of.
func (l *Link) hearBeat(m *remote.Message, now int64) {
	news := trust.NoNews
	if l.o.Position != nil {
		news = l.o.Trust.See(m.Key)
	}
	l.mu.Lock()
	if m.Key != "" || l.o.Position == nil {
		l.beaten(now) // one that says nothing of the tier spares nobody theirs
	}
	switch {
	case news == trust.Strange:
		l.strange(now)
	case news == trust.Early:
		l.overdueAt = now + int64(overdueAfter)
	case m.Key != "" && !l.connected.Load():
		l.strangeAt = 0 // what it was about has come
	}
	l.mu.Unlock()
	if news != trust.NoNews {
		l.wake()
	}
}

// overdue has the tier asked where it stands if messages that tell of it should
// have come by now.
func (l *Link) overdue(now int64) {
	if l.due(&l.overdueAt, now) && l.o.Trust.Overdue() {
		l.mu.Lock()
		l.strange(now)
		l.mu.Unlock()
	}
}

// strange has the tier asked what has been missed. While it does not answer, and
// so nobody is connected, whatever has not come in time counts as lost. mu is
// held.
func (l *Link) strange(now int64) {
	l.verify = true
	switch {
	case l.connected.Load():
	case l.strangeAt == 0:
		l.strangeAt = now
	case now-l.strangeAt >= int64(verifyWithin):
		l.lose(max(1, l.strangeAt-int64(SilentAfter)))
	}
}

// verifyNow compares what is known here with the tier: another instance has
// seen it in a state that was never heard of here.
func (l *Link) verifyNow(ctx context.Context) {
	now := l.o.Now()
	l.mu.Lock()
	l.verify, l.verifiedAt = false, now
	if l.strangeAt == 0 {
		l.strangeAt = now
	}
	l.mu.Unlock()
	p, err := l.o.Position(ctx)
	if err != nil {
		l.unverified(err)
		return
	}
	l.mu.Lock()
	l.strangeAt = 0
	l.mu.Unlock()
	l.compare(p)
}

// unverified has the tier asked again what has been missed. If it does not say
// in time, the bus counts as silent until it does. err is why.
func (l *Link) unverified(err error) {
	now := l.o.Now()
	l.mu.Lock()
	l.verify = true
	over := now-l.strangeAt >= int64(verifyWithin)
	if over {
		l.verify = false
		l.lose(max(1, l.strangeAt-int64(SilentAfter))) // signs are not rarer
		if l.subscribed {
			l.life++
			l.joinAt, l.pause = now+int64(firstRetry), firstRetry
		}
	}
	l.mu.Unlock()
	if over {
		l.gaps.Add(1)
		l.fallSilent(fmt.Errorf("L2 does not tell what was missed: %w", err))
	}
}

// compare notes what is known here otherwise than in the tier. It is suspect
// unless messages tell of it in time.
func (l *Link) compare(p remote.Position) {
	now := l.o.Now()
	before := l.o.Trust.Word()
	differs := l.o.Trust.Check(p, now)
	if l.o.Trust.Word() != before {
		l.o.Part()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if differs && l.settleAt == 0 {
		l.settleAt = now + int64(settleAfter)
	}
}

// settle makes suspect what no message has told of in time.
func (l *Link) settle(now int64) {
	if !l.due(&l.settleAt, now) {
		return
	}
	if n := l.o.Trust.Settle(now); n > 0 {
		l.missed.Add(uint64(n))
		l.o.Part()
	}
}
