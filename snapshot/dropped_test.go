package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

type users = *strata.Cache[string, string]

// waysToDrop are the ways in which a caller makes k1, which has the tag t, absent or stale.
func waysToDrop() map[string]func(t *testing.T, c users) {
	failed := errors.New("failed")
	return map[string]func(t *testing.T, c users){
		"Invalidate":     func(t *testing.T, c users) { must(t, c.Invalidate(t.Context(), "k1")) },
		"InvalidateHold": func(t *testing.T, c users) { must(t, c.InvalidateHold(t.Context(), time.Second, "k1")) },
		"InvalidateAll":  func(t *testing.T, c users) { must(t, c.InvalidateAll(t.Context())) },
		"Update that fails": func(t *testing.T, c users) {
			if err := c.Update(t.Context(), "k1", func(context.Context) (string, error) { return "", failed }); !errors.Is(err, failed) {
				t.Error(err)
			}
		},
		"Set and Invalidate": func(t *testing.T, c users) {
			must(t, c.Set(t.Context(), "k1", "newer"))
			must(t, c.Invalidate(t.Context(), "k1"))
		},
		"Set that is not kept": func(t *testing.T, c users) {
			must(t, c.Set(t.Context(), "k1", "newer", strata.WithTTL(-1)))
		},
		"Set that has ended": func(t *testing.T, c users) {
			must(t, c.Set(t.Context(), "k1", "newer", strata.WithTTL(time.Second)))
		},
		"SetNotFound that has ended": func(t *testing.T, c users) {
			must(t, c.SetNotFound(t.Context(), "k1", strata.WithTTL(time.Second)))
		},
		"load that finds nothing": func(t *testing.T, c users) {
			absent := func(context.Context, string) (string, error) { return "", strata.ErrNotFound }
			if _, err := c.GetOrLoad(t.Context(), "k1", absent, strata.SkipRead(), strata.WithTTL(time.Second)); !strata.IsNotFound(err) {
				t.Error(err)
			}
		},
		"load that is not kept": func(t *testing.T, c users) {
			load := func(context.Context, string) (string, error) { return "newer", nil }
			if _, err := c.GetOrLoad(t.Context(), "k1", load, strata.SkipRead(), strata.WithTTL(-1)); err != nil {
				t.Error(err)
			}
		},
		"InvalidateTags": func(t *testing.T, c users) { must(t, c.InvalidateTags(t.Context(), "t")) },
		"ExpireTags":     func(t *testing.T, c users) { must(t, c.ExpireTags(t.Context(), "t")) },
		"Expire":         func(t *testing.T, c users) { must(t, c.Expire(t.Context(), "k1")) },
		"ExpireAll":      func(t *testing.T, c users) { must(t, c.ExpireAll(t.Context())) },
	}
}

// saved returns the bytes of a snapshot of c.
func saved(t testing.TB, c users) []byte {
	t.Helper()
	var file bytes.Buffer
	_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, c)
	must(t, err)
	return file.Bytes()
}

func loaded(t testing.TB, file []byte, c users) snapshot.CacheReport {
	t.Helper()
	r, err := snapshot.Read(t.Context(), bytes.NewReader(file), snapshot.Options{}, c)
	if err != nil || len(r.Caches) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	return r.Caches[0]
}

// tagged returns a cache with 50 entries; k1 has the tag t.
func tagged(t testing.TB) users {
	t.Helper()
	c := alone(t, "users", 50)
	must(t, c.Set(t.Context(), "k1", "v1", strata.WithTags("t")))
	return c
}

// absent fails if c serves k1.
func absent(t *testing.T, c users, after string) {
	t.Helper()
	if v, ok := c.Get(t.Context(), "k1"); ok {
		t.Errorf("%s: k1 is back as %q", after, v)
	}
}

