package tier

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/redistier/namespace"
	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/internal/resp"
)

// site is a tier at the server where one operation goes: the only one, or in a
// cluster the one that serves the slot of its key.
type site struct {
	*Tier
	srv Server
	// home is what is known of a server that holds lanes, and space the word of
	// the name space by which it is judged. Home is nil where the word itself
	// is: on a server that is alone, and on that of the name space.
	home  *namespace.Home
	space *namespace.State
	// passing says that the slot is only just coming to the server.
	passing bool
}

// at calls f for the server that serves a key, and again for another one if it
// was the wrong one or has gone. twice says that f may be carried out twice.
func (t *Tier) at(ctx context.Context, key string, twice bool, f func(context.Context, *site) error) error {
	if t.all == nil {
		return f(ctx, t.one)
	}
	return t.all.Follow(ctx, key, twice, func(ctx context.Context, n Node) error {
		space, err := t.spaceState(ctx)
		if err != nil {
			return err
		}
		s := &site{Tier: t, srv: n, home: n.Home(), space: space}
		if !n.Settled() {
			s.home, s.passing = &namespace.Home{}, true
			t.changes.moving.Add(1)
		}
		return f(ctx, s)
	})
}

// atKey is at for the server of a key's lane.
func (t *Tier) atKey(ctx context.Context, key string, twice bool, f func(context.Context, *site) error) error {
	if t.all == nil {
		return f(ctx, t.one)
	}
	return t.at(ctx, t.names.Entry(key), twice, f)
}

// atSlot calls f for the server that serves the slot of a key, and again if it
// was the wrong one: f is not carried out twice. The site knows no namespace
// state.
func (t *Tier) atSlot(ctx context.Context, key string, f func(context.Context, *site) error) error {
	if t.all == nil {
		return f(ctx, t.one)
	}
	return t.all.Follow(ctx, key, false, func(ctx context.Context, n Node) error {
		return f(ctx, &site{Tier: t, srv: n})
	})
}

// atSpace is at for the server of the name space. All that is done there may be
// done twice.
func (t *Tier) atSpace(ctx context.Context, f func(context.Context, *site) error) error {
	if t.all == nil {
		return f(ctx, t.one)
	}
	return t.all.Follow(ctx, t.names.Namespace, true, func(ctx context.Context, n Node) error {
		if !n.Settled() {
			t.changes.moving.Add(1)
		}
		return f(ctx, &site{Tier: t, srv: n})
	})
}

// spaceState returns the word of the name space, if that is young enough, and
// asks for it if not.
func (t *Tier) spaceState(ctx context.Context) (ns *namespace.State, err error) {
	err = t.atSpace(ctx, func(ctx context.Context, s *site) error {
		ns, err = s.current(ctx)
		return err
	})
	return ns, err
}

// due returns the word by which what the server answers can be judged, and
// whether the caller is to ask for it.
func (s *site) due(now time.Time) (ask bool, ns *namespace.State) {
	if s.home == nil {
		return s.state.Due(now, s.srv.Opened())
	}
	return s.home.Due(now, s.srv.Opened(), s.state, s.space)
}

// known is the word, however old it is, or nil.
func (s *site) known() *namespace.State {
	if s.home == nil {
		return s.state.Known()
	}
	return s.home.Known(s.state, s.space)
}

// gaveUp ends a question that has got no answer.
func (s *site) gaveUp() {
	if s.home == nil {
		s.state.Answered(nil)
	} else {
		s.home.Answered(nil, s.state, s.space)
	}
}

// fits reports whether ns was asked for after the last connection was opened, so
// that what has been read can be judged by it.
func (s *site) fits(ns *namespace.State) bool { return ns.Opened == s.srv.Opened() }

// askState asks for the word, over one connection.
func (s *site) askState(send watch.Ask) (*namespace.State, error) {
	if s.home == nil {
		return s.onSpace(send, s.scripts.namespace, nil, watch.Space.Look)
	}
	var b watch.Batch
	q := s.askHome(&b)
	replies, err := send(&b)
	if err != nil {
		return nil, err
	}
	return s.answeredHome(q, replies)
}

// askHome queues the questions that a server that holds lanes is asked about
// itself.
func (s *site) askHome(b *watch.Batch) *namespace.Server {
	b.Add("INFO", "server")
	b.Add("INFO", "replication")
	b.Add("CLUSTER", "INFO")
	b.Add("TIME")
	return &namespace.Server{Opened: s.srv.Opened(), Asked: time.Now()}
}

