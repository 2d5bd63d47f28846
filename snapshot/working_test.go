package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/memory"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// named sets n entries of c, with the prefix in the names of their keys.
func named(t *testing.T, c users, prefix string, n int) {
	t.Helper()
	for i := range n {
		if err := c.Set(t.Context(), prefix+strconv.Itoa(i), "v"); err != nil {
			t.Error(err)
		}
	}
}

// missing counts the keys of named that c does not have.
func missing(t *testing.T, c users, prefix string, n int) (lost int) {
	t.Helper()
	for i := range n {
		if _, ok := c.Get(t.Context(), prefix+strconv.Itoa(i)); !ok {
			lost++
		}
	}
	return lost
}

func TestInstancesThatPullFromEachOtherHaveAllEntriesOfBoth(t *testing.T) {
	for range 15 {
		synctest.Test(t, func(t *testing.T) {
			a, b := alone(t, "users", 0), alone(t, "users", 0)
			named(t, a, "a", 300)
			named(t, b, "b", 300)
			clients := map[users]snapshot.Options{
				a: {Client: serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, b))},
				b: {Client: serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, a))},
			}
			var all sync.WaitGroup
			for c, o := range clients {
				all.Go(func() {
					if _, err := snapshot.Pull(t.Context(), at, o, c); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for _, c := range []users{a, b} {
				if n, m := missing(t, c, "a", 300), missing(t, c, "b", 300); n+m > 0 {
					t.Errorf("%d and %d entries are missing", n, m)
				}
			}
		})
	}
}

func TestEntriesThatComeMeanwhilePushNoneOutOfASnapshot(t *testing.T) {
	path := t.TempDir() + "/keys"
	for range kit.Rounds(60) {
		c, other := alone(t, "users", 1000), alone(t, "users", 0)
		begun := make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := range 3000 {
				_ = c.Set(context.Background(), "new"+strconv.Itoa(i), "v")
				if i == 10 {
					close(begun)
				}
			}
		})
		<-begun
		file := saved(t, c)
		keys, err := snapshot.SaveKeys(t.Context(), path, snapshot.Options{}, c)
		if err != nil || keys.Entries() < 1000 || keys.Missing() > 0 {
			t.Errorf("keys: %+v, %v", keys, err)
		}
		r := loaded(t, file, other)
		if n := holds(t, other, 1000); n < 998 { // one may share a mark with a written key
			t.Errorf("%d of 1000 entries: %+v", n, r)
		}
		writer.Wait()
		must(t, errors.Join(c.Close(t.Context()), other.Close(t.Context())))
	}
}

// weighed makes a cache with a bound of weights: the weight of a value is its length.
func weighed(bound int64) func(*strata.Options[string, string]) {
	return func(o *strata.Options[string, string]) {
		o.Memory = strata.Memory[string, string]{MaxWeight: bound, Weigh: func(_, v string) int64 { return int64(len(v)) }}
	}
}

// TestDivisionOfShardsHidesNothingFromASnapshot saves a cache again and again whose number of shards
// grows with its entries, and whose bound is tuned meanwhile. No bound is below the weight of all.
func TestDivisionOfShardsHidesNothingFromASnapshot(t *testing.T) {
	for range kit.Rounds(6) {
		c := alone(t, "users", 500, weighed(1<<30))
		var writer sync.WaitGroup
		writer.Go(func() { named(t, c, "new", 6000) })
		for i := range 5 {
			must(t, c.Tune(strata.Tuning{MaxWeight: new(int64(1<<30 + i))}))
			other := alone(t, "users", 0)
			r := loaded(t, saved(t, c), other)
			if n := holds(t, other, 500); n < 499 { // one may share a mark with a written key
				t.Errorf("%d of 500 entries: %+v", n, r)
			}
			must(t, other.Close(t.Context()))
		}
		writer.Wait()
		if n, lost := holds(t, c, 500), missing(t, c, "new", 6000); n != 500 || lost > 0 || c.Stats().Evicted > 0 {
			t.Errorf("%d of 500 entries, %d others lost", n, lost)
		}
		must(t, c.Close(t.Context()))
	}
}

