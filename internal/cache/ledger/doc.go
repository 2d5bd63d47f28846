// Package ledger records how far an instance has followed the drops of its
// tier, and judges by it which entries of L1 may be served.
//
// Every entry has a stamp: the generation at the registration of its flight,
// before anything was read. An event that concerns many entries sets a watermark,
// and then raises the generation to it. So a hit compares its stamp with the
// generation and with nothing else. An entry with an older stamp is judged by the
// watermarks, and if it is valid it gets the generation as its new stamp.
//
//	valid    no watermark concerns it: it is served
//	stale    older than an expiry of everything or of its tag: served in a window
//	suspect  older than a loss in its lane: L2 must confirm it
//	invalid  older than an invalidation of everything or of its tag: absent
//
// Invariant: an entry registered before a drop of everything, of its lane or of
// its tag is not valid once the drop has arrived or is known to be lost.
//
// # Lost messages
//
// The drops of one lane have an order, and each message names the version of its
// lane before and after the drop. A lost message shows in the next message of the
// lane: it does not start from the version known here. If no other message
// follows, the loss shows in the digest of all lane versions, which instances send
// each other in heartbeats. Messages arrive in the order of the drops, so an
// instance has passed through every published digest if it missed no message.
// After a gap the lane versions of the tier are compared with those known here. In
// each case only the differing lanes become suspect.
//
// # The link to the bus
//
// A [Link] knows whether messages arrive, finds lost messages, and ends the use of L1 while
// nothing arrives.
//
//	            the bus has subscribed         the tier's position is known
//	silent ──────────────────────────► joining ──────────────────────────► connected
//	  ▲                                   ▲ │                                  │
//	  │                nothing came for 3 s,│ L2's breaker opens, a loss the   │
//	  │                tier does not explain└───────────────────────────────────┤
//	  └───────────────────── Gap: the subscription has ended ──────────────────┘
//
// Invariant: while the link is connected, each announced drop is applied, or its
// lane becomes suspect within seconds. In the other states, L1 is used for
// Options.Patience after the first message that may be lost, and no longer.
//
// In the connected state one instance of the cluster sends a heartbeat
// ([remote.Beat]) each second, or every three seconds over a bus that checks
// itself, with a digest of how far the tier's drops have come. An instance has
// passed through every published digest if it missed no message; an unknown
// digest means a lost message. The instance then asks the tier for the versions
// of all lanes: a lane is suspect if no message explains its version within a
// second. After a gap the versions are compared at once. In the other states, when the
// tier does not answer, an instance counts messages as lost if they have not brought it to an unknown
// digest within a second.
package ledger
