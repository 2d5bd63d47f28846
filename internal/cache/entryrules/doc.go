// Package entryrules decides which stores are allowed under one key of a cache that
// several instances share. [Decide] takes the [State] of the key, an
// [Operation] and the time, and returns the next State and an [Answer]. It is
// pure: it keeps nothing, does no I/O and reads no clock.
//
// Three stores carry its decisions out: internal/redis/layout in Redis, by
// WATCH and MULTI, remote/castier in items that are compared and swapped, and
// stratatest.Tier in memory. The Lua scripts in
// internal/redis/layout/lua decide the same on their own; tests in the module
// test compare them with Decide on a real Redis.
//
// # The states of an entry
//
// A key has a value and a lease for each value type (schema), and one token and
// one hold for all of them. Each of the four is there or not, and runs out by
// time. A part stays past its end, until it is replaced or the whole key is
// forgotten, at [State].Until:
//
//	part    while it lasts                            when it has run out
//	value   fresh, then stale: by time, or by a       absent
//	        soft drop of the key or of everything
//	lease   its holder may store; other callers       its holder may still store, and the
//	        are told to wait                          next caller takes it over
//	token   its holder may store, even during a hold  worth nothing
//	hold    no lease is given                         leases are given
//
// The effects of the operations on the slot of their own schema, on the slots of
// the others, on the token and on the hold:
//
//	operation           own slot                others        token      hold     announced
//	Acquire             lease given             –             –          –        –
//	Put under a lease   value stored, lease     –             –          –        ended, if awaited
//	                    used up
//	Put with Drops      the same                gone          –          –        dropped
//	Put under a token   value stored, lease     gone          used up    –        dropped
//	                    gone
//	Put under a quiet   the same                gone          used up    –        dropped
//	token
//	the same, refused   gone if a token is      like own      –          –        dropped
//	                    there, else kept
//	                    unless soft
//	Extend              value with new lives,   –             –          –        ended, if awaited
//	                    lease used up
//	Drop                gone                    gone          gone, or   longer   dropped
//	Drop, soft          value stale, lease gone like own      gone, or   longer   expired
//	                                                          a new one
//	the same with a     gone                    gone          like that  longer   expired
//	token there
//	Drop, quiet         –                       –             a new one  –        –
//	Release             lease gone              –             –          –        ended, if awaited
//	Renew               lease longer            –             –          –        –
//
// # Invariant
//
// A value is stored only under a right (a lease or a token) given after the last
// drop of the key, and a right stores once. So a value loaded before a drop is
// never stored after it.
package entryrules
