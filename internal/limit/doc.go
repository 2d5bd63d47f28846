// Package limit bounds the requests that a cache makes of an origin or a store
// that is slow or down: [Loads] bounds the loads that run at once, [Budget]
// bounds the retries, and [Breaker] stops calls to a store that does not
// answer.
//
// None of them starts a goroutine, and none holds a lock while it waits. Times
// are nanoseconds of one monotonic clock with any zero. They may arrive in
// another order than they were measured.
package limit
