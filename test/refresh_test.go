package test

import (
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
)

// TestEarlyRefreshIsOneLoadInTheCluster has all instances notice at once that a
// value is due, while it is fresh still and no caller waits.
func TestEarlyRefreshIsOneLoadInTheCluster(t *testing.T) {
	r := servers.StartRedis(t)
	const due = 2 * time.Second
	var caches []*strata.Cache[string, int64]
	for range 3 {
		c, _ := instance(t, r, func(o *strata.Options[string, int64]) { o.TTL, o.RefreshAt = 2*due, 0.5 })
		caches = append(caches, c)
	}
	joined(t, "warm", caches[0], caches[1:]...)
	o := &counter{takes: 100 * time.Millisecond}
	o.value.Store(1)
	for _, c := range caches {
		mustGet(t, c, "k", o.load)
	}
	<-time.After(due)
	o.value.Store(2)
	begun := time.Now()
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
			// An entry from L2 becomes due by the instance's own estimate of the
			// server's clock, which may be a little late.
			return mustGet(t, c, "k", o.load) == 2
		})
	}
	most := 2 + int64(time.Since(begun)/due) // on a slow machine the new value is due too
	var refreshes uint64
	for _, c := range caches {
		refreshes += c.Stats().Refreshes
	}
	if n := o.loads.Load(); n < 2 || n > most || refreshes < 3 {
		t.Errorf("%d loads and %d refreshes on 3 instances; want 2 (%d at most), 3", n, refreshes, most)
	}
}
