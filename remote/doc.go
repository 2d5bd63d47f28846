// Package remote is the interface between a cache and the services that its
// instances share: a [Tier] stores sealed values, a [Bus] carries messages. A
// program that uses strata with Redis does not need this package. For another
// store that compares and swaps items, package castier makes a Tier of two
// methods; for others, implement Tier. stratatest.TestTier checks both.
//
// # Responsibilities
//
// The cache seals and opens envelopes, chooses lives, and runs loads. A Tier
// keeps bytes under keys and decides whether a value may be stored. It decides
// by leases and tokens: every value in a Tier was stored under a [Lease] that
// no drop has voided in between. This rule is the fence between instances. By
// it no instance stores a value from before an invalidation, although the
// instances do not know each other.
//
// # Time
//
// Lives are passed as remaining durations, never as points in time, because
// instances do not share a clock. A Tier judges lives by the clock of its
// server.
//
// # Abilities
//
// Every Tier has all methods of [Tier]. Stores differ in six abilities, which
// are interfaces of their own, each with a sentence on a cache without it:
// [Binder] (shared by several caches), [Tagger] (drops of tags), [Announcer]
// (positions, and drops that the store announces itself), [Mover] (servers that
// take over from each other), [Fleet] (several servers, each with some of the keys),
// [Prober] (warnings about settings of the server).
//
// A cache looks for abilities once, with [As], and takes its part of the Tier
// with [Bind]. Both see through a [Wrapper]: a Tier around a Tier that counts,
// delays or traces operations. A wrapper embeds the Tier inside and has two
// methods of one line, Unwrap and Wrap.
package remote
