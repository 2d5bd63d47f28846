package remote_test

import (
	"context"
	"testing"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// counted embeds a Reader and has a Get of its own.
type counted struct {
	*stratatest.Tier
	gets *int
}

func (c counted) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	*c.gets++
	return c.Tier.Get(ctx, keys, known...)
}

func TestAsReaderFindsNoReaderThatIsOnlyEmbedded(t *testing.T) {
	tier := stratatest.NewTier()
	faulty := stratatest.FaultyTier(tier, func(string, string) (time.Duration, error) { return 0, nil })
	for name, c := range map[string]struct {
		tier remote.Tier
		want bool
	}{
		"a reader":             {tier, true},
		"a wrapper that reads": {faulty, true},
		"an embedding tier":    {counted{tier, new(int)}, false},
		"another wrapper":      {labelled{tier, ""}, false},
		"no reader":            {sealed{tier}, false},
	} {
		if r, ok := remote.AsReader(c.tier); ok != c.want || ok && r == nil {
			t.Errorf("%s: %v, %t; want %t", name, r, ok, c.want)
		}
	}
}

func TestWithinZeroIsTheParent(t *testing.T) {
	ctx, cancel := remote.Within(t.Context(), 0)
	defer cancel()
	if ctx != t.Context() {
		t.Error("another context")
	}
	ctx, cancel = remote.Within(t.Context(), time.Hour)
	defer cancel()
	if d, ok := ctx.Deadline(); !ok || time.Until(d) > time.Hour {
		t.Errorf("deadline %v, %t; want one within an hour", d, ok)
	}
}
