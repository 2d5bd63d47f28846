package loads_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

// learner is an instance that hears no message, and learns of drops from the answers of
// L2 to its own requests.
type learner struct {
	*strata.Cache[string, int64]
	other *strata.Cache[string, int64] // drops keys
	down  atomic.Bool                  // L2 grants nothing
}

// learnerTiers are the tiers over which a learner is tested. It is read-only.
var learnerTiers = map[string]func(t *testing.T) remote.Tier{
	"redis":     func(*testing.T) remote.Tier { return lab.NewShared().Tier },
	"memcached": func(t *testing.T) remote.Tier { return castier.NewFleet(lab.NewModel(t, 1)) },
	"plain":     plainItems,
}

// plainItems is a tier over a store of two methods.
func plainItems(t *testing.T) remote.Tier {
	m := lab.NewModel(t, 1)
	m.Plain = true
	return castier.NewFleet(m)
}

// learners runs test over each tier.
func learners(t *testing.T, test func(t *testing.T, l *learner), change ...func(*strata.Options[string, int64])) {
	t.Helper()
	for name, tier := range learnerTiers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, shared := new(learner), tier(t)
				one := func(tier remote.Tier) *strata.Cache[string, int64] {
					return lab.NewCache(t, append([]func(*strata.Options[string, int64]){lab.Negatives, func(o *strata.Options[string, int64]) {
						o.TTL, o.Remote.Tier = time.Hour, tier
					}}, change...)...)
				}
				l.Cache, l.other = one(lab.Failing(shared, "Acquire", &l.down)), one(shared)
				test(t, l)
			})
		})
	}
}

// holds puts k on hold, and lets the learner ask L2 once.
func (l *learner) holds(t *testing.T, d time.Duration) {
	t.Helper()
	lab.Must(t, l.other.InvalidateHold(t.Context(), d, "k"))
	lab.MustGet(t, l.Cache, "k", (&lab.Origin{}).Load)
}

// storesAhead are ways in which a value of k comes into L1 without a question to L2. It
// is read-only.
var storesAhead = map[string]func(t *testing.T, l *learner){
	"an extra key of a batch": func(t *testing.T, l *learner) {
		other := "other at " + time.Now().String()
		_, err := l.GetMany(t.Context(), []string{other}, func(context.Context, []string) (map[string]int64, error) {
			return map[string]int64{other: 1, "k": 50}, nil
		})
		lab.Must(t, err)
	},
	"a load past L2": func(t *testing.T, l *learner) {
		_, err := l.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 50, nil }, strata.NoRemote())
		lab.Must(t, err)
	},
	"not found past L2": func(t *testing.T, l *learner) {
		_, err := l.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }, strata.NoRemote())
		if !errors.Is(err, strata.ErrNotFound) {
			t.Error(err)
		}
	},
	"a load while L2 fails": func(t *testing.T, l *learner) {
		l.down.Store(true)
		defer l.down.Store(false)
		lab.MustGet(t, l.Cache, "k", func(context.Context, string) (int64, error) { return 50, nil })
	},
	"not found while L2 fails": func(t *testing.T, l *learner) {
		l.down.Store(true)
		defer l.down.Store(false)
		_, _ = l.GetMany(t.Context(), []string{"k"}, func(context.Context, []string) (map[string]int64, error) { return nil, nil })
	},
}

// kept reports whether L1 of the learner has a value of k, or remembers that there is none.
func (l *learner) kept(t *testing.T) bool {
	t.Helper()
	asked := false
	_, err := l.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) {
		asked = true
		return 0, errors.New("not asked for")
	}, strata.NoRemote())
	return err == nil || !asked
}

func TestHoldThatL2HasToldOfIsKnownOnEveryPath(t *testing.T) {
	const hold = 2 * time.Second
	for name, store := range storesAhead {
		t.Run(name, func(t *testing.T) {
			learners(t, func(t *testing.T, l *learner) {
				l.holds(t, hold)
				time.Sleep(hold / 2) // in a bubble
				if store(t, l); l.kept(t) {
					t.Error("kept during a hold of which L2 has told")
				}
				time.Sleep(2 * hold) // in a bubble
				if store(t, l); !l.kept(t) {
					t.Error("not kept when the hold is over")
				}
			})
		})
	}
}

