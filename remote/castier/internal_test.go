package castier

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
)

// TestClockIsPreciseAfterAWhile now and then asks a server with seconds that begin at
// any time, and with answers that take some ms.
func TestClockIsPreciseAfterAWhile(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			offset := time.Duration(rand.Int64N(int64(10 * time.Second)))
			start := time.Now()
			real := func() time.Duration { // the server's clock goes 40 ppm faster
				return time.Duration(time.Now().UnixNano()) + offset + time.Duration(float64(time.Since(start))*4e-5)
			}
			var c clock
			asked := 0
			for range 300 {
				at, err := c.now(t.Context(), func(context.Context) (time.Time, time.Duration, error) {
					asked++
					time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond) // the way there, in the bubble's time
					s := time.Unix(int64(real()/time.Second), 0)
					time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
					return s, time.Second, nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if now := real().Milliseconds(); at.early > now || at.late < now {
					t.Fatalf("the time is %d, which is not within %d and %d", now, at.early, at.late)
				}
				time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // between calls, in the bubble's time
			}
			if at := c.at(time.Now()); at.late-at.early > 120 {
				t.Errorf("after %d readings the time is within %d ms", asked, at.late-at.early)
			}
			if asked > 30 {
				t.Errorf("%d readings in 15 s", asked)
			}
			for range 300 {
				at := c.at(time.Now())
				if now := real().Milliseconds(); at.early > now || at.late < now {
					t.Fatalf("much later the time is %d, which is not within %d and %d", now, at.early, at.late)
				}
				time.Sleep(time.Minute) // in the bubble's time
			}
		})
	}
}

// TestClockFollowsAServerWhoseClockIsSet sets the server's clock back by an hour.
func TestClockFollowsAServerWhoseClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		offset := time.Duration(0)
		ask := func(context.Context) (time.Time, time.Duration, error) {
			return time.Now().Add(offset).Truncate(time.Second), time.Second, nil
		}
		for range 20 {
			if _, err := c.now(t.Context(), ask); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond) // in the bubble's time
		}
		offset = -time.Hour
		time.Sleep(clockAge + time.Second) // in the bubble's time
		at, err := c.now(t.Context(), ask)
		if now := time.Now().Add(offset).UnixMilli(); err != nil || at.early > now || at.late < now {
			t.Errorf("%v, %v; the time is %d", at, err, now)
		}
	})
}

// TestClockKeepsItsEstimateBesideAServerThatCountsLate has a server count 300 ms late for a while, as
// one without a processor does, and then in time: no instant is earlier than the one before. A clock
// that was set back by that much is followed.
func TestClockKeepsItsEstimateBesideAServerThatCountsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		late, readings := time.Duration(0), 0
		ask := func(context.Context) (time.Time, time.Duration, error) {
			readings++
			return time.Now().Add(-late).Truncate(time.Second), time.Second, nil
		}
		early := int64(0)
		until := func(end time.Duration, follows bool) {
			for start := time.Now(); time.Since(start) < end; time.Sleep(30 * time.Millisecond) { // in the bubble's time
				at, err := c.now(t.Context(), ask)
				if err != nil || !follows && at.early < early {
					t.Fatalf("%v, %v: earlier than %d, the one before", at, err, early)
				}
				early = at.early
			}
		}
		for range 3 {
			late = 0
			until(clockAge+10*time.Second, false)
			late = 300 * time.Millisecond
			for known := readings; readings == known; {
				until(30*time.Millisecond, false)
			}
			until(time.Second, false)
		}
		until(clockAge, true)
		at := c.at(time.Now())
		if now := time.Now().Add(-late).UnixMilli(); at.early > now || at.late < now {
			t.Errorf("%v: the time of a clock that was set back is %d", at, now)
		}
	})
}

func TestClockKeepsItsEstimateWhileTheServerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		fails := errors.New("fails")
		if _, err := c.now(t.Context(), func(context.Context) (time.Time, time.Duration, error) { return time.Time{}, 0, fails }); !errors.Is(err, fails) {
			t.Errorf("without any reading: %v", err)
		}
		if _, err := c.now(t.Context(), func(context.Context) (time.Time, time.Duration, error) {
			return time.Now().Truncate(time.Second), time.Second, nil
		}); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * clockAge) // in the bubble's time
		at, err := c.now(t.Context(), func(context.Context) (time.Time, time.Duration, error) { return time.Time{}, 0, fails })
		if now := time.Now().UnixMilli(); err != nil || at.early > now || at.late < now {
			t.Errorf("%v, %v; the time is %d", at, err, now)
		}
	})
}

