package tier

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/entryrules"
	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/internal/redistier/words"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// leaseRequest asks for a lease on key, under token, for d. The value with that
// id counts as stale; zero is none. Nobody waits for the answer after the time
// until; zero is for ever.
type leaseRequest struct {
	key   string
	id    remote.ID
	token uint64
	d     time.Duration
	until time.Time
}

// operation is the request for those who know w.
func (q *leaseRequest) operation(schema string, w *words.Word) entryrules.Acquire {
	return entryrules.Acquire{
		Schema: schema, Token: q.token, Length: millis(q.d), Latest: q.latest(w), Namespace: w.Text, ID: uint64(q.id),
	}
}

// latest is until when, in ms of the server's clock, a lease may be given: a
// request that a server carries out later, because it stood still, would leave a
// lease that nobody knows of. The clock that w tells is never behind.
func (q *leaseRequest) latest(w *words.Word) int64 {
	if q.until.IsZero() {
		return never
	}
	return w.Now(q.until)
}

// never is a time that no server's clock shows.
const never = 1<<52 - 1

// Acquire asks for the right to fill key.
func (t *Tier) Acquire(ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	return t.Refresh(ctx, key, 0, d)
}

// Refresh is Acquire, but that the value with this id counts as stale.
func (t *Tier) Refresh(ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
	if err := tooLong(key); err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	q := leaseRequest{key: key, id: id, token: newLease(), d: d}
	_, q.until = remote.Split(ctx)
	h, l, err := t.request(ctx, q)
	return h, l, t.explained(err)
}

// request asks for a lease, and again when it has removed from the key what is
// none of ours.
func (t *Tier) request(ctx context.Context, q leaseRequest) (remote.Held, remote.Lease, error) {
	a, w, err := t.acquire(ctx, q)
	if wrongType(err) {
		t.foreign.Add(1)
		if err = t.clean(ctx, "hash", t.names.Entry(q.key)); err == nil {
			a, w, err = t.acquire(ctx, q)
		}
	}
	if err != nil {
		return remote.Held{}, remote.Lease{}, t.cleanWord(ctx, err)
	}
	h, l := t.granted(&a, q.token, w)
	return h, l, nil
}

// granted is what is told of an answer that can be judged by w.
func (t *Tier) granted(a *entryrules.Answer, token uint64, w *words.Word) (remote.Held, remote.Lease) {
	l := remote.Lease{Word: w.Text, Clock: w.Clock, Grant: a.Grant, Wait: time.Duration(a.Wait) * time.Millisecond}
	if a.Grant == remote.Granted {
		l.Token, l.Wait = token, 0
	}
	return t.open(&a.Held, w), l
}

// acquire asks for a lease. It returns a word by which the answer can be judged.
func (t *Tier) acquire(ctx context.Context, q leaseRequest) (a entryrules.Answer, w *words.Word, err error) {
	if t.all == nil {
		return t.one.acquire(ctx, q)
	}
	err = t.atKey(ctx, q.key, true, func(ctx context.Context, s *site) error {
		a, w, err = s.acquire(ctx, q)
		return err
	})
	return a, w, err
}

// acquire asks for a lease, and for the word before if it is due or a
// connection was opened meanwhile.
func (s *site) acquire(ctx context.Context, q leaseRequest) (a entryrules.Answer, w *words.Word, err error) {
	ask, w := s.due(time.Now())
	if !ask && s.scripted() {
		v, err := s.run(ctx, s.scripts.acquire, func(dst []byte, head string) []byte {
			return s.appendRequest(dst, head, &q, w)
		})
		if err != nil {
			return a, w, err
		}
		ask = !s.fits(w)
		if !ask && !s.forbids(v) {
			if a, err = parseAcquired(v, w); !a.Late {
				return a, w, err
			}
			ask = true // unless the clocks of w are out of date
		}
	}
	err = s.srv.Together(ctx, true, func(send watch.Ask) (err error) {
		for {
			if ask {
				if w, err = s.askWord(send); err != nil {
					return err
				}
			}
			if a, err = s.acquireOver(send, q, w); err != nil || ask || s.fits(w) && !a.Late {
				return err
			}
			ask = true
		}
	})
	if err != nil {
		s.gaveUp()
	}
	return a, w, err
}

// AcquireMany is Acquire for many keys in one round trip.
func (t *Tier) AcquireMany(ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
	if err := tooLong(keys...); err != nil {
		return nil, nil, err
	}
	if len(keys) == 0 {
		return nil, nil, ctx.Err()
	}
	held, leases := make([]remote.Held, len(keys)), make([]remote.Lease, len(keys))
	err := t.each(len(keys), func(i int) string { return t.names.Entry(keys[i]) }, func(part []int) error {
		return t.acquireFrom(ctx, keys, part, d, held, leases)
	})
	if err != nil {
		return nil, nil, t.explained(err)
	}
	return held, leases, nil
}

