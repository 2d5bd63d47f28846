package strata

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/envelope"
)

// CallOption changes one call.
type CallOption func(*call)

// call is what the options of one call amount to.
type call struct {
	ttl  time.Duration // 0: the cache's; noLife: not stored
	tags []string
	info *Info
	err  error // what is wrong with the options

	skipRead bool
	refresh  bool // in the background, of what is there still
	// registered is called when a refresh leads a flight or has joined one. Nil:
	// never.
	registered func()
}

// WithTTL makes the entry that this call stores fresh for d instead of
// Options.TTL, jitter included. If d is not positive the value is not stored.
// The same holds, instead of Options.NotFoundTTL, if the Loader answers
// ErrNotFound. Where several callers share a load, the first one's option counts.
func WithTTL(d time.Duration) CallOption {
	return func(c *call) { c.ttl = lifeOrNone(d) }
}

// noLife is the life of a value that is not to be stored.
const noLife time.Duration = -1

// lifeOrNone is d, or noLife if d is not positive: the zero life of a call is
// that of the cache.
func lifeOrNone(d time.Duration) time.Duration {
	if d <= 0 {
		return noLife
	}
	return d
}

// SkipRead makes GetOrLoad return a value whose load began after the call,
// whatever is cached, and store it everywhere. If a load of the key runs, it waits
// for that one's end; callers who skip meanwhile share the next load. Others are
// served what is cached until then. Leave it to callers who may: such reads cost
// the origin loads.
func SkipRead() CallOption {
	return func(c *call) { c.skipRead = true }
}

// skipReadKey is the key in a context under which SkipReadContext leaves its
// mark.
type skipReadKey struct{}

// SkipReadContext returns a context with which GetOrLoad and GetMany of every
// cache whose Options have ContextControls behave as with [SkipRead].
func SkipReadContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, skipReadKey{}, true)
}

func skipsRead(ctx context.Context) bool { return ctx.Value(skipReadKey{}) != nil }

// callOf is what opts amount to. Without any it stays off the heap.
func callOf(opts []CallOption) call {
	if len(opts) == 0 {
		return call{}
	}
	return applied(opts)
}

func applied(opts []CallOption) (c call) {
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// WithTags adds tags to the entry that this call stores, at most 64 of at most
// 512 bytes each; otherwise the call fails. [Cache.InvalidateTags] drops all
// entries with a tag. Where several callers share a load, the first one's
// option counts.
func WithTags(tags ...string) CallOption {
	tags = slices.Clone(tags)
	return func(c *call) { c.addTags(tags) }
}

var errTagsPanicked = errors.New("strata: Options.Tags panicked")

// nameTags adds to o the tags that Options.Tags has for a value that is to be
// stored, or says what is wrong with them.
func (c *Cache[K, V]) nameTags(o *call, key K, v V) {
	if c.o.Tags == nil || o.err != nil {
		return
	}
	o.err = errTagsPanicked // stands if it panics
	defer c.contain("Tags")
	tags := c.o.Tags(key, v)
	o.err = nil
	o.addTags(tags)
}

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
	if o.err == nil && len(o.tags) > 0 && c.l2.LacksTags() {
		return errNoTags
	}
	return o.err
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
