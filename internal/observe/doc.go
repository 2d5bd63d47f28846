// Package observe is for people and programs that look at a running program: numbers, events,
// hooks and traces. Every package may call it, so it calls only package remote.
//
// Its files tell, each of one thing:
//
//   - callback.go: runs the functions of the program that a cache only reports to: its hooks, the
//     handler of its log, its tracer
//   - tracing.go: runs commands of clients within a Trace, and says for which cache they are
//   - histogram.go: durations and sizes in buckets of doubling width
//   - journal.go: the last events of a cache: lines of its log, and numbers of invalidations
//   - health.go, serverhealth.go: which changes of health become a line of the log, for all
//     caches of a client
//   - hotkeys.go, sketch.go: the keys with most reads, and those whose loads take longest, in
//     little memory
//   - panel.go: the needs of package admin beside its public methods, without the types of keys
//     and values
//   - peerquery.go: one instance asks all others for the state of a key, over the bus
//   - program.go: tells which program this is, and of which version the module strata in it
//
// Rooms:
//
//   - metrics: the metrics of caches and clients, for packages prometheus and otel; it
//     alone knows package strata
//   - page: the common part of all pages: the requests that they answer, streams of
//     events, bounds of requests, the style sheet, charts
package observe
