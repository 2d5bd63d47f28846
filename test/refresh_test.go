package test

import (
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/test/internal/servers"
)

// TestEarlyRefreshIsOneLoadInTheCluster has all instances notice at once that a
// value is due, while it is fresh still and nobody waits.
func TestEarlyRefreshIsOneLoadInTheCluster(t *testing.T) {
	r := servers.StartRedis(t)
	const due = time.Second
	var caches []*strata.Cache[string, int64]
	for range 3 {
		c, _ := instance(t, r, func(o *strata.Options[string, int64]) { o.RefreshAt = due.Hours() / o.TTL.Hours() })
		caches = append(caches, c)
	}
	joined(t, "warm", caches[0], caches[1:]...)
	o := &counter{takes: 100 * time.Millisecond}
	o.value.Store(1)
	for _, c := range caches {
		mustGet(t, c, "k", o.load)
	}
	// A cache that had it from L2 has its time from there, to a millisecond.
	<-time.After(due + 50*time.Millisecond)
	o.value.Store(2)
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			if v := mustGet(t, caches[i%3], "k", o.load); v != 1 && o.loads.Load() == 1 {
				t.Errorf("read %d while 1 was fresh", v)
			}
		})
	}
	wg.Wait()
	for _, c := range caches {
		eventually(t, "the new value is served", func() bool {
			v, ok := c.Get(t.Context(), "k")
			return ok && v == 2
		})
	}
	var refreshes uint64
	for _, c := range caches {
		refreshes += c.Stats().Refreshes
	}
	if n := o.loads.Load(); n != 2 || refreshes < 3 {
		t.Errorf("%d loads and %d refreshes on 3 instances; want 2, 3", n, refreshes)
	}
}
