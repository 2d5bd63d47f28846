package observe_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/observe"
)

func TestAStateBeginsWithTheFirstCacheAndEndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := observe.NewServerHealth("a:1", "b:2")
		one, two, three := s.Join("users"), s.Join("orders"), s.Join("users")
		if s.Caches() != "orders, users" || s.Name() != "a:1, b:2" {
			t.Errorf("caches %q of %q", s.Caches(), s.Name())
		}
		if !one.Begins("a:1", "full") || two.Begins("a:1", "full") || two.Begins("a:1", "full") {
			t.Error("the first cache, and no other, says that the state has begun")
		}
		if !two.Begins("b:2", "full") || !one.Begins("a:1", "silent") {
			t.Error("another server, or another state, has lines of its own")
		}
		if three.Ends("a:1", "full") || one.Ends("a:1", "full") || !two.Ends("a:1", "full") || two.Ends("a:1", "full") {
			t.Error("the last cache, and no other, says that the state has ended")
		}
		one.Leave()
		if s.Caches() != "orders, users" { // the other one of that name
			t.Errorf("caches %q", s.Caches())
		}
		time.Sleep(time.Minute)
		if !two.Begins("a:1", "silent") || !two.Ends("a:1", "silent") {
			t.Error("a cache that has left finds the state still")
		}
	})
}

func TestLinesOfAStateBecomeRareWhileItComesAndGoes(t *testing.T) {
	var l observe.LogLines
	told := 0
	var now time.Duration
	for ; now < time.Hour; now += time.Second {
		if l.Next(now%(2*time.Second) == 0, int64(now)) == observe.Begins {
			told++
		}
	}
	if told < 20 || told > 35 { // at 0, 30, 90, 210 s, then each two minutes
		t.Errorf("%d begins in an hour", told)
	}
	if l.Next(false, int64(now)); l.Told() {
		t.Error("the end is not told")
	}
	now += observe.MostPause
	if l.Next(true, int64(now)) != observe.Begins {
		t.Error("a begin after two minutes is not told")
	}
	now += observe.LogRemind
	if l.Next(true, int64(now-1)) != observe.Nothing || l.Next(true, int64(now)) != observe.Lasts {
		t.Error("a state that lasts is told each five minutes")
	}
	l.Next(false, int64(now))
	now += time.Hour
	l.Next(true, int64(now))
	l.Next(false, int64(now))
	if now += 30 * time.Second; l.Next(true, int64(now)) != observe.Begins {
		t.Error("after a long well time the pause is as long as before")
	}
}

func TestALineThatIsNotInTheLogIsAnEvent(t *testing.T) {
	var log strings.Builder
	var events observe.Journal
	to := slog.New(events.Handler(slog.NewTextHandler(&log, nil)))
	s := observe.NewServerHealth("a:1")
	m := s.Join("users")
	m.Write(to, false, slog.LevelWarn, "", "strata: one")
	m.Write(to, true, slog.LevelWarn, "b:2", "strata: two", slog.Int("n", 3))
	s.Join("orders")
	m.Write(to, true, slog.LevelInfo, "", "strata: three")
	all := log.String()
	if strings.Contains(all, "one") || !strings.Contains(all, "msg=\"strata: two\" cache=users server=b:2 n=3") || !strings.Contains(all, "msg=\"strata: three\" caches=\"orders, users\" server=a:1") {
		t.Errorf("the log: %s", all)
	}
	if e := events.After(0); len(e) != 3 || e[0].Text != "one server=a:1" || e[2].Text != "three server=a:1" {
		t.Errorf("the events: %+v", e)
	}
}
