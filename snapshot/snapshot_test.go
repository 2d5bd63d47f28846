package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// alone returns a cache without L2 and with n entries: k0 with the value v0 and so on.
func alone(t testing.TB, name string, n int, options ...func(*strata.Options[string, string])) *strata.Cache[string, string] {
	t.Helper()
	o := stratatest.Plain(strata.Options[string, string]{Name: name, TTL: time.Hour, Memory: strata.Memory[string, string]{MaxEntries: 100_000}})
	for _, f := range options {
		f(&o)
	}
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	fill(t, c, n)
	return c
}

// shared returns a cache on a tier and on a connection of its own to a bus, which it waits
// for, in a bubble. The test can cut the connection.
func shared(t testing.TB, tier *stratatest.Tier, bus *stratatest.Bus, change ...func(*strata.Options[string, string])) (*strata.Cache[string, string], *stratatest.Bus) {
	t.Helper()
	tier.Announce(bus)
	own := bus.Connect()
	c := alone(t, "users", 0, append(change, func(o *strata.Options[string, string]) { o.Remote.Tier, o.Remote.Bus = tier, own })...)
	for !c.Stats().Connected {
		time.Sleep(time.Millisecond) // in the bubble
	}
	return c, own
}

func fill(t testing.TB, c *strata.Cache[string, string], n int) {
	t.Helper()
	for i := range n {
		if err := c.Set(t.Context(), "k"+strconv.Itoa(i), "v"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// holds counts the keys with the value of fill in c, and fails for other values.
func holds(t testing.TB, c *strata.Cache[string, string], n int) (held int) {
	t.Helper()
	for i := range n {
		switch v, ok := c.Get(t.Context(), "k"+strconv.Itoa(i)); {
		case ok && v != "v"+strconv.Itoa(i):
			t.Fatalf("k%d is %q", i, v)
		case ok:
			held++
		}
	}
	return held
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLoadedCachesAnswerAsTheSavedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "snapshot")
		users, products := alone(t, "users", 5000), alone(t, "products", 300)
		must(t, users.Set(t.Context(), "long", strings.Repeat("x", 300_000)))
		must(t, users.Expire(t.Context(), "k7"))
		must(t, users.SetNotFound(t.Context(), "none", strata.WithTTL(time.Hour)))
		r, err := snapshot.Save(t.Context(), path, snapshot.Options{}, users, products)
		if err != nil || len(r.Caches) != 2 || r.Caches[0].Entries != 5002 || r.Caches[1].Entries != 300 || r.Bytes < 300_000 {
			t.Errorf("saved %+v, %v", r, err)
		}
		about, err := os.Stat(path)
		if err != nil || about.Size() != r.Bytes || about.Mode().Perm() != 0o600 {
			t.Errorf("%v %d %v, written %d", err, about.Size(), about.Mode(), r.Bytes)
		}
		time.Sleep(time.Minute) // in the bubble
		users2, products2 := alone(t, "users", 0), alone(t, "products", 0)
		r, err = snapshot.Load(t.Context(), path, snapshot.Options{}, products2, users2)
		if err != nil || r.Entries() != 5302 || r.Warm() != 5302 || r.Bytes != about.Size() {
			t.Errorf("loaded %+v, %v", r, err)
		}
		if n, m := holds(t, users2, 5000), holds(t, products2, 300); n < 4999 || m != 300 {
			t.Errorf("%d users, %d products", n, m)
		}
		if _, err := users2.GetOrLoad(t.Context(), "none", func(context.Context, string) (string, error) { return "loaded", nil }); !errors.Is(err, strata.ErrNotFound) {
			t.Errorf("a key that the origin does not have: %v", err)
		}
		time.Sleep(time.Hour - time.Minute - time.Second) // in the bubble: the entries are as old as before
		if n := holds(t, products2, 300); n != 300 {
			t.Errorf("%d products a second before their end", n)
		}
		time.Sleep(2 * time.Second) // in the bubble
		if n := holds(t, products2, 300); n != 0 {
			t.Errorf("%d products after their end", n)
		}
	})
}

