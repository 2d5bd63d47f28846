package stratatest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

func openMemory(*testing.T) (remote.Tier, func(time.Duration)) {
	return stratatest.NewTier(), time.Sleep
}

func inBubble(t *testing.T, open stratatest.Open) {
	for name, check := range stratatest.TierChecks() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, open) })
		})
	}
}

func TestTierConforms(t *testing.T) { inBubble(t, openMemory) }

func TestAnnouncingTierConforms(t *testing.T) {
	inBubble(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		tier := stratatest.NewTier()
		tier.Announce(stratatest.NewBus())
		return tier, time.Sleep
	})
}

func TestFaultyTierWithoutFaultsConforms(t *testing.T) {
	none := func(string, string) (time.Duration, error) { return 0, nil }
	inBubble(t, func(*testing.T) (remote.Tier, func(time.Duration)) {
		return stratatest.FaultyTier(stratatest.NewTier(), none), time.Sleep
	})
}

// bare hides all abilities of a tier.
type bare struct{ remote.Tier }

func TestTierWithoutAbilitiesConforms(t *testing.T) {
	inBubble(t, func(*testing.T) (remote.Tier, func(time.Duration)) {
		return bare{stratatest.NewTier()}, time.Sleep
	})
}

func TestFaultyTierForwardsAbilitiesHonestly(t *testing.T) {
	none := func(string, string) (time.Duration, error) { return 0, nil }
	if f := stratatest.FaultyTier(stratatest.NewTier(), none); !isBinder(f) || !isBinder(f.(remote.Binder).Bind(remote.Space{})) {
		t.Errorf("a faulty Tier is no Binder")
	}
	if isBinder(stratatest.FaultyTier(bare{stratatest.NewTier()}, none)) {
		t.Errorf("a faulty tier is a Binder; what it wraps is not")
	}
}

func isBinder(t remote.Tier) bool {
	_, ok := t.(remote.Binder)
	return ok
}

func TestFaultyTierFailsAndDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		var ops []string
		f := stratatest.FaultyTier(stratatest.NewTier(), func(op, key string) (time.Duration, error) {
			ops = append(ops, op+" "+key)
			if op == "Get" {
				return 0, broken
			}
			return time.Minute, nil
		})
		if _, err := f.Get(t.Context(), []string{"k"}); !errors.Is(err, broken) {
			t.Errorf("Get = %v; want the fault", err)
		}
		start := time.Now()
		if _, lease, err := f.Acquire(t.Context(), "k", time.Hour); err != nil || lease.Grant != remote.Granted {
			t.Errorf("Acquire = grant %d, %v; want it delayed, but done", lease.Grant, err)
		}
		if d := time.Since(start); d != time.Minute {
			t.Errorf("Acquire took %v; want 1m", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Drop(ctx, []remote.Drop{{Key: "k"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drop = %v; want the context's error", err)
		}
		if d := time.Since(start); d != time.Minute+time.Second {
			t.Errorf("Drop ended after %v; want 1s", d-time.Minute)
		}
		if want := 3; len(ops) != want || ops[2] != "Drop k" {
			t.Errorf("faults asked for %q", ops)
		}
	})
}

func TestFaultyTierAsksBeforeEveryAbility(t *testing.T) {
	broken := errors.New("broken")
	var ops []string
	f := stratatest.FaultyTier(stratatest.NewTier(), func(op, key string) (time.Duration, error) {
		ops = append(ops, op+" "+key)
		return 0, broken
	})
	ctx := t.Context()
	_, tagsErr := f.(remote.Tagger).Tags(ctx, []string{"a", "b"})
	_, positionErr := f.(remote.Positioner).Position(ctx)
	_, changesErr := f.(remote.ChangeTeller).Changes(ctx)
	_, renewErr := f.(remote.Renewer).Renew(ctx, "k", remote.Lease{}, time.Hour)
	_, _, manyErr := f.(remote.ManyAcquirer).AcquireMany(ctx, []string{"m", "n"}, time.Hour)
	_, _, refreshErr := f.(remote.Refresher).Refresh(ctx, "e", 1, time.Hour)
	for i, err := range []error{
		f.(remote.AllDropper).DropAll(ctx, true), f.(remote.Tagger).DropTags(ctx, []string{"t"}, false),
		f.(remote.Releaser).Release(ctx, "r", remote.Lease{}), tagsErr, positionErr, changesErr, renewErr, manyErr, refreshErr,
	} {
		if !errors.Is(err, broken) {
			t.Errorf("error %d is %v; want the fault", i, err)
		}
	}
	if want := []string{"Tags a", "Position ", "Changes ", "Renew k", "AcquireMany m", "Refresh e", "DropAll ", "DropTags t", "Release r"}; !slices.Equal(ops, want) {
		t.Errorf("faults asked for %q; want %q", ops, want)
	}
	if lane := f.(remote.Positioner).Lane("k"); lane != stratatest.NewTier().Lane("k") {
		t.Errorf("Lane = %d", lane)
	}
}

// watchful is a tier that also remembers and warns.
type watchful struct {
	*stratatest.Tier
	doubts *int
}

func (w watchful) Doubt() { *w.doubts++ }

func (w watchful) Probe(context.Context) ([]string, error) { return []string{"beware"}, nil }

func TestFaultyTierPassesDoubtsAndWarnings(t *testing.T) {
	var asked string
	fault := func(op, _ string) (time.Duration, error) {
		asked += op
		return 0, nil
	}
	var doubts int
	f := stratatest.FaultyTier(watchful{stratatest.NewTier(), &doubts}, fault)
	f.(remote.Doubter).Doubt()
	warnings, err := f.(remote.Prober).Probe(t.Context())
	if doubts != 1 || !slices.Equal(warnings, []string{"beware"}) || err != nil || asked != "Probe" {
		t.Errorf("%d doubts, warnings %q, %v; faults asked for %q", doubts, warnings, err, asked)
	}
	f = stratatest.FaultyTier(stratatest.NewTier(), fault)
	f.(remote.Doubter).Doubt()
	if warnings, err := f.(remote.Prober).Probe(t.Context()); warnings != nil || err != nil {
		t.Errorf("a tier that knows nothing warns: %q, %v", warnings, err)
	}
}

func TestSpoiltValueIsAbsentAndCounted(t *testing.T) {
	tier := stratatest.NewTier()
	put := func() {
		t.Helper()
		_, lease, err := tier.Acquire(t.Context(), "k", time.Hour)
		if err != nil || lease.Grant != remote.Granted {
			t.Fatalf("Acquire = grant %d, %v", lease.Grant, err)
		}
		_, err = tier.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte("v"), Fresh: time.Hour, Left: time.Hour, Lease: lease}})
		if err != nil {
			t.Fatal(err)
		}
	}
	absent := func() bool {
		t.Helper()
		held, err := tier.Get(t.Context(), []string{"k"})
		if err != nil {
			t.Fatal(err)
		}
		return held[0].Absent()
	}
	put()
	if absent() || tier.Foreign() != 0 {
		t.Fatalf("absent before it was spoilt, or %d foreign", tier.Foreign())
	}
	tier.Spoil("k")
	if !absent() || tier.Foreign() != 1 {
		t.Errorf("spoilt value: absent %t, %d foreign; want absent, 1", absent(), tier.Foreign())
	}
	put()
	if absent() {
		t.Errorf("absent after a new store")
	}
}

type point struct {
	X, Y int
	Tags []string
}

func TestCodecsConform(t *testing.T) {
	t.Run("JSON", func(t *testing.T) {
		stratatest.TestCodec(t, codec.JSON[point](), point{}, point{X: 1, Y: -1}, point{Tags: []string{"a", "\r\n"}})
	})
	t.Run("Bytes", func(t *testing.T) {
		stratatest.TestCodec(t, codec.Bytes(), nil, []byte{0}, []byte("value"), make([]byte, 10_000))
	})
	t.Run("String", func(t *testing.T) {
		stratatest.TestCodec(t, codec.String(), "", "a", "\xff\x00")
	})
	t.Run("Integer", func(t *testing.T) {
		stratatest.TestCodec(t, codec.Integer[int64](), 0, 1, -1, 1<<63-1, -1<<63)
	})
}
