// Package ring says which server of a fleet of memcached a key belongs to. It does so
// exactly as other clients do, so that a fleet can be shared with them.
//
// The modes of ketama are consistent hashing (Karger et al., "Consistent Hashing and
// Random Trees", 1997) in the form of libketama: each server has points on a circle of
// 2³² places, and a key belongs to the server of the first point that is not before
// its own. Jump is Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash
// Algorithm", 2014.
package ring
