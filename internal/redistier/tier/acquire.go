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
	_, until := remote.Split(ctx)
	request := func(i int) leaseRequest {
		return leaseRequest{key: r[i].Key, id: r[i].Replace, token: newLease(), d: d, until: until}
	}
	acquired := make([]remote.Acquired, len(r))
	if len(r) == 1 {
		acquired[0] = t.request(ctx, request(0))
	} else {
		requests := make([]leaseRequest, len(r))
		for i := range r {
			requests[i] = request(i)
		}
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
	if failed == len(acquired) {
		return nil, acquired[0].Err
	}
	return acquired, nil
}

// request asks for a lease. If the key is of another type, request removes it
// and asks again.
func (t *Tier) request(ctx context.Context, q leaseRequest) remote.Acquired {
	a, w, err := t.acquire(ctx, q)
	if wrongType(err) {
		t.foreign.Add(1)
		if err = t.clean(ctx, "hash", t.names.Entry(q.key)); err == nil {
			a, w, err = t.acquire(ctx, q)
		}
	}
	if err != nil {
		return remote.Acquired{Err: t.cleanWord(ctx, err)}
	}
	return t.granted(&a, q.token, w)
}

// granted is the result for an answer that can be judged by w.
func (t *Tier) granted(a *entryrules.Answer, token uint64, w *words.Word) remote.Acquired {
	l := remote.Lease{State: w.Text, Clock: w.Clock, Grant: a.Grant, Wait: time.Duration(a.Wait) * time.Millisecond}
	if a.Grant == remote.Granted {
		l.Token, l.Wait = token, 0
	}
	return remote.Acquired{Held: t.open(&a.Held, w), Lease: l}
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

// acquireFrom makes those requests whose indexes are in part, at one server.
func (t *Tier) acquireFrom(ctx context.Context, requests []leaseRequest, part []int, acquired []remote.Acquired) {
	some := pick(requests, part)
	var w *words.Word
	var answers []acquireAnswer
	err := t.atKey(ctx, some[0].key, true, func(ctx context.Context, s *site) (err error) {
		answers, w, err = s.acquireMany(ctx, some)
		return err
	})
	if err != nil {
		err = t.cleanWord(ctx, err)
		for _, i := range part {
			acquired[i].Err = err
		}
		return
	}
	for j, i := range part {
		if answers[j].err == nil {
			acquired[i] = t.granted(&answers[j].Answer, some[j].token, w)
		} else {
			acquired[i] = t.request(ctx, some[j]) // it cleans up, and follows
		}
	}
}

func (s *site) acquireMany(ctx context.Context, requests []leaseRequest) (answers []acquireAnswer, w *words.Word, err error) {
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

func anyLate(answers []acquireAnswer) bool {
	return slices.ContainsFunc(answers, func(a acquireAnswer) bool { return a.Late })
}

// acquireAnswer is the answer for one key of many.
type acquireAnswer struct {
	entryrules.Answer
	err error
}

// acquireAll asks for many leases. Its error is about the connection.
func (s *site) acquireAll(send watch.Ask, requests []leaseRequest, w *words.Word) ([]acquireAnswer, error) {
	answers := make([]acquireAnswer, len(requests))
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
