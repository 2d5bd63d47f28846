package slab

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
