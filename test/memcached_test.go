//go:build unix

package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
)

// memcachedModes are the ways in which a client speaks to a server.
var memcachedModes = map[string]func(*memcached.Options){ // read-only
	"meta":    func(o *memcached.Options) { o.Protocol = memcached.Meta },
	"classic": func(o *memcached.Options) { o.Protocol = memcached.Classic },
	"base64":  func(o *memcached.Options) { o.Keys = memcached.KeysBase64 },
	"hashed":  func(o *memcached.Options) { o.Keys = memcached.KeysHashed },
}

func TestMemcachedItemsAreReadAsTheyWereStored(t *testing.T) {
	itemsOfMemcached(t, servers.StartMemcached(t))
}

// itemsOfMemcached changes items in every way, in every mode of a client.
func itemsOfMemcached(t *testing.T, m *servers.Memcached) {
	t.Helper()
	for name, change := range memcachedModes {
		c := m.Client(t, change, func(o *memcached.Options) { o.Timeout = patience })
		keys := []string{name}
		if c := name[0]; c == 'b' || c == 'h' {
			keys = append(keys, name+" with spaces", name+"\r\n\x00")
		}
		for _, key := range keys {
			itemOfMemcached(t, c, key)
		}
		many(t, c, name)
	}
}

// itemOfMemcached changes an item in every way.
func itemOfMemcached(t *testing.T, c *memcached.Client, key string) {
	t.Helper()
	ctx := t.Context()
	if err := c.Replace(ctx, memcached.Item{Key: key}); !errors.Is(err, memcached.ErrNotStored) {
		t.Errorf("%q: Replace: %v", key, err)
	}
	if err := c.Add(ctx, memcached.Item{Key: key, Value: []byte("one"), Flags: 1<<32 - 1, TTL: 90 * 24 * time.Hour}); err != nil {
		t.Errorf("%q: Add: %v", key, err)
	}
	old, err := c.Get(ctx, key)
	if err != nil || string(old.Value) != "one" || old.Flags != 1<<32-1 || old.CAS == 0 {
		t.Errorf("%q: %+v, %v", key, old, err)
	}
	if _, err := c.GetAndTouch(ctx, key, 40*24*time.Hour); err != nil {
		t.Errorf("%q: GetAndTouch: %v", key, err)
	}
	if err := c.Touch(ctx, key, time.Hour); err != nil {
		t.Errorf("%q: Touch: %v", key, err)
	}
	for _, size := range []int{0, 1, 1000, 16 << 10, 16<<10 + 1, 100_000, 1_000_000} {
		value := bytes.Repeat([]byte("\r\n"), (size+1)/2)
		if err := c.Set(ctx, memcached.Item{Key: key, Value: value}); err != nil {
			t.Errorf("%q: Set of %d bytes: %v", key, size, err)
		}
		if v, err := c.AppendGet(ctx, []byte("x"), key); string(v) != "x"+string(value) || err != nil {
			t.Errorf("%q: %d bytes, %v", key, len(v), err)
		}
		var b bytes.Buffer
		if err := c.SetFrom(ctx, memcached.Item{Key: key}, strings.NewReader(string(value)), -1); err != nil {
			t.Errorf("%q: SetFrom of %d bytes: %v", key, size, err)
		}
		if n, err := c.GetTo(ctx, key, &b); !bytes.Equal(b.Bytes(), value) || n != int64(len(value)) || err != nil {
			t.Errorf("%q: GetTo: %d bytes, %v", key, n, err)
		}
	}
	if err := c.CompareAndSwap(ctx, old); !errors.Is(err, memcached.ErrConflict) {
		t.Errorf("%q: late CompareAndSwap: %v", key, err)
	}
	now, err := c.Get(ctx, key)
	if err != nil {
		t.Error(err)
	}
	if err := c.CompareAndSwap(ctx, now); err != nil {
		t.Errorf("%q: CompareAndSwap: %v", key, err)
	}
	if err := c.Delete(ctx, key); err != nil {
		t.Errorf("%q: Delete: %v", key, err)
	}
	if _, err := c.Get(ctx, key); !errors.Is(err, memcached.ErrMiss) {
		t.Errorf("%q: Get: %v", key, err)
	}
}

// many reads and writes a thousand items.
func many(t *testing.T, c *memcached.Client, name string) {
	t.Helper()
	var items []memcached.Item
	var keys []string
	for i := range 1000 {
		items = append(items, memcached.Item{Key: fmt.Sprintf("%s-%d", name, i), Value: bytes.Repeat([]byte("v"), i*i%20_000)})
		keys = append(keys, items[i].Key, fmt.Sprint("missing", i))
	}
	if err := c.SetMany(t.Context(), items); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, err := c.GetMany(t.Context(), keys)
	if err != nil || len(got) != len(items) {
		t.Fatalf("%s: %d items, %v", name, len(got), err)
	}
	for _, it := range items {
		if !bytes.Equal(got[it.Key].Value, it.Value) {
			t.Errorf("%s: %s has %d bytes", name, it.Key, len(got[it.Key].Value))
		}
	}
}

