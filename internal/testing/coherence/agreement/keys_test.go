package agreement_test

import (
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// uuid is a key as libraries for UUIDs have it. The key of zeros alone has no text, and
// the method panics for a key that begins with 0xff.
type uuid [16]byte

var errNil = errors.New("no text")

func (u uuid) MarshalText() ([]byte, error) {
	switch {
	case u == uuid{}:
		return nil, errNil
	case u[0] == 0xff:
		panic("text")
	}
	return hex.AppendEncode(nil, u[:]), nil
}

func (u *uuid) UnmarshalText(text []byte) error {
	if len(text) != 2*len(u) {
		return errors.New("bad length")
	}
	_, err := hex.Decode(u[:], text)
	return err
}

func TestTextKeysInvalidateThroughTheBus(t *testing.T) {
	t.Run("UUID", func(t *testing.T) { dropsReach(t, uuid{1, 2, 3}) })
	t.Run("address", func(t *testing.T) { dropsReach(t, netip.MustParseAddr("2001:db8::1")) })
	t.Run("time", func(t *testing.T) { dropsReach(t, time.Unix(1e9, 1).UTC()) })
}

// dropsReach checks two things between instances: one finds the entry of a key that the
// other has stored, and drops it when the other invalidates the key.
func dropsReach[K comparable](t *testing.T, key K) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[K, int64](t, s), lab.Instance[K, int64](t, s)
		loads := 0
		load := func(context.Context, K) (int64, error) { loads++; return 1, nil }
		for _, c := range []*strata.Cache[K, int64]{a, b} {
			if _, err := c.GetOrLoad(t.Context(), key, load); err != nil {
				t.Fatal(err)
			}
		}
		if loads != 1 {
			t.Errorf("%d loads: the instances have different names for the key", loads)
		}
		if err := a.Invalidate(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r := b.Explain(t.Context(), key); r.L1.Present || r.L2.Present {
			t.Errorf("still there: %+v", r)
		}
	})
}

func TestKeyWithoutItsTextIsAnErrorAndDoesNothing(t *testing.T) {
	for what, bad := range map[string]uuid{"refused": {}, "panics": {0xff}} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { failsAll(t, bad) })
		})
	}
}

// failsAll checks that every call with a bad key fails and has no effect.
func failsAll(t *testing.T, bad uuid) {
	c := lab.Instance[uuid, int64](t, lab.NewShared())
	ran := false
	_, ofGet := c.GetOrLoad(t.Context(), bad, func(context.Context, uuid) (int64, error) { ran = true; return 1, nil })
	for what, err := range map[string]error{
		"GetOrLoad": ofGet,
		"Set":       c.Set(t.Context(), bad, 1),
		"Update": c.Update(t.Context(), bad, func(context.Context) (int64, error) {
			ran = true
			return 1, nil
		}),
		"Invalidate": c.Invalidate(t.Context(), bad),
		"Explain":    c.Explain(t.Context(), bad).L2.Err,
	} {
		if err == nil || !strings.Contains(err.Error(), "key") || bad == (uuid{}) && !errors.Is(err, errNil) {
			t.Errorf("%s: %v, want an error about the key", what, err)
		}
	}
	if ran || c.Len() != 0 {
		t.Errorf("the origin was asked: %t, %d entries", ran, c.Len())
	}
}

func TestParseKeyIsRequiredWithABusOnly(t *testing.T) {
	type pair struct{ A, B byte }
	name := func(p pair) string { return string([]byte{p.A, p.B}) }
	with := func(bus bool) (*strata.Cache[pair, int], error) {
		o := strata.Options[pair, int]{Name: "n", TTL: time.Minute}
		o.Remote.Tier, o.Remote.Key = stratatest.NewTier(), name
		if bus {
			o.Remote.Bus = stratatest.NewBus().Connect()
		}
		return strata.New(o)
	}
	if _, err := with(true); err == nil || !strings.Contains(err.Error(), "Remote.ParseKey: required with Key and a Bus") {
		t.Errorf("Key alone with a Bus: %v", err)
	}
	c, err := with(false)
	if err != nil {
		t.Fatalf("Key alone without a Bus: %v", err)
	}
	defer c.Close(t.Context())
	if err := c.Set(t.Context(), pair{1, 2}, 3); err != nil {
		t.Error(err)
	}
	if r := c.Explain(t.Context(), pair{1, 2}); !r.L2.Present || r.Name != "\x01\x02" {
		t.Errorf("not stored under its name: %+v", r)
	}
}
