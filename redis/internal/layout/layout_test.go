package layout_test

import (
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/strata-cache/strata/redis/internal/layout"
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
	for _, cache := range []string{"", "a", "a:1", "a:1:2", "word", "lane"} {
		n := layout.NewNames(remote.Space{Name: cache})
		see("word of "+cache, n.Word)
		for _, key := range []string{"", "k", "lane", "word", "=k", "}=k", "{k}", "a\r\nb", "\x00"} {
			see("entry "+key+" of "+cache, n.Entry(key))
			if got := len(n.Entry(key)); got != n.EntryLen(key) {
				t.Errorf("entry %q has %d bytes, not %d", n.Entry(key), got, n.EntryLen(key))
			}
			if !strings.HasPrefix(n.Lane(key), n.Entry(key)[:strings.Index(n.Entry(key), "}")+1]) {
				t.Errorf("entry %q and lane %q are not in one slot", n.Entry(key), n.Lane(key))
			}
		}
	}
	n := layout.NewNames(remote.Space{Name: "a"})
	for _, key := range []string{"", "k", "user:1", "\x00\xff"} {
		h := fnv.New32a() // what other programs would use
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

func TestStateReadsOnlyWhatTheScriptsWrite(t *testing.T) {
	good := "1700000000000 1700000001000 ff 1a2b.3"
	if s, ok := layout.ParseState(good); !ok || s != (layout.State{Fresh: 1700000000000, Left: 1700000001000, ID: 255, Word: "1a2b.3"}) {
		t.Errorf("ParseState(%q) = %+v, %v", good, s, ok)
	}
	for _, bad := range []string{"", " ", "1 2 3", "1 2 3 ", "-1 2 3 w", "1 -2 3 w", "1 2 0 w", "1 2 xyz w", "x 2 3 w", "1 2 11111111111111111 w", "99999999999999999999 2 3 w"} {
		if s, ok := layout.ParseState(bad); ok {
			t.Errorf("ParseState(%q) = %+v", bad, s)
		}
	}
}

func TestMessagesAreReadBackWhateverTheKey(t *testing.T) {
	for _, key := range []string{"", "k", "a b  c", " ", "1 2 3", "a\r\nb\x00", strings.Repeat("k", 1<<16)} {
		m := remote.Message{Name: "n", Kind: remote.Expired, From: 1<<64 - 1, Key: key, Lane: 1023, Seq: 1<<64 - 1}
		if got, ok := layout.ParseMessage("n", layout.Message(&m)); !ok || got != m {
			t.Errorf("key %q: got %+v, %v", key, got, ok)
		}
		n := layout.NewNames(remote.Space{Name: "n", Instance: 7})
		got, ok := layout.ParseMessage("n", n.DropHead(key, true)+"5 "+key)
		if !ok || got.Key != key || got.Kind != remote.Expired || got.From != 7 || got.Seq != 5 {
			t.Errorf("script's message for %q: %+v, %v", key, got, ok)
		}
	}
	n := layout.NewNames(remote.Space{Name: "n", Instance: 7})
	if got, ok := layout.ParseMessage("n", n.AllDropped()); !ok || got.Kind != remote.AllDropped || got.From != 7 {
		t.Errorf("all dropped: %+v, %v", got, ok)
	}
	for _, bad := range []string{"", "1", "2 1 7 0 0 k", "1 0 7 0 0 k", "1 4 7 0 0 k", "1 1 x 0 0 k", "1 1 7 70000 0 k", "1 1 7 0 -1 k", "1 1 7 0 k"} {
		if m, ok := layout.ParseMessage("n", bad); ok {
			t.Errorf("ParseMessage(%q) = %+v", bad, m)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add("1 1 ff 12 99 key")
	f.Add("1 3 0 0 0 ")
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

func FuzzState(f *testing.F) {
	f.Add("1700000000000 1700000001000 ff 1a2b.3")
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := layout.ParseState(text); ok && (s.ID == 0 || s.Word == "" || s.Fresh < 0 || s.Left < 0) {
			t.Fatalf("%q: %+v", text, s)
		}
	})
}
