package mux

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/wire/pool"
)

// Pair is the pool of one server with a Mux on it, and a second Mux beside it, for
// commands that only read while the first is stuck, as it is behind a command that the
// server holds back.
type Pair[C Line] struct {
	Pool         *pool.Pool[C]
	main, bypass *Mux[C]
	// bypassed says that bypass was used since main was stuck.
	bypassed atomic.Bool
}

// NewPair returns a Pair with no connection. It looks at each connection before its use.
// refused is as in [New].
func NewPair[C Line](o pool.Config[C], refused func(cn C, reply []byte) bool) *Pair[C] {
	o.Look = func(cn C) error { return cn.Look(true) }
	p := pool.New(o)
	return &Pair[C]{Pool: p, main: New(p, refused), bypass: New(p, refused)}
}

// Do sends one command and waits for its reply, as [Mux.Do] does. reads: the command only
// reads. If the connection was found dead before the reply came, and the command either was
// not sent or only reads, Do sends it once more. kept says that the Mux may still look at the
// ticket and the command: they must not be used again.
func (p *Pair[C]) Do(ctx context.Context, now time.Time, reads bool, t *Ticket, command []byte, to Answerer) (kept bool, err error) {
	t.Repeatable = reads
	out, err := p.once(ctx, now, reads, t, command, to)
	if !out.Lost || out.Sent && !reads {
		return out.Kept, err
	}
	kept = out.Kept
	if kept {
		t = &Ticket{Until: t.Until}
	}
	t.Repeatable = false
	p.Pool.Retried()
	out, err = p.once(ctx, now, reads, t, command, to)
	return kept || out.Kept, err
}

// once is one attempt at Do.
func (p *Pair[C]) once(ctx context.Context, now time.Time, reads bool, t *Ticket, command []byte, to Answerer) (Outcome, error) {
	m := p.choose(reads)
	out, err := m.Do(ctx, now, t, command, to)
	if err == nil && m == p.bypass {
		p.main.Reroute(time.Now()) // the server answers
	}
	return out, err
}

// choose returns the Mux for a command.
func (p *Pair[C]) choose(reads bool) *Mux[C] {
	switch {
	case !reads:
	case p.main.Stuck():
		p.bypassed.Store(true)
		return p.bypass
	case p.bypassed.Load() && p.bypassed.CompareAndSwap(true, false):
		p.bypass.Renew() // the pool may have the connection
	}
	return p.main
}

// Renew closes all connections, those in use when they come back. It is [pool.Pool.Renew]
// for the shared connections, too.
func (p *Pair[C]) Renew(now time.Time) {
	if p.Pool.Renew(now) {
		p.main.Renew()
		p.bypass.Renew()
	}
}

// Silent returns for how long calls have waited without the end of any call.
func (p *Pair[C]) Silent(now time.Time) time.Duration {
	return max(p.main.Silent(now), p.bypass.Silent(now), p.Pool.Silent(now))
}

// Close fails all calls, closes all connections and waits for the goroutines.
func (p *Pair[C]) Close() {
	p.main.Close()
	p.bypass.Close()
	p.Pool.Close()
}
