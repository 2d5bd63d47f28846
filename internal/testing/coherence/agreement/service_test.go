package agreement_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// TestCachesOfTwoServicesShareNothing has pairs of a service and a name that would be one
// name if they were put together carelessly, on one tier and one bus. Each drop reaches the
// other instance of its own pair alone.
func TestCachesOfTwoServicesShareNothing(t *testing.T) {
	pairs := [][2]string{{"", "users"}, {"shop", "users"}, {"bank", "users"}, {"a:b", "c"}, {"a", "b:c"}, {"", "a:b:c"}, {"", "shopusers"}, {"shopu", "sers"}, {"", "shop:users"}}
	for name, make := range map[string]func(t *testing.T, s *lab.Shared) remote.Tier{
		"announced": func(_ *testing.T, s *lab.Shared) remote.Tier { return s.Tier },
		"items": func(t *testing.T, _ *lab.Shared) remote.Tier {
			return castier.NewFleet(lab.NewModel(t, 2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				tier := make(t, s)
				var all [][2]*strata.Cache[string, int64]
				for _, p := range pairs {
					one := func() *strata.Cache[string, int64] {
						return lab.Instance(t, s, func(o *strata.Options[string, int64]) {
							o.Service, o.Name, o.Remote.Tier, o.TTL = p[0], p[1], tier, time.Hour
						})
					}
					all = append(all, [2]*strata.Cache[string, int64]{one(), one()})
				}
				ctx, tags := t.Context(), strata.WithTags("t")
				if name == "items" {
					tags = strata.WithTags() // a tag without a drop is uncertain there
				}
				for i, c := range all {
					lab.Must(t, c[0].Set(ctx, "k", int64(i), tags))
				}
				time.Sleep(2 * time.Second) // in a bubble: until all have heard
				wantAll := func(when string, gone int) {
					t.Helper()
					for i, c := range all {
						v, ok := c[1].Get(ctx, "k")
						if i == gone && ok || i != gone && (!ok || v != int64(i)) {
							t.Errorf("%s: %q has %d, %v", when, pairs[i], v, ok)
						}
					}
				}
				wantAll("at first", -1)
				for i, c := range all {
					for what, drop := range map[string]func() error{
						"Invalidate":     func() error { return c[0].Invalidate(ctx, "k") },
						"InvalidateTags": func() error { return c[0].InvalidateTags(ctx, "t") },
						"InvalidateAll":  func() error { return c[0].InvalidateAll(ctx) },
					} {
						if what == "InvalidateTags" && name == "items" {
							continue
						}
						lab.Must(t, drop())
						time.Sleep(2 * time.Second) // in a bubble: until all have noticed
						wantAll(what, i)
						lab.Must(t, c[0].Set(ctx, "k", int64(i), tags))
						time.Sleep(2 * time.Second) // in a bubble
					}
				}
			})
		})
	}
}

func TestServiceThatCannotBeIsRefused(t *testing.T) {
	for service, ok := range map[string]bool{
		"": true, "shop": true, "a:b/c.d-é": true, strings.Repeat("s", 64): true,
		strings.Repeat("s", 65): false, "a{b": false, "a}b": false, "a b": false, "a\n": false, "a\x7f": false,
		"a\xff": false, "cut \xc3": false, "\xed\xa0\x80": false, "a\u0085": false, "a\u202eb": false, "a\u2028b": false, "a\u00a0b": false, "a\u200bb": false,
	} {
		for field, o := range map[string]strata.Options[string, int64]{
			"Service": {Name: "n", TTL: time.Minute, Service: service}, "Name": {Name: service, TTL: time.Minute},
		} {
			c, err := strata.New(o)
			if err == nil {
				_ = c.Close(context.Background())
			}
			if tooLong := len(service) > 64; field == "Name" && tooLong {
				continue // a name may be longer
			}
			if ok != (err == nil) || !ok && (!strings.Contains(err.Error(), field) || !utf8.ValidString(err.Error())) {
				t.Errorf("%s %q: %v", field, service, err)
			}
		}
	}
}