func TestHottestEntriesOfAllCachesComeFirst(t *testing.T) {
	a, b := alone(t, "a", 0), alone(t, "b", 0)
	for i := range 2000 {
		must(t, a.Set(t.Context(), "k"+strconv.Itoa(i), "v"+strconv.Itoa(i)))
		must(t, b.Set(t.Context(), "k"+strconv.Itoa(i), "v"+strconv.Itoa(i)))
		must(t, b.Set(t.Context(), "large"+strconv.Itoa(i), strings.Repeat("x", 500)))
	}
	for range 3 {
		for i := range 100 {
			a.Get(t.Context(), "k"+strconv.Itoa(i))
			b.Get(t.Context(), "k"+strconv.Itoa(i))
		}
	}
	var file bytes.Buffer
	_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, a, b)
	must(t, err)
	a2, b2 := alone(t, "a", 0), alone(t, "b", 0)
	part := file.Bytes()[:file.Len()/4]
	if _, err = snapshot.Read(t.Context(), bytes.NewReader(part), snapshot.Options{}, a2, b2); !errors.Is(err, snapshot.ErrTruncated) {
		t.Error(err)
	}
	if n, m := holds(t, a2, 100), holds(t, b2, 100); n < 98 || m < 98 { // the order is approximate
		t.Errorf("a quarter of the snapshot has %d and %d of the 100 entries that were read", n, m)
	}
}

func TestMaxEntriesAreTheHottest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	c := alone(t, "users", 3000)
	for range 3 {
		for i := 500; i < 600; i++ {
			c.Get(t.Context(), "k"+strconv.Itoa(i))
		}
	}
	r, err := snapshot.Save(t.Context(), path, snapshot.Options{MaxEntries: 100}, c)
	if err != nil || r.Entries() != 100 {
		t.Errorf("%+v, %v", r, err)
	}
	c2 := alone(t, "users", 0)
	_, err = snapshot.Load(t.Context(), path, snapshot.Options{}, c2)
	must(t, err)
	n := 0
	for i := 500; i < 600; i++ {
		if _, ok := c2.Get(t.Context(), "k"+strconv.Itoa(i)); ok {
			n++
		}
	}
	if n < 95 {
		t.Errorf("%d of the 100 entries that were read", n)
	}
}

func TestCacheOfAnotherTypeIsPassedOverAndTheOthersAreLoaded(t *testing.T) {
	users, products := alone(t, "users", 500), alone(t, "products", 700)
	type price struct{ Cents int }
	prices, err := strata.New(strata.Options[string, price]{Name: "prices", TTL: time.Hour})
	must(t, err)
	must(t, prices.Set(t.Context(), "k", price{7}))
	var file bytes.Buffer
	_, err = snapshot.Write(t.Context(), &file, snapshot.Options{}, users, products, alone(t, "orders", 40), prices)
	must(t, err)
	type changed struct{ Cents string }
	prices2, err := strata.New(strata.Options[string, changed]{Name: "prices", TTL: time.Hour})
	must(t, err)
	numbers, err := strata.New(strata.Options[string, int64]{Name: "users", TTL: time.Hour})
	must(t, err)
	products2 := alone(t, "products", 0)
	r, err := snapshot.Read(t.Context(), &file, snapshot.Options{}, numbers, products2, prices2)
	if err != nil || len(r.Caches) != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	if c := r.Caches[0]; c.Refused == "" || c.Entries != 500 || c.Passed != 500 || numbers.Len() != 0 {
		t.Errorf("values of another type: %+v, %d entries", c, numbers.Len())
	}
	if c := r.Caches[1]; c.Refused != "" || c.Stored != 700 || holds(t, products2, 700) != 700 {
		t.Errorf("the cache beside it: %+v", c)
	}
	if c := r.Caches[3]; !strings.Contains(c.Refused, "fingerprint") || c.Passed != 1 {
		t.Errorf("a type that has changed: %+v", c)
	}
	if c := r.Caches[2]; !strings.Contains(c.Refused, "name") || c.Passed != 40 {
		t.Errorf("a cache that is not here: %+v", c)
	}
}

