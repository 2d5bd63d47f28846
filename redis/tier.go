package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strata-cache/strata/internal/redistier/tier"
	"github.com/strata-cache/strata/internal/redistier/watch"
	"github.com/strata-cache/strata/remote"
)

// Tier keeps a cache's entries in Redis. It is a [remote.Tier] with all
// optional abilities, shared by any number of caches: each binds its own part
// by its name.
//
// An entry is a hash that holds the values of all types under a key with
// their states. A read is one HMGET; all that changes something is a script,
// so that what may be stored is decided where it is stored;
// internal/redistier describes both.
//
// An instance asks for the word of its name space, which says what everything
// in it is worth, when it has not for a second, together with whatever it reads
// then, and whenever a connection was opened since: it may lead to a server
// that has taken over, or has lost something. Values from before a restart, a
// failover or the return to an older snapshot are absent.
//
// # Without scripts
//
// Where the server does not permit EVAL and EVALSHA, or has no engine for
// scripts, the Tier notices it and does the same by WATCH, MULTI and EXEC, with the same fences, side by side
// with instances that use scripts. What writes then takes two round trips or
// three instead of one, and a batch takes them for each of its keys; those who
// write to one key or lane at once make each other try again; and a server that
// is out of memory refuses drops too. Where WATCH, MULTI and EXEC are not
// permitted either nothing can be stored or dropped. See [Tier.Probe].
//
// # Rights
//
// A user of Redis needs the rights of ACL SETUSER … ~strata:* &strata:* +@read
// +@write +@fast +@scripting +@transaction +@pubsub +@connection, and to INFO
// and CLUSTER. Since Redis 7 a user has no right to any channel unless it is
// given: then no drop can be announced, and so none succeeds.
//
// # On a cluster
//
// A lane's keys are in one slot, the word of the name space and its tags in
// another. Values carry, beside the word, which server gave the lease and in
// which of its lives: those from before a failover of that server, and those of
// a slot that has moved, are absent. While a slot is being moved, drops of keys
// in it that hold nothing wait until that is over. Who has a [Bus] on the same
// cluster hears of all drops from whichever node.
//
// What the Tier cannot read is absent and counted.
type Tier struct {
	t     *tier.Tier
	alone bool // the client has one server
}

// NewTier returns a tier on c's server or cluster. The client stays the caller's
// to close.
func NewTier(c *Client) *Tier {
	if c.cluster != nil {
		return &Tier{t: tier.NewOnCluster(tierCluster{c.cluster})}
	}
	return &Tier{t: tier.New(tierServer{hop{n: c.home}}, c.o.DB), alone: true}
}

// Bind returns the part of the tier that belongs to one instance of a cache.
func (t *Tier) Bind(s remote.Space) remote.Tier {
	return &Tier{t: t.t.Bind(s), alone: t.alone}
}

// Announces is true: a drop and its announcement are one step, and the end of
// a lease is announced too if somebody was told that it was taken.
func (t *Tier) Announces() bool { return true }

// Foreign is the number of values that were there but not readable as an
// entry, as this part of the tier has met them.
func (t *Tier) Foreign() uint64 { return t.t.Foreign() }

// Get reads values with their states by HMGET: no script.
func (t *Tier) Get(ctx context.Context, keys []string) ([]remote.Held, error) {
	held, err := t.t.Get(ctx, keys)
	return held, t.failed(err)
}

// Acquire asks for the right to fill key. A stale value comes with the lease.
func (t *Tier) Acquire(ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	h, l, err := t.t.Acquire(ctx, key, d)
	return h, l, t.failed(err)
}

// Refresh is Acquire, but that the value with this ID counts as stale.
func (t *Tier) Refresh(ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
	h, l, err := t.t.Refresh(ctx, key, id, d)
	return h, l, t.failed(err)
}

// AcquireMany is Acquire for many keys in one round trip.
func (t *Tier) AcquireMany(ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
	held, leases, err := t.t.AcquireMany(ctx, keys, d)
	return held, leases, t.failed(err)
}

// Put stores values under their leases or tokens. It returns an error when any
// of the values got no answer.
func (t *Tier) Put(ctx context.Context, p []remote.Put) (refused []int, err error) {
	refused, err = t.t.Put(ctx, p)
	return refused, t.failed(err)
}

// Drop makes keys absent or stale for values of all types.
func (t *Tier) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	leases, err := t.t.Drop(ctx, d)
	return leases, t.failed(err)
}

// Extend gives the held value new lives. It ends the lease as a Put does.
func (t *Tier) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (refused bool, err error) {
	refused, err = t.t.Extend(ctx, key, fresh, left, l, id)
	return refused, t.failed(err)
}

// Release gives a lease back.
func (t *Tier) Release(ctx context.Context, key string, l remote.Lease) error {
	return t.failed(t.t.Release(ctx, key, l))
}

// Renew prolongs a lease and reports whether it was still there.
func (t *Tier) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	kept, err := t.t.Renew(ctx, key, l, d)
	return kept, t.failed(err)
}

// Doubt makes all operations that begin from now on ask for the word anew.
func (t *Tier) Doubt() { t.t.Doubt() }

// DropAll makes everything in the space absent, or stale if soft, for all
// instances: for this one at once, for others when they ask for the word next.
func (t *Tier) DropAll(ctx context.Context, soft bool) error {
	return t.failed(t.t.DropAll(ctx, soft))
}

// DropTags drops tags for all instances. A tag may be as long as a key. Beyond
// 100 000 tags what is kept of them is forgotten, and all count as dropped.
func (t *Tier) DropTags(ctx context.Context, tags []string, soft bool) error {
	return t.failed(t.t.DropTags(ctx, tags, soft))
}

// Tags returns the drops of each tag by HMGET. A tag that is not known counts
// as dropped when the server began to keep tags, or began again.
func (t *Tier) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	known, err := t.t.Tags(ctx, tags)
	return known, t.failed(err)
}

// Position asks for the word, and by MGET for the words of all lanes.
func (t *Tier) Position(ctx context.Context) (remote.Position, error) {
	p, err := t.t.Position(ctx)
	return p, t.failed(err)
}

// Changes asks for what INFO says of the changes of the server's data, or on a
// cluster of each primary's, for all caches of the Tier together, once in
// [remote.ChangesAge] at most. Where INFO does not say, it is empty.
func (t *Tier) Changes(ctx context.Context) (string, error) {
	text, err := t.t.Changes(ctx)
	return text, tierError(err)
}

// Lane returns the lane of key.
func (t *Tier) Lane(key string) uint16 { return t.t.Lane(key) }

// Probe looks for what weakens the promises of a cache: scripts or PUBLISH that
// are not permitted, memory that may be taken from fences, a server that does not say
// which one it is. It also has the Tier use scripts again if they are permitted
// by now.
func (t *Tier) Probe(ctx context.Context) (warnings []string, err error) {
	warnings, err = t.t.Probe(ctx)
	return warnings, t.failed(err)
}

// failed gives an error of the tier the form that the package promises.
func (t *Tier) failed(err error) error {
	if err == nil {
		return nil
	}
	err = tierError(err)
	var refused *Error
	if t.alone && errors.As(err, &refused) {
		switch refused.Code {
		case "MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN":
			return fmt.Errorf("redis: this server is part of a Redis Cluster: set redis.Options.Cluster: %w", err)
		}
	}
	return err
}

// tierError makes an [*Error] of what a server has refused.
func tierError(err error) error {
	if err == nil {
		return nil
	}
	var refused *watch.Refusal
	if errors.As(err, &refused) {
		return serverError([]byte(refused.Text))
	}
	return err
}