// homeReplies is how many replies askHome leads to.
const homeReplies = 4

// answeredHome makes sense of the answers. The id of a server is its run, the
// history that it replicates, and its epoch in the cluster, which is another one
// when it takes over a slot that it has had before: values that come back with
// the slot were elsewhere meanwhile, and may have been dropped there in vain.
// Before it has taken over, what has come already is worth nothing either.
func (s *site) answeredHome(q *namespace.Server, replies []resp.Value) (*namespace.State, error) {
	if err := refusal(replies[3]); err != nil {
		return nil, err
	}
	q.ID = namespace.Digest(watch.Authority(replies[0], replies[1]) + watch.ClusterEpoch(replies[2]))
	if s.passing {
		q.ID = layout.Hex(nonce())
	}
	q.Clock, q.Heard = watch.Time(replies[3]), time.Now()
	return s.home.Answered(q, s.state, s.space), nil
}

// clock returns a word that knows the server's clock, however old the rest is.
func (s *site) clock(ctx context.Context) (*namespace.State, error) {
	const enough = time.Minute // clocks drift little in it
	if ns := s.known(); ns != nil && s.fits(ns) && time.Since(ns.Heard) < enough {
		return ns, nil
	}
	return s.current(ctx)
}

// current returns a word that is young enough, asking for it if need be.
func (s *site) current(ctx context.Context) (*namespace.State, error) {
	ask, ns := s.due(time.Now())
	if !ask {
		return ns, nil
	}
	_, ns, err := s.read(ctx, true, ns, func(*watch.Batch) {})
	return ns, err
}

// read sends what add queues, which only reads, together with the question for
// the word if ask is set or a connection is opened meanwhile. It returns a word
// by which the replies can be judged.
func (s *site) read(ctx context.Context, ask bool, ns *namespace.State, add func(*watch.Batch)) (replies []resp.Value, judge *namespace.State, err error) {
	err = s.srv.Together(ctx, true, func(send watch.Ask) (err error) {
		if !ask {
			var b watch.Batch
			add(&b)
			if replies, err = send(&b); err != nil || s.fits(ns) {
				return err
			}
		}
		replies, ns, err = s.readWithState(send, add)
		return err
	})
	if err != nil {
		s.gaveUp()
	}
	return replies, ns, s.cleanNamespace(ctx, err)
}

// readWithState asks for the word and sends what add queues, in one round trip
// if it is done by a script or needs none.
func (s *site) readWithState(send watch.Ask, add func(*watch.Batch)) ([]resp.Value, *namespace.State, error) {
	var b watch.Batch
	switch {
	case s.home != nil:
		q := s.askHome(&b)
		add(&b)
		replies, err := send(&b)
		if err != nil {
			return nil, nil, err
		}
		ns, err := s.answeredHome(q, replies)
		return replies[homeReplies:], ns, err
	case s.scripted():
		ns := s.question()
		// The text itself: were it not known by its digest, what was read would
		// come before the word.
		b.Text, b.N = s.appendSpace(nil, s.scripts.namespace.text), 1
		add(&b)
		replies, err := send(&b)
		if err != nil {
			return nil, nil, err
		}
		if !s.forbids(replies[0]) {
			ns, err = s.answered(ns, replies[0])
			return replies[1:], ns, err
		}
		b = watch.Batch{}
	}
	ns, err := s.askState(send)
	if err != nil {
		return nil, nil, err
	}
	if add(&b); b.N == 0 {
		return nil, ns, nil
	}
	replies, err := send(&b)
	return replies, ns, err
}

// each calls f for parts of n keys, one at least, each with those that one
// server serves, at the same time. key returns a key.
func (t *Tier) each(n int, key func(i int) string, f func(part []int) error) error {
	if t.all == nil {
		part := make([]int, n)
		for i := range part {
			part[i] = i
		}
		return f(part)
	}
	parts := t.all.Split(n, key)
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, part := range parts[1:] {
		wg.Go(func() { errs[i+1] = f(part) })
	}
	errs[0] = f(parts[0])
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// elsewhere reports whether a server has refused one command of many because it
// does not serve its key, or not now: alone, it is followed.
func (t *Tier) elsewhere(err error) bool {
	var refused *watch.Refusal
	if t.all == nil || !errors.As(err, &refused) {
		return false
	}
	code, _, _ := strings.Cut(refused.Text, " ")
	switch code {
	case "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "LOADING":
		return true
	}
	return false
}
