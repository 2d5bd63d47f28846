package histogram

import (
	"math/rand/v2"
	"testing"
)

func TestMissesAndForeignValuesAreDisjointAndNeverFall(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var d Disjoint
		var misses, foreign, rest, counted uint64
		for range 50 {
			before, beforeCounted := rest, counted
			misses, foreign = misses+r.Uint64N(4), foreign+r.Uint64N(3)
			seen := misses - min(misses, r.Uint64N(2)) // a scrape overtaken by a later one
			rest, counted = d.Split(seen, foreign)
			if rest < before || counted < beforeCounted || rest+counted > misses || rest+counted < seen || counted > foreign {
				t.Fatalf("%d misses and %d foreign values: from %d, %d to %d, %d", misses, foreign, before, beforeCounted, rest, counted)
			}
		}
		if rest, counted = d.Split(misses+foreign, foreign); counted != foreign || rest != misses {
			t.Fatalf("%d of %d foreign values are counted, %d other misses of %d", counted, foreign, rest, misses)
		}
	}
}