// TestSnapshotHasNoValueThatWasRefused: a full cache serves a heavy load without keeping it. A snapshot
// has such a value only if it was set, and a full cache then takes it.
func TestSnapshotHasNoValueThatWasRefused(t *testing.T) {
	heavy := strings.Repeat("x", 2000)
	load := func(context.Context, string) (string, error) { return heavy, nil }
	c, full := alone(t, "users", 1000, weighed(4000)), alone(t, "users", 1000, weighed(4000))
	if _, err := c.GetOrLoad(t.Context(), "loaded", load); err != nil {
		t.Fatal(err)
	}
	loaded(t, saved(t, c), full)
	if _, ok := full.Get(t.Context(), "loaded"); ok {
		t.Error("a refused value came with a snapshot")
	}
	must(t, c.Set(t.Context(), "set", heavy))
	loaded(t, saved(t, c), full)
	if v, ok := full.Get(t.Context(), "set"); !ok || v != heavy || full.Stats().Weight > 4000 {
		t.Errorf("the value that was set: %d bytes, %v; weight %d", len(v), ok, full.Stats().Weight)
	}
}

func TestWritesOfOtherKeysDuringATransferCostNoEntry(t *testing.T) {
	for writes, least := range map[int]int{11_000: 19_950, 60_000: 19_700} {
		synctest.Test(t, func(t *testing.T) {
			donor, c := alone(t, "users", 20_000), alone(t, "users", 0)
			must(t, c.SetNotFound(t.Context(), "own negative", strata.WithTTL(time.Hour)))
			named(t, c, "own", 500)
			var r snapshot.Report
			client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, BytesPerSecond: 100_000}, donor))
			var puller sync.WaitGroup
			puller.Go(func() {
				var err error
				if r, err = snapshot.Pull(t.Context(), at, snapshot.Options{Client: client, Streams: 2}, c); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second) // in the bubble: the entries are on their way
			named(t, donor, "other", writes)
			must(t, donor.Invalidate(t.Context(), "k1"))
			must(t, donor.InvalidateTags(t.Context(), "of other keys"))
			puller.Wait()
			n, own := holds(t, c, 20_000), missing(t, c, "own", 500)
			if n < least || n > 19_999 || own > 0 || len(r.Caches) != 1 || r.Caches[0].Stored < least {
				t.Errorf("%d of 19 999 entries, %d own ones lost; %+v", n, own, r)
			}
			absent(t, c, "a drop of the other instance")
			if _, err := c.GetOrLoad(t.Context(), "own negative", func(context.Context, string) (string, error) { return "", nil }); !strata.IsNotFound(err) {
				t.Errorf("the own negative entry: %v", err)
			}
		})
	}
}

// TestReportCountsAsStoredWhatIsStillThere: the other instance drops entries that have come
// already, and tells of that at the end of each stream.
func TestReportCountsAsStoredWhatIsStillThere(t *testing.T) {
	for way, drop := range map[string]func(t *testing.T, c users){
		"keys": func(t *testing.T, c users) {
			for i := range 3000 {
				must(t, c.Invalidate(t.Context(), "k"+strconv.Itoa(i)))
			}
		},
		"everything": func(t *testing.T, c users) { must(t, c.InvalidateAll(t.Context())) },
	} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				donor, c := alone(t, "users", 20_000), alone(t, "users", 0)
				must(t, donor.SetNotFound(t.Context(), "nothing", strata.WithTTL(time.Hour)))
				var r snapshot.Report
				client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, BytesPerSecond: 100_000}, donor))
				var puller sync.WaitGroup
				puller.Go(func() {
					var err error
					if r, err = snapshot.Pull(t.Context(), at, snapshot.Options{Client: client, Streams: 2}, c); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(2 * time.Second) // in the bubble: some entries have come
				stored := c.Len()
				drop(t, donor)
				puller.Wait()
				n := c.Len()
				if _, err := c.GetOrLoad(t.Context(), "nothing", func(context.Context, string) (string, error) { return "", nil }); strata.IsNotFound(err) {
					n++
				}
				if got := r.Caches[0]; got.Stored != n || stored < 3000 || got.Changed < 500 || got.Entries != got.Stored+got.Changed {
					t.Errorf("L1 had %d entries before the drop, and has %d; the report is %+v", stored, n, got)
				}
			})
		})
	}
}

