package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/redis/bus"
	"github.com/strata-cache/strata/internal/redis/resp"
)

// A primary follows the server that sentinels name. It subscribes to the failovers
// at each sentinel. It asks all sentinels, in a round, when one of them tells of a
// failover, when a subscription begins, when a connection cannot be opened, when an
// operation has to know that its server is still the primary, and every askEvery.
//
// Invariant: the first answer of a newer configuration begins another term at once.
// A term is proven by a round in which most sentinels have named its server. One round
// runs at a time; an answer to a question from before it proves nothing.

const (
	// askEvery is the time after which sentinels are asked without a reason, and
	// askPause the least time between two rounds of questions.
	askEvery = 30 * time.Second
	askPause = 100 * time.Millisecond
	// askLeast is the least time between two questions to one sentinel that its own messages cause,
	// outside of rounds.
	askLeast = time.Second
	// provenFor is the greatest age of a round that proves a term. A server that lost
	// its place after the round may confirm drops of which no other server hears; an
	// instance that lives on repeats them.
	provenFor = 300 * time.Millisecond
)

// errSentinels is the reason when most sentinels do not confirm a term.
var errSentinels = errors.New("redis: most sentinels do not confirm that the server is the primary")

// primary is the server that sentinels name.
type primary struct {
	o       *Options
	steps   *resp.Steps
	terms   *terms
	ctx     context.Context // ends when the client is closed
	cancel  context.CancelFunc
	runs    sync.WaitGroup
	due     chan struct{} // holds one
	askers  []*sentinel
	answers chan answered

	mu    sync.Mutex // guards below
	begun bool
	epoch int64 // the number of the configuration in which sentinels named the primary
	// unreachable: a dial has failed since the last answer.
	unreachable bool
	round       chan struct{} // closed when the next round of questions has ended
	err         error         // of the last round
	// provenAt is the start of the last round that proved the present term.
	provenAt time.Time
}

