package link

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/remote"
)

// run does what is due, until ctx ends.
func (l *Link) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour) // set anew before it is looked at
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

// tick does what is due now.
func (l *Link) tick(ctx context.Context) {
	now := l.o.Now()
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	if s.phase == connected && s.deaf(now) {
		l.gaps.Add(1)
		l.leave(func(s *state) { s.disconnect(errNothing) })
		s.phase = joining
	}
	if s.phase != connected && s.trusted && now-s.completeUntil() >= int64(l.o.Patience) {
		l.giveUp()
	}
	l.tellUnconnected(now)
	if l.everConnected.Load() { // changes that the log had no room for
		l.report()
	}
	l.applyLate(now)
	l.overdue(now)
	switch {
	case s.phase == silent:
	case s.phase == joining && s.due.join != 0 && now >= s.due.join:
		l.join(ctx, s.subscription)
	case s.due.beat != 0 && now >= s.due.beat:
		l.beat(ctx, s.phase == connected)
	case s.phase == connected && s.verify && now-s.verifiedAt >= int64(beatEvery):
		l.verifyNow(ctx)
	}
	l.settle(now)
}

// take reports whether the time at has come, and unsets it then.
func (l *Link) take(at *int64, now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return take(at, now)
}

// giveUp stops using L1: nothing was heard for too long.
func (l *Link) giveUp() {
	l.mu.Lock()
	l.trusted = false
	l.mu.Unlock()
	if l.o.Strict {
		l.mute.Store(true)
	}
	l.o.Generation.InvalidateAll()
	l.o.FenceAll()
}

// tellUnconnected logs once that the bus has not connected since the start,
// which no other line says: it has not fallen silent.
func (l *Link) tellUnconnected(now int64) {
	if !l.take(&l.due.tell, now) {
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

// applyLate applies drops of everything that were put off.
func (l *Link) applyLate(now int64) {
	if l.take(&l.due.drop, now) {
		l.o.DropAll(false)
	}
	if l.take(&l.due.expire, now) {
		l.o.DropAll(true)
	}
}

// join enters the phase connected, if the tier tells its position: messages
// arrive, and what was missed before is known. L2 confirms suspect entries when
// they are next read. subscription is that for which this is an attempt.
func (l *Link) join(ctx context.Context, subscription int) {
	var p remote.Position
	var err error
	changes, _ := l.changes(ctx)
	if l.o.Position != nil {
		p, err = l.o.Position(ctx)
	}
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
		l.joinFailed(now, fmt.Errorf("L2 does not tell what was missed: %w", err))
		l.mu.Unlock()
		return
	}
	since := l.state.joined(now)
	l.beatLater(now)
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

// rejoin makes suspect what may have been missed since some time.
func (l *Link) rejoin(p remote.Position, since int64) {
	switch {
	case l.o.Position != nil:
		if n := l.o.Generation.Rejoin(p, since); n > 0 {
			l.missed.Add(uint64(n))
		}
	case l.o.Confirms:
		l.o.Generation.Doubt(since)
	default:
		l.o.Generation.InvalidateAll()
	}
	l.o.FenceAll()
}
