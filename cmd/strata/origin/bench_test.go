package origin_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/strata-cache/strata/cmd/strata/origin"
)

// BenchmarkGreet measures whole queries of new names, committed and synced, by
// many callers on one temporary SQLite file.
func BenchmarkGreet(b *testing.B) {
	for _, conns := range []int{-1, 1} {
		b.Run("conns="+strconv.Itoa(conns), func(b *testing.B) {
			or, err := origin.Open(b.Context(), origin.Options{MaxConns: conns})
			if err != nil {
				b.Fatal(err)
			}
			defer or.Close()
			var n atomic.Int64
			b.SetParallelism(50)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := or.Greet(context.Background(), strconv.FormatInt(n.Add(1), 10), "ru-RU"); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
