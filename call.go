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

	skipRead bool
	refresh  bool // in the background, of an entry that can be served
	gathers  bool // the Loader is Options.ManyLoader
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

// Info is about one read; see [ReadInfo]. The zero Info means that there was no
// value.
type Info struct {
	// Tier is the source of the value: "L1", "L2", or "origin".
	Tier string
	// Stale says that the value is past its TTL or was expired: it was served while
	// it is refreshed, or because a load has failed or takes long.
	Stale bool
	// Shared says that the caller joined the flight of another caller.
	Shared bool
	// Degraded says that the value comes from L1 while the bus is silent, or
	// that L2 could not confirm it: another instance may have invalidated it.
	Degraded bool
}

// ReadInfo makes GetOrLoad write information about the value to to, before it
// returns and unless it returns an error.
func ReadInfo(to *Info) CallOption {
	return func(c *call) { c.info = to }
}

// infoOf returns the information in the note of a flight's result.
func infoOf(note uint8, shared bool) Info {
	return Info{
		Tier:     [...]string{"", "L1", "L2", "origin"}[note&noteTier],
		Stale:    note&noteStale != 0,
		Shared:   shared,
		Degraded: note&noteDegraded != 0,
	}
}

// inform writes i to the place that ReadInfo named.
func (o *call) inform(i Info) {
	if o.info != nil {
		*o.info = i
	}
}
