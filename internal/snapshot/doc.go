// Package snapshot is the machinery of snapshots.
//
// Rooms:
//
//   - format: the format of snapshots: frames, sections, entries; knows no cache, no
//     codec and no file
//   - drops: remembers which keys, tags, or whole caches were dropped, and when, for
//     caches without a bus: an entry that comes from a snapshot is taken in only if none
//     of these drops came after its value was read
//   - transfer: the needs of package snapshot: its entries on their way out of one
//     process and into another, without the types of keys and values, and how they leave L1 and
//     enter it; and Parts, which joins the parts of a cache for the packages around it
//   - carrier: replaces a file by a whole one on disk; the HTTP request for a snapshot of another
//     instance, with a limit of the time without bytes
package snapshot