func TestHoldThatL2HasToldOfOnceMoreIsKnownUntilItsEnd(t *testing.T) {
	const hold = 2 * time.Second
	learners(t, func(t *testing.T, l *learner) {
		l.holds(t, hold)
		l.holds(t, 3*hold)
		time.Sleep(2 * hold) // in a bubble
		store := storesAhead["an extra key of a batch"]
		if store(t, l); l.kept(t) {
			t.Error("kept during a hold that L2 has told to last longer")
		}
		time.Sleep(2 * hold) // in a bubble
		if store(t, l); !l.kept(t) {
			t.Error("not kept when the hold is over")
		}
	})
}

func TestWritesAreKeptDuringAHoldThatL2HasToldOf(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, l *learner) error{
		"Set":         func(ctx context.Context, l *learner) error { return l.Set(ctx, "k", 50) },
		"SetMany":     func(ctx context.Context, l *learner) error { return l.SetMany(ctx, map[string]int64{"k": 50}) },
		"SetNotFound": func(ctx context.Context, l *learner) error { return l.SetNotFound(ctx, "k") },
		"Update": func(ctx context.Context, l *learner) error {
			return l.Update(ctx, "k", func(context.Context) (int64, error) { return 50, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			learners(t, func(t *testing.T, l *learner) {
				l.holds(t, time.Minute)
				if lab.Must(t, write(t.Context(), l)); !l.kept(t) {
					t.Error("a write is not kept")
				}
			})
		})
	}
}

// TestHoldThatL2HasToldOfDropsTheEntryHere has an entry older than the hold when a refresh
// learns of the hold. The load of the refresh fails, or says that nothing was changed.
func TestHoldThatL2HasToldOfDropsTheEntryHere(t *testing.T) {
	for name, answer := range map[string]error{"fails": errors.New("lost"), "not modified": strata.ErrNotModified} {
		t.Run(name, func(t *testing.T) {
			learners(t, func(t *testing.T, l *learner) {
				lab.Must(t, l.Set(t.Context(), "k", 1))
				lab.Must(t, l.other.InvalidateHold(t.Context(), time.Minute, "k"))
				l.refreshes(t, answer)
				if l.kept(t) {
					t.Error("an entry is served that is older than a hold of which L2 has told")
				}
			}, refreshing)
		})
	}
}

func TestStaleValueIsNotServedAfterAHoldThatL2HasToldOf(t *testing.T) {
	learners(t, func(t *testing.T, l *learner) {
		lab.Must(t, l.Set(t.Context(), "k", 1))
		lab.Must(t, l.other.InvalidateHold(t.Context(), time.Hour, "k"))
		time.Sleep(15 * time.Second) // in a bubble
		v, err := l.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 0, errors.New("lost") })
		if err == nil {
			t.Errorf("got %d, which is older than a hold of which L2 has told", v)
		}
	}, func(o *strata.Options[string, int64]) { o.TTL = 10 * time.Second })
}

// TestStaleValueIsNotOfferedAfterAHoldThatL2HasToldOf has a value of L1 that a load offers to its callers before L2 tells
// it of the hold.
func TestStaleValueIsNotOfferedAfterAHoldThatL2HasToldOf(t *testing.T) {
	o := &lab.Origin{Takes: time.Second}
	o.Value.Store(2)
	for name, read := range map[string]func(t *testing.T, l *learner) int64{
		"alone": func(t *testing.T, l *learner) int64 { return lab.MustGet(t, l.Cache, "k", o.Load) },
		"in a batch": func(t *testing.T, l *learner) int64 {
			found, err := l.GetMany(t.Context(), []string{"k"}, lab.EachOf(o.Load))
			lab.Must(t, err)
			return found["k"]
		},
	} {
		t.Run(name, func(t *testing.T) {
			learners(t, func(t *testing.T, l *learner) {
				lab.Must(t, l.Set(t.Context(), "k", 1))
				lab.Must(t, l.other.InvalidateHold(t.Context(), time.Hour, "k"))
				time.Sleep(15 * time.Second) // in a bubble
				var callers sync.WaitGroup
				for range 2 {
					callers.Go(func() {
						if v := read(t, l); v != 2 {
							t.Errorf("got %d, which is older than a hold of which L2 has told", v)
						}
					})
					time.Sleep(50 * time.Millisecond) // in a bubble
				}
				callers.Wait()
			}, softly, func(o *strata.Options[string, int64]) { o.TTL = 10 * time.Second })
		})
	}
}

