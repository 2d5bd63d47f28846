package l2_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// open returns a store over t, and over b unless it is nil.
func open(t remote.Tier, b remote.Bus) *l2.Store {
	return l2.New(l2.Options{
		Name: "n", Instance: 1, Schema: 1, Tier: t, Bus: b, Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
		Now:     func() int64 { return time.Now().UnixNano() },
		Suspend: func(bool) {}, Failed: func(context.Context, string, error) {},
	})
}

// bare hides the abilities of a tier.
type bare struct{ remote.Tier }

// renamed is a wrapper that puts a prefix before all keys of Acquire, so that a
// test can tell whether calls reach it.
type renamed struct{ remote.Tier }

func (r renamed) Unwrap() remote.Tier                { return r.Tier }
func (r renamed) Wrap(inner remote.Tier) remote.Tier { return renamed{inner} }

func (r renamed) Acquire(ctx context.Context, requests []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	for i := range requests {
		requests[i].Key = "renamed " + requests[i].Key
	}
	return r.Tier.Acquire(ctx, requests, d)
}

func TestAbilitiesAreFoundThroughWrappers(t *testing.T) {
	tier, bus := stratatest.NewTier(), stratatest.NewBus()
	tier.Announce(bus)
	none := func(string, string) (time.Duration, error) { return 0, nil }
	for _, tt := range []struct {
		name string
		tier remote.Tier
		all  bool
	}{
		{"tier", tier, true},
		{"one wrapper", renamed{tier}, true},
		{"two wrappers", stratatest.FaultyTier(renamed{tier}, none), true},
		{"bare", bare{tier}, false},
		{"wrapper around bare", stratatest.FaultyTier(bare{tier}, none), false},
		{"bare wrapper", bare{renamed{tier}}, false},
	} {
		s := open(tt.tier, bus)
		if s.LacksTags() == tt.all || s.HasPositions() != tt.all || s.TellsEnds() != tt.all || (s.Changes() != nil) != tt.all {
			t.Errorf("%s: lacks tags %t, positions %t, announces %t, changes %t; want abilities: %t",
				tt.name, s.LacksTags(), s.HasPositions(), s.TellsEnds(), s.Changes() != nil, tt.all)
		}
		if !s.HasTier() || !s.Used() {
			t.Errorf("%s: no tier", tt.name)
		}
	}
}

func TestCallsReachTheWrapperAroundTheView(t *testing.T) {
	tier := stratatest.NewTier()
	s := open(renamed{tier}, nil)
	ctx := t.Context()
	if a := s.Acquire(ctx, []remote.Request{{Key: "k"}}, time.Hour); a[0].Err != nil || a[0].Lease.Grant != remote.Granted {
		t.Fatalf("Acquire = %+v", a)
	}
	own := tier.Bind(remote.Space{Name: "n", Schema: 1})
	for key, want := range map[string]remote.Grant{"renamed k": remote.Busy, "k": remote.Granted} {
		acquired, err := own.Acquire(ctx, []remote.Request{{Key: key}}, time.Hour)
		if err != nil || acquired[0].Lease.Grant != want {
			t.Errorf("%q in the view of the name: %+v, %v; want grant %d", key, acquired, err, want)
		}
	}
	acquired, err := tier.Acquire(ctx, []remote.Request{{Key: "renamed k"}}, time.Hour)
	if err != nil || acquired[0].Lease.Grant != remote.Granted {
		t.Errorf("outside the view of the name: %+v, %v; want Granted", acquired, err)
	}
}

// oneDown is a tier with a server that does not answer for the key "down".
type oneDown struct{ remote.Tier }

var errDown = errors.New("down")

func (o oneDown) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	acquired, err := o.Tier.Acquire(ctx, r, d)
	for i := range acquired {
		if r[i].Key == "down" {
			acquired[i] = remote.Acquired{Err: errDown}
		}
	}
	return acquired, err
}

func TestEachLeaseOfABatchHasItsError(t *testing.T) {
	requests := []remote.Request{{Key: "a"}, {Key: "down"}, {Key: "b"}}
	answers := open(oneDown{stratatest.NewTier()}, nil).Acquire(t.Context(), requests, time.Hour)
	for i, a := range answers {
		down := requests[i].Key == "down"
		if errors.Is(a.Err, errDown) != down || (a.Lease.Grant == remote.Granted) == down || !a.Held.Absent() {
			t.Errorf("%s: %+v", requests[i].Key, a)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, a := range open(stratatest.NewTier(), nil).Acquire(ctx, requests, time.Hour) {
		if !errors.Is(a.Err, context.Canceled) || a.Lease != (remote.Lease{}) {
			t.Errorf("after a cancel: %+v", a)
		}
	}
}

// quietRecheck counts calls of Recheck.
type quietRecheck struct {
	remote.Tier
	n *int
}

func (q quietRecheck) Recheck() { *q.n++ }

func TestRecheckReachesATierWithoutAbilities(t *testing.T) {
	var n int
	open(quietRecheck{stratatest.NewTier(), &n}, nil).Recheck()
	open(nil, stratatest.NewBus()).Recheck() // no tier
	if n != 1 {
		t.Errorf("%d calls of Recheck, want 1", n)
	}
}

// follow returns the messages about n that bus delivers.
func follow(t *testing.T, bus remote.Bus) <-chan remote.Message {
	t.Helper()
	heard, connected := make(chan remote.Message, 10), make(chan struct{}, 1)
	stop := bus.Follow("n", func(e remote.Event) {
		if e.State == remote.Connected {
			connected <- struct{}{}
		}
		for _, m := range e.Messages {
			heard <- m
		}
	})
	t.Cleanup(stop)
	<-connected
	return heard
}

func TestDropsOfATierThatAnnouncesNothingArePublished(t *testing.T) {
	for _, announces := range []bool{false, true} {
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		if announces {
			tier.Announce(bus)
		}
		heard := follow(t, bus)
		s := open(tier, bus)
		if _, err := s.Drop(t.Context(), []remote.Drop{{Key: "k"}}); err != nil {
			t.Fatal(err)
		}
		if err := s.DropAll(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		for _, want := range []remote.Kind{remote.Dropped, remote.AllExpired} {
			m := <-heard
			if m.Kind != want || m.From != 1 || (m.Is != remote.LaneVersion{}) != announces {
				t.Errorf("the tier announces: %t: heard %+v; want kind %d", announces, m, want)
			}
		}
		select {
		case m := <-heard:
			t.Errorf("the tier announces: %t: heard %+v too", announces, m)
		default:
		}
	}
}

func TestTagsOfATierWithoutTags(t *testing.T) {
	s := open(bare{stratatest.NewTier()}, nil)
	if known, err := s.Tags(t.Context(), []string{"t"}); known != nil || err != nil {
		t.Errorf("Tags = %v, %v; want none", known, err)
	}
	var x l2.Session
	_, answered := x.TagDrops(t.Context(), t.Context(), s, []string{"t"})
	if ok := !x.BlocksTags(s, []string{"t"}); ok || x.Down || !answered {
		t.Errorf("a session may use values with tags of a tier without tags: %t; down: %t", ok, x.Down)
	}
	if s.Probe(t.Context()); s.Foreign() != 0 { // it returns
		t.Errorf("%d values are foreign", s.Foreign())
	}
}
