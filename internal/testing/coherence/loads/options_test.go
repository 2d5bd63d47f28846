package loads_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

func TestBadOptionsAreOneErrorThatNamesEveryField(t *testing.T) {
	type key struct{ a int }
	_, err := strata.New(strata.Options[key, int]{
		Name:   "a name",
		TTL:    -1,
		Jitter: 2,
		Memory: strata.Memory[key, int]{MaxEntries: -1, MaxWeight: 5, TTL: -1},
		Limits: strata.Limits{Lease: time.Millisecond},
		Remote: strata.Remote[key, int]{
			Tier:     stratatest.NewTier(),
			ParseKey: func(string) (k key, err error) { return k, nil },
			Timeout:  -1,
		},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{
		"TTL", "Jitter", "Name", "Memory.MaxEntries", "Memory.Weigh", "Memory.TTL",
		"Limits.Lease", "Remote.Timeout", "Remote.Key",
	} {
		if !strings.Contains(err.Error(), "options: "+field+":") {
			t.Errorf("%s is not named in:\n%v", field, err)
		}
	}
}

func TestEachBadOptionIsRefused(t *testing.T) {
	type key struct{ a int }
	good := func() strata.Options[string, int] { return strata.Options[string, int]{Name: "n", TTL: time.Second} }
	tests := []struct {
		name, field string
		change      func(*strata.Options[string, int])
	}{
		{"no TTL", "TTL", func(o *strata.Options[string, int]) { o.TTL = 0 }},
		{"jitter that is no number", "Jitter", func(o *strata.Options[string, int]) { o.Jitter = math.NaN() }},
		{"name too long", "Name", func(o *strata.Options[string, int]) { o.Name = strings.Repeat("n", 129) }},
		{"brace in the name", "Name", func(o *strata.Options[string, int]) { o.Name = "a{b}" }},
		{"line end in the name", "Name", func(o *strata.Options[string, int]) { o.Name = "a\r\nb" }},
		{"tier without a name", "Name", func(o *strata.Options[string, int]) { o.Name = ""; o.Remote.Tier = stratatest.NewTier() }},
		{"bus without a name", "Name", func(o *strata.Options[string, int]) { o.Name = ""; o.Remote.Bus = stratatest.NewBus() }},
		{"weight without a bound", "Memory.MaxWeight", func(o *strata.Options[string, int]) {
			o.Memory.Weigh = func(string, int) int64 { return 1 }
		}},
		{"policy that there is not", "Memory.Policy", func(o *strata.Options[string, int]) { o.Memory.Policy = 99 }},
		{"share above a half", "Memory.EvictShare", func(o *strata.Options[string, int]) { o.Memory.EvictShare = 0.6 }},
		{"share that is no number", "Memory.EvictShare", func(o *strata.Options[string, int]) { o.Memory.EvictShare = math.NaN() }},
		{"parse without name of key", "Remote.Key", func(o *strata.Options[string, int]) {
			o.Remote.ParseKey = func(s string) (string, error) { return s, nil }
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := good()
			tt.change(&o)
			if _, err := strata.New(o); err == nil || !strings.Contains(err.Error(), tt.field+":") {
				t.Errorf("New: %v, want an error about %s", err, tt.field)
			}
		})
	}
	if c, err := strata.New(good()); err != nil {
		t.Errorf("good options: %v", err)
	} else {
		c.Close(context.Background())
	}
	_, err := strata.New(strata.Options[key, int]{Name: "n", TTL: time.Minute, Remote: strata.Remote[key, int]{Tier: stratatest.NewTier()}})
	if err == nil || !strings.Contains(err.Error(), "Remote.Key:") {
		t.Errorf("struct key without Key: %v", err)
	}
}

func TestCodecThatCannotCarryTheTypeIsRefused(t *testing.T) {
	_, err := strata.New(strata.Options[string, chan int]{
		Name: "n", TTL: time.Minute, Remote: strata.Remote[string, chan int]{Tier: stratatest.NewTier()},
	})
	if err == nil || !strings.Contains(err.Error(), "Remote.Codec:") {
		t.Errorf("values that JSON cannot carry: %v", err)
	}
}

func TestJitterOnlyShortensTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[int, int]) { o.Jitter = 0.5 })
		low, high := time.Hour, time.Duration(0)
		for i := range 1000 {
			if err := c.Set(t.Context(), i, i); err != nil {
				t.Fatal(err)
			}
			left := c.Explain(t.Context(), i).L1.Fresh
			low, high = min(low, left), max(high, left)
		}
		if high > time.Minute || low < 30*time.Second {
			t.Errorf("lives from %v to %v, want 30s to 1m", low, high)
		}
		if high-low < 25*time.Second {
			t.Errorf("lives from %v to %v: not spread", low, high)
		}
	})
}

func TestEntryIsNeverServedAtOrAfterItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		if err := c.Set(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Millisecond)
		if _, ok := c.Get(t.Context(), "k"); !ok {
			t.Error("gone before its TTL")
		}
		time.Sleep(time.Millisecond)
		if _, ok := c.Get(t.Context(), "k"); ok {
			t.Error("served at its TTL")
		}
	})
}

func TestWithTTLChangesTheLifeOfOneEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		load := (&lab.Origin{}).Load
		for key, ttl := range map[string]time.Duration{"short": time.Second, "zero": 0, "ever": strata.NoExpiry, "never": -1} {
			if _, err := c.GetOrLoad(t.Context(), key, load, strata.WithTTL(ttl)); err != nil {
				t.Fatal(err)
			}
		}
		for key, want := range map[string]time.Duration{"short": time.Second, "zero": 0, "ever": strata.NoExpiry, "never": 0} {
			if got := c.Explain(t.Context(), key).L1.Fresh; got != want {
				t.Errorf("%s: %v left, want %v", key, got, want)
			}
		}
	})
}

func TestWeightBoundsL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evicted := 0
		c := lab.NewCache(t, func(o *strata.Options[int, string]) {
			o.Memory.MaxWeight = 100
			o.Memory.Weigh = func(_ int, v string) int64 { return int64(len(v)) }
			o.Hooks = &strata.Hooks{Evict: func(e strata.Event) {
				if e.Reason == "evicted" {
					evicted++
				}
			}}
		})
		for i := range 50 {
			if err := c.Set(t.Context(), i, strings.Repeat("x", 10)); err != nil {
				t.Fatal(err)
			}
		}
		if st := c.Stats(); st.Weight > 100 || st.Entries != 10 || evicted != 40 || st.Evicted != 40 {
			t.Errorf("weight %d of %d entries, %d evictions told, %d counted; want 100, 10, 40, 40", st.Weight, st.Entries, evicted, st.Evicted)
		}
		if err := c.Set(t.Context(), 1, strings.Repeat("x", 101)); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.Get(t.Context(), 1); ok {
			t.Error("an entry over the bound was kept, or the older one it replaces")
		}
	})
}

// TestHeavyLoadIsServedAndNotKeptAtItsFirstSight loads a value of half of a full L1, and sets
// others as heavy: these are kept.
func TestHeavyLoadIsServedAndNotKeptAtItsFirstSight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[int, string]) {
			o.Memory.MaxWeight = 1000
			o.Memory.Weigh = func(_ int, v string) int64 { return int64(len(v)) }
		})
		for i := range 1000 {
			if err := c.Set(t.Context(), i, "x"); err != nil {
				t.Fatal(err)
			}
		}
		heavy := strings.Repeat("y", 500)
		load := func(context.Context, int) (string, error) { return heavy, nil }
		if v, err := c.GetOrLoad(t.Context(), -1, load); v != heavy || err != nil {
			t.Fatalf("the load gives %d bytes, %v", len(v), err)
		}
		if st := c.Stats(); st.Rejected != 1 || st.Evicted != 0 || st.Entries != 1000 {
			t.Errorf("%d rejected, %d evicted, %d entries after a heavy load; want 1, 0, 1000", st.Rejected, st.Evicted, st.Entries)
		}
		if err := c.Set(t.Context(), -2, heavy); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.Get(t.Context(), -2); !ok {
			t.Error("a heavy value that was set is not kept")
		}
	})
}

func TestCallbacksThatPanicFailNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Memory.MaxWeight, o.Stale.OnError = 10, -1
			o.Memory.Weigh = func(k string, _ int64) int64 {
				if k == "heavy" {
					panic("weigher")
				}
				return 1
			}
			o.Hooks = &strata.Hooks{
				Load:  func(strata.Event) { panic("load hook") },
				Evict: func(strata.Event) { panic("evict hook") },
			}
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		load := (&lab.Origin{}).Load
		for _, k := range []string{"heavy", "light"} {
			if v := lab.MustGet(t, c, k, load); v != 0 {
				t.Errorf("%s: %d", k, v)
			}
		}
		if _, ok := c.Get(t.Context(), "heavy"); ok {
			t.Error("an entry of unknown weight was kept")
		}
		time.Sleep(2 * time.Minute) // the sweeper tells the evict hook
		synctest.Wait()
		if st := c.Stats(); st.CallbackPanics < 4 {
			t.Errorf("%d panics counted, want 2 loads, 1 weigher, 1 eviction", st.CallbackPanics)
		}
		if !strings.Contains(log.String(), "callback panicked") {
			t.Errorf("log: %q", log.String())
		}
	})
}

func TestHooksAreCalledForLoadsAndForL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loads []strata.Event
		var failures []strata.Event
		down := errors.New("down")
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(stratatest.NewTier(), func(string, string) (time.Duration, error) { return 0, down })
			o.Hooks = &strata.Hooks{
				Load:        func(e strata.Event) { loads = append(loads, e) },
				RemoteError: func(e strata.Event) { failures = append(failures, e) },
			}
		})
		lab.MustGet(t, c, "k", (&lab.Origin{Takes: time.Second}).Load)
		if len(loads) == 1 {
			loads[0].Context = nil
		}
		if len(loads) != 1 || loads[0] != (strata.Event{Cache: "test", Key: "k", Value: int64(0), Tier: "origin", Outcome: strata.LoadOK, Took: time.Second}) {
			t.Errorf("load events: %+v", loads)
		}
		if len(failures) != 1 || failures[0].Op != "get" || !errors.Is(failures[0].Err, down) {
			t.Errorf("L2 events: %+v", failures)
		}
	})
}

func TestL2ThatFailsAndComesBackIsLoggedOnceEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		var fails atomic.Bool
		fails.Store(true)
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(stratatest.NewTier(), func(string, string) (time.Duration, error) {
				if fails.Load() {
					return 0, errors.New("down")
				}
				return 0, nil
			})
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		for _, k := range []string{"a", "b", "c"} {
			lab.MustGet(t, c, k, (&lab.Origin{}).Load)
		}
		fails.Store(false)
		time.Sleep(time.Second)
		for _, k := range []string{"d", "e"} {
			lab.MustGet(t, c, k, (&lab.Origin{}).Load)
		}
		if n, m := strings.Count(log.String(), "does not answer"), strings.Count(log.String(), "answers again"); n != 1 || m != 1 {
			t.Errorf("%d and %d lines, want one each:\n%s", n, m, log.String())
		}
	})
}

func TestL2ThatRefusesWritesOnlyDoesNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		full := errors.New("out of memory")
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(stratatest.NewTier(), func(op, _ string) (time.Duration, error) {
				if op == "Acquire" {
					return 0, full
				}
				return 0, nil
			})
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		for i := range 1000 {
			lab.MustGet(t, c, strconv.Itoa(i), (&lab.Origin{}).Load)
			c.Get(t.Context(), "none")
		}
		if n := strings.Count(log.String(), "does not answer"); n != 1 || strings.Count(log.String(), "\n") > 3 {
			t.Errorf("%d lines, want one, one about stores, and one of advice:\n%s", n, log.String())
		}
	})
}

func TestKeysOfAllBasicKindsHaveNamesInL2(t *testing.T) {
	type id string
	type num uint16
	roundTrip(t, "plain")
	roundTrip(t, id("named"))
	roundTrip(t, -5)
	roundTrip(t, int8(-128))
	roundTrip(t, uint64(math.MaxUint64))
	roundTrip(t, num(65535))
}

