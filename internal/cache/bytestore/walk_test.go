package bytestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestWalkGoesOnOverAStoreThatIsResized makes a store smaller and larger in the loop of a walk, and stores and removes other
// entries.
func TestWalkGoesOnOverAStoreThatIsResized(t *testing.T) {
	repacked := false
	for seed := range uint64(kit.Rounds(20)) {
		repacked = walkResized(t, seed) || repacked
	}
	if !repacked {
		t.Error("no walk has seen chunks of another size")
	}
}

// longOf is the value of a key in walks.
func longOf(key []byte) []byte { return bytes.Repeat(key, 12) }

// walkResized reports whether the chunks got another size on the way.
func walkResized(t *testing.T, seed uint64) (repacked bool) {
	r := rand.New(rand.NewPCG(seed, 5))
	c := made(t, 1, 2<<20)
	const keys = 12_000
	for i := range keys {
		key := fmt.Append(nil, "stays ", i)
		if c.Set(key, longOf(key), 0); r.IntN(4) == 0 {
			c.AppendGet(nil, key)
		}
	}
	seen, every, chunks := map[string]int{}, 500+r.IntN(2000), map[int64]bool{}
	for key, value := range c.All() {
		if seen[string(key)]++; !bytes.Equal(value, longOf(key)) {
			t.Fatalf("seed %d: %s has %d bytes, and not its own", seed, key, len(value))
		}
		if len(seen)%every != 0 {
			continue
		}
		if err := c.Resize(MinBudget + r.Int64N(3<<20)); err != nil {
			t.Fatal(err)
		}
		chunks[c.chunk.Load()] = true
		for range r.IntN(3000) {
			other := fmt.Append(nil, "comes ", r.IntN(4000))
			if c.Set(other, longOf(other), 0); r.IntN(2) == 0 {
				c.Delete(other)
			}
		}
	}
	for i := range keys {
		key := fmt.Append(nil, "stays ", i)
		if _, ok := c.AppendPeek(nil, key); ok && seen[string(key)] != 1 {
			t.Fatalf("seed %d: %s, which was there all the time, was seen %d times", seed, key, seen[string(key)])
		}
	}
	for key, n := range seen {
		if n > 1 && key[0] == 's' || key[:6] != "stays " && key[:6] != "comes " {
			t.Fatalf("seed %d: %s was seen %d times", seed, key, n)
		}
	}
	check(t, c)
	return len(chunks) > 1
}
