package bench

import (
	"context"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/viccon/sturdyc"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/memory"
)

// hitKeys is the number of keys, all of which the caches have. It is a power of two.
const hitKeys = 1 << 14

// user has methods that are loaders.
type user struct{ n int64 }

func (u *user) load(context.Context, string) (int64, error) { return u.n, nil }
func (u *user) fetch(context.Context) (int64, error)        { return u.n, nil }

func loadOne(context.Context, string) (int64, error) { return 1, nil }
func fetchOne(context.Context) (int64, error)        { return 1, nil }

// BenchmarkHit is one read, from the call to its return, of a key in the cache:
// keys in turn out of 16 384, entries with a TTL of an hour. The bare engine
// (memory) has no loader; for the others it is a plain function, a method
// value, or a closure that captures a variable, as callers write them. All rows
// alike pay for one more call, through a variable.
func BenchmarkHit(b *testing.B) {
	keys := rig.Keys(hitKeys)
	for _, h := range hits(b, keys) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			i, sum := 0, int64(0)
			for b.Loop() {
				v, err := h.get(keys[i&(hitKeys-1)])
				if err != nil {
					b.Fatal(err)
				}
				sum += v
				i++
			}
			if sum != int64(i) {
				b.Fatalf("%d hits, values sum to %d", i, sum)
			}
		})
	}
}

// BenchmarkHitParallel is BenchmarkHit on all processors at once, each with
// keys of a Zipf distribution (s=1.01), so that they meet at the popular ones.
// Drawing a key is counted, and is the same for all.
func BenchmarkHitParallel(b *testing.B) {
	keys := rig.Keys(hitKeys)
	draws := rig.Zipf(1<<16, hitKeys, 1.01, 1)
	for _, h := range hits(b, keys) {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					v, err := h.get(keys[draws[i&(1<<16-1)]])
					if v != 1 || err != nil {
						b.Errorf("value %d, error %v", v, err)
						return
					}
				}
			})
		})
	}
}

func TestEveryWayToReadHits(t *testing.T) {
	keys := rig.Keys(hitKeys)
	for _, h := range hits(t, keys) {
		for _, k := range keys {
			if v, err := h.get(k); v != 1 || err != nil {
				t.Fatalf("%s: %s: value %d, error %v", h.name, k, v, err)
			}
		}
	}
}

// hit is one way to read a key in a cache.
type hit struct {
	name string
	get  func(key string) (int64, error)
}

// hits returns the ways to compare, each on a cache with all keys, which have the value 1.
func hits(b testing.TB, keys []string) []hit {
	b.Helper()
	ctx := context.Background()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	m, err := memory.New(memory.Options[string, int64]{MaxEntries: 2 * hitKeys, TTL: time.Hour})
	must(err)
	b.Cleanup(func() { m.Close() })
	s, err := strata.New(strata.Options[string, int64]{
		TTL:    time.Hour,
		Memory: strata.Memory[string, int64]{MaxEntries: 2 * hitKeys},
	})
	must(err)
	b.Cleanup(func() { s.Close(ctx) })
	o, err := otter.New(&otter.Options[string, int64]{
		MaximumSize:      2 * hitKeys,
		ExpiryCalculator: otter.ExpiryWriting[string, int64](time.Hour),
	})
	must(err)
	b.Cleanup(func() { o.StopAllGoroutines() })
	// Room to spare: it is divided into shards that fill unevenly.
	y := sturdyc.New[int64](4*hitKeys, 64, time.Hour, 10)
	for _, k := range keys {
		m.Set(k, 1)
		must(s.Set(ctx, k, 1))
		o.Set(k, 1)
		y.Set(k, 1)
	}
	type otterLoader = otter.LoaderFunc[string, int64]
	u := &user{1} // loads return 1 as hits do, so the value alone does not tell a load from a hit
	return []hit{
		{"lib=memory/loader=none", func(k string) (int64, error) { v, _ := m.Get(k); return v, nil }},
		{"lib=strata/loader=function", func(k string) (int64, error) { return s.GetOrLoad(ctx, k, loadOne) }},
		{"lib=strata/loader=method", func(k string) (int64, error) { return s.GetOrLoad(ctx, k, u.load) }},
		{"lib=strata/loader=closure", func(k string) (int64, error) {
			return s.GetOrLoad(ctx, k, func(context.Context, string) (int64, error) { return u.n, nil })
		}},
		{"lib=otter/loader=function", func(k string) (int64, error) { return o.Get(ctx, k, otterLoader(loadOne)) }},
		{"lib=otter/loader=method", func(k string) (int64, error) { return o.Get(ctx, k, otterLoader(u.load)) }},
		{"lib=otter/loader=closure", func(k string) (int64, error) {
			return o.Get(ctx, k, otterLoader(func(context.Context, string) (int64, error) { return u.n, nil }))
		}},
		{"lib=sturdyc/loader=function", func(k string) (int64, error) { return y.GetOrFetch(ctx, k, fetchOne) }},
		{"lib=sturdyc/loader=method", func(k string) (int64, error) { return y.GetOrFetch(ctx, k, u.fetch) }},
		{"lib=sturdyc/loader=closure", func(k string) (int64, error) {
			return y.GetOrFetch(ctx, k, func(context.Context) (int64, error) { return u.n, nil })
		}},
	}
}
