// The goroutine of a link: it performs the due actions, and joins.
//
// States: silent, joining, connected; doc.go draws them, state.go moves between them.
//
// Invariant: the link enters the phase connected only with an answer of the tier to
// a question asked after the subscription was acknowledged. Before it counts as
// connected, older entries of moved lanes are suspect, and no running flight of them
// can be joined.

package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/remote"
)

// run performs each action when it is due, until ctx ends.
func (l *Link) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour) // reset before its first use
	defer timer.Stop()
	for ctx.Err() == nil {
		l.tick(ctx)
		l.mu.Lock()
		now := l.o.Now()
		next := l.next(now, l.o.Patience)
		l.mu.Unlock()
		timer.Reset(max(time.Duration(next-now), 1))
		select {
		case <-ctx.Done():
		case <-l.woken:
		case <-timer.C:
		}
	}
}

// tick performs the due actions.
func (l *Link) tick(ctx context.Context) {
	now := l.o.Now()
	l.explain(now)
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	if s.phase == connected && s.quietTooLong(now) {
		l.gaps.Add(1)
		l.leave(func(s *state) { s.disconnect(errNothing) })
		s.phase = joining
	}
	if s.phase != connected && s.patient && now-s.completeUntil() >= int64(l.o.Patience) {
		l.giveUp()
	}
	l.logUnconnected(now)
	if l.everConnected.Load() { // changes too frequent to be logged at once
		l.report()
	}
	l.applyLate(now)
	l.overdue(now)
	switch {
	case s.phase == silent:
	case s.phase == joining && s.due.join != 0 && now >= s.due.join:
		l.join(ctx, s.subscription)
	case s.due.heartbeat != 0 && now >= s.due.heartbeat:
		l.heartbeat(ctx, s.phase == connected)
	case s.phase == connected && s.verify && now-s.verifiedAt >= int64(heartbeatEvery):
		l.verifyNow(ctx)
	}
	l.settle(now)
}

// take reports whether the time at has come, and if so unsets it.
func (l *Link) take(at *int64, now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return take(at, now)
}

// giveUp ends the use of L1: patience is over.
func (l *Link) giveUp() {
	l.mu.Lock()
	l.patient = false
	l.mu.Unlock()
	l.mute.Store(l.o.Strict)
	// Without messages for so long, no entry of L1 can be trusted any more, and L1 begins empty
	// when the bus is back.
	l.o.Generation.InvalidateAll()
	l.o.FenceAll()
}

// logUnconnected logs once that the bus has not connected since the start. The line
// about a silent bus is for a bus that was connected before.
func (l *Link) logUnconnected(now int64) {
	if !l.take(&l.due.logUnconnected, now) {
		return
	}
	l.mu.Lock()
	why := l.why
	l.mu.Unlock()
	if x, ok := l.o.Bus.(remote.Explainer); ok && why == nil {
		why = x.Err()
	}
	var about []any
	if why != nil {
		about = append(about, slog.Any("error", why))
	}
	l.write(l.told.log.Begins("", isSilent), slog.LevelWarn,
		"strata: bus has not connected: it is out of reach, or the right to SUBSCRIBE is missing", about...)
}

// applyLate applies delayed drops of everything.
func (l *Link) applyLate(now int64) {
	if l.take(&l.due.drop, now) {
		l.o.DropAll(false)
	}
	if l.take(&l.due.expire, now) {
		l.o.DropAll(true)
	}
}

// join enters the phase connected if the tier tells its position: messages arrive,
// and earlier losses are known. L2 confirms suspect entries when they are next read.
// The attempt counts only if subscription is still the present one.
func (l *Link) join(ctx context.Context, subscription int) {
	var p remote.Position
	var err error
	// Asked before the position: a drop between the two questions makes the next answer differ, and
	// costs one more comparison. In the other order it would go unnoticed.
	changes, _ := l.changes(ctx)
	l.mu.Lock()
	alone := l.alone
	l.mu.Unlock()
	switch {
	case alone:
		err = errSuspended
	case l.o.Position != nil:
		if p, err = l.o.Position(ctx); err != nil {
			err = fmt.Errorf("L2 does not tell its position: %w", err)
		}
	}
	// A state of its namespace that the tier has read before this moment may have missed a drop, as the
	// entries may.
	if l.o.Recheck != nil {
		l.o.Recheck()
	}
	hits, now := l.o.Hits(), l.o.Now()
	l.mu.Lock()
	if l.subscription != subscription || l.phase == silent {
		l.mu.Unlock()
		return
	}
	if err != nil {
		l.joinFailed(now, err)
		l.mu.Unlock()
		return
	}
	since := l.joined(now)
	l.delayHeartbeat(now)
	// The entries are suspect before connected is true: no reader sees an old entry as a confirmed
	// one.
	l.rejoin(p, since)
	l.settled = changes
	if from := l.degradedFrom.Swap(0); from > 0 {
		l.degraded.Add(hits + 1 - from)
	}
	l.connected.Store(true)
	l.mu.Unlock()
	l.mute.Store(false)
	l.report()
	if l.o.Joined != nil {
		l.o.Joined()
	}
}

// rejoin makes suspect all entries about which a drop may have been missed since some time.
func (l *Link) rejoin(p remote.Position, since int64) {
	switch {
	case l.o.Position != nil:
		if n := l.o.Generation.Rejoin(p, since); n > 0 {
			l.missed.Add(uint64(n))
		}
	case l.o.Confirms:
		l.o.Generation.SuspectAll(since)
	default:
		l.o.Generation.InvalidateAll()
	}
	l.o.FenceAll()
}