func TestKeysAreReadFromL2WithTheirValuesOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus, path := stratatest.NewTier(), stratatest.NewBus(), filepath.Join(t.TempDir(), "keys")
		first, _ := shared(t, tier, bus)
		fill(t, first, 2000)
		synctest.Wait()
		r, err := snapshot.SaveKeys(t.Context(), path, snapshot.Options{}, first)
		if err != nil || r.Entries() != 2000 || r.Bytes > 2000*8 {
			t.Errorf("%+v, %v", r, err)
		}
		must(t, first.Invalidate(t.Context(), "k3"))
		must(t, first.Set(t.Context(), "k4", "new"))
		second, _ := shared(t, tier, bus)
		must(t, second.Set(t.Context(), "k5", "v5"))
		var steps []snapshot.Progress
		r, err = snapshot.WarmKeys(t.Context(), path, snapshot.Options{Progress: func(p snapshot.Progress) { steps = append(steps, p) }}, second)
		want := snapshot.CacheReport{Name: "users", Entries: 2000, Confirmed: 1998, Present: 1, Absent: 1}
		if err != nil || len(r.Caches) != 1 || r.Caches[0] != want {
			t.Errorf("%+v, %v", r, err)
		}
		if last := steps[len(steps)-1]; last.Entries != 2000 || last.Bytes != r.Bytes || last.TotalBytes != r.Bytes {
			t.Errorf("told of %+v", last)
		}
		if v, ok := second.Get(t.Context(), "k4"); v != "new" || !ok {
			t.Errorf("k4 is %q", v)
		}
		if _, ok := second.Get(t.Context(), "k3"); ok {
			t.Error("a dropped key is back")
		}
		if n := second.Stats().L1.Misses; n != 1 {
			t.Errorf("%d misses", n)
		}
		alone := alone(t, "users", 0)
		if r, err = snapshot.WarmKeys(t.Context(), path, snapshot.Options{}, alone); !errors.Is(err, snapshot.ErrRefused) || r.Caches[0].Refused == "" || r.Caches[0].Passed != 2000 {
			t.Errorf("a cache without L2: %+v, %v", r, err)
		}
		if _, err = snapshot.Load(t.Context(), path, snapshot.Options{}, alone); !errors.Is(err, snapshot.ErrKeysOnly) {
			t.Errorf("Load of keys: %v", err)
		}
	})
}

func TestValuesThatADropMayConcernAreReadFromL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		first, _ := shared(t, tier, bus)
		synctest.Wait()
		fill(t, first, 500)
		synctest.Wait()
		var file bytes.Buffer
		_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, first)
		must(t, err)
		must(t, first.Invalidate(t.Context(), "k3"))
		must(t, first.Set(t.Context(), "k4", "new"))
		second, cut := shared(t, tier, bus)
		r, err := snapshot.Read(t.Context(), bytes.NewReader(file.Bytes()), snapshot.Options{}, second)
		if c := r.Caches[0]; err != nil || c.Stored+c.Confirmed != 499 || c.Confirmed == 0 || c.Stored < 400 || c.Absent != 1 || c.Entries != 500 || !strings.Contains(c.Suspect, "dropped since") {
			t.Errorf("%+v, %v", r, err)
		}
		if v, ok := second.Get(t.Context(), "k4"); v != "new" || !ok {
			t.Errorf("k4 is %q", v)
		}
		if _, ok := second.Get(t.Context(), "k3"); ok {
			t.Error("a dropped key is back")
		}
		must(t, second.InvalidateAll(t.Context()))
		fill(t, first, 500)
		other, _ := shared(t, stratatest.NewTier(), stratatest.NewBus())
		if r, err = snapshot.Read(t.Context(), bytes.NewReader(file.Bytes()), snapshot.Options{}, other); err != nil || r.Caches[0].Absent != 500 || !strings.Contains(r.Caches[0].Suspect, "another L2") {
			t.Errorf("on another L2: %+v, %v", r, err)
		}
		cut.Cut()
		time.Sleep(5 * time.Second) // in the bubble, until the bus counts as silent
		if r, err = snapshot.Read(t.Context(), &file, snapshot.Options{}, second); err != nil || r.Caches[0].Stored != 0 || !strings.Contains(r.Caches[0].Suspect, "silent") {
			t.Errorf("without the bus: %+v, %v", r, err)
		}
	})
}

