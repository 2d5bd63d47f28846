// Package flight lets callers that miss the same key share one load, and decides
// whether the result of the load may be stored.
//
// A [Flight] is registered before anything is read. Callers that ask for its key
// join it until it lands, once. It runs on a context of its own, not of a caller:
// a caller that leaves takes nothing from the others. A [Group.Fence] takes the
// right to store from the running flights of a key and makes them unjoinable, in
// the critical section in which the caller drops the stored entry. [Group.Land]
// checks that right and inserts in one critical section, too.
//
// Invariant: the result of a flight begun before a fence of its key is not stored
// after the fence, and no caller from after the fence joins the flight.
//
// The package also keeps the graph of loads that wait for each other. A loader that
// asks for a key whose flight waits for that loader, directly or through other
// flights, gets [ErrRecursive] instead of waiting for ever.
package flight
