// Package snapshot starts a new instance warm: it writes the entries of caches to a file
// or a stream, and reads them into the caches of another process.
//
// There are two modes. A snapshot of keys has the hottest keys alone: [SaveKeys] writes
// it, and [WarmKeys] reads the keys from L2. It needs an L2, holds no values, fits every
// version of the program, and brings back no dropped value. A snapshot of values
// has the entries with their lives: [Save] and [Load] write and read files, [Handler]
// serves the entries of a running instance, and [Pull] takes them over before a new
// instance listens.
//
//	mux.Handle("/debug/snapshot", snapshot.Handler(snapshot.HandlerOptions{Authorize: isPeer}, users, products))
//	…
//	report, err := snapshot.Pull(ctx, "http://10.0.0.7:8080/debug/snapshot", snapshot.Options{}, users, products)
//
// An entry is taken in only if no drop of its key can have been missed. A cache without L2
// and bus remembers its drops, and a snapshot passes them on: no value comes back if a
// drop came after its read. This holds for drops by this cache, and by the caches that
// wrote the loaded files, in any order of the loads. A cache with L2 compares the
// positions of both instances in the drops that they share; an entry that this does not
// cover is read from L2, and without an L2 it stays absent. Entries in L1 are never
// replaced, and none is pushed out.
//
// A program can start in spite of an error of Load, WarmKeys, Read or Pull: the entries
// before it are in use, and the others are loaded by their first readers. Sections of caches
// with another type of values or another codec, or of another service, are passed over, and
// the [Report] says so. The Report also counts the entries of a cache that its snapshot lacks.
//
// Cache names match the caches of two processes: Options.Name must be set and the same.
// Every key needs a name. Strings, integers and types with MarshalText and UnmarshalText have
// one; other key types need Remote.Key and Remote.ParseKey. Values need a Remote.Codec or the
// default one.
//
// A snapshot of values holds the data of the cache. Keep its file, and the handler's URL,
// as safe as the origin. Its checksums find damage, not forgery: load snapshots only from
// places that may write to the cache.
//
// docs/snapshot-format.md describes the format.
package snapshot
