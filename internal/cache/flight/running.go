// The running flights of a shard: a hash table whose chains run through the flights
// themselves, so that a flight costs no memory and no look-up in a map to come and go. Three
// maps, one for each kind, took 4 of 100 ns of a miss.
//
// Invariant: a flight is in the table from its registration until it has landed. A key that does
// not equal itself, such as a NaN, is never found, and leaves the table as others do.

package flight

import "iter"

// leastChains is the smallest number of chains of a table that is in use; a power of two.
const leastChains = 8

// running is a table of flights. The zero running is empty. The mutex of the shard guards it.
type running[K comparable, V any] struct {
	chains []*Flight[K, V] // their first flights; a power of two, or none
	n      int
}

// place is the place of a flight among the running flights of its shard. The shard's
// mutex guards it.
type place[K comparable, V any] struct {
	next, previous *Flight[K, V]
	hash           uint64
	joinable       [kinds]bool // callers of these kinds may join it
}

// isJoinable reports whether callers of any kind may join the flight.
func (p *place[K, V]) isJoinable() bool { return p.joinable != [kinds]bool{} }

// chain returns the place of the first flight among those with hash.
func (r *running[K, V]) chain(hash uint64) **Flight[K, V] {
	return &r.chains[hash>>shardBits&uint64(len(r.chains)-1)]
}

// enter puts f, which has its hash, into the table.
func (r *running[K, V]) enter(f *Flight[K, V]) {
	if r.n >= len(r.chains) {
		r.resize(max(leastChains, 2*len(r.chains)))
	}
	r.n++
	r.link(f)
}

func (r *running[K, V]) link(f *Flight[K, V]) {
	first := r.chain(f.hash)
	if f.next = *first; f.next != nil {
		f.next.previous = f
	}
	*first = f
}

// exit undoes enter.
func (r *running[K, V]) exit(f *Flight[K, V]) {
	if f.next != nil {
		f.next.previous = f.previous
	}
	if f.previous != nil {
		f.previous.next = f.next
	} else {
		*r.chain(f.hash) = f.next
	}
	f.next, f.previous = nil, nil
	if r.n--; len(r.chains) > leastChains && r.n <= len(r.chains)/8 {
		r.resize(len(r.chains) / 2)
	}
}

// resize spreads the flights over n chains.
func (r *running[K, V]) resize(n int) {
	old := r.chains
	r.chains = make([]*Flight[K, V], n)
	for _, f := range old {
		for f != nil {
			next := f.next
			f.previous = nil
			r.link(f)
			f = next
		}
	}
}

// all iterates over all flights. They may be changed meanwhile, not removed.
func (r *running[K, V]) all() iter.Seq[*Flight[K, V]] {
	return func(yield func(*Flight[K, V]) bool) {
		for _, f := range r.chains {
			for ; f != nil; f = f.next {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// of iterates over the flights of key that callers of any kind may join.
func (r *running[K, V]) of(key K, hash uint64) iter.Seq[*Flight[K, V]] {
	return func(yield func(*Flight[K, V]) bool) {
		if r.n == 0 {
			return
		}
		for f := *r.chain(hash); f != nil; f = f.next {
			if f.hash == hash && f.isJoinable() && f.Key == key && !yield(f) {
				return
			}
		}
	}
}

// find returns the flight of key that callers of that kind join; nil if there is none.
func (r *running[K, V]) find(kind Kind, key K, hash uint64) *Flight[K, V] {
	if r.n == 0 {
		return nil
	}
	f := *r.chain(hash)
	for f != nil && (!f.joinable[kind] || f.hash != hash || f.Key != key) {
		f = f.next
	}
	return f
}
