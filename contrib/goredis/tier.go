// Package goredis makes a tier and a bus for strata from a client of
// github.com/redis/go-redis/v9. It is for services with such a client that want to keep
// its connections, credentials, sentinels and hooks.
//
// The form in Redis and on the bus is the same as in strata's own package redis:
// instances with one and instances with the other share entries and carry out each
// other's invalidations. That package needs no library, is faster, and withstands worse
// servers; README.md has the details.
//
// # Options of go-redis that matter
//
// Set ContextTimeoutEnabled, which is off by default. With it a call ends at
// the deadline of its context; an earlier cancel is noticed at the deadline or at
// ReadTimeout, whichever comes first. Without it calls end with their context too, but
// go-redis works on for them until ReadTimeout, with a connection and a goroutine each,
// at most PoolSize of both for a Tier and as many for a Bus; and each call pays for
// that goroutine.
//
// MaxRetries does not count: a command that may have been executed is not sent
// again. Reads and other commands with no further effect when executed twice are sent
// once more if the connection was lost before the reply began.
package goredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// Tier keeps a cache's entries in Redis. It is a [remote.Tier], shared by any
// number of caches: each binds its own part by its name. It has all abilities that
// package remote describes, but is no [remote.Fleet]; the doc of the Tier of strata's package redis lists the
// cost of each method. Make it with [NewTier].
//
// An error reply of the server is a [redis.Error] in the chain of the returned error.
// The Tier works without scripts on a server that does not permit them; see
// [Tier.Probe]. Values that it cannot read are absent and counted.
type Tier struct {
	*base
	srv *server
}

// base has the methods that this Tier shares with the Tier of strata's package
// redis.
type base = tier.Tier

var (
	_ remote.Tier      = (*Tier)(nil)
	_ remote.Binder    = (*Tier)(nil)
	_ remote.Tagger    = (*Tier)(nil)
	_ remote.Announcer = (*Tier)(nil)
	_ remote.Mover     = (*Tier)(nil)
	_ remote.Prober    = (*Tier)(nil)
)

// NewTier returns a tier on rdb's server. It opens no connection. The caller
// closes the client.
//
// The client must be a *redis.Client, as NewClient and NewFailoverClient return
// it. With a client from WithTimeout the tier does not see new connections, and
// notices the effects of a failover a second later; [Tier.Probe] warns of it.
// The tier adds a hook to the client, so make one tier of it.
//
// Clients for several servers are an error: a tier on a cluster must know which server
// answered, and whether this server has lost its role since. go-redis reports neither.
func NewTier(rdb redis.UniversalClient) (*Tier, error) {
	c, err := single(rdb)
	if err != nil {
		return nil, err
	}
	s := &server{link: newLink(c), health: observe.NewServerHealth(c.Options().Addr), opened: &openings{}, missed: misses(c)}
	c.AddHook(s.opened)
	return &Tier{tier.New(s, c.Options().DB, tierError), s}, nil
}

// Bind returns the part of the tier that belongs to one instance of a cache.
func (t *Tier) Bind(s remote.Space) remote.Tier { return &Tier{t.base.Bind(s), t.srv} }

// Health returns the state of the server that all caches of the Tier share. It is for package strata.
func (t *Tier) Health() any { return t.srv.health }

// Probe looks for properties that weaken the promises of a cache: forbidden scripts,
// memory that may be taken from fences, a server that does not name itself, a client
// with unseen new connections. It also makes the Tier use scripts again if they are
// permitted by now.
func (t *Tier) Probe(ctx context.Context) (warnings []string, err error) {
	warnings, err = t.base.Probe(ctx)
	if err == nil && t.srv.blind() {
		warnings = append(warnings, "new connections of the go-redis client are not seen: give the tier the client itself, not the result of WithTimeout")
	}
	return warnings, err
}

// single returns a client that talks to one server.
func single(rdb redis.UniversalClient) (*redis.Client, error) {
	if c, ok := rdb.(*redis.Client); ok && c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("goredis: a %T cannot be used: it takes a *redis.Client", rdb)
}
