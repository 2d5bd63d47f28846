// Package strata is a cache layer for services. A read is answered from the
// memory of the process (L1), else from Redis or memcached (L2, shared by all
// instances), else by one run of a Loader for all callers and instances that wait
// for the key.
//
//	users, err := strata.New(strata.Options[string, User]{
//		Name:   "users",
//		TTL:    5 * time.Minute,
//		Remote: strata.Remote[string, User]{Tier: redis.NewTier(client), Bus: redis.NewBus(client)},
//	})
//	...
//	u, err := users.GetOrLoad(ctx, id, loadUser)
//
// The package has four nouns: [Cache], [Loader], [remote.Tier] and [remote.Bus].
// A Cache answers reads. A Loader gets a value from the origin, which is the
// database or service that owns the data. A Tier holds entries that instances
// share. A Bus carries invalidations between instances. Most programs write a
// Loader and configure the rest with [Options].
//
// # The API by task
//
// Create and close:
//   - [New]: make a Cache; all problems of the Options are one error
//   - [Cache.Close]: end loads, send pending invalidations, free L1
//
// Read:
//   - [Cache.GetOrLoad]: one value; run the Loader if no tier has it
//   - [Cache.Get]: one value, if a tier has it
//   - [Cache.GetMany]: many values, in one read of L2 and one call of a [ManyLoader] for each 500
//   - [Cache.All], [Cache.Keys], [Cache.Hottest]: the fresh entries of L1
//   - [Cache.Refresh], Options.RefreshEvery: load keys in the background
//   - Options.BatchWait: loads of single keys that come together are one call
//   - [SkipRead], [SkipReadContext]: a value loaded after the call began
//   - [AllowStale]: Get may return a stale value
//   - [NoMemory], [NoRemote]: pass one tier by
//   - [ReadInfo]: the tier and the age of a value, and whether it is stale, shared or degraded
//
// Write:
//   - [Cache.Invalidate]: drop keys on all instances, after a write to the origin
//   - [Cache.InvalidateHold]: drop keys, and store no loads for a while, for origins with lagging replicas
//   - [Cache.Update]: write to the origin and cache the result
//   - [Cache.Set], [Cache.SetMany]: cache known values
//   - [Cache.Add], [Cache.Take]: store a value only if there is none; return a value and remove it
//   - [Cache.Expire]: make keys stale, and keep the old values for failed loads
//
// Start warm:
//   - [Cache.Warm]: read keys from L2 into L1, before the first callers come
//
// Write groups of entries:
//   - [WithTags], [Load.SetTags], Options.Tags: give an entry tags
//   - [Cache.InvalidateTags], [Cache.ExpireTags]: drop or expire all entries with a tag
//   - [Cache.InvalidateAll], [Cache.ExpireAll]: drop or expire all entries
//
// Control one entry:
//   - [WithTTL], [Load.SetTTL]: its TTL, set by the call or by the Loader
//   - [WithStale], [Load.SetStale]: for how long it may be served stale
//   - [WithMemoryTTL], [Load.SetMemoryTTL]: its longest life in L1
//   - [Cache.Touch]: count as a read for Options.IdleTTL
//   - [Load.NoStore]: return a value without storing it
//   - [Loading], [LoadingKey]: the [Load] of a Loader, and of one key of a ManyLoader
//   - [Cache.Previous] with [ErrNotModified]: keep the old value, and send nothing again
//   - [ErrNotFound], [IsNotFound], [Cache.SetNotFound]: cache that the origin has no such key
//
// Observe:
//   - [Cache.Stats]: counters; [Histogram.Quantile] reads latencies
//   - [Cache.Explain]: the state of one key, and the effect of its next read
//   - [Cache.Tune]: change options at run time
//   - [Cache.Inside]: the cache for the packages admin and snapshot
//   - [Cache.Len], [Cache.Name]: the number of entries in L1, the name of the cache
//   - [Hooks]: functions called for hits, misses, loads, stores, evictions and errors
//   - [Tracer]: is told of loads, misses and invalidations as spans of traces
//   - Options.Logger: changes of health, with their causes
//   - module github.com/strata-cache/strata/prometheus: metrics for Prometheus
//   - module github.com/strata-cache/strata/otel: traces and metrics for OpenTelemetry
//   - package admin: a page of the caches; README.md leads to all pages of the guide
//
// Handle errors:
//   - [RemoteError]: L2 did not confirm a write; it is tried again
//   - [PartialError]: some keys of a GetMany failed
//   - [LoadPanicError], [ErrLoadExited], [ErrRecursiveLoad]: a Loader is wrong
//   - [ErrOverloaded], [ErrKeyTooLong]: a limit was reached
//   - [ErrClosed], [ErrNoLoader]: a call is wrong
//
// # A read
//
// A fresh entry of L1 is returned at once: no lock, no allocation, no look at
// the context. Any other read joins the flight of its key. The flight looks at
// L2. If L2 has no fresh value the flight asks L2 for a lease, so that one
// instance loads and the others wait. It runs the Loader with a context of its
// own, stores the value in L2 and then in L1, and wakes the callers. Each caller
// waits under its own context. A caller that leaves does not end the load.
//
// # A write
//
// Write to the origin first, then call [Cache.Invalidate]. The call drops the
// value in L2 and in L1 of this instance, and the bus tells the other instances.
// Every running load, on any instance, loses the right to store, so that no older value
// is stored afterwards. [Cache.Set] does the same and stores a new value.
//
// # Caveats
//
// The cache and all callers share a value. A caller that changes a map, slice or
// pointer from the cache changes it for all callers; see [Memory].Clone.
//
// A load runs with the context values of its first caller, and its value goes to
// all callers. The value must not depend on the caller.
package strata
