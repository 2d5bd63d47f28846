// Package castier is a remote.Tier over any database that can compare and swap single items:
// DynamoDB, etcd, NATS KV, a table of Postgres, memcached, a map. A program implements [Store],
// which has two methods, and passes it to [New]; stratatest.TestStore and stratatest.TestTier
// check the result.
//
// A Store may be more: a [Clock], a [Counter], a [Toucher]. Each is an interface with a sentence
// on a Tier without it. A [Fleet] is several servers. Instances with a Tier of this package need
// no bus. Without one, an instance serves its own entries until Memory.TTL is over, learns of a
// DropAll within a second, and waits for the lease of another by asking again.
//
// # Items
//
// An item has the whole state of one key: values of all schemas, leases, the token and the
// hold. With a Toucher, a large value has an item of its own, and the state has its number.
// A change reads the item, decides, and writes the result under the version that it read; if another
// client was first, it begins again.
//
//	item              on the server of     holds
//	entry of a key    the key              the state
//	large value       the key              the value, which never changes
//	drops, expiries   each server          the number of drops of everything there
//	clock             its own              the number of drops of tags
//	recent drops      the clock            of which tags the latest of them were
//	tag               the tag              the clock at its last drops
//
// # Losses
//
// Nothing is deleted: a drop of a key writes a state without values, kept for as long as the
// hold or the token lasts. A database may still lose an item early: it evicts, restarts empty,
// or comes back after a while with the items that it had. A lost item never revives a value:
//
//   - A lost entry has no rights, so no late value is stored under it. Its lease is
//     free, so a second instance may load, and its hold is over. This is the one promise that
//     an early loss breaks: a value read from a lagging replica may be stored.
//   - A lost large value is absent, and its state gives leases.
//   - Lost counters of drops come back at random numbers, which no value has.
//   - A lost tag counts as dropped now. A store of a value, which may also meet a tag that was
//     never used, looks for it among the recent drops; those that it cannot find there may
//     have been of any tag.
//   - A lost clock comes back at the server's time in ms, times 2²². No lease
//     has a later one: that would take 2²² drops of tags in a ms. The time is known to
//     two seconds at worst. A clock lost twice within two seconds may come back too early,
//     unless an instance that saw it before counts first.
//
// A database set back, as by an old backup, brings back the values of that time: call
// DropAll afterwards.
//
// # Several servers
//
// The server of a key changes with the list of servers only, so the drop of a key reaches the
// one server that may have a value of it, or fails and is tried again. If keys moved away from a
// dead server, and back, a drop in between would miss the value that the server kept. So a dead
// server costs its keys the shared tier, and nothing else.
//
// With another list keys do move, and a server may leave and return. Each server of a new
// list counts a drop of everything before its first use: no value from before is read.
//
// Invariant: a value is stored only by a write under the version of a state in which
// internal/cache/entryrules has found its right.
package castier
