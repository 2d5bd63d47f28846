package stratatest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/flate"
	"github.com/strata-cache/strata/internal/testing/kit"
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

func TestFaultyTierHasTheAbilitiesOfItsTier(t *testing.T) {
	broken := errors.New("broken")
	faulty := func(t remote.Tier) remote.Tier {
		return stratatest.FaultyTier(t, func(string, string) (time.Duration, error) { return 0, broken })
	}
	view := faulty(stratatest.NewTier())
	for range 2 {
		var ok bool
		if view, ok = remote.Bind(view, remote.Space{Name: "n"}); !ok {
			t.Fatalf("a faulty tier is no Binder")
		}
		if _, err := view.Get(t.Context(), []string{"k"}); !errors.Is(err, broken) {
			t.Errorf("Get of a view = %v; want the fault", err)
		}
	}
	for name, tier := range map[string]remote.Tier{"bare": bare{stratatest.NewTier()}, "faulty": faulty(bare{stratatest.NewTier()})} {
		if _, ok := remote.Bind(tier, remote.Space{}); ok || has[remote.Binder](tier) || has[remote.Tagger](tier) || has[remote.Announcer](tier) || has[remote.Prober](tier) {
			t.Errorf("%s: a tier around one without abilities has some", name)
		}
	}
}

func has[T any](t remote.Tier) bool {
	_, ok := remote.As[T](t)
	return ok
}

func get[T any](t *testing.T, tier remote.Tier) T {
	t.Helper()
	ability, ok := remote.As[T](tier)
	if !ok {
		t.Fatalf("not a %T", (*T)(nil))
	}
	return ability
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
		if _, lease, err := kit.Acquire(t.Context(), f, "k", time.Hour); err != nil || lease.Grant != remote.Granted {
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
	tagger, announcer := get[remote.Tagger](t, f), get[remote.Announcer](t, f)
	_, tagsErr := tagger.Tags(ctx, []string{"a", "b"})
	_, positionErr := announcer.Position(ctx)
	_, changesErr := announcer.Changes(ctx)
	_, renewErr := f.Renew(ctx, "k", remote.Lease{}, time.Hour)
	_, manyErr := f.Acquire(ctx, kit.Requests("m", "n"), time.Hour)
	_, extendErr := f.Extend(ctx, "e", time.Hour, time.Hour, remote.Lease{}, 1)
	_, putErr := f.Put(ctx, []remote.Put{{Key: "p"}, {Key: "q"}})
	for i, err := range []error{
		f.DropAll(ctx, true), tagger.DropTags(ctx, []string{"t"}, false),
		f.Release(ctx, "r", remote.Lease{}), tagsErr, positionErr, changesErr, renewErr, manyErr, extendErr, putErr,
	} {
		if !errors.Is(err, broken) {
			t.Errorf("error %d is %v; want the fault", i, err)
		}
	}
	if want := []string{"Tags a", "Position ", "Changes ", "Renew k", "Acquire m", "Extend e", "Put p", "DropAll ", "DropTags t", "Release r"}; !slices.Equal(ops, want) {
		t.Errorf("faults asked for %q; want %q", ops, want)
	}
	if lane := announcer.Lane("k"); lane != stratatest.NewTier().Lane("k") {
		t.Errorf("Lane = %d", lane)
	}
}

// watchful is a tier that also remembers and warns.
type watchful struct {
	*stratatest.Tier
	rechecks *int
}

func (w watchful) Recheck() { *w.rechecks++ }

func (w watchful) Probe(context.Context) ([]string, error) { return []string{"beware"}, nil }

func TestFaultyTierPassesRechecksAndWarnings(t *testing.T) {
	var asked string
	fault := func(op, _ string) (time.Duration, error) {
		asked += op
		return 0, nil
	}
	var rechecks int
	f := stratatest.FaultyTier(watchful{stratatest.NewTier(), &rechecks}, fault)
	f.Recheck()
	warnings, err := get[remote.Prober](t, f).Probe(t.Context())
	if rechecks != 1 || !slices.Equal(warnings, []string{"beware"}) || err != nil || asked != "Probe" {
		t.Errorf("%d rechecks, warnings %q, %v; faults asked for %q", rechecks, warnings, err, asked)
	}
	f = stratatest.FaultyTier(stratatest.NewTier(), fault)
	f.Recheck()
	if warnings, err := get[remote.Prober](t, f).Probe(t.Context()); warnings != nil || err != nil {
		t.Errorf("a tier that knows nothing warns: %q, %v", warnings, err)
	}
}

func TestSpoiltValueIsAbsentAndCounted(t *testing.T) {
	tier := stratatest.NewTier()
	put := func() {
		t.Helper()
		_, lease, err := kit.Acquire(t.Context(), tier, "k", time.Hour)
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
		stratatest.TestCodec(t, codec.Versioned(codec.JSON[point]()), point{}, point{X: 1})
		stratatest.TestCodec(t, codec.JSON[point](), point{}, point{X: 1, Y: -1}, point{Tags: []string{"a", "\r\n"}})
	})
	t.Run("Compressed", func(t *testing.T) {
		all := []point{{}, {X: 1}, {Tags: slices.Repeat([]string{"a long tag"}, 50)}, {X: 2, Tags: slices.Repeat([]string{"ab"}, 500)}}
		stratatest.TestCodec(t, codec.Compressed(codec.JSON[point](), 0, flate.New()), all...)
		stratatest.TestCodec(t, codec.Compressed(codec.JSON[point](), 100, flate.New()), all...)
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
