package agreement_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// plainCache returns a cache without L2, chance and stale values.
func plainCache(t *testing.T, change ...func(*strata.Options[string, int64])) *strata.Cache[string, int64] {
	t.Helper()
	o := stratatest.Plain(strata.Options[string, int64]{Name: "moved", TTL: time.Hour})
	for _, f := range change {
		f(&o)
	}
	c, err := strata.New(o)
	lab.Must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestEntryOfAnotherProcessKeepsItsLifeItsAgeAndItsTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stale := func(o *strata.Options[string, int64]) { o.Stale = strata.Stale{OnError: time.Hour} }
		first, second := plainCache(t, stale), plainCache(t, stale)
		lab.Must(t, first.Set(t.Context(), "k", 7, strata.WithTags("a", "b")))
		lab.Must(t, first.Set(t.Context(), "expired", 8))
		lab.Must(t, first.Expire(t.Context(), "expired"))
		lab.Must(t, first.SetNotFound(t.Context(), "none", strata.WithTTL(time.Hour)))
		time.Sleep(10 * time.Minute) // in the bubble
		all, position := lab.EntriesOf(t, first, 0, 1)
		r := lab.RestoreOf(t, second)
		if suspect := r.Cover(t.Context(), position); suspect != "" {
			t.Errorf("suspect without L2: %s", suspect)
		}
		for _, e := range all {
			if o := r.Entry(&e, 20*time.Minute, false); o != transfer.Stored {
				t.Errorf("%s: %v", e.Key, o)
			}
		}
		var i strata.Info
		if v, ok := second.Get(t.Context(), "k", strata.ReadInfo(&i)); v != 7 || !ok || i.Age != 30*time.Minute || i.TTL != 30*time.Minute {
			t.Errorf("%d, %v, %+v", v, ok, i)
		}
		if _, ok := second.Get(t.Context(), "expired"); ok {
			t.Error("an expired entry is fresh")
		}
		if _, err := second.GetOrLoad(t.Context(), "none", lab.PlainLoad); !strata.IsNotFound(err) {
			t.Errorf("a negative entry: %v", err)
		}
		lab.Must(t, second.InvalidateTags(t.Context(), "b"))
		if _, ok := second.Get(t.Context(), "k"); ok {
			t.Error("the entry has lost its tags")
		}
	})
}

func TestEntryThatCannotBeTakenInHasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plainCache(t, func(o *strata.Options[string, int64]) {
			o.Memory.MaxEntries = 64
			o.Remote.Codec = codec.JSON[int64]()
			o.Remote.Key = func(k string) string { return k }
			o.Remote.ParseKey = func(s string) (string, error) {
				if s == "panic" {
					panic(s)
				}
				if s == "refused" {
					return "", fmt.Errorf("refused")
				}
				return s, nil
			}
		})
		lab.Must(t, c.Set(t.Context(), "present", 1))
		lab.Must(t, c.Set(t.Context(), "gone", 1))
		r := lab.RestoreOf(t, c)
		lab.Must(t, c.Invalidate(t.Context(), "gone"))
		lab.Must(t, c.Invalidate(t.Context(), "dropped"))
		lab.MustGet(t, c, "loaded", lab.PlainLoad)
		lab.Must(t, c.Invalidate(t.Context(), "loaded"))
		entry := func(key, value string, change ...func(*format.Entry)) *format.Entry {
			e := &format.Entry{Key: []byte(key), Value: []byte(value), Fresh: time.Hour, Left: time.Hour, Weight: 1, Age: format.Unknown}
			for _, f := range change {
				f(e)
			}
			return e
		}
		for _, tt := range []struct {
			e    *format.Entry
			want transfer.Outcome
		}{
			{entry("present", "2"), transfer.Present},
			{entry("gone", "2"), transfer.Changed},
			{entry("dropped", "2"), transfer.Changed},
			{entry("loaded", "2"), transfer.Changed},
			{entry("refused", "2"), transfer.Unusable},
			{entry("panic", "2"), transfer.Unusable},
			{entry("text", "two"), transfer.Unusable},
			{entry("tags", "2", func(e *format.Entry) { e.Tags = []string{""} }), transfer.Unusable},
			{entry("over", "2", func(e *format.Entry) { e.Fresh, e.Left = time.Second, time.Second }), transfer.Over},
			{entry("negative", "", func(e *format.Entry) { e.NotFound, e.Fresh, e.Left = true, time.Second, time.Second }), transfer.Over},
			{entry("for ever", "2", func(e *format.Entry) { e.Fresh, e.Left = format.Forever, format.Forever }), transfer.Stored},
			{entry("good", "2"), transfer.Stored},
			{entry("good", "3"), transfer.Present},
		} {
			if o := r.Entry(tt.e, time.Second, false); o != tt.want {
				t.Errorf("%s: %v, want %v", tt.e.Key, o, tt.want)
			}
		}
		full := 0
		for i := range 200 {
			if r.Entry(entry(strconv.Itoa(i), "1"), 0, false) == transfer.Full {
				full++
			}
		}
		if v, ok := c.Get(t.Context(), "present"); v != 1 || !ok || full < 130 || c.Stats().Evicted > 0 {
			t.Errorf("%d, %v; %d of 200 had no room, %d were pushed out", v, ok, full, c.Stats().Evicted)
		}
		off := plainCache(t, func(o *strata.Options[string, int64]) { o.Memory.Off = true })
		if o := lab.RestoreOf(t, off).Entry(entry("k", "1"), 0, false); o != transfer.Full {
			t.Errorf("%v without memory", o)
		}
	})
}

