package bytestore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newStore(t testing.TB, budget int64) *Store {
	t.Helper()
	c, err := New(budget)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func get(c *Store, key string) (string, bool) {
	v, ok := c.AppendGet(nil, []byte(key))
	return string(v), ok
}

// check fails the test if the invariants of the package do not hold.
func check(t testing.TB, c *Store) {
	t.Helper()
	taken := int64(len(c.shards)) * shardBytes
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		taken += int64(len(s.index.slots)*8 + len(s.ghosts)*4)
		used, queued := 0, [queues]int{}
		for _, x := range s.index.slots {
			if x == 0 {
				continue
			}
			used++
			p := placeIn(x)
			e := read(s.chunks[p.chunk()].data[p.offset():])
			if j, _ := s.find(hashOf(c, e.key), e.key); j < 0 || s.index.slots[j] != x {
				t.Errorf("a slot names %q, which is not found", e.key)
			}
		}
		if used != s.index.used {
			t.Errorf("%d slots are used, not %d", used, s.index.used)
		}
		for n, ch := range s.chunks {
			taken += int64(len(ch.data))
			if ch.end > len(ch.data) {
				t.Errorf("chunk %d ends at %d of %d", n, ch.end, len(ch.data))
			}
		}
		for q := range queues {
			f := &s.queues[q]
			for _, n := range append(f.chunks.numbers[f.chunks.head:len(f.chunks.numbers):len(f.chunks.numbers)], f.active) {
				queued[q] += len(s.chunks[n].data)
			}
			if queued[q] != f.bytes {
				t.Errorf("queue %d has %d bytes, not %d", q, queued[q], f.bytes)
			}
		}
		s.mu.RUnlock()
	}
	if taken != c.Bytes() || taken > c.Budget() {
		t.Errorf("chunks and tables take %d bytes, Bytes says %d of %d", taken, c.Bytes(), c.Budget())
	}
}

func hashOf(c *Store, key []byte) uint64 { return maphash.Bytes(c.seed, key) }

// TestStoreReturnsWhatWasStoredLast compares random operations with a map: a value is the last
// one of its key, or gone.
func TestStoreReturnsWhatWasStoredLast(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		budget := int64(MinBudget) << r.IntN(6)
		c, model := newStore(t, budget), map[string]string{}
		keys := 1 + r.IntN(4000)
		for range 20_000 {
			key := fmt.Sprint(r.IntN(keys))
			switch n := r.IntN(20); {
			case n < 8:
				if v, ok := get(c, key); ok && v != model[key] {
					t.Fatalf("seed %d: %q has %.20q, not %.20q", seed, key, v, model[key])
				}
			case n < 10:
				if had := c.Delete([]byte(key)); had && model[key] == "" {
					t.Fatalf("seed %d: %q was there", seed, key)
				}
				delete(model, key)
			default:
				size := 1 + r.IntN(1<<r.IntN(12))
				if r.IntN(200) == 0 {
					size = int(budget) / (5 + r.IntN(40))
				}
				v := string(bytes.Repeat([]byte{byte('a' + r.IntN(26))}, size))
				model[key] = v
				if fits := int64(len(key)+size) <= budget/largest-deadlineBytes; c.Set([]byte(key), []byte(v), 0) != fits {
					t.Fatalf("seed %d: a value of %d bytes in %d: want stored %v", seed, size, budget, fits)
				} else if !fits {
					delete(model, key)
				}
			}
		}
		check(t, c)
		for key, v := range c.All() {
			if model[string(key)] != string(v) {
				t.Fatalf("seed %d: All has %q with %.20q, not %.20q", seed, key, v, model[string(key)])
			}
		}
	}
}

// TestStoreWithRoomKeepsAllEntries stores less than fits.
func TestStoreWithRoomKeepsAllEntries(t *testing.T) {
	c, model := newStore(t, 64<<20), map[string]string{}
	for i := range 100_000 {
		key, value := fmt.Sprint(i), fmt.Sprint("value ", i)
		model[key] = value
		if !c.Set([]byte(key), []byte(value), time.Hour) {
			t.Fatal("not stored")
		}
	}
	check(t, c)
	found := map[string]string{}
	for key, v := range c.All() {
		found[string(key)] = string(v)
	}
	if !maps.Equal(found, model) || c.Len() != len(model) || c.Stats().Evicted > 0 {
		t.Errorf("%d entries, Len %d, %+v", len(found), c.Len(), c.Stats())
	}
}