func TestDropOfEverythingByTheOtherInstanceTakesNoOwnEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		donor, c := alone(t, "users", 20_000), alone(t, "users", 0)
		named(t, c, "own", 500)
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, BytesPerSecond: 100_000}, donor))
		var puller sync.WaitGroup
		puller.Go(func() { _, _ = snapshot.Pull(t.Context(), at, snapshot.Options{Client: client}, c) })
		time.Sleep(time.Second) // in the bubble: some entries have come
		must(t, donor.InvalidateAll(t.Context()))
		puller.Wait()
		if n, own := holds(t, c, 20_000), missing(t, c, "own", 500); n > 0 || own > 0 {
			t.Errorf("%d entries that were dropped, %d own ones lost", n, own)
		}
	})
}

func TestPinnedEntriesComeBackPinned(t *testing.T) {
	for _, policy := range evict.Policies() {
		p := memory.Policy(policy)
		pins := func(o *strata.Options[string, string]) {
			o.Memory.Policy, o.Memory.MaxEntries, o.Memory.MaxWeight = p, 1000, 1000
			o.Memory.Weigh = func(k, _ string) int64 {
				if strings.HasPrefix(k, "pin") {
					return memory.Pinned
				}
				return 1
			}
		}
		c, c2 := alone(t, "users", 100, pins), alone(t, "users", 0, pins)
		named(t, c, "pin", 50)
		c.Get(t.Context(), "pin7")
		n, first := 0, ""
		for k := range c.Hottest(math.MaxInt) {
			if n++; n == 1 {
				first = k
			}
		}
		if n != 150 || (p == memory.LRU || p == memory.LFU) && first != "pin7" {
			t.Errorf("%v: %d hottest entries, the first is %s", p, n, first)
		}
		if r := loaded(t, saved(t, c), c2); r.Stored != 150 || r.Skipped != 0 || r.Missing != (snapshot.Missing{}) {
			t.Errorf("%v: %+v", p, r)
		}
		named(t, c2, "other", 5000)
		if lost := missing(t, c2, "pin", 50); lost > 0 {
			t.Errorf("%v: %d pinned entries were evicted", p, lost)
		}
	}
}

func TestReportTellsWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, release := alone(t, "users", 100), make(chan struct{})
		must(t, c.SetNotFound(t.Context(), "none", strata.WithTTL(time.Hour)))
		go func() {
			_ = c.Update(context.Background(), "k1", func(context.Context) (string, error) { <-release; return "new", nil })
		}()
		must(t, c.Set(t.Context(), "tagged", "v", strata.WithTags("t")))
		must(t, c.InvalidateTags(t.Context(), "t"))
		synctest.Wait()
		var file bytes.Buffer
		r, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, c)
		want := snapshot.Missing{Busy: 1, Gone: 1}
		if err != nil || r.Caches[0].Missing != want || r.Entries() != 100 || r.Missing() != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		if got := loaded(t, file.Bytes(), alone(t, "users", 0)); got.Missing != want || got.Stored != 100 {
			t.Errorf("the reader is told of %+v", got)
		}
		r, err = snapshot.Write(t.Context(), &file, snapshot.Options{MaxEntries: 30}, c)
		if m := r.Caches[0].Missing; err != nil || m.Beyond < 69 || m.Beyond > 72 {
			t.Errorf("30 of 100: %+v, %v", r, err)
		}
		file.Reset()
		must(t, c.Invalidate(t.Context(), "k2"))
		close(release)
		synctest.Wait()
		r, err = snapshot.SaveKeys(t.Context(), t.TempDir()+"/keys", snapshot.Options{MaxEntries: 30}, c)
		if err != nil || r.Entries() != 30 || r.Caches[0].Beyond != 69 {
			t.Errorf("30 of 99 keys: %+v, %v", r, err)
		}
		for i := range 40_000 {
			must(t, c.Invalidate(t.Context(), fmt.Sprint("other", i)))
		}
		if r := loaded(t, saved(t, c), alone(t, "users", 0)); !r.Coarse {
			t.Errorf("too many drops: %+v", r)
		}
		small := alone(t, "users", 0, func(o *strata.Options[string, string]) { o.Memory.MaxEntries = 100 })
		fill(t, c, 3000)
		r, err = snapshot.Read(t.Context(), bytes.NewReader(saved(t, c)), snapshot.Options{}, small)
		if err != nil || r.Rest != "L1 is full" || r.Caches[0].Full < 1000 {
			t.Errorf("a full L1: %+v, %v", r, err)
		}
	})
}

