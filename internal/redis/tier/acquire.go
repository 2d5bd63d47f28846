// Requests for leases: one by one, or many in one round trip to each server. The
// server answers a request with a fresh value, a lease, "busy" or "on hold".
// Invariant: where scripts run, a request executed after its caller has left grants
// no lease. A lease granted by one server is reported, although another server has
// failed.

package tier

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/remote"
)

// leaseRequest is a request for a lease on key, under token, for d. The value with the
// id counts as stale, and the caller has the value with the id known; a zero id names
// no value. The caller stops waiting at the time until; zero means never.
type leaseRequest struct {
	key   string
	id    remote.ID
	known remote.ID
	token uint64
	d     time.Duration
	until time.Time
}

// operation returns the operation on which a server decides, with the namespace
// state ns.
func (q *leaseRequest) operation(schema string, ns *layout.State) entryrules.Acquire {
	return entryrules.Acquire{
		Schema: schema, Token: q.token, Length: millis(q.d), Latest: q.latest(ns), Namespace: ns.Text, ID: uint64(q.id),
		Known: uint64(q.known),
	}
}

// latest is the last time, in ms of the server's clock, at which the lease may
// be granted. A server that stood still and executes the request later would
// grant a lease to a caller that has left. The clock in ns is never behind the
// server's.
func (q *leaseRequest) latest(ns *layout.State) int64 {
	if q.until.IsZero() {
		return never
	}
	return ns.Now(q.until)
}

// never is a time that no server's clock shows.
const never = 1<<52 - 1

// Acquire requests leases. Where the store spans several servers, each result
// has the error of its server.
func (t *Tier) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	for i := range r {
		if err := tooLong(r[i].Key); err != nil {
			return nil, err
		}
	}
	if len(r) == 0 {
		return nil, ctx.Err()
	}
	// The deadline goes to the server with each request: a request executed after it grants no
	// lease (promise F2b).
	_, until := remote.Split(ctx)
	request := func(i int) leaseRequest {
		return leaseRequest{key: r[i].Key, id: r[i].Replace, known: r[i].Known, token: newLease(), d: d, until: until}
	}
	acquired := make([]remote.Acquired, len(r))
	if len(r) == 1 {
		acquired[0] = t.request(ctx, request(0))
	} else {
		requests := make([]leaseRequest, len(r))
		for i := range r {
			requests[i] = request(i)
		}
		// The function returns no error, because each result has its own: a lease granted by one
		// server must reach the caller although another server has failed, or it would hold up
		// other instances for its whole length (promise F2a).
		_ = t.each(len(r), func(i int) string { return t.names.Entry(r[i].Key) }, func(part []int) error {
			t.acquireFrom(ctx, requests, part, acquired)
			return nil
		})
	}
	failed := 0
	for i := range acquired {
		if acquired[i].Err != nil {
			acquired[i].Err = t.explained(acquired[i].Err)
			failed++
		}
	}
	// Then no lease was granted that could get lost, and the caller can treat L2 as down.
	if failed == len(acquired) {
		return nil, acquired[0].Err
	}
	return acquired, nil
}

// request asks for a lease. If the key is of another type, request removes it
// and asks again.
func (t *Tier) request(ctx context.Context, q leaseRequest) remote.Acquired {
	a, ns, err := t.acquire(ctx, q)
	if wrongType(err) {
		t.foreign.Add(1)
		if err = t.clean(ctx, "hash", t.names.Entry(q.key)); err == nil {
			a, ns, err = t.acquire(ctx, q)
		}
	}
	if err != nil {
		return remote.Acquired{Err: t.cleanNamespace(ctx, err)}
	}
	return t.granted(&a, q.token, ns)
}

// granted is the result for an answer, judged by ns.
func (t *Tier) granted(a *entryrules.Answer, token uint64, ns *layout.State) remote.Acquired {
	l := remote.Lease{State: ns.Text, Clock: ns.Clock, Grant: a.Grant, Wait: time.Duration(a.Wait) * time.Millisecond}
	if a.Grant == remote.Granted {
		l.Token, l.Wait = token, 0
	}
	return remote.Acquired{Held: t.open(&a.Held, ns, ns.Now(time.Now())), Lease: l}
}