// TestShortLifeFromL2IsNotRefreshedAtOnce has a snapshot of an instance that knows the value from
// L2, and so does not know that its life was short from the begin.
func TestShortLifeFromL2IsNotRefreshedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		refreshes := func(o *strata.Options[string, string]) { o.RefreshAt = 0.8 }
		first, _ := shared(t, tier, bus)
		second, _ := shared(t, tier, bus)
		must(t, first.Set(t.Context(), "k", "v", strata.WithTTL(time.Minute)))
		synctest.Wait()
		if v, ok := second.Get(t.Context(), "k"); v != "v" || !ok {
			t.Fatalf("%q, %v", v, ok)
		}
		var file bytes.Buffer
		_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, second)
		must(t, err)
		third, _ := shared(t, tier, bus, refreshes)
		r, err := snapshot.Read(t.Context(), &file, snapshot.Options{}, third)
		if err != nil || r.Caches[0].Stored != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		read := func(loads uint64) {
			t.Helper()
			v, err := third.GetOrLoad(t.Context(), "k", func(context.Context, string) (string, error) { return "new", nil })
			if v != "v" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
			synctest.Wait()
			if s := third.Stats(); s.Loads.OK != loads {
				t.Errorf("%d loads, want %d", s.Loads.OK, loads)
			}
		}
		read(0)
		time.Sleep(55 * time.Second) // in the bubble: now it is due
		read(1)
	})
}

// TestReadKeepsToTheTunedBoundOfL1 reads the same file after the bound has grown, and after it
// has shrunk.
func TestReadKeepsToTheTunedBoundOfL1(t *testing.T) {
	from := alone(t, "users", 2000)
	var file bytes.Buffer
	if _, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, from); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ options, tuned, least, most int64 }{{1000, 10_000, 2000, 2000}, {10_000, 1000, 900, 1000}} {
		to := alone(t, "users", 0, func(o *strata.Options[string, string]) { o.Memory.MaxEntries = x.options })
		must(t, to.Tune(strata.Tuning{MaxEntries: &x.tuned}))
		r, err := snapshot.Read(t.Context(), bytes.NewReader(file.Bytes()), snapshot.Options{}, to)
		if stored := int64(r.Caches[0].Stored); err != nil || stored < x.least || stored > x.most || to.Stats().Evicted > 0 {
			t.Errorf("bound %d, tuned to %d: %d stored, %d evicted, %v", x.options, x.tuned, stored, to.Stats().Evicted, err)
		}
	}
}

// TestReadEndsWhenL1IsFull, but for the drops of a cache that hears of them in no other way.
func TestReadEndsWhenL1IsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		bound := func(o *strata.Options[string, string]) { o.Memory.MaxEntries = 1000 }
		joined, _ := shared(t, tier, bus)
		fill(t, joined, 20_000)
		synctest.Wait()
		second, _ := shared(t, tier, bus, bound)
		for name, x := range map[string]struct{ from, to *strata.Cache[string, string] }{
			"with a bus": {joined, second}, "alone": {alone(t, "users", 20_000), alone(t, "users", 0, bound)},
		} {
			var file bytes.Buffer
			_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, x.from)
			must(t, err)
			all := int64(file.Len())
			r, err := snapshot.Read(t.Context(), &file, snapshot.Options{}, x.to)
			if c := r.Caches[0]; err != nil || c.Stored < 900 || c.Full < 1000 || c.Entries > 3000 || (r.Bytes < all/3) != (name == "with a bus") || x.to.Stats().Evicted > 0 {
				t.Errorf("%s: %+v of %d bytes, %v; evicted %d", name, r, all, err, x.to.Stats().Evicted)
			}
		}
	})
}

// weighing bounds L1 by the lengths of values.
func weighing(most int64) func(*strata.Options[string, string]) {
	return func(o *strata.Options[string, string]) {
		o.Memory.MaxEntries, o.Memory.MaxWeight = 0, most
		o.Memory.Weigh = func(_, v string) int64 { return int64(len(v)) }
	}
}

func encodedIn(bytes int64) func(*strata.Options[string, string]) {
	return func(o *strata.Options[string, string]) {
		o.Memory = strata.Memory[string, string]{Encoded: true, MaxWeight: bytes}
	}
}

