package expiry_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"
	"unsafe"

	"github.com/strata-cache/strata/internal/cache/expiry"
)

// forever is the Dead of an entry without an end.
const forever = math.MaxInt64

// times returns a fresh and a dead time of any size, in any order.
func times(r *rand.Rand) (fresh, dead int64) {
	return 1 + r.Int64N(1<<r.IntN(63)), 1 + r.Int64N(1<<r.IntN(63))
}

func TestFreshEndsExactlyAndNoLifeIsLongerThanAsked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		fresh, dead := times(r)
		l, end := expiry.New(1, 0, fresh, dead)
		if got := l.FreshUntil(end); got != min(fresh, dead) {
			t.Fatalf("fresh until %d, want %d (dead %d)", got, min(fresh, dead), dead)
		}
		if end > dead {
			t.Fatalf("ends at %d, after %d", end, dead)
		}
		if short := dead - end; fresh < dead && short > 0 && dead-fresh < 12*24*int64(time.Hour) && short >= int64(time.Millisecond) {
			t.Fatalf("ends %d ns early (fresh %d, dead %d)", short, fresh, dead)
		}
	}
}

func TestWindowsOfWholeMillisecondsAreExact(t *testing.T) {
	const fresh = 123_456_789_123
	for _, window := range []time.Duration{0, 1, 999_999_999, time.Second + time.Microsecond, time.Minute, time.Hour + time.Millisecond, 12 * 24 * time.Hour, 1000 * 24 * time.Hour} {
		if _, end := expiry.New(0, 0, fresh, fresh+int64(window)); end != fresh+int64(window) {
			t.Errorf("window of %v: ends %d ns early", window, fresh+int64(window)-end)
		}
	}
}

func TestEntryWithoutEndIsFreshForEver(t *testing.T) {
	l, end := expiry.New(0, 0, forever, forever)
	if end != forever || l.FreshUntil(end) != forever || l.SoonAt(end) != forever {
		t.Errorf("ends at %d, fresh until %d, soon at %d", end, l.FreshUntil(end), l.SoonAt(end))
	}
}

func TestSoonIsNeverAfterFresh(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		fresh, dead := times(r)
		at, _ := times(r)
		l, end := expiry.New(0, 0, fresh, dead)
		l.SetSoon(at, end)
		soon := l.SoonAt(end)
		if soon > l.FreshUntil(end) {
			t.Fatalf("soon %d, after fresh %d", soon, l.FreshUntil(end))
		}
		if late := soon - min(at, l.FreshUntil(end)); late < 0 || end-at < 12*24*int64(time.Hour) && late >= int64(time.Millisecond) {
			t.Fatalf("soon %d ns after %d (fresh %d, end %d)", late, at, l.FreshUntil(end), end)
		}
	}
}

func TestExpiredStaysExpired(t *testing.T) {
	l, end := expiry.New(7, 0, 100, 200)
	l.Expire(50, end)
	if !l.Expired() || l.FreshUntil(end) != 0 || l.SoonAt(end) != 0 || l.State&expiry.Closely == 0 {
		t.Errorf("%+v", l)
	}
	if since := l.StaleSince(end); since != 50 {
		t.Errorf("stale since %d, want 50", since)
	}
	if end = l.End(150, 180); end != 180 || l.FreshUntil(end) != 0 {
		t.Errorf("ends at %d, fresh until %d", end, l.FreshUntil(end))
	}
	if l.Stamp() != 7 {
		t.Errorf("stamp %d", l.Stamp())
	}
}

func TestStampLeavesFlagsAlone(t *testing.T) {
	err := quick.Check(func(stamp, next, flags uint64) bool {
		stamp, next, flags = stamp>>expiry.StampShift, next>>expiry.StampShift, flags&(1<<expiry.StampShift-1)
		l, _ := expiry.New(stamp, flags, 1, 2)
		was := l.Stamp()
		l.Restamp(next)
		return was == stamp && l.Stamp() == next && l.State&(1<<expiry.StampShift-1) == flags
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func TestLivesAreTwoWords(t *testing.T) {
	if n := unsafe.Sizeof(expiry.Lives{}); n != 16 {
		t.Errorf("%d bytes", n)
	}
}
