// Package link keeps an instance's link to its bus: it knows whether messages
// arrive, finds lost messages, and ends the use of L1 while nothing arrives.
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
// second. After a gap the versions are compared at once.
package link