func newPrimary(o *Options, steps *resp.Steps, terms *terms) *primary {
	p := &primary{o: o, steps: steps, terms: terms, due: make(chan struct{}, 1), round: make(chan struct{}), answers: make(chan answered)}
	for i, addr := range append([]string{o.Addr}, o.Addrs...) {
		if i > 0 && (addr == o.Addr || slices.Contains(o.Addrs[:i-1], addr)) {
			continue // a sentinel named twice has one vote
		}
		p.askers = append(p.askers, &sentinel{o: o, steps: steps, addr: addr, due: make(chan struct{}, 1)})
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// close ends all that runs for the primary, but not its connections.
func (p *primary) close() {
	p.cancel()
	p.mu.Lock()
	p.begun = true // nothing begins any more
	p.mu.Unlock()
	p.runs.Wait()
}

// addr returns the address of the primary, if it is known.
func (p *primary) addr() string {
	if t := p.terms.present(); t != nil {
		return t.addr
	}
	return ""
}

// dial opens a connection to the primary. It ignores its Options: they are the same as
// p.o.
func (p *primary) dial(ctx context.Context, _ *Options) (*conn, error) {
	t, err := p.locate(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The end of the term ends the dial as well: it would lead to a server that is not the primary
	// any more.
	defer context.AfterFunc(t.ctx, cancel)()
	cn, err := p.open(ctx, t)
	switch {
	case err != nil && t.over(): // the next dial leads to another server
		return nil, &ConnError{Op: "dial", Err: errDeposed, cut: true}
	case err != nil:
		p.unreached(t)
		return nil, err
	}
	return cn, nil
}

// open opens a connection to the server of a term, if this server is a primary.
func (p *primary) open(ctx context.Context, t *term) (*conn, error) {
	o := p.o.at(t.addr)
	cn, err := connect(ctx, &o, p.steps)
	if err != nil {
		return nil, err
	}
	// Sentinels may not know yet that the server has lost its place. It knows itself.
	if err := cn.checkPrimary(ctx, o.DialTimeout); err != nil {
		cn.Close()
		return nil, err
	}
	cn.belong(t)
	return cn, nil
}

// locate returns the present term. It waits for the answers of sentinels if there
// is none, or if it is unreachable. The old term is returned if no sentinel answers.
func (p *primary) locate(ctx context.Context) (*term, error) {
	p.mu.Lock()
	p.begin()
	round, unreachable := p.round, p.unreachable
	p.mu.Unlock()
	if t := p.terms.present(); t != nil && !unreachable {
		return t, nil
	}
	if err := p.await(ctx, round); err != nil {
		return nil, err
	}
	if t := p.terms.present(); t != nil {
		return t, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return nil, p.err
}

// await asks the sentinels, and waits for the end of a round.
func (p *primary) await(ctx context.Context, round <-chan struct{}) error {
	p.ask()
	select {
	case <-round:
		return nil
	case <-p.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return &ConnError{Op: "route", Err: ctx.Err()}
	}
}

// number returns the number of the present term. It asks for a new proof of the term
// if the last one is older than half of provenFor: so holds seldom has to wait for
// one.
func (p *primary) number() uint64 {
	p.mu.Lock()
	old := time.Since(p.provenAt) > provenFor/2
	p.mu.Unlock()
	if old {
		p.ask()
	}
	return p.terms.number()
}

// holds returns nil if the term with a number is proven by a round that began no longer
// ago than provenFor, or by the next one. Else its error is a remote.ErrMoved.
func (p *primary) holds(ctx context.Context, number uint64) error {
	for try := 0; ; try++ {
		p.mu.Lock()
		proven, round, err := time.Since(p.provenAt) < provenFor, p.round, p.err
		p.mu.Unlock()
		switch over := p.terms.holds(ctx, number); {
		case over != nil:
			return over
		case proven:
			return nil
		case try == 2: // the first round may have begun long before
			if err == nil {
				err = errSentinels
			}
			return unproven(err)
		}
		if err := p.await(ctx, round); err != nil {
			return unproven(fmt.Errorf("%w: %w", errSentinels, err))
		}
	}
}

// begin begins to listen to the sentinels. mu is held.
func (p *primary) begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.runs.Go(p.follow)
	for _, s := range p.askers {
		p.runs.Go(func() { p.listen(s) })
		p.runs.Go(func() { p.serve(s) })
	}
}

// ask makes the next round of questions due.
func (p *primary) ask() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// unreached forces a question to the sentinels before the next dial.
func (p *primary) unreached(t *term) {
	present := p.terms.present()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreachable = p.unreachable || present == t
}

// known returns the last answer that heed accepted.
func (p *primary) known() told {
	p.mu.Lock()
	defer p.mu.Unlock()
	return told{addr: p.addr(), epoch: p.epoch} // of one moment
}

// serve asks one sentinel whenever a question is due.
func (p *primary) serve(s *sentinel) {
	defer s.close()
	for {
		select {
		case <-s.due:
		case <-p.ctx.Done():
			return
		}
		// Taken before the question: an answer is about a moment after this one.
		at := time.Now()
		ctx, cancel := context.WithTimeout(p.ctx, p.o.DialTimeout/2)
		t, err := s.ask(ctx, p.known())
		cancel()
		select {
		case p.answers <- answered{t, at, err}:
		case <-p.ctx.Done():
			return
		}
	}
}

// listen asks the sentinels whenever s tells of a failover, and when it begins to tell of
// them. s itself is asked at once, and the others with the next round.
func (p *primary) listen(s *sentinel) {
	o := p.o.sentinelAt(s.addr)
	sub := bus.NewSubscription(p.ctx, o.listening("SUBSCRIBE", []string{switched}, func(ctx context.Context) (bus.Conn, error) {
		cn, err := connect(ctx, &o, p.steps)
		if err != nil {
			return nil, err
		}
		return hearing{cn}, nil
	}), func() {})
	defer sub.Close()
	var asked time.Time
	for {
		e, err := sub.Next(p.ctx)
		if err != nil {
			return
		}
		// A sentinel may watch several primaries, and tells of all of them.
		tells := e.Kind == bus.Received && bytes.HasPrefix(e.Payload, []byte(p.o.Sentinel.Primary+" "))
		if now := time.Now(); tells && now.Sub(asked) >= askLeast {
			asked = now
			s.askSoon()
		}
		if tells || e.Kind == bus.Subscribed {
			p.ask()
		}
	}
}

// follow asks the sentinels whenever a round is due, and decides by their answers.
func (p *primary) follow() {
	next := time.NewTimer(askEvery)
	defer next.Stop()
	var r round
	pausing := false
	for {
		due := p.due
		// A nil channel is never ready: the question waits for the end of the round, and of the
		// pause.
		if r.running || pausing {
			due = nil
		}
		select {
		case <-due:
			r = p.beginRound()
		case <-next.C:
			if !pausing && !r.running {
				r = p.beginRound()
			}
			pausing = false
			next.Reset(askEvery)
		case <-r.late:
			// A sentinel without an answer by now does not vote.
			r.failed = len(p.askers) - len(r.answers)
		case a := <-p.answers:
			p.hear(&r, a)
		case <-p.ctx.Done():
			return
		}
		if r.running && r.complete(len(p.askers), p.addr()) {
			p.conclude(&r)
			r, pausing = round{}, true
			next.Reset(askPause)
		}
	}
}

// beginRound asks all sentinels. A sentinel that still owes an answer is asked after
// it has given this answer.
func (p *primary) beginRound() round {
	begun := time.Now() // before the first question
	for _, s := range p.askers {
		s.askSoon()
	}
	return round{running: true, begun: begun, late: time.After(p.o.DialTimeout / 2)}
}

// hear takes an answer in. A newer answer is heeded at once. An answer is a vote only in
// the round of its question: a sentinel asked before the round is asked in it, too.
func (p *primary) hear(r *round, a answered) {
	known := p.known()
	if a.err == nil && known.addr != "" && a.epoch > known.epoch && a.addr != known.addr {
		p.mu.Lock()
		p.heed(a.told, 1)
		p.unreachable = false
		p.mu.Unlock()
		p.ask() // prove the new term
	}
	if r.running && !a.at.Before(r.begun) {
		r.add(a, known)
	}
}

// conclude ends a round: its answers may begin another term, and may prove the present
// one.
func (p *primary) conclude(r *round) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(r.answers) > 0:
		p.err = nil
		p.heed(newest(r.answers, p.addr()), len(r.answers))
		p.unreachable = false
	case r.err == nil:
		p.err = &ConnError{Op: "route", Err: errSilent}
	default:
		p.err = &ConnError{Op: "route", Err: r.err}
	}
	if r.most(len(p.askers), p.addr()) {
		p.provenAt = r.begun
	}
	// All that wait for this round go on, and later ones wait for the next.
	close(p.round)
	p.round = make(chan struct{})
}

// errSilent is the reason when no sentinel has answered in time.
var errSilent = errors.New("redis: no sentinel answers")

// heed begins a term if best, the newest of a number of answers, names another
// server. An older answer than the one that began the present term is not heeded,
// unless more than half of the sentinels have nothing newer, or no connection can be
// opened. mu is held.
func (p *primary) heed(best told, answers int) {
	if best.epoch < p.epoch && !p.unreachable && answers <= len(p.askers)/2 {
		return
	}
	p.epoch = best.epoch
	if t := p.terms.present(); t == nil || best.addr != t.addr {
		p.terms.begin(best.addr)
		// The last proof was about the server of the term before.
		p.provenAt = time.Time{}
	}
}
