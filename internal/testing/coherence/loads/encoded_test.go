package loads_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/memory"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// counting is a codec of bytes that counts its calls, and refuses to decode while broken.
type counting struct {
	codec.Codec[[]byte]
	encoded, decoded atomic.Int64
	broken, panics   atomic.Bool
}

func (c *counting) Append(dst, v []byte) ([]byte, error) {
	c.encoded.Add(1)
	if string(v) == "refused" {
		return dst, errors.New("refused")
	}
	return c.Codec.Append(dst, v)
}

func (c *counting) Decode(data []byte) ([]byte, error) {
	c.decoded.Add(1)
	if c.panics.Load() {
		panic("no")
	}
	if c.broken.Load() {
		return nil, errors.New("broken")
	}
	return c.Codec.Decode(data)
}

// want checks the calls since the last want.
func (c *counting) want(t *testing.T, what string, encoded, decoded int64) {
	t.Helper()
	if e, d := c.encoded.Swap(0), c.decoded.Swap(0); e != encoded || d != decoded {
		t.Errorf("%s: encoded %d times, decoded %d times; want %d, %d", what, e, d, encoded, decoded)
	}
}

// encodedCache returns a cache with an encoded L1, and its codec.
func encodedCache(t *testing.T, change ...func(*strata.Options[int, []byte])) (*strata.Cache[int, []byte], *counting) {
	t.Helper()
	n := &counting{Codec: codec.Bytes()}
	change = append([]func(*strata.Options[int, []byte]){func(o *strata.Options[int, []byte]) {
		o.Memory.Encoded, o.Remote.Codec = true, n
	}}, change...)
	return lab.NewCache(t, change...), n
}

// loadNumber is a Loader that brings the text of the key.
func loadNumber(_ context.Context, key int) ([]byte, error) { return fmt.Append(nil, key), nil }

func TestEncodedL1DecodesOnceForEachHit(t *testing.T) {
	c, n := encodedCache(t)
	get := func() {
		t.Helper()
		if v, err := c.GetOrLoad(t.Context(), 1, loadNumber); string(v) != "1" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	}
	get()
	n.want(t, "load", 1, 0)
	get()
	n.want(t, "hit", 0, 1)
	lab.Must(t, c.Set(t.Context(), 2, []byte("two")))
	n.want(t, "Set", 1, 0)
	if v, ok := c.Get(t.Context(), 2); string(v) != "two" || !ok {
		t.Errorf("%q, %v", v, ok)
	}
	n.want(t, "Get", 0, 1)
	for _, work := range []func(){func() { c.Touch(1) }, func() { c.Explain(t.Context(), 1) }, func() { _ = c.Expire(t.Context(), 1) }, func() { c.Len() }} {
		work()
	}
	n.want(t, "no read", 0, 0)
	if s := c.Stats(); s.L1.Hits != 2 || s.L1.Misses != 1 || s.Entries != 2 {
		t.Errorf("%+v, %d entries", s.L1, s.Entries)
	}
}

func TestValueOfL2EntersAnEncodedL1AsItCame(t *testing.T) {
	tier := stratatest.NewTier()
	withTier := func(o *strata.Options[int, []byte]) { o.Remote.Tier = tier }
	a, n := encodedCache(t, withTier)
	for key := range 3 {
		if _, err := a.GetOrLoad(t.Context(), key, loadNumber); err != nil {
			t.Fatal(err)
		}
	}
	n.want(t, "three loads for both tiers", 3, 0)
	lab.Must(t, a.Set(t.Context(), 3, []byte("3")))
	n.want(t, "Set for both tiers", 1, 0)
	b, n := encodedCache(t, withTier)
	if v, ok := b.Get(t.Context(), 0); string(v) != "0" || !ok {
		t.Errorf("%q, %v", v, ok)
	}
	n.want(t, "hit of L2", 0, 1)
	if got, err := b.GetMany(t.Context(), []int{1, 2, 3}, nil); len(got) != 3 || err != nil {
		t.Errorf("%d of 3, %v", len(got), err)
	}
	n.want(t, "three hits of L2", 0, 3)
	for key := range 4 {
		if v, ok := b.Get(t.Context(), key, strata.NoRemote()); string(v) != fmt.Sprint(key) || !ok {
			t.Errorf("%d: %q, %v", key, v, ok)
		}
	}
	n.want(t, "four hits of L1", 0, 4)
}

