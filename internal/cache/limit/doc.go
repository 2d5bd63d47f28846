// Package limit bounds the requests of a cache to a slow or dead origin or store: [Loads]
// bounds the loads that run at once, [Waiters] the callers that wait for them, [Budget] bounds the
// retries, and [Breaker] stops calls to a store that does not answer. It bounds work in the background, too: [Background] and
// [Passes] start goroutines and wait for them; the others start none.
//
// None of them holds a lock while it waits. Times
// are nanoseconds of one monotonic clock with any zero. They may arrive in another order
// than the order of their measurement.
package limit
