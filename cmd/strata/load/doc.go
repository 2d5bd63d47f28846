// Package load sends HTTP requests on a schedule and measures how long they
// take.
//
// # Schedule
//
// With a [Options.Rate] the load is an open model: request n has an intended
// start that depends on nothing but n, and its latency is counted from there,
// not from the moment at which a connection was free to send it. A target that
// stalls for a second is therefore charged with the second that every request
// of that time had to wait, including those that a generator that waits for
// answers would never have sent (coordinated omission). What is left of the
// schedule when the time is over is reported as [Result.Unsent].
//
// Without a rate the load is a closed model: Concurrency requests are under
// way at any time, and latency is counted from the sending.
//
// # Keys
//
// Requests come in groups that start at the same moment and ask for the same
// key, 0 to Cardinality-1 in turn. The key takes the place of every {i} in
// path, query, header values and body. Where there is none it is appended to
// the query parameter name, and if there is none either it becomes a query
// parameter i of its own.
package load
