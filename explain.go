package strata

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/generation"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/lives"
	"github.com/strata-cache/strata/internal/measure"
	"github.com/strata-cache/strata/remote"
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
	// Present is whether there is a value, stale or not, that has not been
	// dropped.
	Present bool
	// NotFound says that the tier has a negative entry: the origin does not have the
	// key. Then Fresh and Left are those of the negative entry.
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
	// Size is the length of the encoded value in bytes. Zero for L1, which
	// does not encode.
	Size int
	// Tags are the tags of the entry.
	Tags []string
	// DroppedByTag says that the tier has an entry that counts as absent because one
	// of its tags was invalidated after the entry was stored.
	DroppedByTag bool
	// Err is the reason why the tier did not answer, or why its value cannot be read.
	Err error

	silent   bool // the tier did not answer
	served   bool // the value is stale, and served while it is refreshed
	fallback bool // it is stale, and served if its load fails
	lasts    bool // it is suspect, and served if the other tier cannot confirm it
}

// Explain returns the entries of the tiers for key, the load that runs, and the
// result that a read would have. It asks L2 for the key and its tags, even if its
// circuit breaker is open, but changes nothing and does not count as a use of the entry.
func (c *Cache[K, V]) Explain(ctx context.Context, key K) Report {
	var r Report
	if c.l2.Used() {
		r.Name, r.L2.Err = c.nameOf(key)
	}
	if r.L2.Used = c.l2.HasTier(); r.L2.Used && r.L2.Err == nil {
		c.explainTier(ctx, r.Name, &r.L2)
		r.Pending = c.l2.Blocks(r.Name, r.L2.Tags)
	}
	// L2 takes its time to answer. The state of this instance may change meanwhile,
	// so it is read last.
	r.LeftAlone = c.l2.HasTier() && r.Name != "" && c.l2.LeavesAlone(r.Name)
	r.L1, r.Degraded, r.Hold = c.explainMemory(key), c.degraded(), c.flights.HoldLeft(key)
	r.Waiters, r.Loading = c.flights.Running(key)
	c.explainFailures(key, &r)
	r.Verdict = c.verdict(key, &r)
	return r
}

func (c *Cache[K, V]) explainMemory(key K) Place {
	p := Place{Used: !c.passesMemory(&call{})}
	if e, now := c.negatives.Peek(key); e != nil && c.recall(key) == &e.Value && e.Value.notFound {
		p.NotFound = true
		p.Fresh, p.Left = until(e.Value.fresh, now), until(e.Dead, now)
		return p
	}
	e, now := c.memory.Peek(key)
	if e == nil {
		return p
	}
	e = c.aged(key, e)
	p.Tags, p.DroppedByTag = slices.Clone(recordOf(e).traits.tags()), c.tagsDropped(e)
	v, since := c.judge(key, e)
	if p.Suspect = v == generation.Suspect; v >= generation.Suspect {
		p.lasts = p.Suspect && now < e.Value.FreshUntil(e.Dead) && c.lasts(since)
		return p
	}
	p.Present = true
	p.Fresh, p.Left = until(e.Value.FreshUntil(e.Dead), now), until(c.memory.End(e), now)
	if p.Expired = e.Value.Expired(); p.Expired {
		p.Fresh = 0
	}
	p.served = p.Fresh <= 0 && c.revalidates(e, now)
	p.fallback = p.Fresh <= 0 && now < c.onErrorUntil(e)
	return p
}

// until returns the time from now to then on L1's clock.
func until(then, now int64) time.Duration {
	if then == l1.Forever {
		return NoExpiry
	}
	return time.Duration(then - now)
}

// explainFailures adds the remembered failure of the key.
func (c *Cache[K, V]) explainFailures(key K, r *Report) {
	e, now := c.negatives.Peek(key)
	if e == nil || e.Value.notFound {
		return
	}
	r.Failures, r.Err = int(e.Value.failures), e.Value.err
	r.RetryIn = max(0, until(e.Value.fresh, now))
}

// explainTier adds the entry of L2 under name.
func (c *Cache[K, V]) explainTier(ctx context.Context, name string, p *Place) {
	ctx, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	h, err := c.readAny(ctx, name)
	if err != nil {
		p.Err, p.silent = err, true
		return
	}
	if h.Absent() || h.Data == nil {
		return
	}
	payload, flags, version, err := c.openEnvelope(h.Data, name)
	if err != nil {
		p.Err = err
		return
	}
	p.Fresh, p.Left = h.Fresh, h.Left
	if flags&envelope.Tagged != 0 {
		if payload, err = c.explainTags(ctx, payload, p); err != nil || p.DroppedByTag {
			p.Fresh, p.Left, p.Err = 0, 0, err
			return
		}
	}
	var own *lives.Own
	if flags&envelope.Lived != 0 {
		var ok bool
		if own, payload, ok = envelope.CutLives(payload); !ok {
			p.Fresh, p.Left, p.Err = 0, 0, envelope.ErrForeign
			return
		}
	}
	p.Present, p.NotFound = flags&envelope.NotFound == 0, flags&envelope.NotFound != 0
	if p.Size = len(payload); p.Present {
		_, p.Err = c.decode(payload, version)
		c.explainStale(h, own, p)
	}
}

