// Package limit bounds the requests of a cache to a slow or dead origin or store: [Loads]
// bounds the loads that run at once, [Waiters] the callers that wait for them, [Budget] bounds the
// retries, and [Breaker] stops calls to a store that does not answer. It bounds work in the background, too: [Background] and
// [Passes] start goroutines and wait for them; the others start none.
//
// None of them holds a lock while it waits. Times
// are nanoseconds of one monotonic clock with any zero. They may arrive in another order
// than the order of their measurement.
//
// # Lifetimes
//
// The time of a load is limited by contexts that end like the contexts of package context, and
// cost next to nothing if nothing looks at their end. A [Scope] is cancelled by its owner. A
// [Bound] lies in a Scope and ends after a time, too; its work has either returned by then, or is
// cut short. [Deadlines] are the ends of all running Bounds.
//
// Each makes a context of package context of itself only on demand: when its Done is
// asked for, or when a Bound ends before its work. So contexts derived from them,
// causes and context.AfterFunc work as with any other context.
package limit
