// Package limit keeps a cache from doing harm when what it asks is slow or
// down: [Loads] bounds how many loads run at once, [Budget] how many retries
// there are, and [Breaker] stops asking a store that does not answer.
//
// None of them starts a goroutine, and none holds a lock while it waits. Times
// are nanoseconds of one monotonic clock, whatever its zero; callers that
// measured theirs in another order than they arrive do no harm.
package limit
