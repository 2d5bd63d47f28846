package hotkeys

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/observe/panel"
)

// Keys counts the hottest keys of a cache while they are watched; otherwise a read or a load costs
// one look at a pointer. Its zero value counts nothing. It is safe for concurrent use.
type Keys[K comparable] struct {
	counting atomic.Pointer[Counting[K]] // nil while nothing is counted

	starting sync.Mutex // guards the begin and the end of counting
	sample   func(func(key K, number uint64))
}

// Watch counts for a minute from now on. sample takes a function to call for one in 64 reads, with
// a number of the read; sample(nil) ends the calls.
func (k *Keys[K]) Watch(sample func(func(key K, number uint64))) { k.watch(sample) }

func (k *Keys[K]) watch(sample func(func(key K, number uint64))) *Counting[K] {
	k.starting.Lock()
	defer k.starting.Unlock()
	n := k.counting.Load()
	if n == nil {
		n = newCounting[K]()
		k.sample = sample
		k.counting.Store(n)
		sample(func(key K, number uint64) {
			if !n.sampled(key, number) {
				k.stop(n)
			}
		})
	}
	n.watch()
	return n
}

// Hot is Watch, and returns the hottest keys of the last five to ten minutes, as far as they were
// watched. name returns the name of a key; without it hashes stand for keys.
func (k *Keys[K]) Hot(sample func(func(key K, number uint64)), name func(key K) (string, error)) panel.Hot {
	return k.watch(sample).hot(name)
}

// stop ends the counting of n.
func (k *Keys[K]) stop(n *Counting[K]) {
	if k.starting.TryLock() { // else keys are watched from this moment on
		defer k.starting.Unlock()
		if k.counting.CompareAndSwap(n, nil) {
			k.sample(nil)
		}
	}
}

// Read counts a read that sample of Watch does not see: as seldom as other reads are counted.
func (k *Keys[K]) Read(key K) {
	if n := k.counting.Load(); n != nil && !n.read(key) {
		k.stop(n)
	}
}

// Load counts a load of key that took so long.
func (k *Keys[K]) Load(key K, took time.Duration) {
	if n := k.counting.Load(); n != nil {
		n.load(key, took)
	}
}
