package memcached_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
)

// TestEveryCallDoesWhatItSaysOnEveryServer: with meta commands and without.
func TestEveryCallDoesWhatItSaysOnEveryServer(t *testing.T) {
	everywhere(t, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		conform(t, c, s.Generation != fakes.Proxy)
	})
}

// conform makes every call that changes one item.
func conform(t *testing.T, c *memcached.Client, gats bool) {
	ctx := t.Context()
	want := func(what string, err, wanted error) {
		t.Helper()
		if !errors.Is(err, wanted) || wanted == nil && err != nil {
			t.Errorf("%s: %v, not %v", what, err, wanted)
		}
	}
	_, err := c.Get(ctx, "k")
	want("Get of nothing", err, memcached.ErrMiss)
	_, err = c.AppendGet(ctx, nil, "k")
	want("AppendGet of nothing", err, memcached.ErrMiss)
	want("Replace of nothing", c.Replace(ctx, memcached.Item{Key: "k"}), memcached.ErrNotStored)
	want("CompareAndSwap of nothing", c.CompareAndSwap(ctx, memcached.Item{Key: "k", CAS: 1}), memcached.ErrMiss)
	want("Delete of nothing", c.Delete(ctx, "k"), memcached.ErrMiss)
	want("Touch of nothing", c.Touch(ctx, "k", time.Hour), memcached.ErrMiss)
	_, err = c.Increment(ctx, "k", 1)
	want("Increment of nothing", err, memcached.ErrMiss)

	want("Add", c.Add(ctx, memcached.Item{Key: "k", Value: []byte("one"), Flags: 7, TTL: time.Hour}), nil)
	want("second Add", c.Add(ctx, memcached.Item{Key: "k", Value: []byte("x")}), memcached.ErrNotStored)
	item, err := c.Get(ctx, "k")
	if err != nil || item.Key != "k" || string(item.Value) != "one" || item.Flags != 7 || item.CAS == 0 || item.TTL != 0 {
		t.Errorf("%+v, %v", item, err)
	}
	want("Replace", c.Replace(ctx, memcached.Item{Key: "k", Value: []byte("two")}), nil)
	item.Value = []byte("three")
	want("late CompareAndSwap", c.CompareAndSwap(ctx, item), memcached.ErrConflict)
	item, err = c.Get(ctx, "k")
	want("Get", err, nil)
	item.Value = append(item.Value, " and a half"...)
	want("CompareAndSwap", c.CompareAndSwap(ctx, item), nil)
	if v, err := c.AppendGet(ctx, []byte("now "), "k"); string(v) != "now two and a half" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	want("Touch", c.Touch(ctx, "k", time.Hour), nil)
	if gats {
		if item, err := c.GetAndTouch(ctx, "k", time.Hour); err != nil || string(item.Value) != "two and a half" || item.CAS == 0 {
			t.Errorf("%+v, %v", item, err)
		}
	}
	var refused *memcached.ServerError
	if _, err = c.Increment(ctx, "k", 1); !errors.As(err, &refused) || !errors.Is(err, remote.ErrRefused) {
		t.Errorf("Increment of a text: %v", err)
	}
	want("Delete", c.Delete(ctx, "k"), nil)
	_, err = c.Get(ctx, "k")
	want("Get after Delete", err, memcached.ErrMiss)

	want("Set", c.Set(ctx, memcached.Item{Key: "n", Value: []byte("40")}), nil)
	if n, err := c.Increment(ctx, "n", 2); n != 42 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := c.Decrement(ctx, "n", 50); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	want("Set of nothing", c.Set(ctx, memcached.Item{Key: "empty"}), nil)
	if v, err := c.AppendGet(ctx, nil, "empty"); v == nil || len(v) != 0 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	large := bytes.Repeat([]byte("large"), 40_000)
	want("Set of a large value", c.Set(ctx, memcached.Item{Key: "large", Value: large}), nil)
	for range 3 {
		if item, err := c.Get(ctx, "large"); !bytes.Equal(item.Value, large) || err != nil || item.CAS == 0 {
			t.Errorf("%d bytes, %v", len(item.Value), err)
		}
	}
	want("Ping", c.Ping(ctx), nil)
	want("FlushAll", c.FlushAll(ctx), nil)
	_, err = c.Get(ctx, "large")
	want("Get after FlushAll", err, memcached.ErrMiss)
	if v, err := c.Version(ctx); len(v) != 1 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	stats, err := c.Stats(ctx, "")
	for addr, values := range stats {
		if values["version"] == "" {
			t.Errorf("%s: %v", addr, values)
		}
	}
	if len(stats) != 1 || err != nil {
		t.Errorf("%v, %v", stats, err)
	}
}