// TestEntriesBeyondTheBoundAreCounted has negative entries, which are written last, and remembered failures, which
// no snapshot has.
func TestEntriesBeyondTheBoundAreCounted(t *testing.T) {
	c := alone(t, "users", 5, func(o *strata.Options[string, string]) { o.NotFoundTTL, o.ErrorTTL = time.Hour, time.Hour })
	down := func(context.Context, string) (string, error) { return "", errors.New("down") }
	for i := range 5 {
		must(t, c.SetNotFound(t.Context(), fmt.Sprint("none", i)))
		_, err := c.GetOrLoad(t.Context(), fmt.Sprint("bad", i), down)
		if err == nil {
			t.Fatal("no error")
		}
	}
	for most, beyond := range map[int]int{3: 7, 5: 5, 7: 3, 10: 0, 20: 0} {
		r, err := snapshot.Write(t.Context(), io.Discard, snapshot.Options{MaxEntries: most}, c)
		if err != nil || r.Entries() != 10-beyond || r.Missing() != beyond {
			t.Errorf("of 10 entries %d are written and %d missing, %v; want %d", r.Entries(), r.Missing(), err, beyond)
		}
	}
}

func TestSectionOfAnotherNamespaceIsRefused(t *testing.T) {
	codec, fingerprint := transfer.Parts(alone(t, "users", 0).Inside()).Source().Format()
	write := func(space string, mode format.Mode) []byte {
		var file bytes.Buffer
		w := format.NewWriter(&file, format.Header{Mode: mode, Created: time.Unix(1, 0)})
		if _, err := w.Section(format.Section{Name: "users", Space: space, Codec: codec, Fingerprint: fingerprint}); err != nil {
			t.Fatal(err)
		}
		if mode == format.Keys {
			must(t, w.Key(0, "k"))
		} else {
			must(t, w.Entry(0, &format.Entry{Key: []byte("k"), Value: []byte(`"v"`), Fresh: format.Forever, Left: format.Forever, Weight: 1}, nil))
		}
		must(t, w.Close())
		return file.Bytes()
	}
	for space, refused := range map[string]bool{"example.org/billing": true, "": false, "users": false} {
		c := alone(t, "users", 0)
		r, err := snapshot.Read(t.Context(), bytes.NewReader(write(space, format.Values)), snapshot.Options{}, c)
		if refused != (err != nil) || refused != strings.Contains(r.Caches[0].Refused, "another service") || refused != (c.Len() == 0) {
			t.Errorf("service %q: %+v, %v", space, r, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c, _ := shared(t, stratatest.NewTier(), stratatest.NewBus())
		path := t.TempDir() + "/keys"
		writeFile(t, path, write("example.org/billing", format.Keys))
		if r, err := snapshot.WarmKeys(t.Context(), path, snapshot.Options{}, c); err == nil || !strings.Contains(r.Caches[0].Refused, "another service") {
			t.Errorf("keys: %+v, %v", r, err)
		}
	})
}

func writeFile(t *testing.T, path string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(path, b, 0o600))
}

func TestDropsOfTheOtherInstanceHoldInATransferThatIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		donor, c := alone(t, "users", 20_000), alone(t, "users", 0)
		h := snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, BytesPerSecond: 100_000}, donor)
		client := serve(t, broken(h, func(w http.ResponseWriter) http.ResponseWriter { return &cutAfter{ResponseWriter: w, left: 330_000} }))
		time.AfterFunc(time.Second, func() {
			for i := range 200 {
				_ = donor.Invalidate(context.Background(), "k"+strconv.Itoa(i))
			}
		})
		r, err := snapshot.Pull(t.Context(), at, snapshot.Options{Client: client, Streams: 1}, c)
		if err == nil || r.Warm() < 5000 {
			t.Errorf("%+v, %v", r, err)
		}
		if n := holds(t, c, 200); n > 0 {
			t.Errorf("%d of 200 keys that were dropped", n)
		}
	})
}
