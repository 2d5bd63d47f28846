package local

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/remote"
)

// rival is a Store of one key. It calls meanwhile, as another goroutine, when an expiry has seen the entry of the key.
type rival struct {
	*Store[string, string]
	meanwhile func(seen *Entry[string, string])
}

// put stores a value with an ID and a stamp.
func (s *rival) put(t *testing.T, value string, id remote.ID, stamp uint64) {
	t.Helper()
	lives, dead := expiry.New(stamp, 0, l1.After(s.Values.Now(), time.Hour), l1.Forever)
	e := s.NewEntry("k", Held[string]{Lives: lives, V: value}, dead, Record{ID: id, Born: 1})
	if err := s.Values.Pack(e, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Values.Set(e, 1); !ok {
		t.Fatalf("%s is not stored", value)
	}
}

// newRival returns a Store that holds old with the ID 7.
func newRival(t *testing.T, encoded bool) *rival {
	s := &rival{Store: &Store[string, string]{}}
	if encoded {
		s.Values = texts(t)
	} else {
		c := l1.New(l1.Config[string, Held[string]]{MaxEntries: 10})
		t.Cleanup(c.Close)
		s.UsePlain(c)
	}
	s.Negatives = NewNegatives[string](10, 0)
	t.Cleanup(s.Negatives.Close)
	s.Windows = func(*expiry.Own) (revalidate, onError time.Duration) { // an expiry asks for them between its look and its swap
		if f := s.meanwhile; f != nil {
			s.meanwhile = nil
			e, _ := s.Values.Glance("k")
			f(e)
		}
		return time.Minute, time.Minute
	}
	s.put(t, "old", 7, 1)
	return s
}

// fresh is the value that a read finds fresh; empty for none.
func (s *rival) fresh() string {
	e, now := s.Values.Peek("k")
	if e == nil || e.Value.Expired() || now >= e.Value.FreshUntil(e.Dead) {
		return ""
	}
	return e.Value.V
}

// TestExpiryThatIsOvertakenLeavesNoOlderValueFresh has a reader stamp the entry, or a newer value come, in the middle of an
// expiry by a call, and of one that L2 tells of.
func TestExpiryThatIsOvertakenLeavesNoOlderValueFresh(t *testing.T) {
	stamps := func(s *rival) func(*Entry[string, string]) {
		return func(seen *Entry[string, string]) {
			if !s.Values.Swap(seen, s.restamped(seen, 9)) {
				t.Error("the reader has lost, too")
			}
		}
	}
	for name, encoded := range map[string]bool{"values": false, "encoded": true} {
		t.Run(name, func(t *testing.T) {
			s := newRival(t, encoded)
			s.meanwhile = stamps(s)
			if s.Expire("k", s.Values.Now()); s.meanwhile != nil || s.fresh() != "" {
				t.Errorf("after a call %q is fresh", s.fresh())
			}
			s = newRival(t, encoded)
			s.meanwhile = stamps(s)
			s.ExpireValue("k", 7)
			if e, _ := s.Values.Peek("k"); s.meanwhile != nil || s.fresh() != "" || e == nil || e.Value.V != "old" || e.Value.Stamp() != 9 {
				t.Errorf("after the news of L2 %q is fresh; the entry is %+v", s.fresh(), e)
			}
			s = newRival(t, encoded)
			s.meanwhile = func(*Entry[string, string]) { s.put(t, "new", 8, 9) }
			if s.ExpireValue("k", 7); s.meanwhile != nil || s.fresh() != "new" {
				t.Errorf("%q is fresh; want the value that came meanwhile", s.fresh())
			}
			s.ExpireValue("k", 7)
			if s.Expire("k", s.Values.Now()); s.fresh() != "" {
				t.Errorf("%q is fresh", s.fresh())
			}
		})
	}
}

// TestExpiryOfEverythingLeavesTheTimeOfAnEarlierOne expires a key, then everything. Then windows are shorter.
func TestExpiryOfEverythingLeavesTheTimeOfAnEarlierOne(t *testing.T) {
	for name, encoded := range map[string]bool{"values": false, "encoded": true} {
		t.Run(name, func(t *testing.T) {
			s := newRival(t, encoded)
			s.Ledger = new(ledger.Ledger)
			s.put(t, "old", 7, 0)
			since := s.Values.Now()
			s.Expire("k", since)
			s.Ledger.Expire(s.Values.Now())
			e, _ := s.Values.Peek("k")
			e = s.Aged("k", e)
			s.Windows = func(*expiry.Own) (revalidate, onError time.Duration) { return time.Second, time.Second }
			if until := time.Duration(s.OnErrorUntil(e) - since); !e.Value.Expired() || until > 1001*time.Millisecond {
				t.Errorf("the value is served for %v after its expiry, %+v", until, e.Value)
			}
		})
	}
}

func TestFailureThatIsRememberedForCenturiesIsNotForgotten(t *testing.T) {
	for _, ttl := range []time.Duration{math.MaxInt64, 1 << 62, 1 << 61} { // twenty times the last is negative
		s := newRival(t, false)
		s.ErrorTTL = ttl
		for range 5 {
			s.Failed("k", errors.New("down"), nil, 0, true)
			if s.Throttled("k") == nil {
				t.Errorf("ErrorTTL %v: the failure is forgotten, after %d in a row", ttl, s.Failures("k"))
			}
		}
	}
}