func TestBatchesReadAndWriteEverythingOnEveryServer(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) { conformMany(t, c) })
}

// conformMany makes calls for many keys.
func conformMany(t *testing.T, c *memcached.Client) {
	for _, n := range []int{0, 1, 100, 2000} {
		var items []memcached.Item
		var keys []string
		for i := range n {
			key := fmt.Sprintf("key-%d-%d", n, i)
			size := i % 100
			if i%500 == 3 {
				size = 30_000
			}
			items = append(items, memcached.Item{Key: key, Value: bytes.Repeat([]byte{byte('a' + i%26)}, size), Flags: uint32(i), TTL: time.Hour})
			keys = append(keys, key, "missing"+key)
		}
		if err := c.SetMany(t.Context(), items); err != nil {
			t.Fatalf("%d items: %v", n, err)
		}
		if n > 0 {
			keys = append(keys, keys[0]) // twice
		}
		got, err := c.GetMany(t.Context(), keys)
		if err != nil || len(got) != n {
			t.Fatalf("%d of %d items, %v", len(got), n, err)
		}
		for _, want := range items {
			if it := got[want.Key]; it.Key != want.Key || !bytes.Equal(it.Value, want.Value) || it.Flags != want.Flags || it.Value == nil {
				t.Errorf("%+v instead of %+v", it, want)
			}
		}
	}
}

func TestAbilitiesAreFoundByTrying(t *testing.T) {
	for name, want := range map[string]memcached.Abilities{
		"1.6.18": {Meta: true},
		"1.6.38": {Meta: true, OwnCAS: true},
		"1.6.40": {Meta: true, OwnCAS: true, IfChanged: true},
		"old":    {},
		"proxy":  {},
	} {
		fake(t, func(s *fakes.Memcached, _ *memcached.Options) { s.Generation = generations[name] }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
			if got, err := c.Abilities(t.Context()); got != want || err != nil {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		})
	}
}

// TestProtocolOfTheOptionsIsObeyed: classic commands on a new server, and no other
// than meta commands.
func TestProtocolOfTheOptionsIsObeyed(t *testing.T) {
	fake(t, func(_ *fakes.Memcached, o *memcached.Options) { o.Protocol = memcached.Classic }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		mustSet(t, c, "k", "v")
		if able, err := c.Abilities(t.Context()); able.Meta || err != nil || s.Calls("mg")+s.Calls("mn")+s.Calls("ms") > 0 {
			t.Errorf("%+v, %v", able, err)
		}
	})
	for _, g := range []fakes.Generation{fakes.Old, fakes.Proxy} {
		change := func(s *fakes.Memcached, o *memcached.Options) { s.Generation, o.Protocol = g, memcached.Meta }
		fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
			_, err := c.Get(t.Context(), "k")
			if err == nil || !strings.Contains(err.Error(), "meta commands") {
				t.Error(err)
			}
		})
	}
}

// TestServerThatIsReplacedIsSpokenToInItsWay: connections opened later find out anew.
func TestServerThatIsReplacedIsSpokenToInItsWay(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		for _, g := range []fakes.Generation{fakes.V1618, fakes.Old, fakes.V1638, fakes.Proxy} {
			s.Drop()
			s.Generation = g
			c.Ping(t.Context()) // may be the one that finds the connection dead
			c.Ping(t.Context())
			mustSet(t, c, "k", "v")
			if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
				t.Errorf("%d: %q, %v", g, v, err)
			}
		}
	})
}

