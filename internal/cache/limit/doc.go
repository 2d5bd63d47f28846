// Package limit bounds the requests that a cache makes of an origin or a store
// that is slow or down: [Loads] bounds the loads that run at once, [Budget]
// bounds the retries, and [Breaker] stops calls to a store that does not
// answer. It bounds work in the background, too: [Background] and [Passes] start goroutines
// and wait for them; the others start none.
//
// None of them holds a lock while it waits. Times
// are nanoseconds of one monotonic clock with any zero. They may arrive in
// another order than they were measured.
package limit
