package strata

import (
	"context"
	"time"

	"github.com/strata-cache/strata/internal/cache/explain"
	"github.com/strata-cache/strata/internal/cache/l1/local"
)

// Report is the state of one key; see [Cache.Explain].
type Report struct {
	// Verdict is one sentence about the result of a GetOrLoad of the key now, on
	// this instance.
	Verdict string
	// Name is the key's name in L2. Empty without an L2 and a Bus.
	Name string
	// L1 and L2 are the entries of the tiers.
	L1, L2 Place
	// Loading says that a load of the key runs on this instance, Waiters is the
	// number of callers that wait for it.
	Loading bool
	Waiters int
	// Pending says that L2 or the bus has not confirmed a drop that concerns the
	// key: this instance reads past L2 until then.
	Pending bool
	// Hold is for how long loads of the key are not stored, as far as this instance
	// has been told; see [Cache.InvalidateHold].
	Hold time.Duration
	// Failures is the number of failures in a row of loads of the key. For RetryIn
	// callers get Err, or a stale value, and the key is not loaded.
	Failures int
	RetryIn  time.Duration
	Err      error
	// LeftAlone says that L2, or the key's server of several, has failed too often and is
	// not asked for a while.
	LeftAlone bool
	// Degraded says that the bus is silent: other instances may have dropped
	// the entry of L1.
	Degraded bool
}

// String returns the verdict.
func (r Report) String() string { return r.Verdict }

// Place is the entry of one tier for a key.
type Place struct {
	// Used is whether the cache has this tier.
	Used bool
	// Present is whether there is a value, fresh or stale. A dropped value is not present.
	Present bool
	// NotFound says that the tier has a negative entry: the origin does not have the
	// key. Then Fresh and Left are about the negative entry.
	NotFound bool
	// Suspect says that L1 has an entry that L2 must confirm before it is served,
	// because a message about it may have been lost.
	Suspect bool
	// Expired says that the value is stale because a caller has expired it. Such a
	// value is served if its load fails, and not while it is refreshed. ExpireAll
	// does not set it: a value is then stale as if its TTL had ended.
	Expired bool
	// Fresh is for how long the value is fresh: not positive if it is stale.
	// NoExpiry if it does not expire.
	Fresh time.Duration
	// Left is the rest of the life of the value; of that in L1, if it is not read (see
	// Options.IdleTTL). NoExpiry if it has no end.
	Left time.Duration
	// Size is the length of the encoded value of L2 in bytes. Zero for L1, also
	// with Memory.Encoded.
	Size int
	// Tags are the tags of the entry.
	Tags []string
	// DroppedByTag says that the tier has an entry that counts as absent because one
	// of its tags was invalidated after the entry was stored.
	DroppedByTag bool
	// Err is the reason why the tier did not answer, or why its value cannot be read.
	Err error
}

// Explain returns the entries of the tiers for key, the load that runs, and the
// result that a read would have. It asks L2 for the key and its tags, even if its
// circuit breaker is open, but changes nothing and does not count as a use of the entry.
func (c *Cache[K, V]) Explain(ctx context.Context, key K) Report {
	k := c.explain(ctx, key)
	return Report{
		Verdict: k.Verdict(), Name: k.Name, L1: Place(k.L1.Entry), L2: Place(k.L2.Entry), Loading: k.Loading, Waiters: k.Waiters,
		Pending: k.Pending, Hold: k.Hold, Failures: k.Failures, RetryIn: k.RetryIn, Err: k.Err, LeftAlone: k.LeftAlone, Degraded: k.Degraded,
	}
}

// explain returns the state of key on this instance.
func (c *Cache[K, V]) explain(ctx context.Context, key K) (k explain.Key) {
	if c.l2.Used() {
		k.Name, k.L2.Err = c.nameOf(key)
	}
	if k.L2.Used = c.l2.HasTier(); k.L2.Used && k.L2.Err == nil {
		c.explainTier(ctx, k.Name, &k.L2)
		k.Pending = c.l2.Blocks(k.Name, k.L2.Tags)
	}
	// L2 takes its time to answer. The state of this instance may change meanwhile,
	// so it is read last.
	k.LeftAlone, k.StoringStopped = c.l2.HasTier() && k.Name != "" && c.l2.LeavesAlone(k.Name), c.l2.StoringStopped()
	k.L1.Used = !c.passesMemory(&call{})
	explain.Memory(&c.near, key, c.lasts, &k.L1)
	k.Degraded, k.Hold, k.Reloading = c.degraded(), c.flights.HoldLeft(key), c.flights.Reloading(key)
	k.Waiters, k.Loading = c.flights.Running(key)
	if e, now := c.near.Negatives.Peek(key); e != nil && !e.Value.NotFound {
		k.Failures, k.Err, k.RetryIn = int(e.Value.Failures), e.Value.Err, max(0, local.Until(e.Value.Fresh, now))
	}
	k.Closed, k.Off, k.Refused = c.closed.Load(), c.tuned.off.Load(), c.checkKey(key)
	return k
}

// explainTier adds the entry of L2 under name.
func (c *Cache[K, V]) explainTier(ctx context.Context, name string, p *explain.Place) {
	stale := c.tuned.stale()
	r := explain.Remote{
		Timeout: c.o.Remote.Timeout, Read: c.l2.ReadAny, Open: c.l2.Open, Tags: c.l2.Tags,
		Decode: func(payload []byte, version int) (err error) { _, err = c.decode(payload, version); return err },
		Since:  c.staleSince, WhileRevalidate: stale.WhileRevalidate, OnError: stale.OnError,
	}
	if c.l2.LacksTags() {
		r.Untagged = errNoTags
	}
	r.Look(ctx, name, p)
}

// degraded reports whether drops by other instances do not reach this one now.
func (c *core) degraded() bool { return c.l2.HasBus() && !c.link.Connected() }
