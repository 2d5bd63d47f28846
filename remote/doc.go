// Package remote is the border between a cache and what its instances share:
// a [Tier] holds sealed values, a [Bus] carries invalidations. Whoever uses
// strata with Redis never meets this package; whoever brings
// another store implements Tier, proves it with stratatest.TestTier, and is
// done.
//
// # Who does what
//
// The cache decides: it seals and opens envelopes, chooses lives, runs loads.
// A Tier only keeps bytes under keys and answers one question truthfully: may
// this store happen? It does so with leases and tokens. Every value in a Tier
// was put there under a [Lease] that no drop has voided in between; that is
// the whole fence, and it is what makes "never stored after an invalidation"
// hold for instances that do not know each other.
//
// # Time
//
// Lives cross this border as durations that are left, never as points in
// time: instances do not share a clock. A Tier judges lives by its server's
// clock.
package remote
