package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/memory"
)

// TestFunctionsThatAreStuckHarmNoOtherCaller blocks Weigh, OnEvict and the function of a
// Compute, each for one key, while others use the cache, also the same keys.
func TestFunctionsThatAreStuckHarmNoOtherCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := mustNew(t, memory.Options[int, int]{
			MaxWeight: 100, TTL: time.Hour,
			Weigh: func(key, value int) int64 {
				if key == 1 && value == -1 {
					<-release
				}
				return 1
			},
			OnEvict: func(key, _ int, why memory.Reason) {
				if key == 2 && why == memory.Deleted {
					<-release
				}
			},
		})
		for key := range 5 {
			c.Set(key, key)
		}
		go c.Set(1, -1)
		go c.Delete(2)
		go c.Compute(3, func(int, bool) (int, memory.Op) {
			<-release
			return -3, memory.Store
		})
		synctest.Wait()
		if v, ok := c.Get(1); v != 1 || !ok {
			t.Errorf("while its new value is weighed, key 1 has %d, %v", v, ok)
		}
		if _, ok := c.Get(2); ok {
			t.Error("key 2 was not deleted while OnEvict runs")
		}
		for i := range 10_000 {
			if key := i % 300; !c.Set(key, i) {
				t.Fatalf("key %d was not stored", key)
			}
			if c.Weight() > 100 {
				t.Fatalf("weight %d", c.Weight())
			}
		}
		c.Set(3, 33)
		close(release)
		synctest.Wait()
		if v, ok := c.Get(3); v != -3 || !ok {
			t.Errorf("a Compute that was stuck has left %d, %v", v, ok)
		}
		if v, ok := c.Get(1); v != -1 || !ok {
			t.Errorf("a Set that was stuck has left %d, %v", v, ok)
		}
	})
}
