package test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// change adjusts the options of a cache.
type change[K comparable, V any] = func(*strata.Options[K, V])

// server is a Redis, or a cluster of them.
type server interface {
	Client(t testing.TB, change ...func(*redis.Options)) *redis.Client
}

// instance returns a cache on r as a process of its own would have it: with a
// client for the tier and one for the bus. The line counts the traffic of the first.
func instance[K comparable, V any](t testing.TB, r server, changes ...change[K, V]) (*strata.Cache[K, V], *servers.Line) {
	t.Helper()
	line := &servers.Line{}
	tier := r.Client(t, func(o *redis.Options) { o.DialContext = line.DialContext })
	o := strata.Options[K, V]{Name: "shared", TTL: time.Hour, Jitter: -1}
	o.Remote.Tier, o.Remote.Bus = redis.NewTier(tier), redis.NewBus(r.Client(t))
	o.Remote.Timeout = 10 * time.Second // so that a busy machine does not look like a dead server
	for _, f := range changes {
		f(&o)
	}
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c, line
}

// joined waits until the others hear the drops of the first cache.
func joined[K comparable, V, W any](t testing.TB, key K, a *strata.Cache[K, V], others ...*strata.Cache[K, W]) {
	t.Helper()
	eventually(t, "the instance is connected", func() bool { return a.Stats().Connected })
	for _, b := range others {
		eventually(t, "another is connected", func() bool { return b.Stats().Connected })
		eventually(t, "an instance joins the bus", func() bool {
			if err := a.Invalidate(t.Context(), key); err != nil {
				t.Log(err) // a machine with other work, or a short Timeout
			}
			return b.Stats().Heard > 0
		})
	}
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func mustGet[K comparable, V any](t testing.TB, c *strata.Cache[K, V], key K, load strata.Loader[K, V]) V {
	t.Helper()
	v, err := c.GetOrLoad(t.Context(), key, load)
	if err != nil {
		t.Errorf("GetOrLoad: %v", err)
	}
	return v
}

// counter is an origin that counts its loads and answers with a number.
type counter struct {
	loads, value atomic.Int64
	takes        time.Duration
}

func (o *counter) load(context.Context, string) (int64, error) {
	o.loads.Add(1)
	v := o.value.Load()
	<-time.After(o.takes)
	return v, nil
}

func TestStampedeOnAnExpiredKeyIsOneLoadInTheCluster(t *testing.T) {
	stampede(t, servers.StartRedis(t))
}

func stampede(t *testing.T, r server) {
	const ttl = 500 * time.Millisecond
	var caches []*strata.Cache[string, int64]
	for range 3 {
		c, _ := instance(t, r, func(o *strata.Options[string, int64]) { o.TTL = ttl })
		caches = append(caches, c)
	}
	joined(t, "warm", caches[0], caches[1:]...)
	// A machine that is busy for longer than the life of a value loads it again, and must: another key is tried.
	for i := range 20 {
		if expires(t, caches, fmt.Sprint("k", i), ttl) {
			return
		}
	}
	t.Error("the machine is too busy: each key has expired before it was read")
}

// expires reads a cold key on each of the caches, and again with 1000 callers when it has expired. It reports false if
// that took longer than the life of the value.
func expires(t *testing.T, caches []*strata.Cache[string, int64], key string, ttl time.Duration) bool {
	o := &counter{takes: 100 * time.Millisecond}
	begun := time.Now()
	for _, c := range caches {
		mustGet(t, c, key, o.load)
	}
	if n := o.loads.Load(); n != 1 {
		if time.Since(begun) >= ttl {
			return false
		}
		t.Fatalf("%d loads of a cold key, one caller on each of 3 instances; want 1", n)
	}
	<-time.After(ttl + 50*time.Millisecond) // the key expires
	begun = time.Now()
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 1000 {
		wg.Go(func() {
			<-start
			mustGet(t, caches[i%3], key, o.load)
		})
	}
	close(start)
	wg.Wait()
	if n := o.loads.Load(); n != 2 {
		if time.Since(begun) >= ttl {
			return false
		}
		t.Errorf("%d loads after the key expired under 1000 callers; want 1", n-1)
	}
	return true
}

func TestInvalidateReachesProgramsWithOtherValueTypes(t *testing.T) {
	otherTypes(t, servers.StartRedis(t))
}

func otherTypes(t *testing.T, r server) {
	a, _ := instance[string, string](t, r)
	b, _ := instance[string, int64](t, r)
	joined(t, "warm", a, b)
	o := &counter{}
	mustGet(t, b, "k", o.load)
	mustGet(t, a, "k", func(context.Context, string) (string, error) { return "text", nil })
	if v, ok := b.Get(t.Context(), "k"); !ok || v != 0 {
		t.Fatalf("Get = %d, %t after another type was stored beside; want 0, true", v, ok)
	}
	o.value.Store(1)
	if err := a.Invalidate(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new value is served", func() bool { return mustGet(t, b, "k", o.load) == 1 })
	if n := o.loads.Load(); n != 2 {
		t.Errorf("%d loads; want 2", n)
	}
}

func TestNewVersionReadsOlderValuesOfRedis(t *testing.T) { olderValues(t, servers.StartRedis(t)) }

// olderValues stores a value as one version of a program does, reads it as the next
// one does, and drops it.
func olderValues(t *testing.T, r server) {
	now := codec.Versioned(codec.JSON[string](), codec.From(codec.JSON[int64](), func(n int64) (string, error) { return fmt.Sprint(n), nil }))
	a, _ := instance[string, int64](t, r)
	b, _ := instance(t, r, func(o *strata.Options[string, string]) { o.Remote.Codec = now })
	joined(t, "warm", a, b)
	loads := 0
	load := func(context.Context, string) (string, error) { loads++; return "new", nil }
	if err := a.Set(t.Context(), "k", 7); err != nil {
		t.Fatal(err)
	}
	if s := mustGet(t, b, "k", load); s != "7" || loads != 0 {
		t.Errorf("the new version has %q after %d loads, want 7 after none", s, loads)
	}
	if err := a.Invalidate(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the older value is gone", func() bool { return mustGet(t, b, "k", load) == "new" })
	if n, ok := a.Get(t.Context(), "k"); ok || a.Stats().L2.Foreign+b.Stats().L2.Foreign != 0 {
		t.Errorf("the old version reads %d of the new one, or a value was not read", n)
	}
}

type point struct{ X, Y int }

func TestStructKeysAreInvalidatedThroughTheBus(t *testing.T) { structKeys(t, servers.StartRedis(t)) }

func structKeys(t *testing.T, r server) {
	named := func(o *strata.Options[point, int64]) {
		o.Remote.Key = func(p point) string { return fmt.Sprintf("%d/%d", p.X, p.Y) }
		o.Remote.ParseKey = func(s string) (p point, err error) {
			_, err = fmt.Sscanf(s, "%d/%d", &p.X, &p.Y)
			return p, err
		}
	}
	a, _ := instance(t, r, named)
	b, _ := instance(t, r, named)
	joined(t, point{}, a, b)
	var value atomic.Int64
	load := func(context.Context, point) (int64, error) { return value.Load(), nil }
	mustGet(t, b, point{1, 2}, load)
	mustGet(t, b, point{2, 1}, load)
	value.Store(1)
	if err := a.Invalidate(t.Context(), point{1, 2}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new value is served", func() bool { return mustGet(t, b, point{1, 2}, load) == 1 })
	if v := mustGet(t, b, point{2, 1}, load); v != 0 {
		t.Errorf("another key was invalidated too")
	}
}

func TestLoadBegunBeforeAnInvalidateElsewhereIsStoredNowhere(t *testing.T) {
	loadBegunBefore(t, servers.StartRedis(t))
}

func loadBegunBefore(t *testing.T, r server) {
	a, _ := instance[string, int64](t, r)
	b, _ := instance[string, int64](t, r)
	joined(t, "warm", a, b)
	begun, finish := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		mustGet(t, b, "k", func(context.Context, string) (int64, error) {
			close(begun)
			<-finish
			return 1, nil
		})
	})
	<-begun
	if err := a.Invalidate(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	close(finish)
	wg.Wait()
	o := &counter{}
	o.value.Store(2)
	if v := mustGet(t, a, "k", o.load); v != 2 {
		t.Errorf("L2 holds %d, loaded before the key was invalidated; want 2", v)
	}
	eventually(t, "the instance that loaded serves the new value", func() bool { return mustGet(t, b, "k", o.load) == 2 })
	if n := o.loads.Load(); n != 1 {
		t.Errorf("%d loads; want 1", n)
	}
	if n := b.Stats().RemoteRefused; n != 1 {
		t.Errorf("%d values were refused by L2; want 1", n)
	}
}

func TestInvalidateAllReachesOtherInstancesForGood(t *testing.T) {
	t.Parallel() // it waits most of the time
	invalidateAll(t, servers.StartRedis(t))
}

func invalidateAll(t *testing.T, r server) {
	a, _ := instance[string, int64](t, r)
	b, _ := instance[string, int64](t, r)
	joined(t, "warm", a, b)
	o := &counter{}
	for i := range int64(50) {
		o.value.Store(i)
		mustGet(t, a, "k", o.load)
		if v := mustGet(t, b, "k", o.load); v != i {
			t.Fatalf("round %d: read %d", i, v)
		}
		o.value.Store(i + 1)
		if err := a.InvalidateAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Reads of L2 that begin now must not bring the old value back.
		eventually(t, "the other instance serves the new value", func() bool { return mustGet(t, b, "k", o.load) == i+1 })
	}
}

func TestExpireAndNotModifiedSendNoPayload(t *testing.T) { noPayload(t, servers.StartRedis(t)) }

func noPayload(t *testing.T, r server) {
	const size = 1 << 20
	c, line := instance(t, r, patient)
	// On a cluster it repeats recent drops when it first hears of a server, and hears of all of them before that.
	eventually(t, "the instance is connected", func() bool { return c.Stats().Connected })
	payload := strings.Repeat("0123456789abcdef", size/16)
	mustGet(t, c, "k", func(context.Context, string) (string, error) { return payload, nil })
	if sent := line.Sent.Load(); sent < size {
		t.Fatalf("%d bytes sent for a payload of %d", sent, size)
	}
	before := line.Sent.Load()
	if err := c.Expire(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	got := mustGet(t, c, "k", func(ctx context.Context, _ string) (string, error) {
		if v, ok := c.Previous(ctx); !ok || v != payload {
			t.Errorf("Previous = %d bytes, %t", len(v), ok)
		}
		return "", strata.ErrNotModified
	})
	// The texts of scripts that the server does not know yet count too, and the
	// words of lanes, which are written and asked for in the background.
	if sent := line.Sent.Load() - before; got != payload || sent > size/4 {
		t.Errorf("%d bytes sent to expire and to confirm a payload of %d", sent, size)
	}
	// Another instance finds it fresh again.
	other, _ := instance(t, r, patient)
	eventually(t, "another instance gets the payload, though on a busy machine L2 may be late", func() bool {
		v, ok := other.Get(t.Context(), "k")
		return ok && v == payload
	})
}

// TestNotModifiedMovesNoPayloadToTenInstances counts the bytes that Redis sends to
// instances with a large value, after one of them has found it unchanged.
func TestNotModifiedMovesNoPayloadToTenInstances(t *testing.T) {
	r := servers.StartRedis(t)
	const size, n = 500_000, 10
	payload := strings.Repeat("0123456789", size/10)
	var all [n]*strata.Cache[string, string]
	var lines [n]*servers.Line
	received := func() (sum int64) {
		for _, l := range lines {
			sum += l.Received.Swap(0)
		}
		return sum
	}
	for i := range all {
		all[i], lines[i] = instance[string, string](t, r)
		eventually(t, "connected", func() bool { return all[i].Stats().Connected })
	}
	for _, c := range all {
		mustGet(t, c, "k", func(context.Context, string) (string, error) { return payload, nil })
	}
	if got := received(); got < (n-1)*size {
		t.Errorf("%d bytes received by %d instances at first, want the value for %d of them", got, n, n-1)
	}
	for round := range 5 {
		if err := all[round].Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		for _, c := range all { // each instance must know that its entry is stale
			eventually(t, "the message is heard", func() bool { return c.Explain(t.Context(), "k").L1.Fresh <= 0 })
		}
		received()
		for i, c := range all {
			if i == n-1 && round%3 != 2 {
				continue // so in round 2 it has a value from before three extensions
			}
			if got := mustGet(t, c, "k", func(context.Context, string) (string, error) { return "", strata.ErrNotModified }); got != payload {
				t.Fatalf("round %d: got %d bytes", round, len(got))
			}
		}
		if got := received(); got > size/5 {
			t.Errorf("round %d: %d bytes received by %d instances that have the value of %d", round, got, n, size)
		}
	}
	// A changed value comes whole.
	other := strings.Repeat("9876543210", size/10)
	if err := all[0].Expire(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		if got := mustGet(t, c, "k", func(context.Context, string) (string, error) { return other, nil }); got != other && i == 0 {
			t.Errorf("instance %d got the former value", i)
		}
	}
	for _, c := range all {
		eventually(t, "the new value is read", func() bool { return mustGet(t, c, "k", nil) == other })
	}
}

// TestValueOfAnEarlierVersionIsNotTakenForTheExtendedOneBeforeIt stores a value as earlier
// versions do: they know nothing of the IDs that an extended value had.
func TestValueOfAnEarlierVersionIsNotTakenForTheExtendedOneBeforeIt(t *testing.T) {
	r := servers.StartRedis(t)
	raw := r.Client(t)
	s := remote.Space{Name: "earlier", Schema: 1, Instance: 1}
	tier, names := redis.NewTier(raw).Bind(s), layout.NewNames(s, 0)
	old, now := strings.Repeat("old", 5000), strings.Repeat("new", 5000)
	lease := func(replace remote.ID) remote.Lease {
		t.Helper()
		_, l, err := kit.Refresh(t.Context(), tier, "k", replace, time.Minute)
		if err != nil || l.Grant != remote.Granted {
			t.Fatalf("grant %d, %v", l.Grant, err)
		}
		return l
	}
	first := lease(0)
	if _, err := tier.Put(t.Context(), []remote.Put{{Key: "k", Data: []byte(old), Fresh: time.Hour, Left: time.Hour, Lease: first}}); err != nil {
		t.Fatal(err)
	}
	id := remote.ID(first.Token)
	second := lease(id)
	if refused, err := tier.Extend(t.Context(), "k", time.Hour, time.Hour, second, id); refused || err != nil {
		t.Fatal(refused, err)
	}
	same := func() bool {
		t.Helper()
		held, err := tier.Get(t.Context(), []string{"k"}, id)
		if err != nil || held[0].Absent() || held[0].Same == (held[0].Data != nil) {
			t.Fatalf("%.100v, %v", held, err)
		}
		a, l, err := kit.Ask(t.Context(), tier, remote.Request{Key: "k", Known: id}, time.Minute)
		if err != nil || l.Grant != remote.Free || a.ID != held[0].ID || a.Same != held[0].Same || a.Same == (a.Data != nil) {
			t.Errorf("Acquire: %.100v, grant %d, %v; Get: %.100v", a, l.Grant, err, held[0])
		}
		return held[0].Same
	}
	if !same() {
		t.Error("the extended value was sent")
	}
	entry := names.Entry("k")
	state, err := raw.Do(t.Context(), "HGET", entry, names.State).String()
	if err != nil {
		t.Fatal(err)
	}
	state = strings.Replace(state, fmt.Sprintf("%x", second.Token), "abc1", 1)
	if err := raw.Do(t.Context(), "HSET", entry, names.Value, now, names.State, state).Err(); err != nil {
		t.Fatal(err)
	}
	if same() {
		t.Error("another value is taken for the one that was extended")
	}
}

func TestHitsMakeNoCallToRedis(t *testing.T) { hits(t, servers.StartRedis(t)) }

func hits(t *testing.T, r server) {
	c, line := instance[string, int64](t, r)
	peer, _ := instance[string, int64](t, r)
	joined(t, "warm", peer, c)
	o := &counter{}
	mustGet(t, c, "k", o.load)
	// writes returns the fewest writes to Redis of five calls of f. A busy machine may see a ping, or the word twice, in some.
	writes := func(f func(i int)) int64 {
		fewest := int64(math.MaxInt64)
		for i := range 5 {
			before := line.Writes.Load()
			f(i)
			fewest = min(fewest, line.Writes.Load()-before)
		}
		return fewest
	}
	n := writes(func(int) {
		for range 2000 {
			mustGet(t, c, "k", nil)
		}
	})
	if n != 0 || c.Stats().L1.Hits < 10_000 {
		t.Errorf("%d writes to Redis for 2000 hits", n)
	}
	if n := writes(func(i int) { mustGet(t, c, fmt.Sprint("other", i), o.load) }); n < 2 || n > 4 {
		t.Errorf("%d writes to Redis for a miss; want 2 to 4: read, lease, store, and the word when it is due", n)
	}
}

func TestDamagedEntryIsAMissAndIsReplaced(t *testing.T) {
	r := servers.StartRedis(t)
	c, _ := instance[string, int64](t, r)
	raw := r.Client(t)
	o := &counter{}
	for i, damage := range []func(entry string) error{
		func(e string) error { return raw.Do(t.Context(), "SET", e, "a string").Err() },
		func(e string) error {
			return errors.Join(raw.Do(t.Context(), "DEL", e).Err(), raw.Do(t.Context(), "RPUSH", e, "a", "list").Err())
		},
		func(e string) error { return rewrite(t, raw, e, "v", "not an envelope") },
		func(e string) error { return rewrite(t, raw, e, "s", "not a state") },
		func(e string) error { return rewrite(t, raw, e, "s", "99999999999999999999 -1 zz w") },
		func(e string) error { return rewrite(t, raw, e, "l", "not a lease") },
	} {
		mustGet(t, c, "k", o.load)
		if err := damage(entryKey(t, raw, "k")); err != nil {
			t.Fatal(err)
		}
		fresh, _ := instance[string, int64](t, r)
		o.value.Store(int64(i) + 1)
		before := o.loads.Load()
		v := mustGet(t, fresh, "k", o.load)
		if loads := o.loads.Load() - before; v != int64(i) && (v != int64(i)+1 || loads != 1) {
			t.Errorf("damage %d: read %d with %d loads", i, v, loads)
		}
		again, _ := instance[string, int64](t, r)
		if got, ok := again.Get(t.Context(), "k"); !ok || got != v {
			t.Errorf("damage %d: it was not replaced: Get = %d, %t; want %d", i, got, ok, v)
		}
		if err := c.Invalidate(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
	}
}

// entryKey finds the Redis key of a cache's key.
func entryKey(t testing.TB, raw *redis.Client, key string) string {
	t.Helper()
	for _, reply := range raw.Do(t.Context(), "KEYS", "*="+key).All() {
		name, err := reply.String()
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	t.Fatalf("no entry for %q", key)
	return ""
}

// rewrite replaces the contents of the fields of an entry that begin with kind.
func rewrite(t testing.TB, raw *redis.Client, entry, kind, content string) error {
	t.Helper()
	for _, reply := range raw.Do(t.Context(), "HKEYS", entry).All() {
		field, err := reply.String()
		if err != nil {
			return err
		}
		if strings.HasPrefix(field, kind) {
			return raw.Do(t.Context(), "HSET", entry, field, content).Err()
		}
	}
	return raw.Do(t.Context(), "HSET", entry, kind+"1", content).Err()
}

// patient lets L2 take its time with a large value on a busy machine.
func patient(o *strata.Options[string, string]) { o.Remote.Timeout = 5 * time.Second }
