package mux

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/wire/pool"
)

// Pair is a Mux with a second one beside it, for commands that only read while the
// first is stuck, as it is behind a command that the server holds back.
type Pair[C Line] struct {
	main, bypass *Mux[C]
	// bypassed says that bypass was used since main was stuck.
	bypassed atomic.Bool
}

// NewPair returns a Pair that takes its connections from p when they are needed.
func NewPair[C Line](p *pool.Pool[C], o Config[C]) *Pair[C] {
	return &Pair[C]{main: New(p, o), bypass: New(p, o)}
}

// Do is [Mux.Do] for a command. reads: the command only reads.
func (p *Pair[C]) Do(ctx context.Context, now time.Time, reads bool, t *Ticket, command []byte, to Answerer) (Outcome, error) {
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

// Renew makes the next calls take other connections.
func (p *Pair[C]) Renew() {
	p.main.Renew()
	p.bypass.Renew()
}

// Silent returns for how long the oldest call has waited for the reply that comes
// next.
func (p *Pair[C]) Silent(now time.Time) time.Duration {
	return max(p.main.Silent(now), p.bypass.Silent(now))
}

// Close fails all calls. It is called before the pool is closed.
func (p *Pair[C]) Close() {
	p.main.Close()
	p.bypass.Close()
}
