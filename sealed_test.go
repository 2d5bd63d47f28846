package strata_test

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// keeping is a tier that looks at stored values after its caller has left, as one
// that sends them late does.
type keeping struct {
	remote.Tier
	kept *[][2][]byte // as the tier has got them, and copies from then
}

func (k keeping) Unwrap() remote.Tier                { return k.Tier }
func (k keeping) Wrap(inner remote.Tier) remote.Tier { return keeping{inner, k.kept} }

func (k keeping) Put(ctx context.Context, puts []remote.Put) ([]int, error) {
	for _, p := range puts {
		*k.kept = append(*k.kept, [2][]byte{p.Data, bytes.Clone(p.Data)})
	}
	return k.Tier.Put(ctx, puts)
}

func TestValueThatIsStoredInL2IsNotChangedByLaterReads(t *testing.T) {
	var kept [][2][]byte
	o := strata.Options[string, string]{Name: "c", TTL: time.Hour}
	o.Remote.Tier = keeping{stratatest.NewTier(), &kept}
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for i := range 100 {
		load := func(context.Context, string) (string, error) { return "value " + strconv.Itoa(i), nil }
		if _, err := c.GetOrLoad(t.Context(), "key "+strconv.Itoa(i), load); err != nil {
			t.Fatal(err)
		}
	}
	for i, k := range kept {
		if !bytes.Equal(k[0], k[1]) {
			t.Fatalf("value %d is %q by now, was %q", i, k[0], k[1])
		}
	}
	if len(kept) != 100 {
		t.Errorf("%d values were stored, want 100", len(kept))
	}
}
