package strata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/flight"
	"github.com/strata-cache/strata/internal/cache/l1"
)

// CallOption changes one call. The zero CallOption changes nothing.
type CallOption struct{ wants wants }

// wants is what a caller says about a call: the sum of its options.
type wants struct {
	ttl  time.Duration // 0: the TTL of the cache; noLife: not stored
	tags []string
	own  *expiry.Own // nil: the windows and lives of the Options
	info *Info
	err  error // an option is wrong

	skipRead   bool
	allowStale bool
	noMemory   bool
	noRemote   bool
}

// call is what a caller wants, and the mode in which the cache reads for it. No closure
// captures a *call: each read would allocate it.
type call struct {
	wants
	mode
}

// mode is what the cache itself decides about a read.
type mode struct {
	refresh    bool   // in the background, of an entry that can be served
	ahead      bool   // a refresh of an entry that may not be due
	gathers    bool   // the Loader is Options.ManyLoader
	registered func() // called when a refresh leads a flight or has joined one; nil: never
}

// add adds the options of a caller to c. It fills a call where it is: without copies of calls a Set takes 2 % less.
func (c *call) add(opts []CallOption) {
	for i := range opts {
		o := &opts[i].wants
		if o.ttl != 0 {
			c.ttl = o.ttl
		}
		if o.info != nil {
			c.info = o.info
		}
		if o.err != nil {
			c.err = o.err
		}
		c.own = c.own.With(o.own)
		c.addTags(o.tags)
		c.skipRead = c.skipRead || o.skipRead
		c.allowStale = c.allowStale || o.allowStale
		c.noMemory = c.noMemory || o.noMemory
		c.noRemote = c.noRemote || o.noRemote
	}
}

// sparesHits reports whether opts change no hit in L1: they are right, and concern loads.
func (c *core) sparesHits(opts []CallOption) bool {
	tags := 0
	for i := range opts {
		o := &opts[i].wants
		if o.err != nil || o.info != nil || o.skipRead || o.noMemory {
			return false
		}
		tags += len(o.tags)
	}
	return tags == 0 || tags <= envelope.MaxTags && !c.l2.LacksTags()
}

// WithTTL makes the entry that this call stores fresh for d instead of
// Options.TTL, jitter included. If d is not positive the value is not stored.
// The same applies, instead of Options.NotFoundTTL, if the Loader returns
// ErrNotFound. If several callers share a load, the option of the first counts.
func WithTTL(d time.Duration) CallOption { return CallOption{wants{ttl: lifeOrNone(d)}} }

// WithStale gives the value that this call stores stale windows of its own, on every
// instance, in place of Options.Stale. A zero field leaves the window of the Options, a negative
// one means none: with two of these the value is never served stale. It counts for one value: the
// next value stored has the windows of the Options again, unless a load says that the value is not
// modified. If the load of this call fails, the windows count for the value that L1 and L2 had when
// the load began, for as long as it is kept there: [Load.SetStale] with a negative OnError makes both
// forget a stale value, and the callers get the error.
func WithStale(s Stale) CallOption { return CallOption{wants{own: ownStale(s)}} }

func ownStale(s Stale) *expiry.Own {
	// All negative windows become expiry.None, the only negative value of an Own.
	return &expiry.Own{Revalidate: max(expiry.None, s.WhileRevalidate), OnError: max(expiry.None, s.OnError)}
}

// WithMemoryTTL bounds the life in L1 of the value that this call stores, on every
// instance, as Memory.TTL does for all values: after d, less Options.Jitter, the next
// read asks L2. If d is not positive no L1 keeps the value. Without L2 its TTL is
// shortened in effect.
func WithMemoryTTL(d time.Duration) CallOption { return CallOption{wants{own: ownMemoryTTL(d)}} }

func ownMemoryTTL(d time.Duration) *expiry.Own { return &expiry.Own{Memory: lifeOrNone(d)} }

// noLife is the life of a value that no tier may store.
const noLife time.Duration = -1

// lifeOrNone returns d, or noLife if d is not positive: zero in a call means the life that the cache gives.
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
func SkipRead() CallOption { return CallOption{wants{skipRead: true}} }

// AllowStale makes Get, and GetMany without any loader, return a stale value if there is no
// fresh one: a value past its TTL, or made stale by Expire, ExpireTags or ExpireAll, that one of
// the tiers still keeps; see [Stale]. An invalidated value is not returned. AllowStale has no
// effect on calls that may load: Options.Stale decides about stale values for these.
func AllowStale() CallOption { return CallOption{wants{allowStale: true}} }

// NoMemory makes a call pass L1 by: a read takes nothing from L1, and the values that the
// call loads or stores are kept in L2 only. L1 then drops the entries of the loaded or
// stored keys. Callers that share a flight share its options; a caller with NoMemory takes
// from others no value of L1. For Options.IdleTTL and the eviction policy, its read of a key
// is a use of the entry in L1.
func NoMemory() CallOption { return CallOption{wants{noMemory: true}} }

