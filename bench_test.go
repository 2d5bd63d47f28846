package strata_test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/memory"
)

const benchKeys = 1 << 14

func benchNames() []string {
	keys := make([]string, benchKeys)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(i)
	}
	return keys
}

// answers is an origin with one value for every key, for the method value.
type answers struct{ n int64 }

func (a *answers) load(context.Context, string) (int64, error) { return a.n, nil }

func plainLoad(context.Context, string) (int64, error) { return 1, nil }

// BenchmarkHit compares a hit of GetOrLoad with one of memory.Cache.Get, which
// is the bare engine: a call to its return, keys drawn in turn from 16 384 that
// are all in L1. The loader is passed as a plain function, as a method value
// and as a closure that captures a variable; the latter two cost their caller
// an allocation unless they are made once.
func BenchmarkHit(b *testing.B) {
	ctx := context.Background()
	keys := benchNames()
	m, err := memory.New(memory.Options[string, int64]{MaxEntries: 2 * benchKeys})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	c, err := strata.New(strata.Options[string, int64]{TTL: strata.NoExpiry, Memory: strata.Memory[string, int64]{MaxEntries: 2 * benchKeys}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(ctx)
	for _, k := range keys {
		m.Set(k, 1)
		if err := c.Set(ctx, k, 1); err != nil {
			b.Fatal(err)
		}
	}
	type way struct {
		name string
		get  func(key string) int64
	}
	var ways []way
	run := func(name string, get func(key string) int64) {
		ways = append(ways, way{name, get})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i, sum := 0, int64(0)
			for b.Loop() {
				sum += get(keys[i%benchKeys])
				i++
			}
			if sum != int64(i) {
				b.Fatalf("%d hits, values sum to %d", i, sum)
			}
		})
	}
	run("memory", func(k string) int64 { v, _ := m.Get(k); return v })
	run("function", func(k string) int64 { v, _ := c.GetOrLoad(ctx, k, plainLoad); return v })
	a := &answers{1}
	run("method", func(k string) int64 { v, _ := c.GetOrLoad(ctx, k, a.load); return v })
	one := int64(1)
	run("closure", func(k string) int64 {
		v, _ := c.GetOrLoad(ctx, k, func(context.Context, string) (int64, error) { return one, nil })
		return v
	})
	run("get", func(k string) int64 { v, _ := c.Get(ctx, k); return v })

	// The machine is not the same from one benchmark to the next: here the
	// ways take turns, and the medians of their turns are compared.
	b.Run("ratios", func(b *testing.B) {
		took := make([][]float64, len(ways))
		for b.Loop() {
			for w := range ways {
				start := time.Now()
				for i := range 200_000 {
					ways[w].get(keys[i%benchKeys])
				}
				took[w] = append(took[w], float64(time.Since(start)))
			}
		}
		for w := range ways {
			slices.Sort(took[w])
			b.ReportMetric(took[w][len(took[w])/2]/took[0][len(took[0])/2], ways[w].name+"/"+ways[0].name)
		}
	})
}
