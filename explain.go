package strata

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/trust"
	"github.com/strata-cache/strata/remote"
)

// Report says what a Cache knows about one key.
type Report struct {
	// L1 and L2 say what the tiers hold.
	L1, L2 Place
	// Loading says that a load of the key runs on this instance, Waiters how
	// many callers wait for it.
	Loading bool
	Waiters int
}

// Place is what one tier holds for a key.
type Place struct {
	// Used is whether the cache has this tier.
	Used bool
	// Present is whether there is a value, stale or not.
	Present bool
	// Fresh is for how long the value is fresh: not positive if it is stale.
	// NoExpiry if it does not expire.
	Fresh time.Duration
	// Left is when the value goes for good. NoExpiry if it does not.
	Left time.Duration
	// Size is the length of the encoded value in bytes. Zero for L1, which
	// does not encode.
	Size int
	// Err is why the tier did not answer, or why its value cannot be read.
	Err error
}

// Explain says what the tiers hold for key and what is under way. It asks L2,
// but changes nothing and counts as no use of the entry.
func (c *Cache[K, V]) Explain(ctx context.Context, key K) Report {
	r := Report{L1: c.explainMemory(key)}
	r.Waiters, r.Loading = c.flights.Running(key)
	if c.tier != nil {
		r.L2 = c.explainTier(ctx, c.o.Remote.Key(key))
	}
	return r
}

func (c *Cache[K, V]) explainMemory(key K) Place {
	p := Place{Used: true}
	e, now := c.memory.Peek(key)
	if e == nil {
		return p
	}
	v, _ := c.judge(key, e)
	if v >= trust.Suspect {
		return p
	}
	p.Present = true
	p.Fresh, p.Left = until(e.Fresh, now), until(e.Dead, now)
	if v == trust.Stale {
		p.Fresh = 0
	}
	return p
}

// until returns the time from now to then on L1's clock.
func until(then, now int64) time.Duration {
	if then == l1.Forever {
		return NoExpiry
	}
	return time.Duration(then - now)
}

func (c *Cache[K, V]) explainTier(ctx context.Context, name string) Place {
	ctx, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	p := Place{Used: true}
	held, err := c.tier.Get(ctx, []string{name})
	if err != nil {
		p.Err = err
		return p
	}
	h := held[0]
	p.Present = !h.Absent() && h.Data != nil
	p.Fresh, p.Left = h.Fresh, h.Left
	if p.Present {
		p.Size, p.Err = c.payloadSize(h, name)
	}
	return p
}

func (c *Cache[K, V]) payloadSize(h remote.Held, name string) (int, error) {
	payload, _, err := envelope.Open(h.Data, name, c.schema)
	return len(payload), err
}

// Info is about one read; see [ReadInfo]. The zero Info means that there was no
// value.
type Info struct {
	// Tier is where the value came from: "L1", "L2", or "origin".
	Tier string
	// Stale says that the value's time is over, or that it was expired: it was
	// served while it is refreshed, or because a load has failed or takes long.
	Stale bool
	// Shared says that another caller had asked for the value before.
	Shared bool
	// Degraded says that the value comes from L1 while the bus is silent, or
	// that L2 did not confirm it: another instance may have invalidated it.
	Degraded bool
}

// ReadInfo makes GetOrLoad say in to where the value came from. It is written
// before GetOrLoad returns, unless that returns an error.
func ReadInfo(to *Info) CallOption {
	return func(c *call) { c.info = to }
}

// infoOf is what the note of a flight's result says.
func infoOf(note uint8, shared bool) Info {
	return Info{
		Tier:     [...]string{"", "L1", "L2", "origin"}[note&noteTier],
		Stale:    note&noteStale != 0,
		Shared:   shared,
		Degraded: note&noteDegraded != 0,
	}
}

// inform writes i where the caller has asked for it.
func (o *call) inform(i Info) {
	if o.info != nil {
		*o.info = i
	}
}

// degraded reports whether what others drop is not told here at the moment.
func (c *Cache[K, V]) degraded() bool { return c.bus != nil && !c.link.Connected() }

var (
	errTooManyTags = fmt.Errorf("strata: more than %d tags", envelope.MaxTags)
	errTag         = fmt.Errorf("strata: a tag is empty or longer than %d bytes", envelope.MaxTag)
	errNoTags      = errors.New("strata: the Tier has no tags (remote.Tagger)")
)

// addTags adds to the tags of a call, or says what is wrong with them.
func (o *call) addTags(tags []string) {
	all := slices.Clone(o.tags)
	for _, t := range tags {
		if err := checkTag(t); err != nil {
			o.err = err
			return
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
		if len(all) > envelope.MaxTags {
			o.err = errTooManyTags
			return
		}
	}
	o.tags = all
}

func checkTag(tag string) error {
	if tag == "" || len(tag) > envelope.MaxTag {
		return errTag
	}
	return nil
}

// callError says what is wrong with the options of a call.
func (c *Cache[K, V]) callError(o call) error {
	if o.err == nil && len(o.tags) > 0 && c.tier != nil && c.can.tag == nil {
		return errNoTags
	}
	return o.err
}
