// Package wire is about connections, for any protocol: their [Limits], the receiving
// [Buffer] of a connection, a [Spool] for values of unknown length before they are sent, and
// [LargeKeys], which remembers the keys with large values. [CheckQuery] and others parse the parts
// that URLs of all servers have in common.
//
// Rooms:
//
//   - pool: connections: dialling, pooling, conversations of many commands; knows no
//     protocol
//   - mux: the shared connection: one connection of a pool for all callers
//   - overdue: whether a caller's time is over, also before its timer has run
package wire
