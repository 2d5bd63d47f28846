package redis

import (
	"errors"
	"time"
)

// A round is one question to all sentinels. It runs until most of them have named the
// present server, until all have answered or failed, or until the others are late.
// Invariant: one round runs at a time; an answer to a question from before the round
// proves nothing, but is heeded if it is newer.

// round is the state of a round. The zero round does not run.
type round struct {
	running bool
	begun   time.Time
	answers []told
	failed  int
	err     error            // the one that says most
	late    <-chan time.Time // ends the round
}

// follow asks the sentinels whenever that is due, and decides by their answers.
func (p *primary) follow() {
	next := time.NewTimer(askEvery)
	defer next.Stop()
	var r round
	pausing := false
	for {
		due := p.due
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
			r.failed = len(p.askers) - len(r.answers)
		case a := <-p.answers:
			p.hear(&r, a)
		case <-p.ctx.Done():
			return
		}
		if r.running && p.complete(&r) {
			p.conclude(&r)
			r, pausing = round{}, true
			next.Reset(askPause)
		}
	}
}

// beginRound asks all sentinels. One that has not answered the last question is asked
// when it has.
func (p *primary) beginRound() round {
	for _, s := range p.askers {
		s.askSoon()
	}
	return round{running: true, begun: time.Now(), late: time.After(p.o.DialTimeout / 2)}
}

// hear takes an answer in. One that is newer is heeded at once.
func (p *primary) hear(r *round, a answered) {
	known := p.known()
	switch newer := a.err == nil && known.addr != "" && a.epoch > known.epoch && a.addr != known.addr; {
	case newer:
		p.mu.Lock()
		p.heed(a.told, 1)
		p.unreachable = false
		p.mu.Unlock()
		p.ask() // the new term is to be proven
	case !r.running || a.at.Before(r.begun):
		return
	}
	if a.err != nil {
		r.failed++
		r.err = telling(r.err, a.err)
		return
	}
	if len(r.answers) == 0 && a.epoch >= known.epoch {
		r.late = time.After(askLate)
	}
	r.answers = append(r.answers, a.told)
}

// telling returns the error of two sentinels that says more: an answer that is of
// no use says more than none.
func telling(a, b error) error {
	if a == nil || errors.Is(b, ErrNoPrimary) || !errors.Is(a, ErrNoPrimary) && errors.Is(b, ErrProtocol) {
		return b
	}
	return a
}

// complete reports whether a round is over.
func (p *primary) complete(r *round) bool {
	return len(r.answers)+r.failed >= len(p.askers) || p.most(r, p.addr())
}

// most reports whether most sentinels have named the server at addr.
func (p *primary) most(r *round, addr string) bool {
	n := 0
	for _, a := range r.answers {
		if a.addr == addr {
			n++
		}
	}
	return addr != "" && n > len(p.askers)/2
}

// conclude ends a round: its answers may begin another term, and may prove the present
// one.
func (p *primary) conclude(r *round) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(r.answers) > 0:
		p.err = nil
		p.heed(newest(r.answers), len(r.answers))
		p.unreachable = false
	case r.err == nil:
		p.err = &ConnError{Op: "route", Err: errSilent}
	default:
		p.err = &ConnError{Op: "route", Err: r.err}
	}
	if p.most(r, p.addr()) {
		p.provenAt = r.begun
	}
	close(p.round)
	p.round = make(chan struct{})
}

// errSilent is the reason when no sentinel has answered in time.
var errSilent = errors.New("redis: no sentinel answers")

// heed begins a term if best, the newest of a number of answers, names another
// server. An answer that is older than the one that began the present term is
// not heeded, unless more than half of the sentinels have nothing newer, or no
// connection can be opened. mu is held.
func (p *primary) heed(best told, answers int) {
	if best.epoch < p.epoch && !p.unreachable && answers <= len(p.askers)/2 {
		return
	}
	p.epoch = best.epoch
	if t := p.terms.present(); t == nil || best.addr != t.addr {
		p.terms.begin(best.addr)
		p.provenAt = time.Time{}
	}
}

// newest returns the answer of the newest configuration, and of these the most
// frequent.
func newest(answers []told) (best told) {
	votes := map[told]int{}
	for _, a := range answers {
		votes[a]++
	}
	for _, a := range answers {
		if best.addr == "" || a.epoch > best.epoch || a.epoch == best.epoch && votes[a] > votes[best] {
			best = a
		}
	}
	return best
}