// explainStale adds the uses of a stale value of L2.
func (c *Cache[K, V]) explainStale(h remote.Held, own *lives.Own, p *Place) {
	if p.Fresh > 0 {
		return
	}
	age, soft, _ := c.staleSince(&h, p.Expired, p.Tags, own)
	p.Expired = soft
	windows := c.windows(own)
	p.served, p.fallback = !soft && age < windows.WhileRevalidate, age < windows.OnError
}

// explainTags takes the tags from body, and adds the effect of their drops on the
// entry.
func (c *core) explainTags(ctx context.Context, body []byte, p *Place) (payload []byte, err error) {
	clock, tags, payload, ok := envelope.CutTags(body)
	if p.Tags = tags; !ok {
		return nil, errTag
	}
	if c.l2.LacksTags() {
		return nil, errNoTags
	}
	known, err := c.l2.Tags(ctx, tags)
	if err != nil {
		p.silent = true
		return nil, err
	}
	for _, t := range known {
		p.DroppedByTag = p.DroppedByTag || t.Dropped > clock
		if t.Expired > clock {
			p.Fresh, p.Expired = min(p.Fresh, 0), true
		}
	}
	return payload, nil
}

// verdict returns a sentence about the result of a GetOrLoad of key now. The order
// of the cases is that of a read.
func (c *core) verdict(key any, r *Report) string {
	switch {
	case c.closed.Load():
		return "The cache is closed."
	case c.tuned.off.Load():
		return "The Loader runs: the cache is turned off on this instance."
	case r.L1.NotFound:
		return "L1 answers that the origin does not have the key" + lasting(r.L1.Fresh) + "."
	case r.L1.Present && r.L1.Fresh > 0:
		return "L1 answers: its value is fresh" + lasting(r.L1.Fresh) + "." + degradedNote(r)
	case r.L1.served:
		return "L1 answers with a stale value, which is refreshed in the background."
	case r.L1.fallback && r.RetryIn > 0:
		return fmt.Sprintf("L1 answers with a stale value: a load has failed, and is tried again in %v.", measure.Round(r.RetryIn))
	case r.Loading:
		return fmt.Sprintf("The read joins the load that is running, for which %d callers wait.", r.Waiters)
	}
	past, stop := c.verdictOfTier(r)
	switch {
	case stop:
		return past
	case r.RetryIn > 0 && r.L2.Used && !r.Pending && !r.LeftAlone && r.L2.fallback:
		return fmt.Sprintf("L2 answers with a stale value: a load has failed, and is tried again in %v.", measure.Round(r.RetryIn))
	case r.RetryIn > 0:
		return fmt.Sprintf("%sThe read fails with the error of the last load, for another %v.", past, measure.Round(r.RetryIn))
	}
	return past + c.verdictOfLoad(r)
}

// verdictOfTier returns a sentence about the part of L2 in a read that L1 does not
// answer, and whether L2 answers the read.
func (c *core) verdictOfTier(r *Report) (sentence string, stop bool) {
	p := &r.L2
	switch {
	case !p.Used:
		return "", false
	case r.Name == "" && p.Err != nil:
		return fmt.Sprintf("The read fails: %v.", p.Err), true
	case r.Pending:
		return "L2 is read past until it confirms a drop that is pending. ", false
	case r.L1.lasts && (r.LeftAlone || p.silent):
		return "L1 answers, though L2 does not confirm its value: another instance may have invalidated it.", true
	case r.LeftAlone:
		return "The circuit breaker of L2 is open, because it has failed too often. ", false
	case p.Err != nil:
		return fmt.Sprintf("L2 gives no value (%v). ", p.Err), false
	case p.NotFound && p.Fresh > 0:
		return "L2 answers that the origin does not have the key" + lasting(p.Fresh) + ".", true
	case p.Present && p.Fresh > 0:
		return "L2 answers: its value is fresh" + lasting(p.Fresh) + ".", true
	case p.served:
		return "L2 answers with a stale value, which is refreshed in the background.", true
	case p.fallback:
		return "L2 has a stale value, in case the load fails. ", false
	case p.DroppedByTag:
		return "The entry of L2 was dropped by one of its tags. ", false
	}
	return "", false
}

// verdictOfLoad returns a sentence about a load that nothing prevents.
func (c *core) verdictOfLoad(r *Report) string {
	if r.Hold > 0 {
		return fmt.Sprintf("The Loader runs; its value is stored nowhere, because the key is on hold for another %v.", measure.Round(r.Hold))
	}
	if p := &r.L2; p.Used && !r.Pending && !r.LeftAlone && !p.silent && !c.l2.StoringStopped() {
		return "The Loader runs, unless another instance is loading the key."
	}
	return "The Loader runs."
}

// lasting returns the end of a sentence that is true for d.
func lasting(d time.Duration) string {
	if d == NoExpiry {
		return ""
	}
	return fmt.Sprintf(" for another %v", measure.Round(d))
}

func degradedNote(r *Report) string {
	if r.Degraded {
		return " The bus is silent: another instance may have invalidated it."
	}
	return ""
}

// degraded reports whether drops by other instances do not reach this one now.
func (c *core) degraded() bool { return c.l2.HasBus() && !c.link.Connected() }