func TestItemsLiveAsLongAsTheyAreTold(t *testing.T) {
	everywhere(t, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		for _, tc := range []struct{ ttl, lives time.Duration }{
			{time.Nanosecond, time.Second},
			{1500 * time.Millisecond, 2 * time.Second},
			{30 * 24 * time.Hour, 30 * 24 * time.Hour},
			{30*24*time.Hour + 1, 30*24*time.Hour + time.Second},
			{365 * 24 * time.Hour, 365 * 24 * time.Hour},
			{200 * 365 * 24 * time.Hour, -1}, // until 2038
		} {
			lives := tc.lives
			if err := c.Set(t.Context(), memcached.Item{Key: "k", TTL: tc.ttl}); err != nil {
				t.Fatal(err)
			}
			if lives < 0 {
				lives = time.Until(time.Unix(1<<31-1, 0))
			}
			// The server's clock has whole seconds, and so has this one.
			time.Sleep(lives - time.Millisecond) // in the bubble
			_, err := get(t.Context(), c, "k")
			time.Sleep(time.Millisecond) // in the bubble
			if _, gone := get(t.Context(), c, "k"); err != nil || !errors.Is(gone, memcached.ErrMiss) {
				t.Errorf("%v: %v before its end, %v after", tc.ttl, err, gone)
			}
		}
		if err := c.Set(t.Context(), memcached.Item{Key: "k", TTL: -1}); err == nil {
			t.Error("a negative life was accepted")
		}
	})
}

func TestBadKeysAreRefusedBeforeAByteIsSent(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		for _, key := range []string{"", "a b", "a\r\nflush_all", "a\x00", "a\x7f", strings.Repeat("k", 251), strings.Repeat("k", 1<<20)} {
			item := memcached.Item{Key: key, Value: []byte("v")}
			_, err1 := c.Get(t.Context(), key)
			_, err2 := c.AppendGet(t.Context(), nil, key)
			_, err3 := c.GetMany(t.Context(), []string{"good", key})
			_, err4 := c.GetTo(t.Context(), key, &strings.Builder{})
			_, err5 := c.Increment(t.Context(), key, 1)
			_, err6 := c.GetAndTouch(t.Context(), key, 1)
			for i, err := range []error{
				err1, err2, err3, err4, err5, err6,
				c.Set(t.Context(), item), c.Add(t.Context(), item), c.Replace(t.Context(), item), c.CompareAndSwap(t.Context(), item),
				c.SetMany(t.Context(), []memcached.Item{{Key: "good"}, item}), c.SetFrom(t.Context(), item, strings.NewReader("v"), 1),
				c.Delete(t.Context(), key), c.Touch(t.Context(), key, 1),
			} {
				if !errors.Is(err, memcached.ErrBadKey) || len(err.Error()) > 250 {
					t.Errorf("%.20q, call %d: %v", key, i, err)
				}
			}
		}
		if s.Dials() > 0 {
			t.Error("a connection was opened")
		}
	})
}

// TestAnyKeyIsCarriedOnRequest: by the server's own means, or under a hash.
func TestAnyKeyIsCarriedOnRequest(t *testing.T) {
	odd := []string{"a b", "a\r\nb", "\x00", strings.Repeat(" ", 186)}
	long := []string{strings.Repeat("k", 251), strings.Repeat("k", 100_000), "strata:sha256:x"}
	for _, tc := range []struct {
		keys   memcached.Keys
		server fakes.Generation
		carry  []string
		refuse []string
	}{
		{memcached.KeysBase64, fakes.V1618, odd, append(long[:2:2], strings.Repeat(" ", 187), "")},
		{memcached.KeysHashed, fakes.V1618, append(odd, long...), []string{""}},
		{memcached.KeysHashed, fakes.Old, append(odd, long...), []string{""}},
	} {
		change := func(s *fakes.Memcached, o *memcached.Options) { s.Generation, o.Keys = tc.server, tc.keys }
		fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
			all := append([]string{"plain"}, tc.carry...)
			var items []memcached.Item
			for i, key := range all {
				items = append(items, memcached.Item{Key: key, Value: fmt.Appendf(nil, "value %d", i), Flags: 3})
			}
			if err := c.SetMany(t.Context(), items); err != nil {
				t.Fatal(err)
			}
			got, err := c.GetMany(t.Context(), append(all, "missing", "mis sing"))
			if err != nil || len(got) != len(all) {
				t.Errorf("%d items, %v", len(got), err)
			}
			for _, want := range items {
				if it := got[want.Key]; !bytes.Equal(it.Value, want.Value) || it.Flags != 3 {
					t.Errorf("%.20q: %+v", want.Key, it)
				}
				oneByOne(t, c, want)
			}
			for _, key := range tc.refuse {
				if err := c.Delete(t.Context(), key); !errors.Is(err, memcached.ErrBadKey) {
					t.Errorf("%.20q: %v", key, err)
				}
			}
		})
	}
}