// pushOut fills c until k1 has no room, so that nothing in L1 tells of it any more.
func pushOut(t *testing.T, c users) {
	t.Helper()
	must(t, c.Tune(strata.Tuning{MaxEntries: new(int64(1))}))
	must(t, c.Set(t.Context(), "other", "v"))
	must(t, c.Tune(strata.Tuning{MaxEntries: new(int64(100_000))}))
}

func TestSnapshotBringsBackNothingThatWasDroppedSinceItWasMade(t *testing.T) {
	for way, drop := range waysToDrop() {
		t.Run(way, func(t *testing.T) {
			for _, gone := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					c := tagged(t)
					older := saved(t, c)
					drop(t, c)
					time.Sleep(2 * time.Second) // in the bubble, until negative entries and purges are over
					if gone {
						pushOut(t, c)
					}
					newer := saved(t, c)
					for _, file := range [][]byte{older, newer, older, older} {
						loaded(t, file, c)
						absent(t, c, "the same cache")
					}
					for _, order := range [][][]byte{{newer, older, older}, {older, newer}, {older, newer, older}, {newer, older, newer}} {
						restarted := alone(t, "users", 0)
						for _, file := range order {
							loaded(t, file, restarted)
						}
						absent(t, restarted, "another cache")
						again := saved(t, restarted) // it passes on the drops that it has learned
						third := alone(t, "users", 0)
						loaded(t, again, third)
						loaded(t, older, third)
						absent(t, third, "the cache after that")
					}
				})
			}
		})
	}
}

func TestDropBeforeALoadCountsWhereverTheFileComesFrom(t *testing.T) {
	for way, drop := range waysToDrop() {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				other := tagged(t)
				time.Sleep(5 * time.Minute) // in the bubble
				c := alone(t, "users", 0)
				drop(t, c)
				time.Sleep(5 * time.Minute) // in the bubble
				if r := loaded(t, saved(t, other), c); strings.HasSuffix(way, "All") != (r.Stored == 0) || !strings.HasSuffix(way, "All") && r.Stored != 49 {
					t.Errorf("%+v", r)
				}
				absent(t, c, "a value that was loaded before the drop")
			})
		})
	}
}

// TestSnapshotHasNoOwnEntryFromBeforeADropOfEverythingOfWhichAFileHasTold: such an entry stays
// where it is, but the snapshot says that it knows that drop.
func TestSnapshotHasNoOwnEntryFromBeforeADropOfEverythingOfWhichAFileHasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, dropping := alone(t, "users", 0), alone(t, "users", 0)
		must(t, own.Set(t.Context(), "k1", "older"))
		must(t, own.SetNotFound(t.Context(), "k3", strata.WithTTL(time.Hour)))
		time.Sleep(time.Second) // in the bubble
		must(t, dropping.InvalidateAll(t.Context()))
		loaded(t, saved(t, dropping), own)
		time.Sleep(2 * time.Minute) // in the bubble
		must(t, own.Set(t.Context(), "k2", "newer"))
		r := loaded(t, saved(t, own), dropping)
		absent(t, dropping, "a value from before a drop of everything")
		if v, ok := dropping.Get(t.Context(), "k2"); v != "newer" || !ok || r.Entries != 1 || r.Gone < 1 {
			t.Errorf("k2 is %q; %+v", v, r)
		}
		if v, ok := own.Get(t.Context(), "k1"); v != "older" || !ok {
			t.Errorf("the own entry is %q", v)
		}
	})
}