// refreshing makes a read start a refresh at half of the TTL.
func refreshing(o *strata.Options[string, int64]) {
	o.RefreshAt, o.Memory.TTL, o.TTL = 0.5, 0, 40*time.Second
}

// refreshes lets a read refresh k, with that answer of the origin.
func (l *learner) refreshes(t *testing.T, answer error) {
	t.Helper()
	time.Sleep(25 * time.Second)
	asked := false
	lab.MustGet(t, l.Cache, "k", func(context.Context, string) (int64, error) { asked = true; return 0, answer })
	if synctest.Wait(); !asked {
		t.Fatal("the scenario shows nothing: nothing was refreshed")
	}
}

// TestDropThatL2HasToldOfByARefusalDropsTheEntryHere refreshes an entry, and the load
// finds that nothing was changed. L2 refuses that, because the key was dropped during the
// load.
func TestDropThatL2HasToldOfByARefusalDropsTheEntryHere(t *testing.T) {
	learners(t, func(t *testing.T, l *learner) {
		lab.Must(t, l.Set(t.Context(), "k", 1))
		time.Sleep(25 * time.Second)
		lab.MustGet(t, l.Cache, "k", func(ctx context.Context, _ string) (int64, error) {
			lab.Must(t, l.other.Invalidate(ctx, "k"))
			return 0, strata.ErrNotModified
		})
		synctest.Wait()
		if n := l.Stats().RemoteRefused; n != 1 {
			t.Fatalf("the scenario shows nothing: %d refusals", n)
		}
		if l.kept(t) {
			t.Error("an entry is served although L2 has refused it for a drop")
		}
	}, refreshing)
}

func TestExpireThatL2HasToldARefreshMakesTheEntryStaleHere(t *testing.T) {
	learners(t, func(t *testing.T, l *learner) {
		lab.Must(t, l.Set(t.Context(), "k", 1))
		lab.Must(t, l.other.Expire(t.Context(), "k"))
		l.refreshes(t, errors.New("lost"))
		if _, ok := l.Get(t.Context(), "k"); ok {
			t.Error("an entry is served as fresh although L2 has told that it was expired")
		}
	}, refreshing)
}

// TestSnapshotDoesNotRestoreAKeyOnAHoldThatL2HasToldOf takes the snapshot of an instance
// without news of the hold. It has kept an extra key.
func TestSnapshotDoesNotRestoreAKeyOnAHoldThatL2HasToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a := lab.Instance[string, int64](t, s)
		lab.Must(t, a.InvalidateHold(t.Context(), time.Minute, "k"))
		untold, l := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.MustGet(t, l, "k", (&lab.Origin{}).Load)
		r := lab.RestoreOf(t, l)
		_, position := lab.EntriesOf(t, untold, 0, 1)
		if suspect := r.Cover(t.Context(), position); suspect != "" {
			t.Fatal(suspect)
		}
		for name, want := range map[string]transfer.Outcome{"k": transfer.Changed, "free": transfer.Stored} {
			e := format.Entry{Key: []byte(name), Value: []byte("50"), Fresh: time.Second, Left: time.Second, Weight: 1}
			if o := r.Entry(&e, 0, false); o != want {
				t.Errorf("%s: %v, want %v", name, o, want)
			}
		}
	})
}