// oneByOne reads and changes an item by calls for one key.
func oneByOne(t *testing.T, c *memcached.Client, want memcached.Item) {
	t.Helper()
	ctx := t.Context()
	item, err := c.Get(ctx, want.Key)
	if err != nil || item.Key != want.Key || !bytes.Equal(item.Value, want.Value) {
		t.Errorf("%.20q: %+v, %v", want.Key, item, err)
	}
	var b strings.Builder
	if n, err := c.GetTo(ctx, want.Key, &b); b.String() != string(want.Value) || n != int64(b.Len()) || err != nil {
		t.Errorf("%.20q: %q, %v", want.Key, b.String(), err)
	}
	item.Value = bytes.Repeat([]byte("x"), 50_000)
	if err := c.CompareAndSwap(ctx, item); err != nil {
		t.Error(err)
	}
	if v, err := c.AppendGet(ctx, make([]byte, 0, 100_000), want.Key); !bytes.Equal(v, item.Value) || err != nil {
		t.Errorf("%.20q: %d bytes, %v", want.Key, len(v), err)
	}
	if err := c.SetFrom(ctx, memcached.Item{Key: want.Key}, bytes.NewReader(item.Value), 40_000); err != nil {
		t.Error(err)
	}
	if v, err := get(ctx, c, want.Key); len(v) != 40_000 || err != nil {
		t.Errorf("%.20q: %d bytes, %v", want.Key, len(v), err)
	}
	if err := c.Delete(ctx, want.Key); err != nil {
		t.Error(err)
	}
}