// TestKeysWithOneHashAreToldApart gives all keys the same 30 bits of hash, in one shard.
func TestKeysWithOneHashAreToldApart(t *testing.T) {
	c := newStore(t, MinBudget)
	s := &c.shards[0]
	for i := range 30 {
		key := []byte(fmt.Sprint(i))
		if _, ok := s.put(c, 7, key, key, 0); !ok {
			t.Fatal("not stored")
		}
	}
	for i := range 30 {
		key := []byte(fmt.Sprint(i))
		if _, e := s.find(7, key); !bytes.Equal(e.value, key) {
			t.Errorf("%s has %q", key, e.value)
		}
	}
}

// TestEntryEndsAtItsDeadline reads around it.
func TestEntryEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStore(t, MinBudget)
		c.Set([]byte("k"), []byte("v"), time.Minute)
		c.Set([]byte("forever"), []byte("v"), 0)
		time.Sleep(time.Minute - time.Millisecond)
		if v, ok := get(c, "k"); !ok || v != "v" {
			t.Errorf("before the end: %q, %v", v, ok)
		}
		time.Sleep(time.Millisecond)
		if _, ok := get(c, "k"); ok || c.Len() != 1 {
			t.Errorf("at the end: %v, %d entries", ok, c.Len())
		}
		if _, ok := get(c, "forever"); !ok {
			t.Error("an entry without a life has ended")
		}
		if n := c.Stats(); n.Expired != 1 || n.Hits != 2 || n.Misses != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// TestReadEntriesStay fills a store many times over with keys that are read once, beside some that are
// read all the time.
func TestReadEntriesStay(t *testing.T) {
	c := newStore(t, 4<<20)
	value, missed := make([]byte, 100), 0
	for i := range 400_000 {
		hot := []byte(fmt.Sprint("hot", i%5000))
		if _, ok := c.AppendGet(nil, hot); !ok {
			missed++
			c.Set(hot, value, 0)
		}
		c.Set([]byte(fmt.Sprint(i)), value, 0)
	}
	if missed > 3*5000 {
		t.Errorf("%d of 400,000 reads of 5,000 keys in use have missed", missed)
	}
	check(t, c)
}

// TestResizeLetsEntriesGoAndGivesMemoryBack shrinks a full store, and grows it again.
func TestResizeLetsEntriesGoAndGivesMemoryBack(t *testing.T) {
	c := newStore(t, 32<<20)
	fill := func() {
		for i := range 400_000 {
			c.Set([]byte(fmt.Sprint(i)), make([]byte, 100), 0)
		}
	}
	fill()
	full := c.Len()
	if err := c.Resize(2 << 20); err != nil {
		t.Fatal(err)
	}
	check(t, c)
	if n := c.Len(); n == 0 || n > full/10 {
		t.Errorf("%d of %d entries are left", n, full)
	}
	fill()
	check(t, c)
	if err := c.Resize(32 << 20); err != nil {
		t.Fatal(err)
	}
	fill()
	check(t, c)
	if n := c.Len(); n < full*9/10 {
		t.Errorf("%d entries, %d before", n, full)
	}
	if c.Resize(MinBudget-1) == nil {
		t.Error("a budget that is too small was taken")
	}
}

// TestConcurrentUseIsSafe has goroutines store, read, delete, iterate and resize. Each value names its key.
func TestConcurrentUseIsSafe(t *testing.T) {
	c := newStore(t, 2<<20)
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(g, 2))
			var buffer []byte
			for i := range 20_000 {
				n := r.Uint64N(3000)
				key := binary.AppendUvarint(nil, n)
				switch r.IntN(10) {
				case 0:
					c.Delete(key)
				case 1, 2, 3, 4:
					v := bytes.Repeat(key, 1+r.IntN(200))
					if r.IntN(100) == 0 {
						v = bytes.Repeat(key, 40_000)
					}
					c.Set(key, v, time.Hour)
				default:
					var ok bool
					if buffer, ok = c.AppendGet(buffer[:0], key); ok && !bytes.HasPrefix(buffer, key) {
						t.Errorf("%v has a value of another key", key)
					}
				}
				if i%5000 == 4999 {
					_ = c.Resize(int64(1+r.IntN(3)) << 20)
					for key, v := range c.All() {
						if !bytes.HasPrefix(v, key) {
							t.Errorf("%v has a value of another key", key)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	check(t, c)
}

// TestHitAllocatesNothing reads into memory of the caller.
func TestHitAllocatesNothing(t *testing.T) {
	c := newStore(t, 1<<20)
	key, value, buffer := []byte("key"), []byte("value"), make([]byte, 0, 16)
	c.Set(key, value, time.Hour)
	if n := testing.AllocsPerRun(100, func() { buffer, _ = c.AppendGet(buffer[:0], key) }); n > 0 {
		t.Errorf("a hit makes %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { c.Set(key, value, time.Hour) }); n > 0 {
		t.Errorf("an update makes %v allocations", n)
	}
}
