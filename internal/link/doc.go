// Package link keeps an instance's link to its bus: whether it is connected,
// what it has missed, and what becomes of L1 while nothing is heard.
//
//	            Connected           position known
//	silent ───────────────► joining ───────────────► connected
//	  ▲                        │                         │
//	  └────────────────────────┴──── Gap, or nothing ────┘
//	                                 heard for 3 s
//
// While it is connected, one instance of the cluster sends a [remote.Beat] each
// second, or every three over a bus that checks itself, with a digest of how far
// the tier's drops have come. An instance that has never been at a position with this
// digest has missed something, and asks the tier for the words of all lanes: those that
// nobody tells of within a second are suspect. After a gap the words are compared
// at once.
package link
