// Package load sends HTTP requests on a schedule and measures their latencies.
//
// # Schedule
//
// With an [Options.Rate] the load is an open model: the intended start of
// request n depends only on n, and the latency counts from the intended start,
// not from the moment when a connection was free. If the target stalls for a
// second, the latencies include that wait for every request of the schedule in
// that second. A generator that waits for answers would not send those requests
// at all (coordinated omission). The requests of the schedule left at the end are
// reported as [Result.Unsent].
//
// Without a rate the load is a closed model: Concurrency requests run at any
// time, and the latency counts from the sending.
//
// # Changes
//
// [Running.Set] changes rate and concurrency of a running load. Requests due before the
// change keep their intended start, so a change hides no wait. The other requests
// follow at the new rate. A pause stops the schedule: no request becomes due while it
// is paused.
//
// # Keys
//
// Requests come in groups that start at the same moment and have the same key,
// 0 to Cardinality-1 in turn. The key replaces every {i} in path, query, header
// values and body. If there is no {i}, the key is appended to the query
// parameter name. If there is no such parameter, the key becomes a new query
// parameter i.
package load
