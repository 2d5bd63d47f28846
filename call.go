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

// call is the sum of the options of one call.
type call struct {
	ttl  time.Duration // 0: that of the cache; noLife: not stored
	tags []string
	info *Info
	err  error // an option is wrong

	skipRead   bool
	allowStale bool
	noMemory   bool
	noRemote   bool
	refresh    bool // in the background, of an entry that can be served
	gathers    bool // the Loader is Options.ManyLoader
	// registered is called when a refresh leads a flight or has joined one. Nil:
	// never.
	registered func()
}

// WithTTL makes the entry that this call stores fresh for d instead of
// Options.TTL, jitter included. If d is not positive the value is not stored.
// The same applies, instead of Options.NotFoundTTL, if the Loader returns
// ErrNotFound. If several callers share a load, the option of the first counts.
func WithTTL(d time.Duration) CallOption {
	return func(c *call) { c.ttl = lifeOrNone(d) }
}

// noLife is the life of a value that is not to be stored.
const noLife time.Duration = -1

// lifeOrNone returns d, or noLife if d is not positive: zero in a call means the
// life that the cache gives.
func lifeOrNone(d time.Duration) time.Duration {
	if d <= 0 {
		return noLife
	}
	return d
}

// SkipRead makes GetOrLoad return a value with a load that began after the call,
// without regard to cached entries, and store it everywhere. If a load of the key
// runs, the call waits for its end; SkipReads that arrive meanwhile share the next
// load. Other callers are served from the cache until then. Only trusted callers
// should be able to use it: each such read can cost the origin a load.
func SkipRead() CallOption {
	return func(c *call) { c.skipRead = true }
}

// AllowStale makes Get return a stale value if there is no fresh one: a value that is
// past its TTL, or that Expire, ExpireTags or ExpireAll has made stale, and that one of
// the tiers still keeps; see [Stale]. A value that was invalidated is not returned. It
// has no effect on calls that may load: Options.Stale says what these return.
func AllowStale() CallOption {
	return func(c *call) { c.allowStale = true }
}

// NoMemory makes a call pass L1 by: a read does not look in L1, and what the call loads
// or stores is kept in L2 only. L1 then drops the entry of a key that was loaded or
// stored. Callers that share a flight share its options; a caller with NoMemory takes
// from others no value of L1.
func NoMemory() CallOption {
	return func(c *call) { c.noMemory = true }
}

// NoRemote makes a call pass L2 by: a read does not ask L2, a load needs no lease, and
// what the call loads or stores is kept in L1 only. After a Set with NoRemote the other
// instances and L2 keep what they have. Callers that share a flight share its options:
// one that joins a flight of another caller may get a value of L2. It has no effect on
// Update.
func NoRemote() CallOption {
	return func(c *call) { c.noRemote = true }
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

// callOf returns the sum of opts. Without any it stays off the heap.
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
// entries with a tag. If several callers share a load, the option of the first
// counts.
func WithTags(tags ...string) CallOption {
	tags = slices.Clone(tags)
	return func(c *call) { c.addTags(tags) }
}

var errTagsPanicked = errors.New("strata: Options.Tags panicked")

// nameTags adds to o the tags of Options.Tags for a value that is to be stored, or
// the error that prevents it.
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

// addTags adds to the tags of a call, or sets its error.
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

// callError returns the error of the options of a call.
func (c *core) callError(o *call) error {
	if o.err == nil && len(o.tags) > 0 && c.l2.LacksTags() {
		return errNoTags
	}
	return o.err
}