// acquire requests a lease. It returns a state by which the answer can be
// judged.
func (t *Tier) acquire(ctx context.Context, q leaseRequest) (a entryrules.Answer, ns *layout.State, err error) {
	if t.all == nil {
		return t.one.acquire(ctx, &q)
	}
	return t.acquireThere(ctx, q)
}

// acquireThere is acquire in a cluster.
func (t *Tier) acquireThere(ctx context.Context, q leaseRequest) (a entryrules.Answer, ns *layout.State, err error) {
	err = t.atKey(ctx, q.key, true, func(ctx context.Context, s *site) error {
		a, ns, err = s.acquire(ctx, &q)
		return err
	})
	return a, ns, err
}

// acquire requests a lease. It reads the namespace state before, if the state is
// due or a connection was opened meanwhile.
func (s *site) acquire(ctx context.Context, q *leaseRequest) (a entryrules.Answer, ns *layout.State, err error) {
	ask, ns := s.due(time.Now())
	// The fast path: one call of the script over the shared connection, with the state that is
	// known. The lease carries this state, so a connection opened meanwhile makes the answer
	// useless: the state may be of another server.
	if !ask && s.scripted() {
		v, err := s.request(ctx, q, ns)
		if err != nil {
			return a, ns, err
		}
		ask = !s.fits(ns)
		if !ask && !s.forbids(v) {
			if a, err = parseAcquired(v, ns); !a.Late {
				return a, ns, err
			}
			ask = true // late, unless the clock in ns is out of date
		}
	}
	return s.acquireAlone(ctx, *q, ask, ns)
}

// request calls the script that grants leases.
func (s *site) request(ctx context.Context, q *leaseRequest, ns *layout.State) (resp.Value, error) {
	return s.run(ctx, s.scripts.acquire, func(dst []byte, head string) []byte {
		return s.appendRequest(dst, head, q, ns)
	})
}

// acquireAlone is acquire over a connection of its own. It reads the namespace state
// before if ask is set.
func (s *site) acquireAlone(ctx context.Context, q leaseRequest, ask bool, ns *layout.State) (a entryrules.Answer, known *layout.State, err error) {
	err = s.srv.Together(ctx, true, func(send layout.Ask) (err error) {
		for {
			if ask {
				if ns, err = s.askState(send); err != nil {
					return err
				}
			}
			// With a state read just now the answer counts, whatever it is. With the known one it
			// counts only if no connection was opened since, and if it is not late: the clock in an
			// old state may be wrong. The token is the same in each turn, so a lease is granted
			// once.
			if a, err = s.acquireOver(send, q, ns); err != nil || ask || s.fits(ns) && !a.Late {
				return err
			}
			ask = true
		}
	})
	if err != nil {
		s.gaveUp()
	}
	return a, ns, err
}

// acquireFrom makes the requests with the indexes in part, at one server.
func (t *Tier) acquireFrom(ctx context.Context, requests []leaseRequest, part []int, acquired []remote.Acquired) {
	some := pick(requests, part)
	var ns *layout.State
	var answers []acquireAnswer
	// All keys of a part most likely are on the server of the first one.
	err := t.atKey(ctx, some[0].key, true, func(ctx context.Context, s *site) (err error) {
		answers, ns, err = s.acquireMany(ctx, some)
		return err
	})
	if err != nil {
		err = t.cleanNamespace(ctx, err)
		for _, i := range part {
			acquired[i].Err = err
		}
		return
	}
	for j, i := range part {
		switch a := &answers[j]; {
		case a.err == nil:
			acquired[i] = t.granted(&a.Answer, some[j].token, ns)
		case a.alone:
			acquired[i] = t.request(ctx, some[j])
		default:
			acquired[i].Err = a.err
		}
	}
}

func (s *site) acquireMany(ctx context.Context, requests []leaseRequest) (answers []acquireAnswer, ns *layout.State, err error) {
	ask, known := s.due(time.Now())
	err = s.srv.Together(ctx, true, func(send layout.Ask) (err error) {
		// Two turns at most, as in acquireAlone: with the known state, and with one read after it.
		for ns = known; ; ask = true {
			if ask {
				if ns, err = s.askState(send); err != nil {
					return err
				}
			}
			if answers, err = s.acquireAll(send, requests, ns); err != nil || ask || s.fits(ns) && !anyLate(answers) {
				return err
			}
		}
	})
	if err != nil {
		s.gaveUp()
		return nil, nil, err
	}
	if moved := allElsewhere(s.Tier, len(answers), func(i int) error { return answers[i].err }); moved != nil {
		return nil, nil, moved
	}
	return answers, ns, nil
}

