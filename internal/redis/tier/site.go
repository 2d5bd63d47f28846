// A site is the tier at the server of one operation. Its namespace state is young,
// due (one caller reads it again), or stale knowledge (each caller reads it first).
// Invariant: a reply is judged by a state requested after the connection of the
// reply was opened. So no value from before a restart or a failover is believed, as
// far as the server reports its run.

package tier

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// site is a tier at the server of one operation: the only server, or in a
// cluster the server of the key's slot.
type site struct {
	*Tier
	srv Server
	// home has the last report of a server with lanes, and space the state of
	// the namespace; together they judge values. Home is nil on the server that
	// has the namespace state itself: the only server, or the server of the
	// namespace.
	home  *layout.Home
	space *layout.State
}

// at calls f for the server of a key. It calls f again, for another server, if
// the first was wrong or is gone. twice says that f may be executed twice.
func (t *Tier) at(ctx context.Context, key string, twice bool, f func(context.Context, *site) error) error {
	if t.all == nil {
		return f(ctx, t.one)
	}
	return t.all.Follow(ctx, key, twice, func(ctx context.Context, n Node) error {
		// The state of the namespace is on another server most times. It is read there first, if it
		// is due: the node alone cannot tell whether everything was dropped.
		space, err := t.spaceState(ctx)
		if err != nil {
			return err
		}
		s := &site{Tier: t, srv: n, home: n.Home(), space: space}
		// While the slot moves, drops of its keys may have been made on the other node. So no value
		// of it is believed here, and no unchanged text of Changes stands for it.
		if !n.Settled() {
			s.home = &layout.Home{Passing: true}
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
// was the wrong one. f is not executed twice. The site knows no namespace
// state.
func (t *Tier) atSlot(ctx context.Context, key string, f func(context.Context, *site) error) error {
	if t.all == nil {
		return f(ctx, t.one)
	}
	return t.all.Follow(ctx, key, false, func(ctx context.Context, n Node) error {
		return f(ctx, &site{Tier: t, srv: n})
	})
}

// atSpace is at for the server of the namespace. All operations there may be
// executed twice.
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

// spaceState returns the namespace state, which it reads if the known one is
// too old.
func (t *Tier) spaceState(ctx context.Context) (ns *layout.State, err error) {
	err = t.atSpace(ctx, func(ctx context.Context, s *site) error {
		ns, err = s.current(ctx)
		return err
	})
	return ns, err
}

// due returns the state by which replies of the server are judged, and whether
// the caller has to read it again.
func (s *site) due(now time.Time) (ask bool, ns *layout.State) {
	if s.home == nil {
		return s.state.Due(now, s.srv.Opened())
	}
	return s.home.Due(now, s.srv.Opened(), s.state, s.space)
}

// known returns the state, however old it is, or nil.
func (s *site) known() *layout.State {
	if s.home == nil {
		return s.state.Known()
	}
	return s.home.Known(s.state, s.space)
}

// gaveUp notes that a request for the state has failed.
func (s *site) gaveUp() {
	if s.home == nil {
		s.state.Answered(nil)
	} else {
		s.home.Answered(nil, s.state, s.space)
	}
}

// fits reports whether ns was requested after the last connection was opened,
// so that replies can be judged by it.
func (s *site) fits(ns *layout.State) bool { return ns.Opened == s.srv.Opened() }

// askState reads the state over one connection.
func (s *site) askState(send layout.Ask) (*layout.State, error) {
	if s.home == nil {
		return s.onSpace(send, s.scripts.namespace, nil, layout.Space.Look)
	}
	var b layout.Batch
	q := s.askHome(&b)
	replies, err := send(&b)
	if err != nil {
		return nil, err
	}
	return s.answeredHome(q, replies)
}

// askHome queues the commands that make a server with lanes report itself.
func (s *site) askHome(b *layout.Batch) *layout.Server {
	b.Add("INFO", "server")
	b.Add("INFO", "replication")
	b.Add("CLUSTER", "INFO")
	b.Add("TIME")
	return &layout.Server{Opened: s.srv.Opened(), Asked: time.Now()}
}

// homeReplies is the number of replies to the commands of askHome.
const homeReplies = 4

// answeredHome parses the report of a server. Its id is made of its run, the
// history that it replicates, and its epoch in the cluster. The epoch changes
// when the server takes over a slot that it had before: values that come back
// with the slot were elsewhere meanwhile, and drops of them there may have been
// lost on the way. While a slot is still on its way here, the id is a random
// number, so that none of the values that have arrived is believed.
func (s *site) answeredHome(q *layout.Server, replies []resp.Value) (*layout.State, error) {
	if err := refusal(replies[3]); err != nil {
		return nil, err
	}
	q.ID = layout.Digest(layout.Authority(replies[0], replies[1]) + layout.ClusterEpoch(replies[2]))
	if s.home.Passing {
		q.ID = layout.Hex(nonce())
	}
	q.Clock, q.Heard = layout.Time(replies[3]), time.Now()
	return s.home.Answered(q, s.state, s.space), nil
}

// clock returns a state with a usable clock of the server; the rest of it may
// be old.
func (s *site) clock(ctx context.Context) (*layout.State, error) {
	const enough = time.Minute // clocks drift little in a minute
	if ns := s.known(); ns != nil && s.fits(ns) && time.Since(ns.Heard) < enough {
		return ns, nil
	}
	return s.current(ctx)
}

// current returns a young enough state, and reads it if necessary.
func (s *site) current(ctx context.Context) (*layout.State, error) {
	ask, ns := s.due(time.Now())
	if !ask {
		return ns, nil
	}
	// A read of nothing brings the state.
	_, ns, err := s.read(ctx, true, ns, func(*layout.Batch) {})
	return ns, err
}

// read sends commands that only read; the function add queues them. It reads the state with them if
// ask is set or a connection is opened meanwhile. It returns a state by which the replies can be
// judged.
func (s *site) read(ctx context.Context, ask bool, ns *layout.State, add func(*layout.Batch)) (replies []resp.Value, judge *layout.State, err error) {
	err = s.srv.Together(ctx, true, func(send layout.Ask) (err error) {
		if !ask {
			// The commands go alone while the known state is young, which is one round trip. If a
			// connection was opened before or meanwhile, all is read once more, together with a
			// state.
			var b layout.Batch
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

// readWithState reads the state and sends the commands that the function add queues: in one round
// trip, unless the state needs a transaction.
func (s *site) readWithState(send layout.Ask, add func(*layout.Batch)) ([]resp.Value, *layout.State, error) {
	var b layout.Batch
	switch {
	// In a cluster the node reports about itself. The commands behind the report are answered by
	// the same server in the same life.
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
		ns := s.newState()
		// The script is sent with its text: if the server did not know its
		// digest, the other replies would be older than the state.
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
		b = layout.Batch{}
	}
	// Without scripts the state may have to be made in a transaction. So it is read first, and the
	// commands take another round trip.
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

// each calls f for parts of n keys, at least one part, all at once. The keys of
// a part are served by one server. key returns the i-th key.
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
	return cmp.Or(errs...)
}

// explained returns an error as callers get it. The errors of several keys are explained one by
// one.
func (t *Tier) explained(err error) error {
	if err == nil || t.explain == nil {
		return err
	}
	some, ok := err.(remote.KeyErrors) //nolint:errorlint // wrapped it is the error of all keys
	if !ok {
		return t.explain(err)
	}
	for i, err := range some {
		if err != nil {
			some[i] = t.explain(err)
		}
	}
	return some
}

// eachKey is each for an operation with an outcome for each key: the failure of one server is the
// error of its keys only. f may return [remote.KeyErrors] by the places in its part. The error is
// explained.
func eachKey(t *Tier, n int, key func(i int) string, f func(part []int) error) error {
	if t.all == nil {
		return t.explained(t.each(n, key, f))
	}
	var mu sync.Mutex
	var errs []error // guarded by mu; nil until a part fails
	_ = t.each(n, key, func(part []int) error {
		err := t.explained(f(part))
		if err == nil {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if errs == nil {
			errs = make([]error, n)
		}
		for j, i := range part {
			errs[i] = remote.ErrorOf(err, j)
		}
		return nil
	})
	return remote.JoinKeys(errs)
}

// inPart calls f for each key of a part, one after the other; j is its place in the part, i its
// index. In a cluster a key that fails does not fail the others, which may be on other servers by
// now. But after an error of a connection no key is sent alone: each would wait as long again.
// alone reports whether f sends a key.
func inPart(t *Tier, part []int, alone func(j int) bool, f func(j, i int) error) error {
	var errs []error // nil until a key fails
	var broken error
	for j, i := range part {
		err := broken
		if broken == nil || !alone(j) {
			err = f(j, i)
		}
		switch {
		case err == nil:
			continue
		case t.all == nil:
			return err
		case errs == nil:
			errs = make([]error, len(part))
		}
		if errs[j] = err; !errors.As(err, new(*layout.Refusal)) {
			broken = err
		}
	}
	return remote.JoinKeys(errs)
}

// allElsewhere returns the first error of n commands if all of them were refused as elsewhere says.
// If a server has executed some, they must not fail, or be executed once more, with the others.
func allElsewhere(t *Tier, n int, of func(i int) error) error {
	for i := range n {
		if !t.elsewhere(of(i)) {
			return nil
		}
	}
	return of(0)
}

// elsewhere reports whether a server has refused one command of many because it
// does not serve the key, or not now. The caller then sends that command alone,
// so that the redirection is followed.
func (t *Tier) elsewhere(err error) bool {
	if t.all == nil || err == nil { // in most cases, and without an allocation for refused
		return false
	}
	var refused *layout.Refusal
	if !errors.As(err, &refused) {
		return false
	}
	code, _, _ := strings.Cut(refused.Text, " ")
	switch code {
	case "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "LOADING":
		return true
	}
	return false
}
