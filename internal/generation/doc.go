// Package generation keeps what an instance knows of how far drops have come, and
// judges by it which entries of L1 may still be served.
//
// Every entry carries a stamp: the [Ledger]'s word from when its flight was
// registered, before anything was read. Whatever takes trust away from some
// entries sets a floor and then raises the word to it, so that a hit compares
// its stamp with one word and nothing else. Only an entry with an older stamp
// is judged by the floors: what was disowned is absent for every purpose, what
// is suspect must be confirmed by the tier, what was expired is stale. If none
// of that concerns it, it gets the newer stamp.
//
// # Finding out what was missed
//
// Drops have an order within a lane, and every message names the lane's word
// before and after its drop. So a message that was lost shows when the next one
// of its lane does not go on from the word that is known here. A lost message
// that nothing follows shows in the digest of all words, which instances send
// each other: pub/sub keeps the order of drops, so the digest of a state of the
// tier is one that every instance has had itself, if it has missed nothing.
// After a gap the words of the tier are compared with those known here. In each
// case only the lanes that moved are suspect.
package generation
