// Package flight lets callers that miss the same key share one load, and
// decides whether what the load brings may be stored.
//
// A [Flight] is registered before anything is read, lands once, and is joined
// by everyone who asks in between. It runs on a context that no caller owns:
// a caller that leaves takes nothing from the others. A [Group.Fence] takes
// the right to store from the running flights of a key and makes them
// unjoinable, in the same critical section in which the caller drops the
// stored entry; [Group.Land] checks that right and inserts in one critical
// section too. So nothing that was begun before a fence is stored after it.
//
// Flights know who waits for whom. A loader that asks for a key whose flight,
// directly or through others, waits for that loader gets [ErrRecursive]
// instead of waiting for ever.
package flight