// TestSnapshotHasNoOwnEntryFromBeforeADropOfItsKeyOfWhichAFileHasTold: the own cache reads before the drop, learns of the drop, and
// lands after that. It says from then on that it knows the drop.
func TestSnapshotHasNoOwnEntryFromBeforeADropOfItsKeyOfWhichAFileHasTold(t *testing.T) {
	for name, drop := range map[string]func(ctx context.Context, c users) error{
		"keys": func(ctx context.Context, c users) error { return c.Invalidate(ctx, "k1", "k2", "k3") },
		"tag":  func(ctx context.Context, c users) error { return c.InvalidateTags(ctx, "t") },
		"all":  func(ctx context.Context, c users) error { return c.InvalidateAll(ctx) },
	} {
		synctest.Test(t, func(t *testing.T) {
			own, dropping := alone(t, "users", 0), alone(t, "users", 0)
			release, tag := make(chan struct{}), strata.WithTags("t")
			older := func(context.Context, string) (string, error) { <-release; return "older", nil }
			go own.GetOrLoad(t.Context(), "k1", older, tag) // its value is looked at below
			must(t, own.Set(t.Context(), "k2", "older", strata.WithTTL(strata.NoExpiry), tag))
			must(t, own.SetNotFound(t.Context(), "k3", strata.WithTTL(time.Hour), tag))
			synctest.Wait()
			time.Sleep(time.Second) // in the bubble
			must(t, drop(t.Context(), dropping))
			loaded(t, saved(t, dropping), own)
			close(release)
			synctest.Wait()
			if v, ok := own.Get(t.Context(), "k1"); v != "older" || !ok {
				t.Errorf("%s: the load has brought %q", name, v)
			}
			time.Sleep(2 * time.Minute) // in the bubble
			must(t, own.Set(t.Context(), "k4", "newer", tag))
			file := saved(t, own)
			for _, c := range []users{dropping, alone(t, "users", 0)} {
				loaded(t, file, c)
				absent(t, c, name)
				if v, ok := c.Get(t.Context(), "k2"); ok {
					t.Errorf("%s: k2 is back as %q", name, v)
				}
				newer := func(context.Context, string) (string, error) { return "newer", nil }
				if v, err := c.GetOrLoad(t.Context(), "k3", newer); v != "newer" || err != nil {
					t.Errorf("%s: k3 is %q, %v", name, v, err)
				}
				if v, ok := c.Get(t.Context(), "k4"); v != "newer" || !ok {
					t.Errorf("%s: a value from two minutes after the drop is missing", name)
				}
			}
		})
	}
}

// afterSome calls f when half of a file has been read.
type afterSome struct {
	io.Reader
	left int
	f    func()
}

func (r *afterSome) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b[:min(len(b), 512)])
	if r.left -= n; r.left <= 0 && r.f != nil {
		r.f()
		r.f = nil
	}
	return n, err
}

// TestRestTakesNoRoomAfterEverythingWasDropped: entries with the stamp of the begin would be absent in L1, and
// counted as stored.
func TestRestTakesNoRoomAfterEverythingWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := alone(t, "users", 2000), alone(t, "users", 0)
		for i := range 2000 {
			must(t, from.SetNotFound(t.Context(), fmt.Sprint("none", i), strata.WithTTL(time.Hour)))
		}
		file := saved(t, from)
		r, err := snapshot.Read(t.Context(), &afterSome{bytes.NewReader(file), len(file) / 4, func() {
			must(t, to.Tune(strata.Tuning{Off: new(true)}))
			must(t, to.Tune(strata.Tuning{Off: new(false)}))
		}}, snapshot.Options{}, to)
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Caches[0]; to.Len() != 0 || c.Changed < 1000 {
			t.Errorf("%d entries, %+v", to.Len(), c)
		}
	})
}

func TestKeysThatWereWrittenBeforeASnapshotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := alone(t, "users", 2000)
		must(t, c.InvalidateAll(t.Context()))
		must(t, c.InvalidateTags(t.Context(), "t"))
		fill(t, c, 2000)
		file := saved(t, c)
		must(t, c.Tune(strata.Tuning{Off: new(true)}))
		must(t, c.Tune(strata.Tuning{Off: new(false)}))
		for i, to := range []users{c, alone(t, "users", 0)} {
			for range 2 {
				loaded(t, file, to)
				if n := holds(t, to, 2000); n != 2000 {
					t.Errorf("cache %d: %d of 2000", i, n)
				}
			}
		}
	})
}

