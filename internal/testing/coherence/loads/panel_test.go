package loads_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestKeyIsExplainedOnEveryInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b, c := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.MustGet(t, a, "k", lab.PlainLoad)
		lab.MustGet(t, b, "k", lab.PlainLoad)
		all, err := transfer.Parts(a.Inside()).Panel().Explain(t.Context(), "k")
		if err != nil || len(all) != 3 {
			t.Fatalf("%d answers, %v", len(all), err)
		}
		want := map[string]string{
			transfer.Parts(a.Inside()).Panel().Info().Instance: "fresh", transfer.Parts(b.Inside()).Panel().Info().Instance: "fresh", transfer.Parts(c.Inside()).Panel().Info().Instance: "absent",
		}
		for i, e := range all {
			if e.L1 != want[e.Instance] || e.L2 != "fresh" || !e.Answered || e.Here != (i == 0) || e.L2Fresh != time.Minute || e.L2Size == 0 {
				t.Errorf("%+v, want L1 to be %q", e, want[e.Instance])
			}
		}
		c.Close(context.Background())
		if all, err = transfer.Parts(a.Inside()).Panel().Explain(t.Context(), "k"); err != nil || len(all) != 2 || !all[1].Answered {
			t.Errorf("after an instance has closed: %+v, %v", all, err)
		}
		if n := b.Stats().Invalidations + b.Stats().Heard; n != 0 {
			t.Errorf("questions count as %d drops", n)
		}
	})
}

func TestPanelOfACacheWithoutTextKeysRefusesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type pair struct{ a, b int }
		c := lab.NewCache[pair, int](t)
		p := transfer.Parts(c.Inside()).Panel()
		if _, err := p.Explain(t.Context(), "k"); !errors.Is(err, observe.ErrNoText) {
			t.Errorf("Explain: %v", err)
		}
		if err := p.Invalidate(t.Context(), "k", true); !errors.Is(err, observe.ErrNoText) || p.Info().TextKeys {
			t.Errorf("Invalidate: %v", err)
		}
		_, _ = c.GetOrLoad(t.Context(), pair{1, 2}, func(context.Context, pair) (int, error) { return 1, nil })
		p.Hot()
	})
}

func TestPanelParsesKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[int64, int](t)
		_ = c.Set(t.Context(), 42, 1)
		p := transfer.Parts(c.Inside()).Panel()
		if err := p.Invalidate(t.Context(), "x\x1b", false); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("a text that is no key: %v", err)
		}
		if all, err := p.Explain(t.Context(), "42"); err != nil || len(all) != 1 || all[0].L1 != "fresh" || all[0].L2 != "none" {
			t.Errorf("%+v, %v", all, err)
		}
		if err := p.Invalidate(t.Context(), "42", false); err != nil || c.Len() != 0 {
			t.Errorf("%d entries, %v", c.Len(), err)
		}
	})
}

func TestHottestKeysAreFoundWhileTheyAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.ShowKeys = true })
		slow := &lab.Origin{Takes: time.Second}
		p := transfer.Parts(c.Inside()).Panel()
		if h := p.Hot(); len(h.ByReads)+len(h.ByLoadTime) != 0 {
			t.Fatalf("keys before any read: %+v", h)
		}
		lab.MustGet(t, c, "slow", slow.Load)
		for i := range 64 * 100 {
			lab.MustGet(t, c, "hot", lab.PlainLoad)
			if i%10 == 0 {
				lab.MustGet(t, c, "warm", lab.PlainLoad)
			}
		}
		h := p.Hot()
		if len(h.ByReads) == 0 || h.ByReads[0].Key != "hot" || h.ByReads[0].Reads < 5000 || h.ByReads[0].Reads > 8000 || h.Every != 64 {
			t.Errorf("by reads: %+v", h)
		}
		if len(h.ByLoadTime) == 0 || h.ByLoadTime[0].Key != "slow" || h.ByLoadTime[0].LoadTime != time.Second || h.ByLoadTime[0].Loads != 1 || h.LoadTime != time.Second {
			t.Errorf("by load time: %+v", h)
		}
		time.Sleep(61 * time.Second)
		for range 64 * 10 {
			lab.MustGet(t, c, "late", lab.PlainLoad)
		}
		if later := p.Hot(); !later.Since.After(h.Since) || len(later.ByReads) != 0 {
			t.Errorf("reads were counted although the keys were not asked for: %+v", later)
		}
	})
}

func TestKeysAreHashedWithoutShowKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache[string, int64](t)
		p := transfer.Parts(c.Inside()).Panel()
		p.Hot()
		lab.MustGet(t, c, "secret", lab.PlainLoad)
		for range 1000 {
			lab.MustGet(t, c, "secret", lab.PlainLoad)
		}
		if text := fmt.Sprintf("%+v %+v", p.Hot(), p.Events(0)); strings.Contains(text, "secret") || !strings.Contains(text, "#") {
			t.Errorf("got %s", text)
		}
	})
}