// TestEachCallerOfAnEncodedL1HasItsOwnValue: callers overwrite what they get, in every way of getting it.
func TestEachCallerOfAnEncodedL1HasItsOwnValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		c, _ := encodedCache(t)
		slow := func(context.Context, int) ([]byte, error) { time.Sleep(time.Second); return []byte("value"), nil }
		spoil := func(how string, v []byte) {
			t.Helper()
			if string(v) != "value" {
				t.Errorf("%s got %q", how, v)
			}
			clear(v)
		}
		var all sync.WaitGroup
		var mu sync.Mutex // callers change a shared value one after the other, so that all see it
		for range 5 {
			all.Go(func() {
				v, err := c.GetOrLoad(ctx, 1, slow)
				mu.Lock()
				defer mu.Unlock()
				if spoil("a caller of a load", v); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				got, err := c.GetMany(ctx, []int{1}, func(context.Context, []int) (map[int][]byte, error) {
					v, err := slow(ctx, 1)
					return map[int][]byte{1: v}, err
				})
				mu.Lock()
				defer mu.Unlock()
				if spoil("a batch", got[1]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		mine := []byte("value")
		lab.Must(t, c.Set(ctx, 2, mine))
		clear(mine)
		for range 2 {
			for key := 1; key <= 2; key++ {
				v, _ := c.Get(ctx, key)
				spoil("Get", v)
				v, _ = c.GetOrLoad(ctx, key, slow)
				spoil("GetOrLoad", v)
			}
			got, _ := c.GetMany(ctx, []int{1, 2}, nil)
			spoil("GetMany", got[1])
			spoil("GetMany", got[2])
			for _, v := range c.All() {
				spoil("All", v)
			}
			for _, v := range c.Hottest(2) {
				spoil("Hottest", v)
			}
		}
	})
}

func TestUndecodableEntryOfL1IsAMissAndGoes(t *testing.T) {
	for name, break_ := range map[string]func(*counting, bool){
		"error": func(c *counting, b bool) { c.broken.Store(b) },
		"panic": func(c *counting, b bool) { c.panics.Store(b) },
	} {
		t.Run(name, func(t *testing.T) {
			c, n := encodedCache(t)
			lab.Must(t, c.Set(t.Context(), 1, []byte("old")))
			lab.Must(t, c.Set(t.Context(), 2, []byte("old")))
			break_(n, true)
			if _, ok := c.Get(t.Context(), 2); ok || c.Len() != 1 {
				t.Errorf("found %v, %d entries", ok, c.Len())
			}
			if v, err := c.GetOrLoad(t.Context(), 1, loadNumber); string(v) != "1" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
			break_(n, false)
			if v, ok := c.Get(t.Context(), 1); string(v) != "1" || !ok {
				t.Errorf("%q, %v", v, ok)
			}
			if s := c.Stats(); s.DecodeErrors != 2 || s.L1.Hits != 1 || s.L1.Misses != 2 {
				t.Errorf("%d errors, %+v", s.DecodeErrors, s.L1)
			}
		})
	}
}

func TestValueThatCannotBeEncodedIsServedAndNotKept(t *testing.T) {
	c, _ := encodedCache(t)
	refused := func(context.Context, int) ([]byte, error) { return []byte("refused"), nil }
	lab.Must(t, c.Set(t.Context(), 1, []byte("old")))
	lab.Must(t, c.Expire(t.Context(), 1))
	for range 2 {
		if v, err := c.GetOrLoad(t.Context(), 1, refused); string(v) != "refused" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	}
	if s := c.Stats(); s.EncodeErrors != 2 || s.Entries != 0 || s.Loads.OK != 2 {
		t.Errorf("%d errors, %d entries, %d loads", s.EncodeErrors, s.Entries, s.Loads.OK)
	}
	if err := c.Set(t.Context(), 2, []byte("refused")); err == nil {
		t.Error("a Set of it succeeds")
	}
}

// TestEncodedL1HoldsItsBound: it takes no more bytes, keeps no value of more than a tenth of them, and the
// old value of its key neither; Tune makes it smaller.
func TestEncodedL1HoldsItsBound(t *testing.T) {
	told := map[string]int{}
	var mu sync.Mutex
	c, _ := encodedCache(t, func(o *strata.Options[int, []byte]) {
		o.Memory.MaxWeight = 1 << 20
		o.Hooks = &strata.Hooks{Evict: func(e strata.Event) {
			mu.Lock()
			defer mu.Unlock()
			if v, _ := e.Value.([]byte); len(v) == 0 || e.Tier != "L1" {
				t.Errorf("told of %+v", e)
			}
			told[e.Reason]++
		}}
	})
	for key := range 5000 {
		lab.Must(t, c.Set(t.Context(), key, bytes.Repeat([]byte("v"), 1000)))
		if s := c.Stats(); s.Weight > 1<<20 || s.MaxWeight != 1<<20 || s.MaxEntries != 0 {
			t.Fatalf("%d bytes of %d", s.Weight, s.MaxWeight)
		}
	}
	s := c.Stats()
	if s.Evicted < 4000 || s.Entries < 500 || s.Entries+int64(s.Evicted) != 5000 {
		t.Errorf("%d evicted, %d left", s.Evicted, s.Entries)
	}
	lab.Must(t, c.Set(t.Context(), 4999, []byte("small")))
	lab.Must(t, c.Set(t.Context(), 4999, make([]byte, 200<<10)))
	if _, ok := c.Get(t.Context(), 4999); ok || c.Stats().Rejected != 1 {
		t.Errorf("a value of a fifth of L1: %v, %d rejected", ok, c.Stats().Rejected)
	}
	lab.Must(t, c.Tune(strata.Tuning{MaxWeight: new(int64(256 << 10))}))
	if s := c.Stats(); s.Weight > 256<<10 || s.MaxWeight != 256<<10 {
		t.Errorf("%d of %d bytes after Tune", s.Weight, s.MaxWeight)
	}
	for _, bad := range []strata.Tuning{{MaxWeight: new(int64(1000))}, {MaxEntries: new(int64(1000))}} {
		if err := c.Tune(bad); err == nil {
			t.Errorf("Tune to %v", bad)
		}
	}
	lab.Must(t, c.InvalidateAll(t.Context()))
	lab.Must(t, c.Close(t.Context()))
	mu.Lock()
	defer mu.Unlock()
	if n := c.Stats().Evicted; told["evicted"] != int(n) || told["rejected"] != 1 || told["invalidated"] == 0 || len(told) != 3 {
		t.Errorf("told of %v, %d evicted", told, n)
	}
}

// TestEntriesOfAnEncodedL1Live: fresh, then stale, then gone, and the hook is told with the value.
func TestEntriesOfAnEncodedL1Live(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := map[string]string{}
		c, _ := encodedCache(t, func(o *strata.Options[int, []byte]) {
			o.Hooks = &strata.Hooks{Evict: func(e strata.Event) { told[e.Reason] += fmt.Sprintf("%v=%s ", e.Key, e.Value) }}
		})
		lab.Must(t, c.Set(t.Context(), 1, []byte("one"), strata.WithTags("tag")))
		lab.Must(t, c.Set(t.Context(), 2, []byte("two")))
		time.Sleep(59 * time.Second)
		if v, ok := c.Get(t.Context(), 1); string(v) != "one" || !ok {
			t.Errorf("fresh: %q, %v", v, ok)
		}
		time.Sleep(2 * time.Second)
		if v, ok := c.Get(t.Context(), 1); ok {
			t.Errorf("ended: %q", v)
		}
		fails := func(context.Context, int) ([]byte, error) { return nil, lab.ErrDown }
		if v, err := c.GetOrLoad(t.Context(), 1, fails); string(v) != "one" || err != nil {
			t.Errorf("stale: %q, %v", v, err)
		}
		lab.Must(t, c.InvalidateTags(t.Context(), "tag"))
		if v, err := c.GetOrLoad(t.Context(), 1, fails); err == nil {
			t.Errorf("dropped: %q", v)
		}
		time.Sleep(2 * time.Hour)
		c.Get(t.Context(), 2)
		lab.Must(t, c.Set(t.Context(), 3, []byte("three"))) // stores tell of what has left
		synctest.Wait()
		if told["invalidated"] != "1=one " || told["expired"] != "2=two " || len(told) != 2 {
			t.Errorf("told of %q", told)
		}
	})
}

