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

	"github.com/strata-cache/strata/internal/testing/kit"
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
		taken += int64(len(s.index.slots)*8 + len(s.ghosts)*4 + tableMemory(cap(s.chunks)))
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
		places := make([]int, len(s.chunks)) // in lists and queues
		walked := func(l list) (bytes int) {
			last := 0
			for n := int(l.first); n != 0; n = int(s.chunks[n].next) {
				bytes += len(s.chunks[n].data)
				places[n]++
				last = n
			}
			if l.first != 0 && last != int(l.last) {
				t.Errorf("a list ends with %d, not with %d", last, l.last)
			}
			return bytes
		}
		for q := range queues {
			queued[q] = walked(s.queues[q].chunks)
			if n := s.queues[q].active; n != 0 {
				places[n]++
				queued[q] += len(s.chunks[n].data)
			}
			if queued[q] != s.queues[q].bytes {
				t.Errorf("queue %d has %d bytes, not %d", q, queued[q], s.queues[q].bytes)
			}
		}
		if n := walked(s.unused); n != 0 {
			t.Errorf("unused numbers have %d bytes", n)
		}
		held, inUse := 0, 0
		walked(s.spare)
		for n, ch := range s.chunks {
			held += len(ch.data)
			if ch.data != nil {
				inUse++
			}
			if ch.end > len(ch.data) {
				t.Errorf("chunk %d ends at %d of %d", n, ch.end, len(ch.data))
			}
			if n > 0 && places[n] != 1 {
				t.Errorf("number %d is in %d lists", n, places[n])
			}
			if !ch.own && len(ch.data) > s.largest {
				t.Errorf("chunk %d has %d bytes, the largest %d", n, len(ch.data), s.largest)
			}
		}
		if held != s.taken || inUse != s.inUse {
			t.Errorf("%d chunks with %d bytes, not %d with %d", inUse, held, s.inUse, s.taken)
		}
		taken += int64(held)
		s.mu.RUnlock()
	}
	if taken != c.Bytes() || taken > c.budget.Load() {
		t.Errorf("chunks and tables take %d bytes, Bytes says %d of %d", taken, c.Bytes(), c.budget.Load())
	}
}

func hashOf(c *Store, key []byte) uint64 { return maphash.Bytes(c.seed, key) }

// TestStoreReturnsWhatWasStoredLast compares random operations with a map: a value is the last
// one of its key, or gone.
func TestStoreReturnsWhatWasStoredLast(t *testing.T) {
	for seed := range uint64(kit.Rounds(40)) {
		r := rand.New(rand.NewPCG(seed, 1))
		budget := int64(MinBudget) << r.IntN(6)
		m := modelled{t, seed, budget, newStore(t, budget), map[string]string{}}
		keys := 1 + r.IntN(4000)
		for range 20_000 {
			m.step(r, fmt.Sprint(r.IntN(keys)))
		}
		check(t, m.c)
		for key, v := range m.c.All() {
			if m.model[string(key)] != string(v) {
				t.Fatalf("seed %d: All has %q with %.20q, not %.20q", seed, key, v, m.model[string(key)])
			}
		}
	}
}

// modelled is a store, and what it may have.
type modelled struct {
	t      *testing.T
	seed   uint64
	budget int64
	c      *Store
	model  map[string]string
}

func (m *modelled) step(r *rand.Rand, key string) {
	switch n := r.IntN(20); {
	case n < 8:
		if v, ok := get(m.c, key); ok && v != m.model[key] {
			m.t.Fatalf("seed %d: %q has %.20q, not %.20q", m.seed, key, v, m.model[key])
		}
	case n < 10:
		if had := m.c.Delete([]byte(key)); had && m.model[key] == "" {
			m.t.Fatalf("seed %d: %q was there", m.seed, key)
		}
		delete(m.model, key)
	default:
		size := 1 + r.IntN(1<<r.IntN(12))
		if r.IntN(200) == 0 {
			size = int(m.budget) / (5 + r.IntN(40))
		}
		v := string(bytes.Repeat([]byte{byte('a' + r.IntN(26))}, size))
		m.model[key] = v
		fits := int64(len(key)+size) <= m.budget/largest-deadlineBytes
		if m.c.Set([]byte(key), []byte(v), 0) != fits {
			m.t.Fatalf("seed %d: a value of %d bytes in %d: want stored %v", m.seed, size, m.budget, fits)
		}
		if !fits {
			delete(m.model, key)
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
	c := newStore(t, 1<<20)
	value, missed, reads := make([]byte, 100), 0, 2*kit.Rounds(200_000)
	for i := range reads {
		hot := []byte(fmt.Sprint("hot", i%500))
		if _, ok := c.AppendGet(nil, hot); !ok {
			missed++
			c.Set(hot, value, 0)
		}
		c.Set([]byte(fmt.Sprint(i)), value, 0)
	}
	if missed > 600 {
		t.Errorf("%d of %d reads of 500 keys in use have missed", missed, reads)
	}
	check(t, c)
}

// TestResizeLetsEntriesGoAndGivesMemoryBack shrinks a full store, and grows it again.
func TestResizeLetsEntriesGoAndGivesMemoryBack(t *testing.T) {
	budget := int64(2 * kit.Rounds(16<<20))
	c := newStore(t, budget)
	fill := func() {
		for i := range budget / 84 {
			c.Set([]byte(fmt.Sprint(i)), make([]byte, 100), 0)
		}
	}
	fill()
	full := c.Len()
	if err := c.Resize(budget / 16); err != nil {
		t.Fatal(err)
	}
	check(t, c)
	if n := c.Len(); n == 0 || n > full/10 {
		t.Errorf("%d of %d entries are left", n, full)
	}
	fill()
	check(t, c)
	if err := c.Resize(budget); err != nil {
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

// TestConcurrentUseIsSafe has goroutines store, read, delete, iterate, resize and owe. Each value begins with
// its key.
func TestConcurrentUseIsSafe(t *testing.T) {
	c := newStore(t, 2<<20)
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(g, 2))
			for i := range 20_000 {
				useOnce(t, c, r)
				switch {
				case i%5000 == 4999:
					_ = c.Resize(c.Least() << r.IntN(7))
				case i%1000 == 999:
					c.Owe(r.Int64N(c.Used() + 1))
				case i%1000 == 499:
					c.Settle()
				}
			}
		})
	}
	wg.Wait()
	check(t, c)
}

