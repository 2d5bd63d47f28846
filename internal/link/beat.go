package link

import (
	"context"
	"fmt"

	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/remote"
)

// beat sends a heartbeat with a digest of the tier's position, unless nothing was
// dropped since the position was last compared. Over a bus that checks itself, a
// heartbeat without a digest is not sent.
func (l *Link) beat(ctx context.Context, connected bool) {
	m := remote.Message{Name: l.o.Name, Kind: remote.Beat, From: l.o.Instance}
	idle := false
	if connected && l.o.Position != nil {
		var changes string
		changes, idle = l.changes(ctx)
		if p, ok := l.position(ctx, idle); ok {
			l.compare(p)
			l.settled = changes
			m.Key = generation.Sign(p)
		}
	}
	if !l.checks || m.Key != "" {
		ctx, cancel := remote.WithTimeout(ctx, l.o.Timeout)
		defer cancel()
		// A heartbeat that is not heard makes the link leave the phase connected.
		_ = l.o.Bus.Publish(ctx, []remote.Message{m})
	}
	now := l.o.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.beatLater(now)
	if l.checks && idle {
		l.due.beat = now + int64(lookEvery)
	}
}

// beatLater puts the next heartbeat off, for as long as the kind of bus allows. mu
// is held.
func (l *Link) beatLater(now int64) {
	switch {
	case l.checks && l.o.Position == nil:
		l.due.beat = 0
	case l.checks:
		l.state.beatLater(now, signEvery)
	default:
		l.state.beatLater(now, beatEvery)
	}
}

// position asks for the position, unless the tier is idle. Without an answer a
// heartbeat has no digest.
func (l *Link) position(ctx context.Context, idle bool) (p remote.Position, ok bool) {
	if idle {
		return p, false
	}
	p, err := l.o.Position(ctx)
	return p, err == nil
}

// changes asks the tier how far all that it holds has changed, and reports
// whether that is where a position was last compared. The tier is asked before
// the position, so that changes in between count as later.
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

// overdue has the tier asked for its position if messages that an early heartbeat
// has told of should have come by now.
func (l *Link) overdue(now int64) {
	if l.take(&l.due.overdue, now) && l.o.Generation.Overdue() {
		l.mu.Lock()
		l.strange(now)
		l.mu.Unlock()
	}
}

// verifyNow compares this instance with the tier, which another instance has seen
// in a state that is unknown here.
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
		l.unanswered(err)
		return
	}
	l.mu.Lock()
	l.strangeAt = 0
	l.mu.Unlock()
	l.compare(p)
}

// unanswered has the tier asked again what was missed. If the tier does not say
// in time, because of err, the link is no longer connected until it does.
func (l *Link) unanswered(err error) {
	now := l.o.Now()
	l.mu.Lock()
	over := l.unverified(now)
	l.mu.Unlock()
	if over {
		l.gaps.Add(1)
		l.leave(func(s *state) { s.disconnect(fmt.Errorf("L2 does not tell what was missed: %w", err)) })
	}
}

// compare notes where this instance differs from the tier. A lane that differs
// becomes suspect unless messages explain that in time.
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

// settle makes lanes suspect that no message has explained in time.
func (l *Link) settle(now int64) {
	if !l.take(&l.due.settle, now) {
		return
	}
	if n := l.o.Generation.Settle(now); n > 0 {
		l.missed.Add(uint64(n))
		l.o.FenceAll()
	}
}