// TestSnapshotsGoBetweenEncodedAndOtherL1s writes one of each, and reads it into the other.
func TestSnapshotsGoBetweenEncodedAndOtherL1s(t *testing.T) {
	plain := func() *strata.Cache[int, []byte] {
		return lab.NewCache(t, func(o *strata.Options[int, []byte]) { o.Remote.Codec, o.Memory.MaxEntries = codec.Bytes(), 1000 })
	}
	encoded := func() *strata.Cache[int, []byte] {
		c, _ := encodedCache(t, func(o *strata.Options[int, []byte]) { o.Remote.Codec = codec.Bytes() })
		return c
	}
	for name, caches := range map[string][2]*strata.Cache[int, []byte]{"out": {encoded(), plain()}, "in": {plain(), encoded()}, "both": {encoded(), encoded()}} {
		from, to := caches[0], caches[1]
		for key := range 100 {
			lab.Must(t, from.Set(t.Context(), key, fmt.Append(nil, key), strata.WithTags(fmt.Sprint("even", key%2 == 0))))
			if key%3 == 0 {
				from.Get(t.Context(), key)
			}
		}
		lab.Must(t, from.Invalidate(t.Context(), 7))
		var file bytes.Buffer
		if r, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, from); err != nil || r.Caches[0].Entries != 99 {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		if r, err := snapshot.Read(t.Context(), &file, snapshot.Options{}, to); err != nil {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		lab.Must(t, to.InvalidateTags(t.Context(), "eventrue"))
		for key := range 100 {
			v, ok := to.Get(t.Context(), key)
			if want := key%2 == 1 && key != 7; ok != want || ok && string(v) != fmt.Sprint(key) {
				t.Errorf("%s: key %d has %q, %v", name, key, v, ok)
			}
		}
	}
}

// TestGuardMakesAnEncodedL1Smaller fills a cache of a process that may have 64 MiB.
func TestGuardMakesAnEncodedL1Smaller(t *testing.T) {
	g, err := memory.NewGuard(memory.GuardOptions{Limit: 64 << 20})
	lab.Must(t, err)
	defer g.Close()
	c, _ := encodedCache(t, func(o *strata.Options[int, []byte]) { o.Memory.MaxWeight, o.Memory.Guard = 1<<30, g.Floor(1<<20) })
	value, key := bytes.Repeat([]byte("v"), 1<<10), 0
	for ; key < 400<<10 && g.Stats().Evicted < 20_000; key++ {
		lab.Must(t, c.Set(t.Context(), key, value))
	}
	by := g.Stats().Evicted // it may go on at once
	if s := c.Stats(); by < 20_000 || s.Evicted < by || s.Weight < 1<<20 {
		t.Errorf("%d KiB are stored in a process of 64 MiB: %+v, %d evicted, %d bytes", key, s.Guard, s.Evicted, s.Weight)
	}
	g.Close() // else it may evict what is stored next
	lab.Must(t, c.Set(t.Context(), key, value))
	if v, ok := c.Get(t.Context(), key); !ok || !bytes.Equal(v, value) {
		t.Errorf("the last value: %d bytes, %v", len(v), ok)
	}
}

func TestEncodedL1RefusesOptionsThatItCannotKeep(t *testing.T) {
	_, err := strata.New(strata.Options[string, string]{TTL: time.Minute, IdleTTL: time.Second, Memory: strata.Memory[string, string]{
		Encoded: true, MaxEntries: 10, MaxWeight: 1000, EvictShare: 0.1, Policy: memory.LRU, DetectMutation: true,
		Weigh: func(string, string) int64 { return 1 }, Clone: strings.Clone,
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"MaxEntries", "MaxWeight", "EvictShare", "Policy", "DetectMutation", "Weigh", "Clone", "IdleTTL"} {
		if !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
	if _, err := strata.New(strata.Options[float64, string]{TTL: time.Minute, Memory: strata.Memory[float64, string]{Encoded: true}}); err == nil || !strings.Contains(err.Error(), "float64") {
		t.Errorf("keys of floats: %v", err)
	}
	if _, err := strata.New(strata.Options[string, chan int]{TTL: time.Minute, Memory: strata.Memory[string, chan int]{Encoded: true}}); err == nil {
		t.Error("values that no codec encodes")
	}
}

// slowEncode is a codec of bytes that takes a second to encode while slow is set.
type slowEncode struct {
	codec.Codec[[]byte]
	slow *atomic.Bool
}

func (c slowEncode) Append(dst, v []byte) ([]byte, error) {
	if c.slow.Load() {
		time.Sleep(time.Second) // in a bubble
	}
	return c.Codec.Append(dst, v)
}

// TestBatchAndCallerThatJoinsItShareNoValue: the batch changes its value while the value of the other caller
// is made.
func TestBatchAndCallerThatJoinsItShareNoValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, base := t.Context(), stratatest.NewTier()
		a, _ := encodedCache(t, func(o *strata.Options[int, []byte]) { o.Remote.Tier = base })
		for key := 1; key <= 2; key++ {
			lab.Must(t, a.Set(ctx, key, []byte("value")))
		}
		var slow atomic.Bool
		b, _ := encodedCache(t, func(o *strata.Options[int, []byte]) {
			o.Remote.Codec, o.Remote.Timeout = slowEncode{codec.Bytes(), &slow}, time.Minute
			o.Remote.Tier = stratatest.FaultyTier(base, func(string, string) (time.Duration, error) { return 10 * time.Millisecond, nil })
		})
		var all sync.WaitGroup
		var joined []byte
		all.Go(func() {
			got, err := b.GetMany(ctx, []int{1, 2}, nil)
			if string(got[1]) != "value" || err != nil {
				t.Errorf("the batch got %q, %v", got[1], err)
			}
			clear(got[1])
		})
		all.Go(func() {
			time.Sleep(time.Millisecond)
			slow.Store(true)
			joined, _ = b.Get(ctx, 1)
		})
		all.Wait()
		if string(joined) != "value" || b.Stats().Joins != 1 {
			t.Errorf("the caller that joined got %q; %d joined", joined, b.Stats().Joins)
		}
	})
}

// TestPreviousAndHooksOfAnEncodedL1HaveTheirOwnValues: a Loader changes the previous value, and callers change
// what they got while hooks look at it.
func TestPreviousAndHooksOfAnEncodedL1HaveTheirOwnValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		heard := func(e strata.Event) {
			time.Sleep(time.Second)
			if v, _ := e.Value.([]byte); string(v) != "value" {
				t.Errorf("a hook was told of %q", v)
			}
		}
		var c *strata.Cache[int, []byte]
		c, _ = encodedCache(t, func(o *strata.Options[int, []byte]) {
			o.Limits.SoftTimeout = time.Second
			o.Hooks = &strata.Hooks{Store: heard, Hit: heard, Stale: heard}
		})
		v, err := c.GetOrLoad(ctx, 1, func(context.Context, int) ([]byte, error) { return []byte("value"), nil })
		if clear(v); err != nil {
			t.Error(err)
		}
		v, _ = c.Get(ctx, 1)
		clear(v)
		time.Sleep(2 * time.Minute)
		v, err = c.GetOrLoad(ctx, 1, func(ctx context.Context, _ int) ([]byte, error) {
			previous, ok := c.Previous(ctx)
			if clear(previous); !ok {
				t.Error("there is no previous value")
			}
			time.Sleep(2 * time.Second)
			return nil, lab.ErrDown
		})
		if string(v) != "value" || err != nil {
			t.Errorf("stale: %q, %v", v, err)
		}
		clear(v)
		time.Sleep(time.Minute)
	})
}

// TestKeysComeOnceWhileEntriesMove iterates over a full cache, and sets and reads keys in the loop.
func TestKeysComeOnceWhileEntriesMove(t *testing.T) {
	c, _ := encodedCache(t, func(o *strata.Options[int, []byte]) { o.Memory.MaxWeight = 256 << 10 })
	value, n := bytes.Repeat([]byte("v"), 200), 1000
	const stay = 20
	for round := range 100 {
		there := make(map[int]bool)
		for key := range stay {
			lab.Must(t, c.Invalidate(t.Context(), key))
			lab.Must(t, c.Set(t.Context(), key, value))
			there[key] = true
		}
		seen := make(map[int]int)
		for key := range c.Keys() {
			seen[key]++
			for range 1 + round%20 {
				n++
				lab.Must(t, c.Set(t.Context(), n, value))
			}
			for key := range stay {
				if _, ok := c.Get(t.Context(), key); !ok {
					there[key] = false
				}
			}
		}
		for key, ok := range there {
			if ok && seen[key] != 1 || seen[key] > 1 {
				t.Fatalf("round %d: key %d came %d times", round, key, seen[key])
			}
		}
	}
}
