package memcached_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
)

// TestTierStoresNothingByANumberThatBeganAgain restarts the server while the write of a
// value is on its way. Another instance has by then taken the lease of the key, and its
// item has the CAS number that the server gave to the first.
func TestTierStoresNothingByANumberThatBeganAgain(t *testing.T) {
	for _, name := range []string{"1.6.38", "1.6.40"} {
		t.Run(name, func(t *testing.T) {
			var onWrite atomic.Pointer[func()]
			change := func(s *fakes.Memcached, _ *memcached.Options) {
				s.Generation = generations[name]
				s.Gate = func(_ *fakes.MemcachedSession, c *meta.Command) bool {
					if c.Name == "ms" && c.Flags.Has('C') {
						if f := onWrite.Swap(nil); f != nil {
							(*f)()
						}
					}
					return false
				}
			}
			fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
				late := memcached.NewTier(c).Bind(remote.Space{Name: "n", Instance: 1})
				lease := acquire(t, late)
				restart := func() {
					s.Forget()
					other, err := memcached.New(memcached.Options{DialContext: s.Dial})
					if err != nil {
						t.Error(err)
						return
					}
					defer other.Close()
					acquire(t, memcached.NewTier(other).Bind(remote.Space{Name: "n", Instance: 2}))
				}
				onWrite.Store(&restart)
				refused, err := late.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("late"), Fresh: time.Hour, Left: time.Hour, Lease: lease}})
				if err != nil || len(refused) != 1 {
					t.Errorf("refused %v, %v", refused, err)
				}
				if held, err := late.Get(t.Context(), []string{"k"}); err != nil || !held[0].Absent() {
					t.Errorf("%+v, %v", held, err)
				}
			})
		})
	}
}

// acquire returns the lease of a key that has no value.
func acquire(t *testing.T, tier remote.Tier) remote.Lease {
	t.Helper()
	a, err := tier.Acquire(t.Context(), []remote.Request{{Key: "k"}}, time.Minute)
	if err != nil || a[0].Lease.Grant != remote.Granted {
		t.Fatalf("%+v, %v", a, err)
	}
	return a[0].Lease
}

// TestOwnNumbersAreKnownByTheirSize looks at the numbers sent. A smaller one would count as
// a number of the server, and be bound to the connections of its reader.
func TestOwnNumbersAreKnownByTheirSize(t *testing.T) {
	var sent, small atomic.Int64
	change := func(s *fakes.Memcached, _ *memcached.Options) {
		s.Generation = fakes.V1638
		s.Gate = func(_ *fakes.MemcachedSession, c *meta.Command) bool {
			if n, ok := c.Flags.Uint('E'); ok && c.Name == "ms" {
				if sent.Add(1); n < 1<<63 {
					small.Add(1)
				}
			}
			return false
		}
	}
	fake(t, change, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
		tier := memcached.NewTier(c).Bind(remote.Space{Name: "n", Instance: 1})
		put := []remote.Put{{Key: "k", Data: []byte("v"), Fresh: time.Hour, Left: time.Hour, Lease: acquire(t, tier)}}
		if refused, err := tier.Put(t.Context(), put); err != nil || len(refused) > 0 {
			t.Fatalf("refused %v, %v", refused, err)
		}
	})
	if sent.Load() != 2 || small.Load() > 0 {
		t.Errorf("%d of %d own numbers are small", small.Load(), sent.Load())
	}
}
