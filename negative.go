package strata

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/remote"
)

// memo is what is remembered of a key that has no value: that the origin does
// not have it, or that its load has failed.
type memo struct {
	err error
	// notFound says that err is the origin's answer.
	notFound bool
	// failures is how often the load has failed in a row.
	failures int
}

const (
	// memoShare is the share of L1's bound that memos may have beside it: keys
	// that do not exist push out no entries.
	memoShare = 10
	// maxBackoff is how many times ErrorTTL a failure is remembered at most.
	maxBackoff = 10
)

// newMemos makes the store of memos.
func newMemos[K comparable](entries, weight int64) *l1.Cache[K, memo] {
	bound := entries
	if bound == 0 {
		bound = min(weight, DefaultMaxEntries)
	}
	return l1.New(l1.Config[K, memo]{MaxEntries: max(1, bound/memoShare)})
}

// recall returns what is remembered of key and holds still, or nil. A failure
// is remembered for longer than it holds, so that the next one counts.
func (c *Cache[K, V]) recall(key K) *memo {
	e, now := c.memos.Peek(key)
	if e == nil || now >= e.Fresh {
		return nil
	}
	if e.Value.notFound && e.Stamp < c.generation.Watermark() {
		if v, _, _ := c.generation.Judge(e.Stamp, func() uint16 { return c.laneOf(key) }); v != generation.Valid {
			return nil
		}
	}
	if v, _ := c.judgeTags(e.Tags); v != generation.Valid {
		return nil
	}
	return &e.Value
}

// throttled returns the failure for which key is not to be loaded now, or nil.
func (c *Cache[K, V]) throttled(key K) error {
	if m := c.recall(key); m != nil && !m.notFound {
		return m.err
	}
	return nil
}

// failed remembers that a load of key has failed with err. It may run without
// a right to store: a failure is nothing that could be old.
func (c *Cache[K, V]) failed(key K, err error) {
	base := c.o.ErrorTTL
	if base == 0 {
		return
	}
	m := memo{err: err, failures: 1}
	if e, _ := c.memos.Peek(key); e != nil && !e.Value.notFound {
		m.failures = e.Value.failures + 1
	}
	holds := base * time.Duration(min(1<<min(m.failures-1, 10), maxBackoff))
	holds -= time.Duration(rand.Float64() * float64(holds) / 5)
	now := c.memory.Now()
	c.memos.Set(&l1.Entry[K, memo]{
		Key: key, Value: m, Fresh: l1.After(now, holds), Soon: l1.After(now, holds),
		Dead: l1.After(now, holds+2*maxBackoff*base),
	}, 1)
}

// failures is how often the load of key has failed in a row.
func (c *Cache[K, V]) failures(key K) int {
	if e, _ := c.memos.Peek(key); e != nil {
		return e.Value.failures
	}
	return 0
}

// remembers reports whether a load's failure says something about the origin:
// not if the flight was cancelled, nor if the Loader has panicked.
func (a *attempt[K, V]) remembers(err error) bool {
	var p *LoadPanicError
	var late *timeoutError
	switch {
	case err == nil, errors.As(err, &p), errors.Is(err, ErrLoadExited), errors.Is(err, ErrClosed), errors.Is(err, ErrRecursiveLoad):
		return false
	case a.ctx.Err() != nil, errors.Is(err, context.Canceled):
		return false // a Loader may have used its caller's context
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &late):
		callers, _ := a.c.flights.Waiting(a.f)
		return callers > 0 // else it may be that of the caller who has left
	}
	return true
}

// absent is the memo of a key that the origin does not have, for left. tags are
// those of that answer.
func (a *attempt[K, V]) absent(err error, left time.Duration, tags []string) *l1.Entry[K, memo] {
	left = min(left, a.c.memoryTTL())
	dead := l1.After(a.c.memory.Now(), left)
	return &l1.Entry[K, memo]{
		Key: a.f.Key, Value: memo{err: err, notFound: true}, Soon: dead, Fresh: dead, Dead: dead,
		Stamp: a.f.Stamp, Tags: newTags(tags, a.tagGeneration),
	}
}

// forget removes key from L1, and returns what memory.Notify is to be given
// once no lock is held. It is called under the lock of the key's flights.
func (c *Cache[K, V]) forget(key K) []l1.Removed[K, V] {
	c.memos.Delete(key)
	return c.forgetValue(key)
}

// forgetValue is forget, but that what is remembered of the key stays.
func (c *Cache[K, V]) forgetValue(key K) []l1.Removed[K, V] {
	e, alive := c.memory.Delete(key)
	if e == nil || c.o.Hooks.Evict == nil {
		return nil
	}
	why := l1.Deleted
	if !alive {
		why = l1.Expired
	}
	return []l1.Removed[K, V]{{Entry: e, Reason: why}}
}

// unremember forgets what is remembered of e's key, for which e is put into L1. A
// stale value says nothing about a failure that holds still.
func (c *Cache[K, V]) unremember(e *l1.Entry[K, V]) {
	if m, now := c.memos.Peek(e.Key); m != nil && (m.Value.notFound || now < e.Fresh) {
		c.memos.Delete(e.Key)
	}
}

// forgetRemote drops what L2 holds, and remembers there too that the origin
// does not have the key: under the lease, as with any load, since a key may have
// been written meanwhile.
func (a *attempt[K, V]) forgetRemote(left time.Duration) {
	drops := a.id != 0 || a.call.skipRead
	if a.lease.Token == 0 || left <= 0 && !drops {
		return
	}
	ctx, cancel := a.opContext()
	defer cancel()
	left = max(0, min(left, maxRemoteLife))
	p := remote.Put{Key: a.l2.Name, Fresh: left, Left: left, Lease: a.lease, Drops: drops}
	if left > 0 {
		p.Data = a.c.sealAbsent(a.l2.Name, a.call.tags, a.lease.Clock)
	}
	refused, err := a.c.l2.Put(ctx, []remote.Put{p})
	if !a.answered("put", err) {
		return
	}
	a.lease.Token, a.replaced = 0, true
	if len(refused) > 0 {
		a.c.refusedRemote(a.ctx, a.f.Key)
		a.noKeep = true
		return
	}
	a.announceDrop(ctx, p)
}

// announceDrop tells other instances of what p, a Put that was not refused, has
// dropped.
func (a *attempt[K, V]) announceDrop(ctx context.Context, p remote.Put) {
	if p.Drops {
		_ = a.c.l2.Announce(ctx, []remote.Drop{{Key: a.l2.Name}}) // or it is pending
	}
}