// acquireFrom asks one server for leases on a part of the keys.
func (t *Tier) acquireFrom(ctx context.Context, keys []string, part []int, d time.Duration, held []remote.Held, leases []remote.Lease) error {
	requests := make([]leaseRequest, len(part))
	_, until := remote.Split(ctx)
	for j, i := range part {
		requests[j] = leaseRequest{key: keys[i], token: newLease(), d: d, until: until}
	}
	var w *words.Word
	var answers []acquired
	err := t.atKey(ctx, keys[part[0]], true, func(ctx context.Context, s *site) (err error) {
		answers, w, err = s.acquireMany(ctx, requests)
		return err
	})
	if err != nil {
		return t.cleanWord(ctx, err)
	}
	for j, a := range answers {
		i := part[j]
		if a.err == nil {
			held[i], leases[i] = t.granted(&a.Answer, requests[j].token, w)
		} else if held[i], leases[i], err = t.request(ctx, requests[j]); err != nil { // it cleans up, and follows
			return err
		}
	}
	return nil
}

func (s *site) acquireMany(ctx context.Context, requests []leaseRequest) (answers []acquired, w *words.Word, err error) {
	ask, known := s.due(time.Now())
	err = s.srv.Together(ctx, true, func(send watch.Ask) (err error) {
		for w = known; ; ask = true {
			if ask {
				if w, err = s.askWord(send); err != nil {
					return err
				}
			}
			if answers, err = s.acquireAll(send, requests, w); err != nil || ask || s.fits(w) && !anyLate(answers) {
				return err
			}
		}
	})
	if err != nil {
		s.gaveUp()
		return nil, nil, err
	}
	if first := answers[0].err; s.elsewhere(first) { // and so may be all
		return nil, nil, first
	}
	return answers, w, nil
}

func anyLate(answers []acquired) bool {
	return slices.ContainsFunc(answers, func(a acquired) bool { return a.Late })
}

// acquired is the answer for one key of many.
type acquired struct {
	entryrules.Answer
	err error
}

// acquireAll asks for many leases. Its error is about the connection.
func (s *site) acquireAll(send watch.Ask, requests []leaseRequest, w *words.Word) ([]acquired, error) {
	answers := make([]acquired, len(requests))
	if s.scripted() {
		replies, err := runAll(send, len(requests), func(dst []byte, head func(*script) string, i int) []byte {
			return s.appendRequest(dst, head(s.scripts.acquire), &requests[i], w)
		})
		if err != nil {
			return nil, err
		}
		for i, v := range replies {
			answers[i].Answer, answers[i].err = parseAcquired(v, w)
		}
		if !s.forbids(replies[0]) {
			return answers, nil
		}
	}
	for i, q := range requests {
		var err error
		answers[i].Answer, err = s.acquireWatching(send, q, w)
		var refused *watch.Refusal
		if answers[i].err = err; err != nil && !errors.As(err, &refused) {
			return nil, err
		}
	}
	return answers, nil
}

func (t *Tier) acquireOver(send watch.Ask, q leaseRequest, w *words.Word) (entryrules.Answer, error) {
	if t.scripted() {
		v, err := runOver(send, t.scripts.acquire, func(dst []byte, head string) []byte {
			return t.appendRequest(dst, head, &q, w)
		})
		if err != nil {
			return entryrules.Answer{}, err
		}
		if !t.forbids(v) {
			return parseAcquired(v, w)
		}
	}
	return t.acquireWatching(send, q, w)
}

func (t *Tier) acquireWatching(send watch.Ask, q leaseRequest, w *words.Word) (entryrules.Answer, error) {
	return t.entry(send, q.key).Do(q.operation(t.names.Schema, w))
}

// appendRequest appends a call of the script that gives leases.
func (t *Tier) appendRequest(dst []byte, head string, q *leaseRequest, w *words.Word) []byte {
	op := q.operation(t.names.Schema, w)
	return t.appendAcquire(dst, head, q.key, &op, w)
}

// parseAcquired makes sense of what the acquire script returns to those who know
// w.
func parseAcquired(v resp.Value, w *words.Word) (a entryrules.Answer, err error) {
	if err := refusal(v); err != nil {
		return a, err
	}
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
	a = entryrules.Answer{Wait: parts[1].Int(), Held: stored(parts[3], parts[2], w)}
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