func anyLate(answers []acquireAnswer) bool {
	return slices.ContainsFunc(answers, func(a acquireAnswer) bool { return a.Late })
}

// acquireAnswer is the answer for one key of many.
type acquireAnswer struct {
	entryrules.Answer
	err error
	// alone says that the request may do better alone, which follows redirections, removes a key of
	// another type, sends scripts with their text, and does without them. All other refusals, such as
	// of a server without free memory, would only be repeated.
	alone bool
}

// refused notes the error of one request of many. v is the reply of the script, if one was called.
func (a *acquireAnswer) refused(t *Tier, err error, v resp.Value) {
	a.err = err
	a.alone = err != nil && (wrongType(err) || t.elsewhere(err) || unknownScript(v) || t.forbids(v))
}

// acquireAll requests many leases. Its error is about the connection.
func (s *site) acquireAll(send layout.Ask, requests []leaseRequest, ns *layout.State) ([]acquireAnswer, error) {
	answers := make([]acquireAnswer, len(requests))
	if s.scripted() {
		replies, err := runAll(send, len(requests), func(dst []byte, head func(*script) string, i int) []byte {
			return s.appendRequest(dst, head(s.scripts.acquire), &requests[i], ns)
		})
		if err != nil {
			return nil, err
		}
		for i, v := range replies {
			var err error
			answers[i].Answer, err = parseAcquired(v, ns)
			answers[i].refused(s.Tier, err, v)
		}
		if !s.forbids(replies[0]) {
			return answers, nil
		}
	}
	// Without scripts each key is watched and decided by itself, one after the other on this
	// connection. The refusal of one key is its own error.
	for i, q := range requests {
		var err error
		answers[i].Answer, err = s.acquireWatching(send, q, ns)
		answers[i].refused(s.Tier, err, resp.Value{})
		if err != nil && !errors.As(err, new(*layout.Refusal)) {
			return nil, err
		}
	}
	return answers, nil
}

func (t *Tier) acquireOver(send layout.Ask, q leaseRequest, ns *layout.State) (entryrules.Answer, error) {
	if t.scripted() {
		v, err := runOver(send, t.scripts.acquire, func(dst []byte, head string) []byte {
			return t.appendRequest(dst, head, &q, ns)
		})
		if err != nil {
			return entryrules.Answer{}, err
		}
		if !t.forbids(v) {
			return parseAcquired(v, ns)
		}
	}
	return t.acquireWatching(send, q, ns)
}

func (t *Tier) acquireWatching(send layout.Ask, q leaseRequest, ns *layout.State) (entryrules.Answer, error) {
	return t.entry(send, q.key).Do(q.operation(t.names.Schema, ns))
}

// appendRequest appends a call of the script that grants leases.
func (t *Tier) appendRequest(dst []byte, head string, q *leaseRequest, ns *layout.State) []byte {
	op := q.operation(t.names.Schema, ns)
	return t.appendAcquire(dst, head, q.key, &op, ns)
}

// parseAcquired parses the reply of the acquire script.
func parseAcquired(v resp.Value, ns *layout.State) (a entryrules.Answer, err error) {
	if err := refusal(v); err != nil {
		return a, err
	}
	// The usual answer, to a request for an absent key, is a bare number.
	if v.Kind() == resp.Int && v.Int() == 1 {
		return entryrules.Answer{Grant: remote.Granted}, nil
	}
	var parts [4]resp.Value
	i := 0
	for e := range v.Elems() {
		if i < len(parts) {
			parts[i] = e
		}
		i++
	}
	a = entryrules.Answer{Wait: parts[1].Int(), Held: stored(parts[3], parts[2], ns)}
	switch string(parts[0].Bytes()) {
	case "granted":
		a.Grant = remote.Granted
	case "late":
		a = entryrules.TooLate
	case "busy":
		a.Grant = remote.Busy
	case "hold":
		a.Grant = remote.OnHold
	case "free":
		a.Grant = remote.Free
	default:
		return a, errAnswer
	}
	return a, nil
}
