package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func TestLastHundredEventsAreKept(t *testing.T) {
	var j Journal
	log := slog.New(j.Handler(slog.DiscardHandler))
	for i := range 250 {
		log.Info(fmt.Sprint("strata: event ", i))
	}
	all := j.After(0)
	if len(all) != 100 || all[0].Text != "event 150" || all[99].Text != "event 249" || all[99].Number != 250 {
		t.Fatalf("%d events, from %+v to %+v", len(all), all[0], all[len(all)-1])
	}
	if some := j.After(248); len(some) != 2 || some[0].Text != "event 248" {
		t.Errorf("after 248: %+v", some)
	}
	if none := j.After(1 << 63); len(none) != 0 {
		t.Errorf("events of the future: %+v", none)
	}
}

func TestCountsWithinASecondAreOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j Journal
		begin := time.Now()
		count := func(text string, n int) { j.Count(text, n, int64(time.Since(begin))) }
		for range 1000 {
			count("%d keys invalidated", 2)
			time.Sleep(time.Millisecond)
		}
		count("%d keys expired", 1)
		count("%d keys invalidated", 1)
		got := ""
		for _, e := range j.After(0) {
			got += e.Text + ";"
		}
		if got != "2000 keys invalidated;1 keys expired;1 keys invalidated;" {
			t.Errorf("got %s", got)
		}
	})
}

func TestLinesOfTheLogAreHandedOnAndNoted(t *testing.T) {
	var j Journal
	var out strings.Builder
	log := slog.New(j.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})))
	log.With("cache", "users", "op", "get").WithGroup("g").Warn("strata: L2 does not answer", slog.Any("error", errors.New("no\nroute")), slog.String("stack", "goroutine 1"))
	log.Info("strata: L2 answers again")
	log.Debug("strata: nothing")
	all := j.After(0)
	if len(all) != 2 || all[0].Text != "L2 does not answer op=get g.error=no\uFFFDroute" || all[0].Level != "warn" || all[1].Level != "info" {
		t.Errorf("events %+v", all)
	}
	if n := strings.Count(out.String(), "\n"); n != 1 || !strings.Contains(out.String(), "stack") {
		t.Errorf("the next handler got %q", out.String())
	}
	if log.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("a level that nobody takes is enabled")
	}
}

func FuzzLineIsShortValidText(f *testing.F) {
	f.Add("a\x1b[31m\u202e\u2028b\xff", 5)
	f.Add(strings.Repeat("é", 300), 500)
	f.Fuzz(func(t *testing.T, text string, n int) {
		n = max(n, 0)
		l := OneLine(text, n)
		if len(l) > n || !utf8.ValidString(l) || strings.ContainsAny(l, "\x00\n\r\x1b\u202e\u2028") {
			t.Errorf("Line(%q, %d) = %q", text, n, l)
		}
	})
}

// lazy is an error that is formatted when it is logged, by a method that uses the cache.
type lazy struct{ j *Journal }

func (e lazy) Error() string {
	e.j.Count("keys invalidated: %d", 1, 0)
	return "lazy"
}

func TestErrorThatUsesTheCacheIsLogged(t *testing.T) {
	j := new(Journal)
	logged := make(chan struct{})
	go func() {
		slog.New(j.Handler(slog.DiscardHandler)).Warn("failed", slog.Any("error", lazy{j}))
		close(logged)
	}()
	select {
	case <-logged:
	case <-time.After(10 * time.Second):
		t.Fatal("the journal waits for itself")
	}
	if all := j.After(0); len(all) != 2 || all[1].Text != "failed error=lazy" {
		t.Errorf("%+v", all)
	}
}
