package redis

import (
	"errors"
	"fmt"

	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// Tier keeps a cache's entries in Redis. It is a [remote.Tier], shared by any
// number of caches: each binds its own part by its name. It has all abilities that
// package remote describes, but is no [remote.Fleet], also over a cluster:
//
//	Get, Tags                      one HMGET each; for a value that the caller has, its
//	                               state, and the value only if it is another one
//	Acquire, Put, Drop, Extend,    one script for each key; a batch is one round
//	Renew, Release                 trip to each server
//	DropAll, DropTags              one script
//	Position                       one MGET of the versions of all lanes
//	Changes                        once in remote.ChangesAge, for all caches of the Tier
//	Recheck, Lane, Announces,      no command; Announces is true: a drop and its
//	Foreign                        announcement are one step
//	Probe                          warns of scripts or PUBLISH that are not permitted,
//	                               memory that may be taken from fences, a server that
//	                               does not name itself; scripts are used again if they
//	                               are permitted by now
//
// An entry is a hash that holds the values of all types under a key with their
// states. All changes are scripts, so the server that stores a value decides
// whether it may be stored; internal/redis/layout describes both.
//
// The namespace state decides whether a value is valid. An instance reads it
// again together with the next read of a value, once its knowledge is a second
// old, and whenever a connection was opened since: a new connection may lead to
// a server that has taken over, or has lost something. Values from before a
// restart, a failover or the return to an older snapshot are absent.
//
// Values that the Tier cannot read are absent, and Foreign counts them. The Tier
// keeps 100 000 tags: beyond them all are forgotten, and all count as dropped.
//
// # Without scripts
//
// Where the server does not permit EVAL and EVALSHA, or has no engine for
// scripts, the Tier does the same by WATCH, MULTI and EXEC, with the same fences,
// side by side with instances that use scripts. A change then takes two round
// trips or three instead of one, and a batch takes them for each of its keys;
// instances that write to one key or lane at once make each other try again; and
// a server without free memory refuses drops too. Where WATCH, MULTI and EXEC are
// not permitted either, nothing can be stored or dropped. Probe tells.
//
// # Rights
//
// A user of Redis needs the rights of ACL SETUSER … ~strata:* &strata:* +@read
// +@write +@fast +@scripting +@transaction +@pubsub +@connection, and to INFO
// and CLUSTER. Since Redis 7 a user has no right to any channel by default:
// without &strata:* no drop can be announced, and so none succeeds.
//
// # On a cluster
//
// A lane's keys are in one slot, the namespace state and its tags in another.
// Values carry, beside the namespace state, the server that gave the lease, and
// its life at that time: values from before a failover of this server, and
// values of a slot that has moved, are absent. While a slot moves, drops of its
// empty keys wait for the end of the move. A [Bus] on the same cluster receives
// the drops of all nodes.
type Tier struct {
	*base
	health *observe.ServerHealth
}

// base has the methods that the tier of this package shares with the tier of
// contrib/goredis.
type base = tier.Tier

var (
	_ remote.Tier      = (*Tier)(nil)
	_ remote.Reader    = (*Tier)(nil)
	_ remote.Binder    = (*Tier)(nil)
	_ remote.Tagger    = (*Tier)(nil)
	_ remote.Announcer = (*Tier)(nil)
	_ remote.Prober    = (*Tier)(nil)
	_ remote.Mover     = (*Tier)(nil)
)

// NewTier returns a tier on c's server or cluster. The caller closes
// the client.
func NewTier(c *Client) *Tier {
	if c.cluster != nil {
		return &Tier{tier.NewOnCluster(tierCluster{k: c.cluster}, tierError), c.health}
	}
	c.identifies.Store(true)
	return &Tier{tier.New(tierServer{r: route{n: c.home}}, c.o.DB, loneError), c.health}
}

// Bind returns the part of the tier that belongs to one instance of a cache.
func (t *Tier) Bind(s remote.Space) remote.Tier { return &Tier{t.base.Bind(s), t.health} }

// Health returns the state of the server that all caches of the client share. It is for package strata.
func (t *Tier) Health() any { return t.health }

// Self implements [remote.Reader].
func (t *Tier) Self() remote.Tier { return t }

// loneError is tierError for a client of one server, which may be part of a
// cluster.
func loneError(err error) error {
	err = tierError(err)
	var refused *Error
	if errors.As(err, &refused) {
		switch refused.Code {
		case "MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN":
			return fmt.Errorf("redis: this server is part of a Redis Cluster: set redis.Options.Cluster: %w", err)
		}
	}
	return err
}
