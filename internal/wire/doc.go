// Package wire is about connections, whatever they carry.
//
// Rooms:
//
//   - pool: connections: dialling, pooling, conversations of many commands; knows no
//     protocol
//   - mux: the shared connection: one connection of a pool for all callers
//   - readbuf: the receiving buffer of a connection: strings and frames, in memory that
//     follows the bytes; knows no protocol
//   - spool: values of unknown length, before they are sent
//   - largekeys: which keys have large values
//   - endpoint: the parts that URLs of all servers have in common
//   - overdue: whether a caller's time is over, also before its timer has run
package wire