func TestEventsAreChangesOfStateAndInvalidations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		_ = a.Invalidate(t.Context(), "x", "y")
		_ = a.ExpireTags(t.Context(), "t")
		_ = a.InvalidateAll(t.Context())
		_ = a.Tune(strata.Tuning{TTL: new(time.Hour)})
		_, _ = a.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 0, errors.New("down") })
		synctest.Wait()
		text := func(c *strata.Cache[string, int64]) (all string) {
			for _, e := range transfer.Parts(c.Inside()).Panel().Events(0) {
				all += e.Level + " " + e.Text + "\n"
			}
			return all
		}
		want := "info bus is connected\ninfo keys invalidated: 2\ninfo tags expired: 1\ninfo everything invalidated, times: 1\n" +
			"info options are changed: TTL=1h0m0s\nwarn a load has failed error=down\n"
		if got := text(a); got != want {
			t.Errorf("events of the instance:\n%swant\n%s", got, want)
		}
		want = "info bus is connected\ninfo drops heard from other instances: 3\ninfo everything invalidated by another instance, times: 1\n"
		if got := text(b); got != want {
			t.Errorf("events of the other instance:\n%swant\n%s", got, want)
		}
	})
}

func TestSettingsHaveTheirDefaultsMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, func(o *strata.Options[string, int64]) {
			o.Jitter, o.NotFoundTTL, o.Loader, o.Memory.MaxEntries = 0, 0, lab.PlainLoad, 50
		})
		lab.Tune(t, c, strata.Tuning{StaleOnError: new(time.Second), MaxEntries: new(int64(60))})
		got := map[string]string{}
		for _, s := range transfer.Parts(c.Inside()).Panel().Settings() {
			got[s.Name] = s.Value
			if s.Default {
				got[s.Name] += " default"
			}
			if s.Tuned {
				got[s.Name] += " tuned"
			}
		}
		for name, want := range map[string]string{
			"TTL": "1m0s", "Jitter": "0.1 default", "NotFoundTTL": "15s default", "Stale.OnError": "1s tuned", "Memory.MaxEntries": "60 tuned",
			"Loader": "yes", "ManyLoader": "no default", "Remote.Tier": "none default", "Memory.Policy": "A3-FIFO default",
			"Limits.HardTimeout": "1m0s default", "Stale.WhileRevalidate": "none", "Off": "no default",
		} {
			if got[name] != want {
				t.Errorf("%s: %q, want %q", name, got[name], want)
			}
		}
	})
}

func TestEveryOptionIsASettingOrHasAReason(t *testing.T) {
	missing := map[string]string{
		"Name": "is in Info", "Service": "is in Info", "IsNotFound": "is a function with a default", "Hooks": "says nothing",
		"Remote.Key": "is in Info as TextKeys", "Remote.ParseKey": "is in Info as TextKeys",
	}
	for _, s := range transfer.Parts(lab.NewCache[string, int64](t).Inside()).Panel().Settings() {
		missing[s.Name] = "is there"
	}
	var look func(prefix string, of reflect.Type)
	look = func(prefix string, of reflect.Type) {
		for f := range of.Fields() {
			name := prefix + f.Name
			if f.Type.Kind() == reflect.Struct {
				look(name+".", f.Type)
			} else if missing[name] == "" {
				t.Errorf("the page does not show the option %s", name)
			}
		}
	}
	look("", reflect.TypeFor[strata.Options[string, int64]]())
}

func TestTenThousandFailingReadsWriteFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		var lines atomic.Int64
		c := lab.IllInstance(t, s, p, func(o *strata.Options[string, int64]) {
			o.Logger = slog.New(counter{&lines})
			o.Remote.Timeout = 10 * time.Millisecond
		})
		p.Hangs.Store(true)
		fails := func(context.Context, string) (int64, error) { return 0, errors.New("down") }
		panics := func(context.Context, string) (int64, error) { panic("no") }
		for i := range 10_000 {
			load := fails
			if i%10 == 0 {
				load = panics
			}
			_, _ = c.GetOrLoad(t.Context(), fmt.Sprint(i), load)
			if i%100 == 0 {
				_ = c.Invalidate(t.Context(), fmt.Sprint(i))
			}
		}
		if n := lines.Load(); n == 0 || n > 20 {
			t.Errorf("%d lines in the log, want 1 to 20", n)
		}
	})
}

// counter counts the lines of a log.
type counter struct{ lines *atomic.Int64 }

func (c counter) Enabled(context.Context, slog.Level) bool { return true }
func (c counter) Handle(context.Context, slog.Record) error {
	c.lines.Add(1)
	return nil
}
func (c counter) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c counter) WithGroup(string) slog.Handler      { return c }