// NoRemote makes a call pass L2 by: a read does not ask L2, a load needs no lease, and the
// values that the call loads or stores are kept in L1 only. After a Set with NoRemote the
// other instances and L2 keep their entries. Callers that share a flight share its options:
// a call that joins a flight of another caller may get a value of L2. NoRemote has no
// effect on Update.
func NoRemote() CallOption { return CallOption{wants{noRemote: true}} }

// skipReadKey is the key of the mark that SkipReadContext leaves in a context.
type skipReadKey struct{}

// SkipReadContext returns a context with which GetOrLoad and GetMany of every cache with
// Options.ContextControls behave as with [SkipRead].
func SkipReadContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, skipReadKey{}, true)
}

// skipsRead reports whether ctx comes from SkipReadContext.
func skipsRead(ctx context.Context) bool { return ctx.Value(skipReadKey{}) != nil }

// WithTags adds tags to the entry that this call stores, at most 64 of at most
// 512 bytes each; otherwise the call fails. [Cache.InvalidateTags] drops all
// entries with a tag. If several callers share a load, the option of the first
// counts. The call copies tags when it begins.
func WithTags(tags ...string) CallOption {
	var err error
	for _, t := range tags {
		err = cmp.Or(err, envelope.CheckTag(t))
	}
	return CallOption{wants{tags: tags, err: err}}
}

// nameTags adds to o the tags that Options.Tags has for v before its store, or the error
// that prevents the store.
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
	errTagsPanicked = errors.New("strata: Options.Tags panicked")
	errTooManyTags  = fmt.Errorf("strata: more than %d tags", envelope.MaxTags)
	errNoTags       = errors.New("strata: the Tier has no tags (remote.Tagger)")
)

// addTags adds to the tags of a call, or sets its error.
func (o *wants) addTags(tags []string) {
	all := slices.Clone(o.tags)
	for _, t := range tags {
		if err := envelope.CheckTag(t); err != nil {
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
	// Age is the time since the value was loaded or set, or since a load found it not
	// modified. Zero means unknown: the value has no end, and the cache has no L2. For a
	// value that this instance has from L2 it is counted back from the end of
	// Options.TTL, so that it is too long by the part by which Jitter has shortened the
	// TTL, and off by as much as the value had another TTL.
	Age time.Duration
	// TTL is for how long the value is still fresh on this instance. Zero if it is
	// stale, or is not kept; NoExpiry if it has no end.
	TTL time.Duration
	// Stale says that the value is past its TTL or was expired: it was served while
	// it is refreshed, or because a load has failed or takes long, or because the
	// caller allows that.
	Stale bool
	// Err is the reason why a stale value was served instead of the result of a load:
	// the load's error, the error of Limits.SoftTimeout, or ErrOverloaded. Nil if the value
	// is fresh, or served while it is refreshed.
	Err error
	// Shared says that the caller joined the flight of another caller.
	Shared bool
	// Degraded says that the value comes from L1 while the bus is silent, or
	// that L2 could not confirm it: another instance may have invalidated it.
	Degraded bool
}

// ReadInfo makes Get and GetOrLoad write information about the value to to, before
// they return. Without a value, or with an error, nothing is written.
func ReadInfo(to *Info) CallOption { return CallOption{wants{info: to}} }

// informOf writes the information about a flight's result to the place that ReadInfo
// named.
func (c *Cache[K, V]) informOf(o *call, r *flight.Result[V], shared bool) {
	if o.info != nil {
		*o.info = c.infoOf(r.Note, r.Times)
		o.info.Shared, o.info.Err = shared, r.Instead
	}
}

// informOfEntry is informOf for a value of L1. A stale value is served instead of err,
// unless err is nil.
func (c *Cache[K, V]) informOfEntry(o *call, e *entry[K, V], err error) {
	if o.info == nil {
		return
	}
	t := c.timesOf(e)
	*o.info = c.infoOf(noteL1, t)
	o.info.Stale, o.info.Err, o.info.Degraded = c.now() >= t.Fresh, err, c.degraded()
}

// infoOf returns the information in the note and the times of a value.
func (c *core) infoOf(note uint8, t flight.Times) (i Info) {
	now := c.now()
	i.Tier = [...]string{"", "L1", "L2", "origin"}[note&noteTier]
	i.Stale, i.Degraded = note&noteStale != 0, note&noteDegraded != 0
	if t.Born != 0 {
		i.Age = time.Duration(max(0, now-t.Born))
	}
	if i.TTL = NoExpiry; t.Fresh != l1.Forever {
		i.TTL = time.Duration(max(0, t.Fresh-now))
	}
	return i
}
