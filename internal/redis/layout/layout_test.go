package layout_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/remote"
)

func TestNamesOfDifferentCachesAndKeysNeverMeet(t *testing.T) {
	seen := map[string]string{}
	see := func(what, name string) {
		if other, ok := seen[name]; ok && other != what {
			t.Errorf("%q is the name of %s and of %s", name, what, other)
		}
		seen[name] = what
	}
	for _, cache := range []string{"", "a", "a:1", "a:1:2", "word", "lane", "tags", "a{1", "a{1:2", "a:1{2", "1{a"} {
		n := layout.NewNames(remote.Space{Name: cache}, 0)
		see("word of "+cache, n.Namespace)
		see("tags of "+cache, n.Tags)
		for _, db := range []int{0, 1, 10} {
			see(fmt.Sprintf("channel of %s in database %d", cache, db), layout.Channel(cache, db))
		}
		for _, key := range []string{"", "k", "lane", "word", "tags", "=k", "}=k", "{k}", "a\r\nb", "\x00"} {
			see("entry "+key+" of "+cache, n.Entry(key))
			if got := len(n.Entry(key)); got != n.EntryLen(key) {
				t.Errorf("entry %q has %d bytes, not %d", n.Entry(key), got, n.EntryLen(key))
			}
			if !strings.HasPrefix(n.Lane(key), n.Entry(key)[:strings.Index(n.Entry(key), "}")+1]) {
				t.Errorf("entry %q and lane %q are not in one slot", n.Entry(key), n.Lane(key))
			}
			if slots.Of(n.Entry(key)) != slots.Of(n.Lane(key)) {
				t.Errorf("entry %q and lane %q have different slots", n.Entry(key), n.Lane(key))
			}
		}
	}
	n := layout.NewNames(remote.Space{Name: "a"}, 0)
	for _, key := range []string{"", "k", "user:1", "\x00\xff"} {
		h := fnv.New32a() // as other programs use it
		h.Write([]byte(key))
		if want := fmt.Sprintf("strata:{a:%d}=%s", h.Sum32()%layout.Lanes, key); n.Entry(key) != want {
			t.Errorf("Entry(%q) = %q, want %q", key, n.Entry(key), want)
		}
	}
	for _, key := range []string{"k", "l", "m", "n"} {
		if strings.Contains(n.Lane(key), "=") {
			t.Errorf("lane %q looks like an entry", n.Lane(key))
		}
	}
}

// TestNamesOfACacheWithoutAServiceStayTheSame has names that earlier versions have written.
func TestNamesOfACacheWithoutAServiceStayTheSame(t *testing.T) {
	for service, want := range map[string][4]string{
		"":     {"strata:{users:234}=k", "strata:{users}word", "strata:users", "strata:{3}users"},
		"shop": {"strata:{shop{users:234}=k", "strata:{shop{users}word", "strata:shop{users", "strata:{3}shop{users"},
	} {
		name := remote.SpaceName(service, "users")
		n := layout.NewNames(remote.Space{Name: name}, 0)
		if got := [4]string{n.Entry("k"), n.Namespace, n.Channel, layout.Channel(name, 3)}; got != want {
			t.Errorf("%q: %q, want %q", service, got, want)
		}
	}
}

func TestStateIsReadOnlyAsTheScriptsWriteIt(t *testing.T) {
	for good, id := range map[string]uint64{
		"1700000000000 1700000001000 ff 1a2b.3.4":               255,
		"1700000000000 1700000001000 ffffffffffffffff 1a2b.3.4": math.MaxUint64,
	} {
		if s, ok := layout.ParseState([]byte(good), ""); !ok || !reflect.DeepEqual(s, entryrules.Value{Fresh: 1700000000000, Left: 1700000001000, ID: id, Namespace: "1a2b.3.4"}) {
			t.Errorf("ParseState(%q) = %+v, %v", good, s, ok)
		}
	}
	for _, bad := range []string{"", " ", "1 2 3", "1 2 3 ", "-1 2 3 w", "1 -2 3 w", "1 2 0 w", "1 2 xyz w", "x 2 3 w", "1 2 11111111111111111 w", "99999999999999999999 2 3 w"} {
		if s, ok := layout.ParseState([]byte(bad), ""); ok {
			t.Errorf("ParseState(%q) = %+v", bad, s)
		}
	}
}

