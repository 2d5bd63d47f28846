package snapshot

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/observe"
)

// pacer limits a rate over all that share it. A nil pacer has no limit.
type pacer struct {
	perSecond float64
	mu        sync.Mutex
	due       time.Time // when the bytes so far are through
}

// paceBurst is how far bytes may be ahead of their time, so that no timer is needed for
// each of them.
const paceBurst = 2 * time.Millisecond

func newPacer(perSecond int64) *pacer {
	if perSecond <= 0 {
		return nil
	}
	return &pacer{perSecond: float64(perSecond)}
}

// wait waits until the rate permits n bytes more, or ctx ends. It returns the cause of that end.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p == nil {
		return context.Cause(ctx)
	}
	p.mu.Lock()
	now := time.Now()
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(float64(n) / p.perSecond * float64(time.Second)))
	// The bytes take their place in time under the lock. The wait itself is outside, side by side
	// with those of other streams.
	ahead := p.due.Sub(now)
	p.mu.Unlock()
	if ahead <= paceBurst {
		return context.Cause(ctx)
	}
	t := time.NewTimer(ahead)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// meter counts entries and bytes of all streams of a call, and tells its progress.
type meter struct {
	begun time.Time
	tell  func(Progress) // nil without Options.Progress

	mu   sync.Mutex // guards below
	told time.Time
	so   Progress

	teller *observe.Runner
	one    chan struct{} // has one while a goroutine is in tell
}

// tellEvery is the time between two calls of Options.Progress.
const tellEvery = 100 * time.Millisecond

func newMeter(tell func(Progress)) *meter {
	now := time.Now()
	return &meter{begun: now, told: now, tell: tell, teller: observe.NewRunner(), one: make(chan struct{}, 1)}
}

// progress tells how far the call is. It holds no lock of the meter, and waits for no function that
// does not return.
func (m *meter) progress(so Progress) {
	// One function at a time: callers need no lock of their own. The runner gives up on one that
	// does not return.
	m.teller.Run(context.Background(), func() {
		m.one <- struct{}{}
		defer func() { <-m.one }()
		m.tell(so)
	})
}

// add counts, and tells the progress if it is time.
func (m *meter) add(entries int, bytes int) {
	m.mu.Lock()
	m.so.Entries += int64(entries)
	m.so.Bytes += int64(bytes)
	now := time.Now()
	due := m.tell != nil && now.Sub(m.told) >= tellEvery
	if due {
		m.told, m.so.Elapsed = now, now.Sub(m.begun)
	}
	so := m.so
	m.mu.Unlock()
	if due {
		m.progress(so)
	}
}

// expect adds to the totals.
func (m *meter) expect(entries, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.so.TotalEntries += max(entries, 0)
	m.so.TotalBytes += max(bytes, 0)
}

// end tells the progress for the last time, and returns the bytes and the time.
func (m *meter) end() (bytes int64, took time.Duration) {
	m.mu.Lock()
	m.so.Elapsed = time.Since(m.begun)
	so := m.so
	m.mu.Unlock()
	if m.tell != nil {
		m.progress(so)
	}
	return so.Bytes, so.Elapsed
}

// pipe is a stream that counts its bytes, and lets them come or go in their time.
type pipe struct {
	ctx   context.Context
	pace  *pacer
	meter *meter
	// before, if set, is called before each read or write, for its deadline.
	before func()
	// flush, if set, sends the bytes that the writer holds back.
	flush   func()
	entries int // since the last read or write
	r       io.Reader
	w       io.Writer
}

func (p *pipe) Write(b []byte) (n int, err error) {
	if err := p.pace.wait(p.ctx, len(b)); err != nil {
		return 0, err
	}
	if p.before != nil {
		p.before()
	}
	n, err = p.w.Write(b)
	p.count(n)
	return n, err
}

func (p *pipe) Read(b []byte) (n int, err error) {
	if err := context.Cause(p.ctx); err != nil {
		return 0, err
	}
	if p.before != nil {
		p.before()
	}
	n, err = p.r.Read(b)
	// The end of the call also ends the source, whose own error says less about why.
	if cause := context.Cause(p.ctx); err != nil && err != io.EOF && cause != nil {
		err = cause
	}
	p.count(n)
	// How many bytes come is known only now, so they are paid for after the read.
	if wait := p.pace.wait(p.ctx, n); err == nil {
		err = wait
	}
	return n, err
}

// count tells the meter.
func (p *pipe) count(bytes int) {
	p.meter.add(p.entries, bytes)
	p.entries = 0
}

// awaited is a reader of any kind, such as a connection, with reads that end with the context.
type awaited struct {
	ctx  context.Context //nolint:containedctx // the life of the reader
	r    io.Reader
	room []byte // for a read that may outlive its caller
}

// Read reads beside the caller.
func (a *awaited) Read(b []byte) (int, error) {
	if len(a.room) < len(b) {
		a.room = make([]byte, len(b))
	}
	type result struct {
		n        int
		err      error
		panicked any
	}
	done, room := make(chan result, 1), a.room[:len(b)]
	go func() {
		r := result{err: io.ErrUnexpectedEOF} // if Read ends the goroutine
		defer func() {
			r.panicked = recover()
			done <- r
		}()
		r.n, r.err = a.r.Read(room)
	}()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked) // as without the goroutine
		}
		return copy(b, room[:max(0, r.n)]), r.err
	case <-a.ctx.Done():
		a.room = nil
		return 0, context.Cause(a.ctx)
	}
}

// punctual is a body that must come with a least rate: a peer that sends a byte now and then would hold its place for
// ever.
type punctual struct {
	r        io.Reader
	deadline func(time.Time) error
	left     time.Duration // for the rest of leastBytes
	bytes    int
}

// Read reads until the deadline. The time between two reads does not count: the reader may keep to a rate of its own.
func (p *punctual) Read(b []byte) (n int, err error) {
	begun := time.Now()
	_ = p.deadline(begun.Add(p.left)) // not all servers can
	n, err = p.r.Read(b)
	p.left -= time.Since(begun)
	if p.bytes += n; p.bytes >= leastBytes {
		p.left, p.bytes = frameWithin, 0
	}
	if err == nil && p.left <= 0 {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}