// TestForeignItemUnderAHashIsAMiss: the key itself decides.
func TestForeignItemUnderAHashIsAMiss(t *testing.T) {
	fake(t, func(_ *fakes.Memcached, o *memcached.Options) { o.Keys = memcached.KeysHashed }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		plain, err := memcached.New(memcached.Options{DialContext: s.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		// The name of the key "a b".
		name := "strata:sha256:yGh6CKpdbtIEQyj6aml6uOltw0KR6MIDSujDjm_MbWU"
		mustSet(t, c, "a b", "own")
		item, err := plain.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, stored := range []string{"", "\x03", "\x03a c", "\x03a cown", "\x02a bown", "\xff\xff\xff\xff\xff\xff\xff\xff\x7fown", strings.Repeat("x", 100_000)} {
			mustSet(t, plain, name, stored)
			_, err1 := c.Get(t.Context(), "a b")
			_, err2 := c.GetTo(t.Context(), "a b", &strings.Builder{})
			many, err3 := c.GetMany(t.Context(), []string{"a b"})
			if !errors.Is(err1, memcached.ErrMiss) || !errors.Is(err2, memcached.ErrMiss) || len(many) > 0 || err3 != nil {
				t.Errorf("%.20q: %v, %v, %v, %v", stored, err1, err2, many, err3)
			}
		}
		mustSet(t, plain, name, string(item.Value))
		if v, err := get(t.Context(), c, "a b"); v != "own" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// TestLargestValueOfAHashedKeyIsReadBack: the key in front of it counts as well, for the limit of the values that are
// sent and of those that are accepted.
func TestLargestValueOfAHashedKeyIsReadBack(t *testing.T) {
	fake(t, func(_ *fakes.Memcached, o *memcached.Options) { o.Keys, o.MaxValue = memcached.KeysHashed, 100 }, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
		for n := 90; n <= 101; n++ {
			item := memcached.Item{Key: "a b", Value: make([]byte, n)}
			set, many := c.Set(t.Context(), item), c.SetMany(t.Context(), []memcached.Item{item})
			from := c.SetFrom(t.Context(), item, bytes.NewReader(item.Value), int64(n))
			for _, err := range []error{set, many, from} {
				if tooLarge := errors.Is(err, memcached.ErrTooLarge); tooLarge != (n > 96) || !tooLarge && err != nil {
					t.Errorf("%d bytes: %v", n, err)
				}
			}
			if got, err := c.Get(t.Context(), "a b"); err != nil || len(got.Value) != min(n, 96) {
				t.Errorf("after %d bytes: %d, %v", n, len(got.Value), err)
			}
		}
	})
}

// TestBatchFromAProxyBeforeSeveralServersIsComplete: it answers in the order of the keys of each server.
func TestBatchFromAProxyBeforeSeveralServersIsComplete(t *testing.T) {
	fake(t, func(s *fakes.Memcached, _ *memcached.Options) { s.Generation = fakes.Proxy }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		s.SetGate(func(ss *fakes.MemcachedSession, c *meta.Command) bool {
			if !strings.HasPrefix(c.Name, "get") || len(c.Args) < 2 {
				return false // of the greeting
			}
			for _, key := range []string{"c", "b", "e"} {
				ss.Line("VALUE " + key + " 0 1")
				ss.Line(key)
			}
			ss.Line("END")
			return true
		})
		found, err := c.GetMany(t.Context(), []string{"a", "b", "c", "d", "e"})
		if err != nil || len(found) != 3 || string(found["b"].Value) != "b" || string(found["c"].Value) != "c" || string(found["e"].Value) != "e" {
			t.Errorf("%v, %v", found, err)
		}
		if _, err := c.GetMany(t.Context(), []string{"a", "b"}); !errors.Is(err, memcached.ErrProtocol) {
			t.Errorf("with a key that was not asked for: %v", err)
		}
	})
}

// TestProxyThatAnswersTheProbeAndClosesIsSpokenToClassically, and a server without a place for the connection says so.
func TestProxyThatAnswersTheProbeAndClosesIsSpokenToClassically(t *testing.T) {
	for _, text := range []string{"CLIENT_ERROR malformed request", "ERROR Too many open connections"} {
		full := strings.Contains(text, "open connections")
		fake(t, func(s *fakes.Memcached, _ *memcached.Options) {
			s.Generation = fakes.Old
			s.Gate = func(ss *fakes.MemcachedSession, c *meta.Command) bool {
				if c.Name != "mg" {
					return false
				}
				ss.Line(text)
				ss.Hangup()
				return true
			}
		}, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
			err := c.Set(t.Context(), memcached.Item{Key: "k", Value: []byte("v")})
			if full && (err == nil || !strings.Contains(err.Error(), "open connections")) || !full && err != nil {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
}

// TestTierLooksAgainAfterAServerWithoutMetaCommands has one in the place of the right one for a while.
func TestTierLooksAgainAfterAServerWithoutMetaCommands(t *testing.T) {
	fake(t, func(s *fakes.Memcached, _ *memcached.Options) { s.Generation = fakes.V1638 }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		tier := memcached.NewTier(c).Bind(remote.Space{Name: "n"})
		ask := func() error {
			_, err := tier.Get(t.Context(), []string{"k"})
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		s.Drop()
		s.Generation = fakes.Old
		_ = ask() // finds the connection dead
		if err := ask(); !errors.Is(err, memcached.ErrClassic) {
			t.Errorf("without meta commands: %v", err)
		}
		s.Drop()
		s.Generation = fakes.V1638
		time.Sleep(2 * time.Minute) // in the bubble
		if err := ask(); err != nil {
			t.Errorf("with meta commands again: %v", err)
		}
	})
}

// TestTierRefusesAServerWithoutCASNumbers: no change of an item could be made there.
func TestTierRefusesAServerWithoutCASNumbers(t *testing.T) {
	fake(t, func(s *fakes.Memcached, _ *memcached.Options) { s.Generation = fakes.V1638 }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		tier := memcached.NewTier(c).Bind(remote.Space{Name: "n"})
		if _, err := tier.Acquire(t.Context(), []remote.Request{{Key: "k"}}, time.Minute); err != nil {
			t.Fatal(err)
		}
		s.SetGate(func(ss *fakes.MemcachedSession, c *meta.Command) bool {
			if c.Name != "mg" || !c.Flags.Has('v') {
				return false
			}
			opaque, _ := c.Flags.Uint('O')
			ss.Line(fmt.Sprint("VA 1 f0 c0 O", opaque))
			ss.Line("x")
			return true
		})
		if _, err := tier.Get(t.Context(), []string{"k"}); !errors.Is(err, remote.ErrRefused) || !strings.Contains(err.Error(), "-C") {
			t.Errorf("%v", err)
		}
	})
}
