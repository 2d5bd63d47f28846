package memory_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/strata-cache/strata/memory"
)

const benchKeys = 1 << 14

// benchOrder returns string keys in Zipf order, s = 1.01.
func benchOrder() []string {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.01, 1, benchKeys-1)
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = "user:" + strconv.FormatUint(z.Uint64(), 10)
	}
	return keys
}

// BenchmarkGet measures a hit for -cpu goroutines, including taking the key
// from a slice.
func BenchmarkGet(b *testing.B) {
	c := mustNew(b, memory.Options[string, int]{MaxEntries: 2 * benchKeys, TTL: time.Hour})
	keys := benchOrder()
	for i, k := range keys {
		c.Set(k, i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.Int(); pb.Next(); i++ {
			if _, ok := c.Get(keys[i&(len(keys)-1)]); !ok {
				panic("missed")
			}
		}
	})
}

// BenchmarkGetByPolicy is BenchmarkGet for each policy.
func BenchmarkGetByPolicy(b *testing.B) {
	keys := benchOrder()
	for _, p := range everyPolicy() {
		b.Run(p.String(), func(b *testing.B) {
			c := mustNew(b, memory.Options[string, int]{MaxEntries: 2 * benchKeys, TTL: time.Hour, Policy: p})
			for i, k := range keys {
				c.Set(k, i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for i := rand.Int(); pb.Next(); i++ {
					if _, ok := c.Get(keys[i&(len(keys)-1)]); !ok {
						panic("missed")
					}
				}
			})
		})
	}
}

// BenchmarkSet measures a Set with a TTL; half of the keys are present.
func BenchmarkSet(b *testing.B) {
	c := mustNew(b, memory.Options[int, int]{MaxEntries: benchKeys, TTL: time.Hour})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			k := rand.IntN(2 * benchKeys)
			c.Set(k, k)
		}
	})
}

// BenchmarkCompute measures an increment without contention on the key.
func BenchmarkCompute(b *testing.B) {
	c := mustNew(b, memory.Options[int, int]{MaxEntries: benchKeys})
	b.ReportAllocs()
	add := func(n int, _ bool) (int, memory.Op) { return n + 1, memory.Store }
	b.RunParallel(func(pb *testing.PB) {
		k := rand.Int()
		for pb.Next() {
			c.Compute(k, add)
		}
	})
}