func TestHeavyEntryOfASnapshotPushesNoneOut(t *testing.T) {
	for name, tt := range map[string]struct {
		small   func(*strata.Options[string, string])
		present int // so many entries of 1000 bytes leave too little room
		heavy   int
	}{
		"by weight": {weighing(20_000), 19, 5000},
		"encoded":   {encodedIn(1 << 20), 920, 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			c, value := alone(t, "users", 0), strings.Repeat("v", 1000)
			must(t, c.Set(t.Context(), "heavy", strings.Repeat("v", tt.heavy)))
			var file bytes.Buffer
			_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, c)
			must(t, err)
			small := alone(t, "users", 0, tt.small)
			for i := range tt.present {
				must(t, small.Set(t.Context(), strconv.Itoa(i), value))
			}
			if small.Len() != tt.present {
				t.Fatalf("%d entries before the snapshot", small.Len())
			}
			r, err := snapshot.Read(t.Context(), &file, snapshot.Options{}, small)
			if n := small.Stats().Evicted; err != nil || n > 0 || small.Len() != tt.present || r.Caches[0].Full != 1 {
				t.Errorf("%+v, %v: %d evicted, %d present", r, err, n, small.Len())
			}
		})
	}
}

// A small entry finds room in a cache that has turned away heavy ones, again and again.
func TestCacheThatCountsAsFullOftenCostsAnotherNothing(t *testing.T) {
	const n = 10_000
	from, other := alone(t, "users", 0, weighing(1<<40)), alone(t, "products", n)
	for i := range n {
		size := 100
		if i%2000 == 0 {
			size = 5
		}
		must(t, from.Set(t.Context(), strconv.Itoa(i), strings.Repeat("v", size)))
	}
	var file bytes.Buffer
	_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, from, other)
	must(t, err)
	small, wide := alone(t, "users", 0, weighing(50)), alone(t, "products", 0)
	r, err := snapshot.Read(t.Context(), &file, snapshot.Options{}, small, wide)
	if err != nil || wide.Len() != n || r.Rest != "" {
		t.Errorf("%d entries of the cache with room, %+v, %v", wide.Len(), r, err)
	}
}

func TestTimeOfReadingIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := alone(t, "users", 20_000)
		var file bytes.Buffer
		_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, c)
		must(t, err)
		c2, begun := alone(t, "users", 0), time.Now()
		o := snapshot.Options{BytesPerSecond: int64(file.Len() / 10), Within: 5 * time.Second}
		r, err := snapshot.Read(t.Context(), &file, o, c2)
		if !errors.Is(err, snapshot.ErrTime) || time.Since(begun) != 5*time.Second || r.Warm() < 7000 || r.Warm() > 13_000 || c2.Len() != r.Warm() {
			t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
		}
	})
}

func TestWriteKeepsToItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begun := alone(t, "users", 15_000), time.Now()
		var told int
		r, err := snapshot.Write(t.Context(), new(bytes.Buffer), snapshot.Options{BytesPerSecond: 100_000, Progress: func(snapshot.Progress) { told++ }}, c)
		want := time.Duration(r.Bytes) * time.Second / 100_000
		if took := time.Since(begun); err != nil || took < want*9/10 || took > want*11/10 || told < 5 {
			t.Errorf("%v for %d bytes, %v; told %d times", took, r.Bytes, err, told)
		}
	})
}