func TestNamespaceStateDecidesWhetherAValueIsHeld(t *testing.T) {
	const now = 1000
	s := entryrules.Value{Fresh: 1500, Left: 3000, ID: 7, Namespace: "e.1.2"}
	fresh := remote.Held{ID: 7, Fresh: 500 * time.Millisecond, Left: 2 * time.Second}
	stale := remote.Held{ID: 7, Left: 2 * time.Second}
	soft := stale
	soft.Soft = true
	expired := s
	expired.Soft = true
	all := soft
	all.All = true
	for _, c := range []struct {
		what  string
		state entryrules.Value
		word  string
		now   int64
		want  remote.Held
	}{
		{"the same word", s, "e.1.2", now, fresh},
		{"another number of expiries", s, "e.1.3", now, all},
		{"a smaller number of expiries", s, "e.1.0", now, all},
		{"another number of drops", s, "e.2.2", now, remote.Held{}},
		{"a number of drops that begins alike", s, "e.11.2", now, remote.Held{}},
		{"another epoch", s, "f.1.2", now, remote.Held{}},
		{"a word without dots", entryrules.Value{Fresh: 1500, Left: 3000, ID: 7, Namespace: "e"}, "e.1.2", now, remote.Held{}},
		{"a soft drop", expired, "e.1.2", now, soft},
		{"the end of its life", s, "e.1.2", 3000, remote.Held{}},
	} {
		if got := layout.Held(&c.state, c.word, c.now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
	if got := layout.Held(&s, "e.1.2", 1700); got.Fresh != -200*time.Millisecond || got.Soft || got.Left != 1300*time.Millisecond {
		t.Errorf("past its freshness: %+v", got)
	}
	for _, far := range []int64{1 << 52, math.MaxInt64} {
		if got := layout.Held(&entryrules.Value{Fresh: far, Left: far, ID: 1, Namespace: "w"}, "w", 0); got.Fresh <= 0 || got.Left <= 0 {
			t.Errorf("a life until %d: %+v", far, got)
		}
	}
}

func TestMessagesAreReadBackForAnyKey(t *testing.T) {
	most := remote.LaneVersion{Count: 1<<64 - 1, Nonce: 1<<64 - 1}
	for _, key := range []string{"", "k", "a b  c", " ", "1 2 3", "a\r\nb\x00", strings.Repeat("k", 1<<16)} {
		for k := remote.Dropped; k <= remote.Beat; k++ {
			m := remote.Message{Name: "n", Kind: k, From: 1<<64 - 1, Key: key, Lane: 1<<16 - 1, Was: most, Is: remote.LaneVersion{Nonce: 1}, Hold: time.Hour}
			if got, ok := layout.ParseMessage("n", layout.Message(&m)); !ok || got != m {
				t.Errorf("kind %d, key %q: got %+v, %v", k, key, got, ok)
			}
		}
	}
	m := remote.Message{Kind: remote.Dropped, Hold: 1500 * time.Microsecond}
	if got, ok := layout.ParseMessage("", layout.Message(&m)); !ok || got.Hold != 2*time.Millisecond {
		t.Errorf("a hold is not rounded up: %+v, %v", got, ok)
	}
	for _, bad := range []string{
		"", "2", "1 1 7 0 5 k", "1 1 7 0 0.0 0.0 0 k", "2 0 7 0 0.0 0.0 0 k", "2 11 7 0 0.0 0.0 0 k", "2 1 x 0 0.0 0.0 0 k", "2 1 7 70000 0.0 0.0 0 k",
		"2 1 7 0 0 0.0 0 k", "2 1 7 0 0.x 0.0 0 k", "2 1 7 0 0.0 -1.0 0 k", "2 1 7 0 0.0 0. 0 k", "2 1 7 0 0.0 0.0 -1 k",
		"2 1 7 0 0.0 0.0 9223372036855 k", "2 1 7 0 0.0 0.0 0", "3 1 7 0 0.0 0.0 0 k",
	} {
		if m, ok := layout.ParseMessage("n", bad); ok {
			t.Errorf("ParseMessage(%q) = %+v", bad, m)
		}
	}
}

func TestHeadsOfMessagesAreReadBack(t *testing.T) {
	n := layout.NewNames(remote.Space{Name: "n", Instance: 0xab}, 0)
	const words = "5.a1 6.b2 "
	was, is := remote.LaneVersion{Count: 5, Nonce: 0xa1}, remote.LaneVersion{Count: 6, Nonce: 0xb2}
	for _, key := range []string{"", "k", "user 1"} {
		lane := layout.LaneOf(key)
		for text, want := range map[string]remote.Message{
			n.Dropped(key, false) + words + "250 " + key:  {Kind: remote.Dropped, Key: key, Lane: lane, Was: was, Is: is, Hold: 250 * time.Millisecond},
			n.Dropped(key, true) + words + "0 " + key:     {Kind: remote.Expired, Key: key, Lane: lane, Was: was, Is: is},
			n.TagDropped(false) + "5.0 6.0 0 " + key:      {Kind: remote.TagDropped, Key: key, Was: remote.LaneVersion{Count: 5}, Is: remote.LaneVersion{Count: 6}},
			n.TagDropped(true) + "5.0 6.0 0 " + key:       {Kind: remote.TagExpired, Key: key, Was: remote.LaneVersion{Count: 5}, Is: remote.LaneVersion{Count: 6}},
			n.Ended + key:                                 {Kind: remote.Ended, Key: key},
			n.AllDropped(false) + "7" + layout.AfterCount: {Kind: remote.AllDropped, Is: remote.LaneVersion{Count: 7}},
			n.AllDropped(true) + "8" + layout.AfterCount:  {Kind: remote.AllExpired, Is: remote.LaneVersion{Count: 8}},
		} {
			want.Name, want.From = "n", 0xab
			if got, ok := layout.ParseMessage("n", text); !ok || got != want {
				t.Errorf("%q: got %+v, %v, want %+v", text, got, ok, want)
			}
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add("2 1 ff 12 99.ab 100.cd 1500 key")
	f.Add("2 3 0 0 0.0 0.0 0 ")
	f.Add("1 1 ff 12 99 key")
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := layout.ParseMessage("n", text)
		if !ok {
			return
		}
		if again, ok := layout.ParseMessage("n", layout.Message(&m)); !ok || again != m {
			t.Fatalf("%q: %+v, then %+v, %v", text, m, again, ok)
		}
	})
}

func TestStateOfAKnownNamespaceStateAllocatesNothing(t *testing.T) {
	word := "123456789abcdef0.12345.678"
	state := []byte("1700000000000 1700000001000 fedcba9876543210 " + word)
	if n := testing.AllocsPerRun(100, func() {
		if s, ok := layout.ParseState(state, word); !ok || s.Namespace != word {
			t.Fatalf("%+v, %t", s, ok)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzState(f *testing.F) {
	f.Add("1700000000000 1700000001000 ff 1a2b.3.4", "1a2b.3.5", int64(1))
	f.Fuzz(func(t *testing.T, text, word string, now int64) {
		s, ok := layout.ParseState([]byte(text), "")
		if known, same := layout.ParseState([]byte(text), word); !reflect.DeepEqual(known, s) || same != ok {
			t.Fatalf("%q: %+v; if %q is known %+v", text, s, word, known)
		}
		if ok && (s.ID == 0 || s.Namespace == "" || s.Fresh < 0 || s.Left < 0) {
			t.Fatalf("%q: %+v", text, s)
		}
		if h := layout.Held(&s, word, max(0, now)); h.Fresh < 0 || h.Left < 0 || h.Soft && h.Fresh > 0 || !h.Absent() && h.Left == 0 {
			t.Fatalf("%q under %q at %d: %+v", text, word, now, h)
		}
	})
}