func TestMemcachedCountsAndTellsOfItself(t *testing.T) {
	m := servers.StartMemcached(t)
	for _, mode := range []string{"meta", "classic"} {
		c := m.Client(t, memcachedModes[mode])
		ctx := t.Context()
		if err := c.Set(ctx, memcached.Item{Key: "n", Value: []byte("10")}); err != nil {
			t.Fatal(err)
		}
		a, err1 := c.Decrement(ctx, "n", 1)
		b, err2 := c.Increment(ctx, "n", 1<<63)
		if a != 9 || b != 9+1<<63 || err1 != nil || err2 != nil {
			t.Errorf("%s: %d, %v; %d, %v", mode, a, err1, b, err2)
		}
		if v := m.Version(ctx, c); !strings.HasPrefix(v, "1.") {
			t.Errorf("%s: version %s", mode, v)
		}
		stats, err := c.Stats(ctx, "settings")
		if stats[m.Addr]["maxbytes"] == "" || err != nil {
			t.Errorf("%s: %v, %v", mode, stats, err)
		}
		if err := c.FlushAll(ctx); err != nil {
			t.Error(err)
		}
		if _, err := c.Get(ctx, "n"); !errors.Is(err, memcached.ErrMiss) {
			t.Errorf("%s: after FlushAll: %v", mode, err)
		}
		able, err := c.Abilities(ctx)
		if able.Meta != (mode == "meta") || err != nil {
			t.Errorf("%s: %+v, %v", mode, able, err)
		}
		t.Logf("%s %s: %+v", mode, m.Version(ctx, c), able)
	}
}

// TestMemcachedRefusesLargeValuesAndTheConnectionStays: it reads and drops them.
func TestMemcachedRefusesLargeValuesAndTheConnectionStays(t *testing.T) {
	m := servers.StartMemcached(t, "-I", "512k")
	for _, mode := range []string{"meta", "classic"} {
		c := m.Client(t, memcachedModes[mode])
		ctx := t.Context()
		large := memcached.Item{Key: "large", Value: make([]byte, 700_000)}
		err1 := c.Set(ctx, large)
		err2 := c.SetFrom(ctx, large, bytes.NewReader(large.Value), 700_000)
		err3 := c.SetMany(ctx, []memcached.Item{{Key: "a"}, large, {Key: "b"}, {Key: "c", Value: make([]byte, 20_000)}})
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, memcached.ErrTooLarge) {
				t.Errorf("%s: %v", mode, err)
			}
		}
		var failed *memcached.PartialError
		if !errors.As(err3, &failed) || len(failed.Failed) != 1 || failed.Failed["large"] == nil {
			t.Errorf("%s: %v", mode, err3)
		}
		if got, err := c.GetMany(ctx, []string{"a", "b", "c", "large"}); len(got) != 3 || err != nil {
			t.Errorf("%s: %d items, %v", mode, len(got), err)
		}
		if st := c.PoolStats(); st.Broken+st.Stale > 0 || st.Dials > 2 {
			t.Errorf("%s: %+v", mode, st)
		}
	}
}

func TestMemcachedTakesTheRightCredentials(t *testing.T) {
	dir := t.TempDir()
	auth := filepath.Join(dir, "auth")
	if err := os.WriteFile(auth, []byte("user:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := servers.StartMemcached(t, "-Y", auth)
	right := m.Client(t, func(o *memcached.Options) { o.Username, o.Password = "user", "secret" })
	if err := right.Set(t.Context(), memcached.Item{Key: "k"}); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*memcached.Options){
		func(o *memcached.Options) { o.Username, o.Password = "user", "wrong" },
		func(*memcached.Options) {},
	} {
		var refused *memcached.ServerError
		if err := m.Client(t, change).Ping(t.Context()); !errors.As(err, &refused) || strings.Contains(err.Error(), "wrong") {
			t.Error(err)
		}
	}
}

func TestMemcachedListensOnASocket(t *testing.T) {
	program, err := servers.Program("memcached", "memcached")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	p, err := servers.Start(exec.Command(program, "-s", path, "-u", "root"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	c, err := memcached.New(memcached.Options{Servers: []string{path}, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := p.Await(func() error { return c.Ping(t.Context()) }); err != nil {
		t.Error(err)
	}
	many(t, c, "socket")
}

// TestMemcachedPausesDiesAndRestarts: calls end in time, and go on with the next
// server.
func TestMemcachedPausesDiesAndRestarts(t *testing.T) {
	m := servers.StartMemcached(t)
	c := m.Client(t, func(o *memcached.Options) { o.Timeout = 200 * time.Millisecond })
	set := func() error { return c.Set(t.Context(), memcached.Item{Key: "k", Value: []byte("v")}) }
	if err := set(); err != nil {
		t.Fatal(err)
	}
	m.Stop()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var ce *memcached.ConnError
			if _, err := c.Get(t.Context(), "k"); !errors.As(err, &ce) {
				t.Errorf("a paused server: %v", err)
			}
		})
	}
	wg.Wait()
	m.Continue()
	for deadline := time.Now().Add(10 * time.Second); set() != nil && time.Now().Before(deadline); {
	}
	if v, err := c.AppendGet(t.Context(), nil, "k"); string(v) != "v" || err != nil {
		t.Errorf("%q, %v after a pause", v, err)
	}
	m.Kill()
	if err := set(); err == nil {
		t.Error("a killed server answered")
	}
	m.Restart()
	for deadline := time.Now().Add(10 * time.Second); set() != nil && time.Now().Before(deadline); {
	}
	if v, err := c.AppendGet(t.Context(), nil, "k"); string(v) != "v" || err != nil {
		t.Errorf("%q, %v after a restart", v, err)
	}
}