func TestSnapshotOfTheFutureIsRefused(t *testing.T) {
	var file bytes.Buffer
	_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, alone(t, "users", 10))
	must(t, err)
	synctest.Test(t, func(t *testing.T) { // in which it is the year 2000
		c := alone(t, "users", 0)
		if r, err := snapshot.Read(t.Context(), &file, snapshot.Options{}, c); !errors.Is(err, snapshot.ErrFuture) || r.Entries() != 0 || c.Len() != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestWrongUseIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	c := alone(t, "users", 1)
	closed := alone(t, "closed", 1)
	must(t, closed.Close(t.Context()))
	type key struct{ a, b int }
	unnamed, err := strata.New(strata.Options[key, string]{Name: "unnamed", TTL: time.Hour})
	must(t, err)
	for i, caches := range [][]snapshot.Cache{nil, {alone(t, "", 1)}, {c, alone(t, "users", 1)}, {closed}, {unnamed}} {
		if _, err := snapshot.Save(t.Context(), path, snapshot.Options{}, caches...); err == nil {
			t.Errorf("caches %d: no error of Save", i)
		}
		if _, err := snapshot.SaveKeys(t.Context(), path, snapshot.Options{}, caches...); err == nil {
			t.Errorf("caches %d: no error of SaveKeys", i)
		}
		if _, err := snapshot.Read(t.Context(), new(bytes.Buffer), snapshot.Options{}, caches...); err == nil {
			t.Errorf("caches %d: no error of Read", i)
		}
	}
	for i, o := range []snapshot.Options{{BytesPerSecond: -1}, {KeysPerSecond: -1}, {MaxEntries: -1}, {Streams: -1}, {Streams: 17}, {Stall: -1}} {
		if _, err := snapshot.Save(t.Context(), path, o, c); err == nil {
			t.Errorf("options %d: no error", i)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file is there:", err)
	}
	if _, err := snapshot.Load(t.Context(), path, snapshot.Options{}, c); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := snapshot.Load(t.Context(), t.TempDir(), snapshot.Options{}, c); err == nil {
		t.Error("a directory is loaded")
	}
}

func TestInstanceThatWasJustMadeKeepsItsEntriesWhenItsBusConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus, path := stratatest.NewTier(), stratatest.NewBus(), filepath.Join(t.TempDir(), "keys")
		first, _ := shared(t, tier, bus)
		fill(t, first, 500)
		synctest.Wait()
		var file bytes.Buffer
		_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, first)
		must(t, err)
		_, err = snapshot.SaveKeys(t.Context(), path, snapshot.Options{}, first)
		must(t, err)
		for i, start := range []func(c *strata.Cache[string, string]) (snapshot.Report, error){
			func(c *strata.Cache[string, string]) (snapshot.Report, error) {
				return snapshot.WarmKeys(t.Context(), path, snapshot.Options{}, c)
			},
			func(c *strata.Cache[string, string]) (snapshot.Report, error) {
				return snapshot.Read(t.Context(), bytes.NewReader(file.Bytes()), snapshot.Options{}, c)
			},
		} {
			own := bus.Connect()
			own.Cut() // until half a second after New
			time.AfterFunc(500*time.Millisecond, own.Join)
			c := alone(t, "users", 0, func(o *strata.Options[string, string]) { o.Remote.Tier, o.Remote.Bus = tier, own })
			if r, err := start(c); err != nil || r.Warm() != 500 || r.Caches[0].Stored != 500*i {
				t.Errorf("%+v, %v", r, err)
			}
			time.Sleep(5 * time.Second) // in the bubble: the bus has told all that it has
			if n := holds(t, c, 500); n != 500 || c.Stats().L1.Hits != 500 {
				t.Errorf("%d entries, %d of them from L1", n, c.Stats().L1.Hits)
			}
		}
	})
}

func TestSnapshotOfAnotherServiceIsRefused(t *testing.T) {
	of := func(service string, tier *stratatest.Tier) *strata.Cache[string, string] {
		return alone(t, "users", 0, func(o *strata.Options[string, string]) {
			if o.Service = service; tier != nil {
				o.Remote.Tier, o.Memory.TTL = tier, time.Minute
			}
		})
	}
	for _, tier := range []*stratatest.Tier{nil, stratatest.NewTier()} {
		for _, from := range []string{"", "shop", "bank"} {
			source := of(from, tier)
			must(t, source.Set(t.Context(), "k", "of "+from))
			var file bytes.Buffer
			_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, source)
			must(t, err)
			for _, to := range []string{"", "shop", "bank"} {
				target := of(to, nil)
				report, err := snapshot.Read(t.Context(), bytes.NewReader(file.Bytes()), snapshot.Options{}, target)
				_, refused := target.Get(t.Context(), "k")
				refused = !refused
				if refused != (from != to) || refused != strings.Contains(fmt.Sprint(report, err), "another service") {
					t.Errorf("from %q to %q: refused %v: %+v, %v", from, to, refused, report, err)
				}
			}
		}
	}
}
