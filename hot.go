package strata

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/hotkeys"
	"github.com/strata-cache/strata/internal/journal"
	"github.com/strata-cache/strata/internal/panel"
)

// hot counts the hottest keys of a cache while they are asked for.
type hot[K comparable] struct {
	counting atomic.Pointer[hotkeys.Counting[K]] // nil while nothing is counted
	seed     maphash.Seed                        // of hashes that stand for keys
	starting sync.Mutex
}

// hottestKeys returns the keys with the most reads, and those whose loads take longest. It
// begins to count if that is not done.
func (c *Cache[K, V]) hottestKeys() panel.Hot {
	c.hot.starting.Lock()
	defer c.hot.starting.Unlock()
	n := c.hot.counting.Load()
	if n == nil {
		n = hotkeys.Count[K]()
		c.hot.seed = maphash.MakeSeed()
		c.hot.counting.Store(n)
		c.memory.Sample(func(key K, hits uint64) {
			if !n.Sampled(key, hits) {
				c.stopCounting(n)
			}
		})
	}
	return n.Hot(c.shownKey)
}

// stopCounting ends the counting of n.
func (c *Cache[K, V]) stopCounting(n *hotkeys.Counting[K]) {
	if c.hot.starting.TryLock() { // else keys are asked for at this moment
		defer c.hot.starting.Unlock()
		if c.hot.counting.CompareAndSwap(n, nil) {
			c.memory.Sample(nil)
		}
	}
}

// sampleMiss counts a read that L1 does not answer, with the chance of a sample, if keys are counted.
func (c *Cache[K, V]) sampleMiss(key K) {
	if n := c.hot.counting.Load(); n != nil && !n.Read(key) {
		c.stopCounting(n)
	}
}

// countLoad counts the duration of a load of key, if keys are counted.
func (c *Cache[K, V]) countLoad(key K, took time.Duration) {
	if n := c.hot.counting.Load(); n != nil {
		n.Load(key, took)
	}
}

// maxKeyText is the length of the text of a key that is shown, in bytes.
const maxKeyText = 200

// shownKey is key as text, or a hash of it if keys may not be shown.
func (c *Cache[K, V]) shownKey(key K) string {
	if !c.o.ShowKeys {
		return fmt.Sprintf("#%016x", maphash.Comparable(c.hot.seed, key))
	}
	name, err := c.nameOf(key)
	if err != nil {
		name = fmt.Sprint(key)
	}
	return journal.Line(name, maxKeyText)
}