func useOnce(t *testing.T, c *Store, r *rand.Rand) {
	key := binary.AppendUvarint(nil, r.Uint64N(3000))
	switch n := r.IntN(10_000); {
	case n < 4:
		for key, v := range c.All() {
			if !bytes.HasPrefix(v, key) {
				t.Errorf("%v has a value of another key", key)
			}
		}
	case n < 1000:
		c.Delete(key)
	case n < 1050:
		c.Set(key, bytes.Repeat(key, 40_000), time.Hour)
	case n < 5000:
		c.Set(key, bytes.Repeat(key, 1+r.IntN(200)), time.Hour)
	default:
		if v, ok := c.AppendGet(nil, key); ok && !bytes.HasPrefix(v, key) {
			t.Errorf("%v has a value of another key", key)
		}
	}
}

// TestTurnsOfShardsGoOn has so many turns that a number of 31 bits ends.
func TestTurnsOfShardsGoOn(t *testing.T) {
	c := newStore(t, 32<<20)
	c.turn.Store(1<<31 - 1)
	for i := range 100_000 {
		c.Set([]byte(fmt.Sprint(i)), make([]byte, 1000), 0)
	}
	if !c.Set([]byte("large"), make([]byte, 3<<20), 0) || c.turn.Load() <= 1<<31 {
		t.Errorf("not stored, or no turn: %d", c.turn.Load())
	}
	check(t, c)
}

// TestHitOfBytesAllocatesNothing reads into memory of the caller.
func TestHitOfBytesAllocatesNothing(t *testing.T) {
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

// TestDebtOfAGuardIsFreed settles debts, by itself and by Sets.
func TestDebtOfAGuardIsFreed(t *testing.T) {
	c := newStore(t, 64<<20)
	poked := 0
	c.Guarded(func() { poked++ })
	set := func(n int) {
		for i := range n {
			c.Set([]byte(fmt.Sprint(i)), make([]byte, 1000), 0)
		}
	}
	set(20_000)
	before, entries := c.Bytes(), c.Len()
	if n, _ := c.Usage(); n > before || n < before*9/10 || poked < 200 || poked > 500 {
		t.Errorf("%d of %d bytes may go; poked %d times", n, before, poked)
	}
	c.Owe(8 << 20)
	c.Settle()
	shed, bytes := c.Shed()
	if n := before - c.Bytes(); n != bytes || n < 8<<20 || n > 9<<20 || int(shed) != entries-c.Len() {
		t.Errorf("%d bytes and %d entries have gone, %d and %d are counted", n, entries-c.Len(), bytes, shed)
	}
	check(t, c)
	c.Guarded(nil)
	poked = 0
	c.Owe(4 << 20)
	before = c.Bytes()
	set(100)
	// Meanwhile some of the 64 shards have begun a chunk.
	if n := before - c.Bytes(); n < 2<<20 || poked > 0 {
		t.Errorf("Sets have freed %d bytes; poked %d times", n, poked)
	}
	c.Owe(1 << 40)
	c.Settle()
	if n, _ := c.Usage(); n > 64<<10 || c.owed.Load() != 0 {
		t.Errorf("%d bytes are left, %d owed", n, c.owed.Load())
	}
	set(1000)
	if c.Len() != 1000 {
		t.Errorf("%d entries after a debt that nothing could pay", c.Len())
	}
	check(t, c)
}
