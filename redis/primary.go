package redis

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/pubsub"
	"github.com/strata-cache/strata/internal/resp"
)

// A primary follows the server that sentinels name. It subscribes to the failovers
// at each sentinel. It asks all sentinels when one of them tells of a failover, when
// a subscription begins, when a connection cannot be opened, and every askEvery.
//
// A term is the time for which one server is the primary: it is running or over.
// Invariant: one term runs at a time; a connection belongs to the term in which it
// was opened, and is closed when that is over; no call begins on it then.

const (
	// askEvery is the time after which sentinels are asked without a reason, and
	// askPause the least time between two rounds of questions.
	askEvery = 30 * time.Second
	askPause = 100 * time.Millisecond
	// askLate is the time for which the answers of other sentinels are waited for
	// after the first one.
	askLate = 200 * time.Millisecond
)

// primary is the server that sentinels name.
type primary struct {
	o      *Options
	steps  *resp.Steps
	ctx    context.Context // ends when the client is closed
	cancel context.CancelFunc
	runs   sync.WaitGroup
	due    chan struct{} // holds one

	mu    sync.Mutex // guards below
	begun bool
	term  *term // nil before the first answer
	epoch int64 // the number of the configuration that has named it
	// unreachable says that a connection could not be opened since the last answer.
	unreachable bool
	round       chan struct{} // closed when the next round of questions has ended
	err         error         // of the last round
}

func newPrimary(o *Options, steps *resp.Steps) *primary {
	p := &primary{o: o, steps: steps, due: make(chan struct{}, 1), round: make(chan struct{})}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term == nil {
		return ""
	}
	return p.term.addr
}

// dial opens a connection to the primary. Options are those of the client.
func (p *primary) dial(ctx context.Context, _ *Options) (*conn, error) {
	t, err := p.locate(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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

// open opens a connection to the server of a term, if that is a primary.
func (p *primary) open(ctx context.Context, t *term) (*conn, error) {
	o := p.o.at(t.addr)
	cn, err := connect(ctx, &o, p.steps)
	if err != nil {
		return nil, err
	}
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
	t, round, wait := p.term, p.round, p.term == nil || p.unreachable
	p.mu.Unlock()
	if !wait {
		return t, nil
	}
	p.ask()
	select {
	case <-round:
	case <-p.ctx.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, &ConnError{Op: "route", Err: ctx.Err()}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.term == nil {
		return nil, p.err
	}
	return p.term, nil
}

// begin begins to listen to the sentinels. mu is held.
func (p *primary) begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.runs.Go(p.follow)
	for _, addr := range p.sentinels() {
		p.runs.Go(func() { p.listen(addr) })
	}
}

// sentinels are the addresses of the sentinels.
func (p *primary) sentinels() []string { return append([]string{p.o.Addr}, p.o.Addrs...) }

// ask makes the next round of questions due.
func (p *primary) ask() {
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// unreached makes the sentinels be asked before the next connection is opened.
func (p *primary) unreached(t *term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreachable = p.unreachable || p.term == t
}

// follow asks the sentinels whenever that is due.
func (p *primary) follow() {
	timer := time.NewTimer(askEvery)
	defer timer.Stop()
	for {
		select {
		case <-p.due:
		case <-timer.C:
		case <-p.ctx.Done():
			return
		}
		p.conclude(p.askAll())
		timer.Reset(askPause)
		select {
		case <-timer.C:
		case <-p.ctx.Done():
			return
		}
		timer.Reset(askEvery)
	}
}

// listen asks the sentinels whenever the one at addr tells of a failover, and when
// it begins to tell of them.
func (p *primary) listen(addr string) {
	o := p.o.sentinelAt(addr)
	s := pubsub.New(p.ctx, o.listening("SUBSCRIBE", []string{switched}, func(ctx context.Context) (pubsub.Conn, error) {
		cn, err := connect(ctx, &o, p.steps)
		if err != nil {
			return nil, err
		}
		return hearing{cn}, nil
	}), func() {})
	defer s.Close()
	for {
		e, err := s.Next(p.ctx)
		if err != nil {
			return
		}
		if e.Kind == pubsub.Subscribed || e.Kind == pubsub.Received && bytes.HasPrefix(e.Payload, []byte(p.o.Sentinel.Primary+" ")) {
			p.ask()
		}
	}
}

// askAll asks all sentinels at once. It waits only a while for the others when one
// has answered that is not behind the present term. Without an answer it returns an
// error.
func (p *primary) askAll() (answers []told, err error) {
	p.mu.Lock()
	known := p.epoch
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.ctx, p.o.DialTimeout/2)
	defer cancel()
	type outcome struct {
		told
		err error
	}
	all := p.sentinels()
	outcomes := make(chan outcome, len(all))
	for _, addr := range all {
		p.runs.Go(func() {
			t, err := askSentinel(ctx, p.o, p.steps, addr)
			outcomes <- outcome{t, err}
		})
	}
	var late <-chan time.Time
	for range all {
		select {
		case o := <-outcomes:
			switch {
			case o.err != nil:
				err = telling(err, o.err)
				continue
			case late == nil && o.epoch >= known:
				late = time.After(askLate)
			}
			answers = append(answers, o.told)
		case <-late:
			return answers, nil
		}
	}
	if len(answers) > 0 {
		return answers, nil
	}
	return nil, &ConnError{Op: "route", Err: err}
}

// telling returns the error of two sentinels that says more: an answer that is of
// no use says more than none.
func telling(a, b error) error {
	if a == nil || errors.Is(b, ErrNoPrimary) || !errors.Is(a, ErrNoPrimary) && errors.Is(b, ErrProtocol) {
		return b
	}
	return a
}

// conclude begins another term if the answers of sentinels call for it.
func (p *primary) conclude(answers []told, err error) {
	p.mu.Lock()
	old := p.term
	p.err = err
	if err == nil {
		p.heed(newest(answers), len(answers))
		p.unreachable = false
	}
	changed := p.term != old
	close(p.round)
	p.round = make(chan struct{})
	p.mu.Unlock()
	if changed && old != nil {
		old.end()
	}
}

// heed begins a term if best, the newest of a number of answers, names another
// server. An answer that is older than the one that began the present term is
// not heeded, unless more than half of the sentinels have nothing newer, or no
// connection can be opened. mu is held.
func (p *primary) heed(best told, answers int) {
	if best.epoch < p.epoch && !p.unreachable && answers <= len(p.sentinels())/2 {
		return
	}
	p.epoch = best.epoch
	if p.term != nil && best.addr == p.term.addr {
		return
	}
	p.term = &term{addr: best.addr}
	p.term.ctx, p.term.end = context.WithCancel(context.Background())
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