func TestKeysWithALoadOrWriteUnderWayAreNotGivenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, release := plainCache(t), make(chan struct{})
		for _, k := range []string{"quiet", "busy"} {
			lab.Must(t, c.Set(t.Context(), k, 1))
		}
		go func() {
			_ = c.Update(context.Background(), "busy", func(context.Context) (int64, error) {
				<-release
				return 2, nil
			})
		}()
		synctest.Wait()
		all, _ := lab.EntriesOf(t, c, 0, 1)
		if _, given := all["busy"]; given || len(all) != 1 {
			t.Errorf("given away are %v", all)
		}
		close(release)
		synctest.Wait()
		if all, _ = lab.EntriesOf(t, c, 0, 1); len(all) != 2 {
			t.Errorf("later %v", all)
		}
	})
}

func TestSharesOfADumpAreDisjointAndTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plainCache(t)
		for _, k := range numbered(300) {
			lab.Must(t, c.Set(t.Context(), k, 1))
		}
		for i := range 20 {
			lab.Must(t, c.SetNotFound(t.Context(), "none"+strconv.Itoa(i), strata.WithTTL(time.Hour)))
		}
		seen := map[string]int{}
		for part := range 3 {
			all, _ := lab.EntriesOf(t, c, part, 3)
			if len(all) < 60 || len(all) > 160 {
				t.Errorf("share %d has %d entries", part, len(all))
			}
			for k := range all {
				seen[k]++
			}
		}
		for k, n := range seen {
			if n != 1 {
				t.Errorf("%s is in %d shares", k, n)
			}
		}
		if len(seen) != 320 {
			t.Errorf("%d entries", len(seen))
		}
	})
}

func TestDropsOfACacheWithoutABusAreGivenAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plainCache(t)
		d, err := transfer.Parts(c.Inside()).Source().Dump(t.Context(), 0, 1)
		lab.Must(t, err)
		defer d.Close()
		lab.Must(t, c.Invalidate(t.Context(), "a"))
		lab.Must(t, c.Set(t.Context(), "b", 1))
		if names, all := d.Dropped(); fmt.Sprint(names) != "[a b]" || all {
			t.Errorf("%q, %v", names, all)
		}
		if names, all := d.Dropped(); len(names) > 0 || all {
			t.Errorf("again %q, %v", names, all)
		}
		for name, drop := range map[string]func() error{
			"InvalidateAll":  func() error { return c.InvalidateAll(t.Context()) },
			"InvalidateTags": func() error { return c.InvalidateTags(t.Context(), "t") },
			"10 001 keys":    func() error { return c.Invalidate(t.Context(), numbered(10_001)...) },
		} {
			lab.Must(t, drop())
			if names, all := d.Dropped(); len(names) > 0 || !all {
				t.Errorf("%s: %d names, all %v", name, len(names), all)
			}
		}
		time.Sleep(2 * time.Minute) // in the bubble: the entries below are newer than the drops
		r := lab.RestoreOf(t, c)
		for _, k := range []string{"x", "y"} {
			if o := r.Entry(&format.Entry{Key: []byte(k), Value: []byte("1"), Fresh: time.Hour, Left: time.Hour, Weight: 1}, 0, false); o != transfer.Stored {
				t.Errorf("%s: %v", k, o)
			}
		}
		r.Drop([]byte("x"), 0)
		if _, ok := c.Get(t.Context(), "x"); ok {
			t.Error("x was dropped")
		}
		r.DropAll()
		if _, ok := c.Get(t.Context(), "y"); ok {
			t.Error("everything was dropped")
		}
	})
}

// TestRestoreCallsNoKeyUnderALock restores the entry of a key that has a negative entry here, after a
// message about other keys was lost: to judge the negative entry calls Key, which may use the cache.
func TestRestoreCallsNoKeyUnderALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		ear := s.Bus.Connect()
		var called, locked atomic.Int64
		key := func(k string) string {
			called.Add(1)
			var callers [64]uintptr
			for frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])]); ; {
				f, more := frames.Next()
				if strings.Contains(f.Function, "flight.(*Group") && strings.HasSuffix(f.Function, ".Restore") {
					locked.Add(1)
				}
				if !more {
					return k
				}
			}
		}
		text := func(o *strata.Options[string, int64]) {
			o.TTL, o.NotFoundTTL = time.Hour, time.Hour
			o.Remote.Key, o.Remote.ParseKey = key, func(s string) (string, error) { return s, nil }
		}
		a := lab.Instance(t, s, text)
		b := lab.Instance(t, s, text, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
		if _, err := b.GetOrLoad(t.Context(), "k", lab.NoneOf); !strata.IsNotFound(err) {
			t.Fatal(err)
		}
		ear.Cut()
		synctest.Wait()
		lab.Must(t, a.Invalidate(t.Context(), "other"))
		ear.Join()
		synctest.Wait()
		time.Sleep(time.Minute) // in the bubble
		_, position := lab.EntriesOf(t, a, 0, 1)
		r := lab.RestoreOf(t, b)
		r.Cover(t.Context(), position)
		called.Store(0)
		for _, e := range []*format.Entry{
			{Key: []byte("k"), Value: []byte("1"), Fresh: time.Hour, Left: time.Hour, Weight: 1, Age: format.Unknown},
			{Key: []byte("k"), NotFound: true, Fresh: time.Hour, Left: time.Hour, Weight: 1, Age: format.Unknown},
		} {
			if o := r.Entry(e, 0, false); o != transfer.Present {
				t.Error(o)
			}
		}
		if called.Load() == 0 || locked.Load() > 0 {
			t.Errorf("Key was called %d times, %d under a lock", called.Load(), locked.Load())
		}
	})
}
