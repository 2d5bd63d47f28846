package retry_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/retry"
	"github.com/strata-cache/strata/remote"
)

// repeated makes a queue over a target, lets f note confirmed drops, and returns the
// target with the drops sent to it after Repeat, and the result of Repeat.
func repeated(t *testing.T, f func(q *retry.Queue)) (s *target, any bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s = &target{}
		q := newQueue(s)
		defer q.Close(t.Context())
		f(q)
		if n := q.Len(); n != 0 {
			t.Errorf("%d drops are pending before Repeat", n)
		}
		if n := s.attempts(); n != 0 {
			t.Errorf("%d attempts before Repeat", n)
		}
		any = q.Repeat()
		synctest.Wait()
		if n := q.Len(); n != 0 {
			t.Errorf("%d drops are pending", n)
		}
	})
	return s, any
}

func TestConfirmedDropsAreRepeatedByTheirKinds(t *testing.T) {
	s, _ := repeated(t, func(q *retry.Queue) {
		q.Confirmed([]remote.Drop{{Key: "k", Soft: true}, {Key: "l", Hold: time.Minute}})
		q.Confirmed([]remote.Drop{{Key: "k"}, {Key: "m", Soft: true}})
		q.ConfirmedTags([]string{"t", "u"}, true)
		q.ConfirmedTags([]string{"t"}, false)
		q.ConfirmedAll(true)
		time.Sleep(20 * time.Second)
	})
	for k, want := range map[string]remote.Drop{
		"k": {Key: "k"}, "l": {Key: "l", Hold: 40 * time.Second}, "m": {Key: "m", Soft: true},
		"#t": {Key: "t"}, "#u": {Key: "u", Soft: true},
	} {
		if got := s.drops[k]; got != want {
			t.Errorf("%s: %+v; want %+v", k, got, want)
		}
	}
	if s.all != 0 || s.drops["*"] != (remote.Drop{Soft: true}) {
		t.Errorf("%d hard drops of everything; want a soft one", s.all)
	}
}

func TestConfirmedDropIsRememberedForNinetySeconds(t *testing.T) {
	for _, tt := range []struct {
		before, after time.Duration
		want          bool
	}{
		{0, 89 * time.Second, true},
		{89 * time.Second, 89 * time.Second, true}, // it came late among the young ones
		{0, 4 * time.Minute, false},
	} {
		_, any := repeated(t, func(q *retry.Queue) {
			q.Confirmed([]remote.Drop{{Key: "first", Soft: true}})
			time.Sleep(tt.before)
			q.Confirmed([]remote.Drop{{Key: "k"}})
			time.Sleep(tt.after)
		})
		if any != tt.want {
			t.Errorf("%v after the first and %v later: repeated %t", tt.before, tt.after, any)
		}
	}
}

// TestOldConfirmedDropsMakeWay: of an endless stream of drops, the ones of the last
// minutes are remembered.
func TestOldConfirmedDropsMakeWay(t *testing.T) {
	s, _ := repeated(t, func(q *retry.Queue) {
		for i := range 300 {
			q.Confirmed([]remote.Drop{{Key: fmt.Sprint(i)}})
			time.Sleep(time.Second)
		}
		q.Confirmed([]remote.Drop{{Key: "k"}})
	})
	if n := len(s.drops); n < 90 || n > 200 {
		t.Errorf("%d drops were repeated; want those of 90 to 180 seconds", n)
	}
}

// TestTooManyConfirmedDropsBecomeOneOfEverything but holds stay with their keys.
func TestTooManyConfirmedDropsBecomeOneOfEverything(t *testing.T) {
	s, _ := repeated(t, func(q *retry.Queue) {
		q.Confirmed([]remote.Drop{{Key: "k", Hold: time.Hour}})
		for i := range 5000 {
			q.Confirmed([]remote.Drop{{Key: fmt.Sprint(i)}})
		}
	})
	if len(s.drops) > 1 || s.drops["k"].Hold < 59*time.Minute || s.all != 1 {
		t.Errorf("%d drops of keys, %d of everything, hold %v", len(s.drops), s.all, s.drops["k"].Hold)
	}
}