func TestItemsAreReadAsTheyWereWritten(t *testing.T) {
	for range 1000 {
		name := strings.Repeat("n", rand.IntN(2)*300)
		s := entryrules.State{
			Until: rand.Int64() - rand.Int64(), Token: entryrules.Token{Token: rand.Uint64(), Until: rand.Int64()},
			Hold: entryrules.Hold{Until: entryrules.Forever, Length: rand.Int64()},
		}
		for i := range rand.IntN(4) {
			s.Slots = append(s.Slots, entryrules.Slot{
				Schema: strings.Repeat("s", i), Awaited: rand.IntN(2) == 0,
				Value: entryrules.Value{ID: rand.Uint64(), Fresh: rand.Int64(), Left: rand.Int64(), Soft: rand.IntN(2) == 0, Namespace: "a.b", Data: make([]byte, rand.IntN(300))},
				Lease: entryrules.Lease{Token: rand.Uint64(), Until: rand.Int64(), Length: rand.Int64()},
			})
			if v := &s.Slots[i].Value; rand.IntN(2) == 0 {
				v.Data = refer(rand.Uint64())
				for range rand.IntN(entryrules.Remembered + 1) {
					v.Earlier = append(v.Earlier, rand.Uint64())
				}
			}
		}
		item := encodeEntry(name, s)
		got, err := decodeEntry(item, name)
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("%v\nwrote %+v\nread  %+v", err, s, got)
		}
		if _, err := decodeEntry(item, name+"x"); !errors.Is(err, errForeign) {
			t.Errorf("the item of another key: %v", err)
		}
		if _, err := decodeEntry(append(item, 0), name); !errors.Is(err, errForeign) {
			t.Errorf("an item that is too long: %v", err)
		}
		if _, err := decodeEntry(item[:rand.IntN(len(item))], name); !errors.Is(err, errForeign) {
			t.Errorf("an item that is cut: %v", err)
		}
	}
}

// FuzzItems reads any bytes as items: nothing panics, and an accepted item is
// written as the same state.
func FuzzItems(f *testing.F) {
	f.Add(encodeEntry("", entryrules.State{Until: 5, Slots: []entryrules.Slot{{Schema: "7", Value: entryrules.Value{ID: 1, Data: []byte("v")}}}}))
	f.Add(encodeEntry("name", entryrules.State{}))
	f.Add(encodeEntry("", entryrules.State{Slots: []entryrules.Slot{{Schema: "7", Value: entryrules.Value{ID: 1, Earlier: []uint64{2, 3}, Data: refer(9)}}}}))
	f.Add(encodeLarge("name", []byte("v")))
	f.Add(encodeTag("name", tag{1, 2}))
	f.Fuzz(func(t *testing.T, item []byte) {
		for _, name := range []string{"", "name"} {
			if s, err := decodeEntry(item, name); err == nil {
				again, err := decodeEntry(encodeEntry(name, s), name)
				if err != nil || !bytes.Equal(encodeEntry(name, again), encodeEntry(name, s)) {
					t.Errorf("%+v is read as %+v, %v", s, again, err)
				}
			}
			if data, err := decodeLarge(item, name); err == nil && !bytes.Equal(encodeLarge(name, data), item) {
				if again, err := decodeLarge(encodeLarge(name, data), name); err != nil || !bytes.Equal(again, data) {
					t.Errorf("%q is read as %q, %v", data, again, err)
				}
			}
			if is, err := decodeTag(item, name); err == nil {
				if again, err := decodeTag(encodeTag(name, is), name); err != nil || again != is {
					t.Errorf("%+v is read as %+v, %v", is, again, err)
				}
			}
		}
	})
}

func TestKeysOfItemsAreNeverMistaken(t *testing.T) {
	prefix := prefixOf("users")
	seen := map[string]string{}
	for _, name := range []string{"", "a", "A", "a b", "a\nb", "\x00", "\x7f", strings.Repeat("x", 218), strings.Repeat("x", 219), strings.Repeat("x", 220), strings.Repeat("x", 1<<20), "ключ"} {
		for _, kinds := range [][2]byte{{entryItem, hashedEntry}, {tagItem, hashedTag}, {largeItem, hashedLarge}} {
			key, hashed := itemKey(prefix, kinds[0], kinds[1], name)
			if len(key) > maxKey || !plain(key) {
				t.Errorf("%.20q has key %q", name, key)
			}
			if other, ok := seen[key]; ok {
				t.Errorf("%.20q and %.20q have key %q", name, other, key)
			}
			seen[key] = name
			if hashed == strings.HasSuffix(key, string(kinds[0])+name) {
				t.Errorf("%.20q has key %q, hashed %v", name, key, hashed)
			}
		}
	}
}
