package bytestore

import (
	"fmt"
	"testing"
)

func BenchmarkGet(b *testing.B) {
	c := newStore(b, 64<<20)
	var keys [][]byte
	for i := range 100_000 {
		keys = append(keys, []byte(fmt.Sprintf("user:%06d", i)))
		c.Set(keys[i], make([]byte, 64), 0)
	}
	b.Run("hit", func(b *testing.B) {
		var buffer []byte
		for i := 0; b.Loop(); i++ {
			buffer, _ = c.AppendGet(buffer[:0], keys[i%len(keys)])
		}
	})
	b.Run("update", func(b *testing.B) {
		value := make([]byte, 64)
		for i := 0; b.Loop(); i++ {
			c.Set(keys[i%len(keys)], value, 0)
		}
	})
	b.Run("new", func(b *testing.B) {
		value := make([]byte, 64)
		key := make([]byte, 8)
		for i := 0; b.Loop(); i++ {
			for j := range 8 {
				key[j] = byte(i >> (8 * j))
			}
			c.Set(key, value, 0)
		}
	})
}
