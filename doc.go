// Package strata is a cache layer for services: it answers a read from the
// memory of the process (L1), else from Redis (L2, shared by all instances),
// else by running your loader once, however many callers and instances ask.
//
//	users, err := strata.New(strata.Options[string, User]{
//		Name:   "users",
//		TTL:    5 * time.Minute,
//		Remote: strata.Remote[string, User]{Tier: redis.NewTier(client)},
//	})
//	...
//	u, err := users.GetOrLoad(ctx, id, db.User)
//
// There are only a few types in strata: [Cache], [Loader], [remote.Tier] and
// [remote.Bus]. A Cache answers reads and is told of writes. A Loader gets a
// value from the origin: the database or service that knows best. A Tier holds
// entries that instances share. A Bus tells instances of each other's
// invalidations. Most programs write a Loader and meet the rest in [Options].
//
// # What happens to a read
//
// A fresh entry in L1 is returned at once: no lock, no allocation, no look at
// the context. Everything else goes through a flight, which all callers of the
// key share: it looks at L2, asks there for the right to load (so that one
// instance loads and the others wait), runs the Loader on a context of its
// own, stores the value in L2 and then in L1, and wakes the callers. Each
// caller waits under its own context, and its leaving costs the others nothing.
//
// # What happens to a write
//
// Write to the origin, then call [Cache.Invalidate]. It takes the right to
// store from every load that has begun, here and on other instances, so that
// no value from before it is stored after it. [Cache.Set] does the same and
// leaves a value behind.
//
// # Caveats
//
// The cache and all callers share a value. Who changes a map, slice or pointer
// that came from the cache changes it for everybody.
//
// A load runs with the context values of the caller that came first. What it
// returns goes to all of them: it must not depend on who asks.
package strata
