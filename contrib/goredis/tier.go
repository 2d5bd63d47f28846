// Package goredis makes a tier and a bus for strata out of a client of
// github.com/redis/go-redis/v9, for services that have one and want to keep it:
// its connections, its credentials, its sentinels, its hooks.
//
// What is stored, and what is said on the bus, is that of strata's own package
// redis: instances with one and instances with the other share entries and
// obey each other's invalidations. That package needs no library, is faster,
// and weathers worse servers; README.md has the details.
//
// # Options of go-redis that matter
//
// Set ContextTimeoutEnabled, which is off by default. With it a call ends at
// the deadline of its context; that the context was cancelled before is seen at
// that deadline, or at ReadTimeout if that is earlier. Without it calls end with
// their context too, but go-redis works on for them until ReadTimeout, with a
// connection and a goroutine each, at most PoolSize of both for a Tier and as
// many for a Bus; and each call pays for that goroutine.
//
// MaxRetries does not count: what may have been carried out is not sent again.
// Reads and other commands that are harmless when they are done twice are sent
// once more if the connection was lost before any answer came.
package goredis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/redistier/tier"
	"github.com/strata-cache/strata/remote"
)

// Tier keeps a cache's entries in Redis. It is a [remote.Tier] with all
// optional abilities, shared by any number of caches: each binds its own part
// by its name. Make it with [NewTier].
//
// What the server answers with an error is a [redis.Error] in the chain of the
// error that is returned. Where the server does not permit scripts the Tier
// does without; see [Tier.Probe]. What it cannot read is absent and counted.
type Tier struct {
	t   *tier.Tier
	srv *server
}

var (
	_ remote.Tier         = (*Tier)(nil)
	_ remote.Binder       = (*Tier)(nil)
	_ remote.AllDropper   = (*Tier)(nil)
	_ remote.Tagger       = (*Tier)(nil)
	_ remote.Positioner   = (*Tier)(nil)
	_ remote.ChangeTeller = (*Tier)(nil)
	_ remote.Doubter      = (*Tier)(nil)
	_ remote.Releaser     = (*Tier)(nil)
	_ remote.Renewer      = (*Tier)(nil)
	_ remote.Refresher    = (*Tier)(nil)
	_ remote.ManyAcquirer = (*Tier)(nil)
	_ remote.Announcer    = (*Tier)(nil)
	_ remote.Counter      = (*Tier)(nil)
	_ remote.Prober       = (*Tier)(nil)
)

// NewTier returns a tier on rdb's server. It opens no connection. The client
// stays the caller's to close.
//
// The client must be a *redis.Client, as NewClient and NewFailoverClient
// return it. Of one that WithTimeout has returned, new connections are not
// seen, and what a failover has changed is noticed a second later; [Tier.Probe]
// warns of it. A hook is added to the client, so make one tier of it.
//
// Clients for several servers are an error: a tier on a cluster has to know
// which server has answered, and whether it has lost its role since, and
// go-redis does not tell.
func NewTier(rdb redis.UniversalClient) (*Tier, error) {
	c, err := single(rdb)
	if err != nil {
		return nil, err
	}
	s := &server{link: newLink(c), opened: &openings{}, missed: misses(c)}
	c.AddHook(s.opened)
	return &Tier{tier.New(s, c.Options().DB), s}, nil
}

// Bind returns the part of the tier that belongs to one instance of a cache.
func (t *Tier) Bind(s remote.Space) remote.Tier { return &Tier{t.t.Bind(s), t.srv} }

// Announces is true: a drop and its announcement are one step, and the end of
// a lease is announced too if somebody was told that it was taken.
func (t *Tier) Announces() bool { return true }

// Foreign is the number of values that were there but not readable as an
// entry, as this part of the tier has met them.
func (t *Tier) Foreign() uint64 { return t.t.Foreign() }

// Get reads values with their states.
func (t *Tier) Get(ctx context.Context, keys []string) ([]remote.Held, error) {
	held, err := t.t.Get(ctx, keys)
	return held, tierError(err)
}

// Acquire asks for the right to fill key. A stale value comes with the lease.
func (t *Tier) Acquire(ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	h, l, err := t.t.Acquire(ctx, key, d)
	return h, l, tierError(err)
}

// Refresh is Acquire, but that the value with this ID counts as stale.
func (t *Tier) Refresh(ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
	h, l, err := t.t.Refresh(ctx, key, id, d)
	return h, l, tierError(err)
}

// AcquireMany is Acquire for many keys in one round trip.
func (t *Tier) AcquireMany(ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
	held, leases, err := t.t.AcquireMany(ctx, keys, d)
	return held, leases, tierError(err)
}

// Put stores values under their leases or tokens. It returns an error when any
// of the values got no answer.
func (t *Tier) Put(ctx context.Context, p []remote.Put) (refused []int, err error) {
	refused, err = t.t.Put(ctx, p)
	return refused, tierError(err)
}

// Drop makes keys absent or stale for values of all types.
func (t *Tier) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	leases, err := t.t.Drop(ctx, d)
	return leases, tierError(err)
}

// Extend gives the held value new lives. It ends the lease as a Put does.
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	refused, err = t.t.Extend(ctx, key, fresh, left, l, id)
	return refused, tierError(err)
}

// Release gives a lease back.
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	return tierError(t.t.Release(ctx, key, l))
}

// Renew prolongs a lease and reports whether it was still there.
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	kept, err := t.t.Renew(ctx, key, l, d)
	return kept, tierError(err)
}

// Doubt makes all operations that begin from now on ask anew for what is known
// of the name space.
func (t *Tier) Doubt() { t.t.Doubt() }

// DropAll makes everything in the space absent, or stale if soft, for all
// instances.
func (t *Tier) DropAll(ctx context.Context, soft bool) error {
	return tierError(t.t.DropAll(ctx, soft))
}

// DropTags drops tags for all instances.
func (t *Tier) DropTags(ctx context.Context, tags []string, soft bool) error {
	return tierError(t.t.DropTags(ctx, tags, soft))
}

// Tags returns the drops of each tag.
func (t *Tier) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	known, err := t.t.Tags(ctx, tags)
	return known, tierError(err)
}

// Position asks how far the drops of the space have come.
func (t *Tier) Position(ctx context.Context) (remote.Position, error) {
	p, err := t.t.Position(ctx)
	return p, tierError(err)
}

// Changes tells whether anything in the server has changed.
func (t *Tier) Changes(ctx context.Context) (string, error) {
	text, err := t.t.Changes(ctx)
	return text, tierError(err)
}

// Lane returns the lane of key.
func (t *Tier) Lane(key string) uint16 { return t.t.Lane(key) }

// Probe looks for what weakens the promises of a cache: scripts that are not
// permitted, memory that may be taken from fences, a server that does not say
// which one it is, a client whose new connections are not seen. It also has the
// Tier use scripts again if they are permitted by now.
func (t *Tier) Probe(ctx context.Context) (warnings []string, err error) {
	warnings, err = t.t.Probe(ctx)
	if err == nil && t.srv.blind() {
		warnings = append(warnings, "new connections of the go-redis client are not seen: give the tier the client itself, not what WithTimeout returns")
	}
	return warnings, tierError(err)
}

// single returns a client that talks to one server.
func single(rdb redis.UniversalClient) (*redis.Client, error) {
	if c, ok := rdb.(*redis.Client); ok && c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("goredis: a %T will not do: it takes a *redis.Client", rdb)
}
