package agreement_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/flate"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// TestStatsCountWhatCompressionLeaves: values stored in a shorter form, and values stored as
// they are, by single loads, batches and Set. A value that comes from L2 is not counted again.
func TestStatsCountWhatCompressionLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier := stratatest.NewTier()
		pages := func() *strata.Cache[string, string] {
			return lab.NewCache(t, func(o *strata.Options[string, string]) {
				o.Remote.Tier, o.Remote.Codec = tier, codec.WithName(codec.Compressed(codec.String(), 100, flate.New()), "pages")
				o.Loader = func(_ context.Context, key string) (string, error) { return strings.Repeat(key, 100), nil }
			})
		}
		c := pages()
		if v, err := c.GetOrLoad(t.Context(), "a", nil); len(v) != 100 || err != nil {
			t.Fatalf("%q, %v", v, err)
		}
		lab.Must(t, c.Set(t.Context(), "b", "short"))
		if _, err := c.GetMany(t.Context(), []string{"c", "d"}, nil); err != nil {
			t.Fatal(err)
		}
		lab.Must(t, c.Set(t.Context(), "e", "short, too"))
		if s := c.Stats(); s.Compressed != 3 || s.StoredRaw != 2 {
			t.Errorf("%d compressed, %d raw", s.Compressed, s.StoredRaw)
		}
		other := pages()
		for _, key := range []string{"a", "b", "c"} {
			if _, err := other.GetOrLoad(t.Context(), key, nil); err != nil {
				t.Fatal(err)
			}
		}
		if s := other.Stats(); s.Compressed != 0 || s.StoredRaw != 0 || s.Loads.Total() != 0 {
			t.Errorf("values of L2: %d compressed, %d raw, %d loads", s.Compressed, s.StoredRaw, s.Loads.Total())
		}
	})
}
