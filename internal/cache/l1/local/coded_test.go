package local

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/expiry"
	"github.com/strata-cache/strata/internal/cache/l1"
)

// texts returns an encoded L1 of texts.
func texts(t *testing.T) *Coded[string, string] {
	t.Helper()
	engine := l1.New(l1.Config[string, Held[string]]{MaxEntries: 1})
	c, err := NewCoded(engine, 1<<20, Codec[string]{
		Append: func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil },
		Decode: func(b []byte) (string, error) {
			if string(b) == "damaged" {
				return "", errors.New("damaged")
			}
			return string(b), nil
		},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// put stores an entry with a stamp.
func put(t *testing.T, c Values[string, string], key, value string, stamp uint64) {
	t.Helper()
	lives, dead := expiry.New(stamp, 0, l1.Forever, l1.Forever)
	e := c.newEntry(key, Held[string]{Lives: lives, V: value}, dead, Record{})
	if err := c.Pack(e, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Set(e, 1); !ok {
		t.Fatalf("%s is not stored", key)
	}
}

// stamped returns e with another stamp.
func stamped(c Values[string, string], e *Entry[string, string], stamp uint64) *Entry[string, string] {
	anew := c.newEntry(e.Key, e.Value, e.Dead, RecordOf(e))
	anew.Value.Restamp(stamp)
	return anew
}

// TestEntryThatWasReplacedIsNotChangedAnyMore: a stamp, and a removal, that began with an entry are not for
// the entry that has taken its place, however much both are alike.
func TestEntryThatWasReplacedIsNotChangedAnyMore(t *testing.T) {
	c := texts(t)
	put(t, c, "k", "one", 1)
	seen, _ := c.Peek("k")
	put(t, c, "k", "two", 1)
	if c.Swap(seen, stamped(c, seen, 5)) || c.remove(seen) {
		t.Error("an entry that is not there was changed")
	}
	now, _ := c.Peek("k")
	if now == nil || now.Value.V != "two" || now.Value.Stamp() != 1 || c.Same(seen, now) {
		t.Fatalf("the key has %+v", now)
	}
	next := stamped(c, now, 7)
	if !c.Swap(now, next) {
		t.Fatal("a stamp of the present entry is lost")
	}
	if again, _ := c.Glance("k"); again.Value.Stamp() != 7 || !c.Same(again, next) || c.Same(again, now) {
		t.Errorf("the key has %+v", again)
	}
	if c.Swap(now, stamped(c, now, 9)) {
		t.Error("two stamps of one entry")
	}
	if !c.remove(next) || c.Len() != 0 {
		t.Error("the present entry cannot be removed")
	}
}

func TestDamagedEntryGoesWhenItIsFound(t *testing.T) {
	for name, find := range map[string]func(*Coded[string, string]) bool{
		"Get":  func(c *Coded[string, string]) bool { e, _ := c.Get("k"); return e != nil },
		"Peek": func(c *Coded[string, string]) bool { e, _ := c.Peek("k"); return e != nil },
		"All": func(c *Coded[string, string]) bool {
			return len(slices.Collect(c.All(func(*Entry[string, string]) bool { return true }))) > 0
		},
	} {
		c := texts(t)
		put(t, c, "k", "damaged", 1)
		if e, _ := c.Glance("k"); e == nil {
			t.Errorf("%s: a look that needs no value finds nothing", name)
		}
		if find(c) || c.Len() != 0 || c.Undecoded() != 1 {
			t.Errorf("%s finds it: %d entries, %d counted", name, c.Len(), c.Undecoded())
		}
		if s := c.Stats(); s.Hits != 0 {
			t.Errorf("%s: %d hits", name, s.Hits)
		}
	}
}

func TestDamagedEntryIsHeardToLeaveOnce(t *testing.T) {
	for name, find := range map[string]func(*Coded[string, string]){
		"Get":  func(c *Coded[string, string]) { c.Get("k") },
		"Peek": func(c *Coded[string, string]) { c.Peek("k") },
		"All": func(c *Coded[string, string]) {
			for e := range c.All(func(*Entry[string, string]) bool { return true }) {
				t.Errorf("%q is found", e.Key)
			}
		},
	} {
		heard := map[l1.Reason]int{}
		engine := l1.New(l1.Config[string, Held[string]]{MaxEntries: 1, Notify: func(_ *Entry[string, string], why l1.Reason) { heard[why]++ }})
		c, err := NewCoded(engine, 1<<20, Codec[string]{
			Append: func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil },
			Decode: func([]byte) (string, error) { return "", errors.New("damaged") },
		}, true)
		if err != nil {
			t.Fatal(err)
		}
		keep(c, "k", "v", l1.Forever)
		find(c)
		c.Get("other")
		if len(heard) != 1 || heard[l1.Deleted] != 1 || c.Undecoded() != 1 {
			t.Errorf("%s: heard %v, %d counted", name, heard, c.Undecoded())
		}
		c.Close()
	}
}

func TestHottestAreMostUsedFirst(t *testing.T) {
	c := texts(t)
	for i := range 4 {
		key := fmt.Sprint(i)
		put(t, c, key, "v", 1)
		for range i {
			c.Get(key)
		}
	}
	var keys []string
	for _, e := range c.Hottest(3) {
		keys = append(keys, e.Key)
	}
	if !slices.Equal(keys, []string{"3", "2", "1"}) {
		t.Errorf("%v", keys)
	}
	if all := c.HottestKeys(); len(all) != 4 || all[3] != "0" {
		t.Errorf("all: %v", all)
	}
	e, _ := c.Glance("3")
	for want := 3; want >= 0; want-- {
		if n := c.Uses(e); n != want || c.Cool(e) != (want > 0) {
			t.Errorf("%d uses, want %d", n, want)
		}
	}
}

// TestKeysAreKeptByTheirMemory: keys that differ in any byte are different, and come back as they were.
func TestKeysAreKeptByTheirMemory(t *testing.T) {
	type pair struct {
		A uint32
		B [4]int8
	}
	engine := l1.New(l1.Config[pair, Held[string]]{MaxEntries: 1})
	c, err := NewCoded(engine, 1<<20, Codec[string]{
		Append: func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil },
		Decode: func(b []byte) (string, error) { return string(b), nil },
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := map[pair]string{}
	for i := range 200 {
		k := pair{A: uint32(i % 7), B: [4]int8{int8(i), 0, 0, int8(-i)}}
		want[k] = fmt.Sprint(k)
		e := c.newEntry(k, Held[string]{V: want[k]}, l1.Forever, Record{})
		_ = c.Pack(e, nil)
		c.Set(e, 1)
	}
	got := map[pair]string{}
	for e := range c.All(func(*Entry[pair, string]) bool { return true }) {
		got[e.Key] = e.Value.V
		if one, _ := c.Get(e.Key); one == nil || one.Value.V != e.Value.V {
			t.Errorf("%v is not found", e.Key)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d of %d keys", len(got), len(want))
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%v: %q", k, got[k])
		}
	}
}

// TestClosedStoreKeepsNothing: stores that run while it is closed leave nothing behind.
func TestClosedStoreKeepsNothing(t *testing.T) {
	for range 200 {
		c := texts(t)
		var all sync.WaitGroup
		begun := make(chan struct{}, 3)
		for i := range 3 {
			all.Go(func() {
				for n := range 60 {
					e := c.newEntry(fmt.Sprint(i, n), Held[string]{V: "v"}, l1.Forever, Record{})
					_ = c.Pack(e, nil)
					if c.Set(e, 1); n == 20 {
						begun <- struct{}{}
					}
				}
			})
		}
		<-begun
		c.Close()
		all.Wait()
		if n := c.Len(); n != 0 {
			t.Fatalf("%d entries", n)
		}
	}
}

// hearing returns an encoded L1 of texts, and how often each key was heard to leave, by the reason.
func hearing(t *testing.T, maxBytes int64) (c *Coded[string, string], heard map[string]map[l1.Reason]int) {
	t.Helper()
	heard = map[string]map[l1.Reason]int{}
	engine := l1.New(l1.Config[string, Held[string]]{MaxEntries: 1, Notify: func(e *Entry[string, string], why l1.Reason) {
		if heard[e.Key] == nil {
			heard[e.Key] = map[l1.Reason]int{}
		}
		if heard[e.Key][why]++; why != l1.Replaced && e.Value.V == "" {
			t.Errorf("%s left without its value", e.Key)
		}
	}})
	c, err := NewCoded(engine, maxBytes, Codec[string]{
		Append: func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil },
		Decode: func(b []byte) (string, error) { return string(b), nil },
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	return c, heard
}

// keep stores an entry that ends at dead, and tells of what left.
func keep(c *Coded[string, string], key, value string, dead int64) {
	e := c.newEntry(key, Held[string]{V: value}, dead, Record{})
	_ = c.Pack(e, nil)
	gone, _ := c.Set(e, 1)
	c.Notify(gone)
}

// TestEntryThatIsChangedIsNotHeardToLeave: room for a longer form of an entry, or for its next value, is made
// by others.
func TestEntryThatIsChangedIsNotHeardToLeave(t *testing.T) {
	c, heard := hearing(t, 128<<10)
	defer c.Close()
	for i := range 3000 {
		key, old := fmt.Sprint("k", i), fmt.Sprint("k", max(0, i-60+i%50))
		keep(c, key, strings.Repeat("v", 900), l1.Forever)
		e, _ := c.Peek(old)
		if e == nil {
			continue
		}
		clear(heard[old])
		if i%2 == 0 {
			c.Swap(e, c.newEntry(old, e.Value, e.Dead, Record{Born: int64(i) + 1}))
		} else {
			keep(c, old, strings.Repeat("w", 950), l1.Forever)
		}
		c.Notify(c.drain())
		if again, _ := c.Glance(old); again != nil && heard[old][l1.Evicted] > 0 {
			t.Fatalf("after %d entries %s is there, and was heard to leave: %v", i, old, heard[old])
		}
	}
	if s := c.Stats(); s.Entries+int64(s.Evicted) != 3000 {
		t.Errorf("%d entries are there, %d were evicted, of 3000", s.Entries, s.Evicted)
	}
}

// TestAllThatLeavesAnEncodedL1IsHeardOnce: ended entries that are replaced, found or cleared, and entries that a
// guard makes leave.
func TestAllThatLeavesAnEncodedL1IsHeardOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, heard := hearing(t, 8<<20)
		soon := c.Now() + int64(time.Second)
		for _, key := range []string{"replaced", "found", "cleared"} {
			keep(c, key, "v", soon)
		}
		keep(c, "living", "v", l1.Forever)
		time.Sleep(2 * time.Second)
		keep(c, "replaced", "w", l1.Forever)
		c.Get("found")
		c.Clear()
		want := map[string]l1.Reason{"replaced": l1.Expired, "found": l1.Expired, "cleared": l1.Expired, "living": l1.Cleared}
		for key, why := range want {
			if heard[key][why] != 1 {
				t.Errorf("%s: heard %v, want %v once", key, heard[key], why)
			}
		}
		clear(heard)
		for i := range 5000 {
			keep(c, fmt.Sprint(i), strings.Repeat("v", 1000), l1.Forever)
		}
		c.Owe(4 << 20)
		c.Settle()
		if n := 5000 - c.Len(); n < 3000 || len(heard) != n || len(c.gone) > 0 {
			t.Errorf("%d left, %d were heard, %d are kept to be told", n, len(heard), len(c.gone))
		}
		c.Close()
	})
}

// TestFullEncodedL1HasNoRoom: it says so when entries have begun to leave.
func TestFullEncodedL1HasNoRoom(t *testing.T) {
	c := texts(t)
	if n := c.Room(500); n != 500 {
		t.Errorf("an empty one has room for %d of 500", n)
	}
	for i := 0; c.Stats().Evicted == 0; i++ {
		put(t, c, fmt.Sprint("k", i), "some text", 1)
	}
	for i := range 3000 {
		put(t, c, fmt.Sprint("new", i), "some text", 1)
	}
	if n := c.Room(500); n != 0 {
		t.Errorf("a full one has room for %d", n)
	}
}