func TestManyDropsOfOtherKeysCostASnapshotLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct{ drops, least int }{{11_000, 2000}, {30_000, 1980}, {300_000, 1800}} {
			c := alone(t, "users", 2000)
			file := saved(t, c)
			must(t, c.Invalidate(t.Context(), "k1"))
			for i := range tt.drops {
				must(t, c.Invalidate(t.Context(), fmt.Sprint("other", i)))
			}
			newer := saved(t, c)
			must(t, c.Tune(strata.Tuning{Off: new(true)})) // empties L1
			must(t, c.Tune(strata.Tuning{Off: new(false)}))
			restarted := alone(t, "users", 0)
			must(t, restarted.Set(t.Context(), "own", "mine"))
			loaded(t, file, restarted)
			loaded(t, newer, restarted)
			for i, to := range []users{c, restarted} {
				loaded(t, file, to)
				absent(t, to, "after many drops")
				if n := holds(t, to, 2000); n < tt.least-1 || n > 1999 {
					t.Errorf("%d drops, cache %d: %d of 1999", tt.drops, i, n)
				}
			}
			if v, ok := restarted.Get(t.Context(), "own"); !ok || v != "mine" {
				t.Errorf("%d drops: the reader's own entry is %q", tt.drops, v)
			}
		}
	})
}

func TestCachesWithL2OrBusBringBackNothingOfAFileFromBeforeADrop(t *testing.T) {
	for way, drop := range waysToDrop() {
		for name, parts := range map[string]struct{ tier, bus bool }{"tier": {tier: true}, "bus": {bus: true}, "both": {true, true}} {
			t.Run(way+" with "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := alone(t, "users", 0, func(o *strata.Options[string, string]) {
						tier, bus := stratatest.NewTier(), stratatest.NewBus()
						if parts.tier {
							o.Remote.Tier = tier
						}
						if parts.bus {
							o.Remote.Bus = bus
							tier.Announce(bus)
						}
					})
					time.Sleep(5 * time.Second) // in the bubble, until the bus is connected
					fill(t, c, 50)
					must(t, c.Set(t.Context(), "k1", "v1", strata.WithTags("t")))
					file := saved(t, c)
					if drop(t, c); t.Failed() {
						return
					}
					time.Sleep(2 * time.Second) // in the bubble
					pushOut(t, c)
					r, err := snapshot.Read(t.Context(), bytes.NewReader(file), snapshot.Options{}, c)
					if err != nil || r.Entries() != 50 {
						t.Errorf("%+v, %v", r, err)
					}
					absent(t, c, "a file from before the drop")
				})
			})
		}
	}
}

// dropping calls drop after so many writes.
type dropping struct {
	bytes.Buffer
	left int
	drop func()
}

func (d *dropping) Write(b []byte) (int, error) {
	if d.left--; d.left == 0 {
		d.drop()
	}
	return d.Buffer.Write(b)
}

// TestDropDuringASaveCountsForAFullL1 drops a key that was written already. The reader has no room for most
// of the entries between the key and its drop.
func TestDropDuringASaveCountsForAFullL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := alone(t, "users", 0)
		fill(t, first, 20_000)
		for range 3 {
			first.Get(t.Context(), "k7") // the hottest
		}
		file := &dropping{left: 6, drop: func() { must(t, first.Invalidate(t.Context(), "k7")) }}
		_, err := snapshot.Write(t.Context(), file, snapshot.Options{}, first)
		must(t, err)
		if file.left > 0 {
			t.Fatal("nothing was dropped")
		}
		small := alone(t, "users", 0, func(o *strata.Options[string, string]) { o.Memory.MaxEntries = 100 })
		r, err := snapshot.Read(t.Context(), &file.Buffer, snapshot.Options{}, small)
		if err != nil || r.Rest != "L1 is full" || r.Warm() < 90 || r.Entries() > 3000 {
			t.Errorf("%+v, %v", r, err)
		}
		if v, ok := small.Get(t.Context(), "k7"); ok {
			t.Errorf("k7 is %q, which was dropped", v)
		}
	})
}
