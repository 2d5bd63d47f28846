// Memory that the operations of one kind use one after the other.

package flight

import (
	"sync"
)

// Most is the largest number of elements that are kept: more are left to the collector.
const Most = 256

// Slabs lends slices of zero values. The zero Slabs has none yet. It is safe for concurrent use.
//
// Invariant: a slice in the pool is zero up to its capacity.
type Slabs[T any] struct{ pool sync.Pool } // of *[]T

// Take returns n zero values.
func (s *Slabs[T]) Take(n int) []T {
	if some, _ := s.pool.Get().(*[]T); some != nil && cap(*some) >= n {
		return (*some)[:n]
	}
	return make([]T, n)
}

// Give gives a slice back, to which nothing refers any more. The caller has used it no further than
// to its length.
func (s *Slabs[T]) Give(some []T) {
	if cap(some) > 0 && cap(some) <= Most {
		clear(some)
		s.pool.Put(&some)
	}
}

// Where returns the elements for which f reports true. If f is true for all of them it returns s
// itself.
func Where[E any](s []E, f func(E) bool) []E {
	for i, e := range s {
		if f(e) {
			continue
		}
		some := append(s[:0:0], s[:i]...)
		for _, e := range s[i+1:] {
			if f(e) {
				some = append(some, e)
			}
		}
		return some
	}
	return s
}

// AtOnce calls f for each of all, at once, and returns when all calls have returned.
func AtOnce[T any](all []T, f func(T)) {
	if len(all) <= 1 { // without goroutines, and without memory for them
		for _, one := range all {
			f(one)
		}
		return
	}
	var calls sync.WaitGroup
	for _, one := range all {
		calls.Go(func() { f(one) })
	}
	calls.Wait()
}

// Each calls f for each of all, also for those behind one for which f ends the goroutine.
func Each[T any](all []T, f func(T)) {
	next := 0
	defer func() {
		if next < len(all) {
			Each(all[next:], f)
		}
	}()
	for next < len(all) {
		next++
		f(all[next-1])
	}
}
