// Heartbeats of this instance, and comparisons of its position with the tier's.
//
// States, per difference: none; verify (a heartbeat had an unknown digest), to
// settle (the tier's position differs, messages have a second to explain it),
// overdue (a heartbeat was ahead of this instance, and the missing messages have half
// a second).
//
// Invariant: each of them ends in an equal position, in suspect lanes, or in the loss
// of the phase connected.

package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

// heartbeat sends a heartbeat with a digest of the tier's position, unless nothing was
// dropped since the position was last compared. Over a bus that checks itself, a
// heartbeat without a digest is not sent.
func (l *Link) heartbeat(ctx context.Context, connected bool) {
	m := remote.Message{Name: l.o.Space, Kind: remote.Beat, From: l.o.Instance}
	idle := false
	if connected && l.o.Position != nil {
		var changes string
		changes, idle = l.changes(ctx)
		if p, ok := l.position(ctx, idle); ok {
			l.compare(p)
			l.settled = changes
			m.Key = Heartbeat(p)
		}
	}
	if !l.checks || m.Key != "" {
		ctx, cancel := remote.WithTimeout(ctx, l.o.Timeout)
		defer cancel()
		m.Is.Count = l.sends(l.o.Now())
		// If the heartbeat fails, its absence ends the phase connected.
		_ = l.o.Bus.Publish(ctx, []remote.Message{m})
	}
	now := l.o.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delayHeartbeat(now)
	if l.checks && idle {
		l.due.heartbeat = now + int64(changesEvery)
	}
}

// echoes measures how late messages are: the times that heartbeats of this instance take
// from Publish until they arrive here, by one clock.
type echoes struct {
	echo observe.Durations
	mine sync.Mutex // guards below
	// count numbers the heartbeats from 1, sent has the times of the last ones; 0 for a
	// heartbeat after its return.
	count uint64
	sent  [16]int64
}

// sends returns the number of a heartbeat sent at now.
func (e *echoes) sends(now int64) (number uint64) {
	e.mine.Lock()
	defer e.mine.Unlock()
	e.count++
	e.sent[e.count%uint64(len(e.sent))] = now
	return e.count
}

// came measures the way of a heartbeat of this instance that came back at now. It
// skips a heartbeat older than the last ones: its time is forgotten.
func (e *echoes) came(number uint64, now int64) {
	e.mine.Lock()
	defer e.mine.Unlock()
	n := uint64(len(e.sent))
	if sent := e.sent[number%n]; sent != 0 && number <= e.count && number+n > e.count {
		e.sent[number%n] = 0
		e.echo.Add(time.Duration(now - sent))
	}
}

// delayHeartbeat delays the next heartbeat for as long as the kind of bus allows. mu
// is held.
func (l *Link) delayHeartbeat(now int64) {
	switch {
	case l.checks && l.o.Position == nil:
		l.due.heartbeat = 0
	case l.checks:
		l.state.delayHeartbeat(now, digestEvery)
	default:
		l.state.delayHeartbeat(now, heartbeatEvery)
	}
}

// position asks for the position, unless the tier is idle. Without a position a
// heartbeat has no digest.
func (l *Link) position(ctx context.Context, idle bool) (p remote.Position, ok bool) {
	if idle {
		return p, false
	}
	p, err := l.o.Position(ctx)
	return p, err == nil
}

// changes asks the tier for its count of changes, and reports whether the tier is
// idle: the count is the same as at the last compared position. The count is asked
// for before the position, so that a change in between counts as later.
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

// overdue plans a comparison with the tier if the messages announced by a heartbeat
// ahead have not arrived in time.
func (l *Link) overdue(now int64) {
	if l.take(&l.due.overdue, now) && l.o.Generation.Overdue() {
		l.mu.Lock()
		l.unknownDigest(now, "")
		l.mu.Unlock()
	}
}

// verifyNow compares the position with the tier's, because of a heartbeat with an
// unknown digest.
func (l *Link) verifyNow(ctx context.Context) {
	now := l.o.Now()
	l.mu.Lock()
	l.verify, l.verifiedAt = false, now
	if l.unknownAt == 0 {
		l.unknownAt = now
	}
	l.mu.Unlock()
	p, err := l.o.Position(ctx)
	if err != nil {
		l.unanswered(err)
		return
	}
	l.mu.Lock()
	l.unknownAt = 0
	if l.verify { // another unknown digest has come meanwhile
		l.unknownAt = l.verifiedAt
	}
	l.mu.Unlock()
	l.compare(p)
}

// explain counts messages as lost that should have brought this instance to an unknown digest by now, while the
// tier does not tell its position.
func (l *Link) explain(now int64) {
	l.mu.Lock()
	must, digest := l.mustExplain(now), l.unknown
	l.mu.Unlock()
	if !must {
		return
	}
	reached := digest != "" && l.o.Generation.Compare(digest) == Reached
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.unknown != digest, !l.mustExplain(now): // another one has come, or the tier has answered
	case reached:
		l.unknownAt = 0
	default:
		l.loseUnexplained()
	}
}

// unanswered plans another comparison, since the tier has not told its position
// because of err. Once its time is over, the link ceases to be connected.
func (l *Link) unanswered(err error) {
	now := l.o.Now()
	l.mu.Lock()
	over := l.unverified(now)
	l.mu.Unlock()
	if over {
		l.gaps.Add(1)
		l.leave(func(s *state) { s.disconnect(fmt.Errorf("L2 does not tell its position: %w", err)) })
	}
}

// compare compares the known position with the tier's. A differing lane becomes
// suspect unless messages explain the difference in time.
func (l *Link) compare(p remote.Position) {
	now := l.o.Now()
	before := l.o.Generation.Watermark()
	differs := l.o.Generation.Check(p, now)
	if l.o.Generation.Watermark() != before {
		l.o.FenceAll()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if differs && l.due.settle == 0 {
		l.due.settle = now + int64(settleAfter)
	}
}

// settle makes the pending lanes suspect, unless a message has explained them in
// time.
func (l *Link) settle(now int64) {
	if !l.take(&l.due.settle, now) {
		return
	}
	if n := l.o.Generation.Settle(now); n > 0 {
		l.missed.Add(uint64(n))
		l.o.FenceAll()
	}
}