// roundTrip stores a value under key on one instance and invalidates it from
// another, which takes the key to its name and back.
func roundTrip[K comparable](t *testing.T, key K) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[K, string](t, s), lab.Instance[K, string](t, s)
		if err := a.Set(t.Context(), key, "v"); err != nil {
			t.Fatal(err)
		}
		if err := b.Invalidate(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r := a.Explain(t.Context(), key); r.L1.Present || r.L2.Present {
			t.Errorf("%v (%T) survived: %+v", key, key, r)
		}
	})
}

func TestMessageWithAKeyThatCannotBeParsedIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		words, numbers := lab.Instance[string, string](t, s), lab.Instance[int, string](t, s)
		if err := numbers.Set(t.Context(), 1, "v"); err != nil {
			t.Fatal(err)
		}
		if err := words.Invalidate(t.Context(), "no number"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok := numbers.Get(t.Context(), 1); !ok {
			t.Error("another key's message dropped the entry")
		}
	})
}

func TestExplainNamesTheTiersOfTheValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, string](t, s), lab.Instance[string, string](t, s)
		if r := a.Explain(t.Context(), "k"); r.L1.Present || r.L2.Present || !r.L1.Used || !r.L2.Used || r.Loading {
			t.Errorf("nothing there: %+v", r)
		}
		if err := a.Set(t.Context(), "k", "value"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		r := b.Explain(t.Context(), "k")
		if r.L1.Present || !r.L2.Present || r.L2.Size != 5 || r.L2.Fresh != time.Minute {
			t.Errorf("only in L2: %+v", r)
		}
		go b.GetOrLoad(t.Context(), "loading", func(context.Context, string) (string, error) {
			time.Sleep(time.Second)
			return "", nil
		})
		synctest.Wait()
		if r := b.Explain(t.Context(), "loading"); !r.Loading || r.Waiters != 1 {
			t.Errorf("loading: %+v", r)
		}
		if err := a.Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if r := a.Explain(t.Context(), "k"); r.L1.Fresh > 0 || !r.L1.Present || r.L2.Fresh > 0 || !r.L2.Present {
			t.Errorf("stale: %+v", r)
		}
	})
}

func TestOptionsThatMaySurpriseAreLogged(t *testing.T) {
	tests := map[string]struct {
		change func(o *strata.Options[string, int64])
		want   string
	}{
		"plain":            {func(*strata.Options[string, int64]) {}, ""},
		"not found":        {func(o *strata.Options[string, int64]) { o.NotFoundTTL = time.Hour }, "NotFoundTTL"},
		"idle for nothing": {func(o *strata.Options[string, int64]) { o.IdleTTL = 2 * time.Hour }, "IdleTTL"},
		"stale for long":   {func(o *strata.Options[string, int64]) { o.Stale.WhileRevalidate = time.Hour }, "WhileRevalidate"},
		"soft for nothing": {func(o *strata.Options[string, int64]) { o.Limits.SoftTimeout, o.Stale.OnError = 1, -1 }, "SoftTimeout"},
		"soft not less":    {func(o *strata.Options[string, int64]) { o.Limits.SoftTimeout = time.Hour }, "HardTimeout"},
		"never reached":    {func(o *strata.Options[string, int64]) { o.Limits.MaxLoads, o.Limits.MaxWaiters = 9, 3 }, "MaxWaiters"},
		"strict alone":     {func(o *strata.Options[string, int64]) { o.Remote.Strict = true }, "Strict"},
		"no bus":           {func(o *strata.Options[string, int64]) { o.Remote.Tier = stratatest.NewTier() }, "without a Bus"},
		"no refresh":       {func(o *strata.Options[string, int64]) { o.Memory.TTL, o.RefreshAt = time.Second, 0.8 }, "Memory.TTL"},
		"mutation":         {func(o *strata.Options[string, int64]) { o.Memory.DetectMutation = true }, "DetectMutation"},
	}
	for name, tt := range tests {
		var log lab.LogText
		lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			tt.change(o)
		})
		if got := log.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" || strings.Count(got, "\n") > 1 {
			t.Errorf("%s: logged %q, want one line about %q", name, got, tt.want)
		}
	}
}
