package bytestore

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// made returns a store as a machine of so many processors has it.
func made(t *testing.T, processors int, budget int64) *Store {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	return newStore(t, budget)
}

// fill stores n values of a size, and returns how many keys the store has then.
func fill(c *Store, n, size int) int {
	for i := range n {
		c.Set(fmt.Append(nil, "new ", i), make([]byte, size), 0)
	}
	return c.Len()
}

// TestResizedStoreHoldsWhatItsBudgetHolds makes stores smaller and larger, and fills them.
func TestResizedStoreHoldsWhatItsBudgetHolds(t *testing.T) {
	kit.Alone(t)
	for _, x := range []struct {
		processors int
		from, to   int64
		part       int // of a new store, in percent: 5 to 10 less than the least of 150 runs, which differ by the hashes of keys
	}{
		{1, 64 << 20, 8 << 20, 90},
		{1, 64 << 20, 2 << 20, 85},
		{1, 64 << 20, 1 << 20, 70},
		{16, 1 << 30, 16 << 20, 80},
		{1, MinBudget, 8 << 20, 90},
		{2, 1 << 20, 8 << 20, 95},
	} {
		for _, size := range []int{100, 1100} {
			c, fresh := made(t, x.processors, x.from), made(t, 1, x.to)
			if err := c.Resize(x.to); err != nil {
				t.Fatal(err)
			}
			n := int(x.to) / size * 5 / 4
			if held, want := fill(c, n, size), fill(fresh, n, size); held < want*x.part/100 {
				t.Errorf("%d processors, %d to %d bytes: %d entries of %d bytes; a new store has %d", x.processors, x.from, x.to, held, size, want)
			}
			check(t, c)
		}
	}
}

// TestSmallerStoreKeepsWhatWasRead makes a full store smaller.
func TestSmallerStoreKeepsWhatWasRead(t *testing.T) {
	kit.Alone(t)
	for _, size := range []int{100, 5000} {
		c := made(t, 2, 64<<20)
		n := fill(c, 80<<20/size, size)
		hot := 1 << 20 / size
		for i := range hot {
			c.Set(fmt.Append(nil, "hot ", i), make([]byte, size), 0)
			c.AppendGet(nil, fmt.Append(nil, "hot ", i))
		}
		if err := c.Resize(4 << 20); err != nil {
			t.Fatal(err)
		}
		check(t, c)
		kept := 0
		for i := range hot {
			if v, ok := c.AppendPeek(nil, fmt.Append(nil, "hot ", i)); ok && len(v) == size {
				kept++
			}
		}
		if kept < hot*95/100 || c.Len() < 2<<20/size || c.Len() >= n || c.Bytes() > 4<<20 {
			t.Errorf("values of %d bytes: %d of %d that were read are left, %d entries of %d in %d bytes", size, kept, hot, c.Len(), n, c.Bytes())
		}
	}
}

// TestBudgetHoldsForLargeEntriesThatWereReadOften has entries with chunks of their own, which leave after several laps.
func TestBudgetHoldsForLargeEntriesThatWereReadOften(t *testing.T) {
	for _, size := range []int{16_500, 20_000} {
		c := newStore(t, 32<<20)
		n := 32 << 20 / size
		for i := range n {
			c.Set(fmt.Append(nil, i), make([]byte, size), 0)
		}
		read := func() {
			for range 3 {
				for i := range n {
					c.AppendGet(nil, fmt.Append(nil, i))
				}
			}
		}
		read()
		c.Owe(c.Bytes())
		if c.Settle(); c.Used() > 1<<20 {
			t.Errorf("%d bytes are left of a debt of all", c.Used())
		}
		for i := range n {
			c.Set(fmt.Append(nil, i), make([]byte, size), 0)
		}
		read()
		if err := c.Resize(28 << 20); err != nil || c.Bytes() > 28<<20 {
			t.Errorf("%d bytes, for a budget of 28 MiB; %v", c.Bytes(), err)
		}
		if err := c.Resize(4 << 20); err != nil || c.Bytes() > 4<<20 {
			t.Errorf("%d bytes, for a budget of 4 MiB; %v", c.Bytes(), err)
		}
		check(t, c)
	}
}

// TestSmallStoresHoldLargeEntries has entries with chunks of their own that are much smaller than a page.
func TestSmallStoresHoldLargeEntries(t *testing.T) {
	for _, x := range []struct {
		budget int64
		sizes  []int
	}{{128 << 10, []int{900, 1100, 2100, 4200}}, {256 << 10, []int{1900, 2100, 4300}}, {512 << 10, []int{3900, 4300, 8300}}, {1 << 20, []int{8000, 8300}}} {
		for _, size := range x.sizes {
			c := newStore(t, x.budget)
			if n := fill(c, 3*int(x.budget)/size, size); n*size < int(x.budget)*7/10 {
				t.Errorf("%d bytes: %d entries of %d bytes, %d %% of the budget", x.budget, n, size, n*size*100/int(x.budget))
			}
			check(t, c)
		}
	}
}

// TestEachEntryIsHeardOfOnce compares all that leaves a store, as its hook and its callers hear it, with all that was
// stored.
func TestEachEntryIsHeardOfOnce(t *testing.T) {
	for seed := range uint64(kit.Rounds(60)) {
		heardOnce(t, seed)
	}
}

// lessOrMore sometimes changes the budget of a store, or lets it pay a debt.
func lessOrMore(t *testing.T, r *rand.Rand, c *Store, most int64) {
	switch r.IntN(20) {
	case 0:
		if err := c.Resize(c.Least() + r.Int64N(most)); err != nil || c.Bytes() > c.Budget() {
			t.Fatalf("%d bytes of %d, %v", c.Bytes(), c.Budget(), err)
		}
	case 1:
		c.Owe(r.Int64N(c.Used() + 1))
		had, owed := c.Used(), c.owed.Load()
		if c.Settle(); had-c.Used() < owed {
			t.Fatalf("%d of %d bytes have been freed", had-c.Used(), owed)
		}
	}
}

func heardOnce(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	most := int64(1) << (20 + r.IntN(5))
	c := newStore(t, MinBudget+r.Int64N(most))
	live := map[string][]byte{} // all that was stored, and that has not left as far as was heard
	c.Use(Hooks{Left: func(key, value []byte, _ bool) {
		if v, ok := live[string(key)]; !ok || string(v) != string(value) {
			t.Fatalf("seed %d: %s has left with %d bytes; it is there: %v, with %d", seed, key, len(value), ok, len(v))
		}
		delete(live, string(key))
	}})
	for step := range 1500 {
		key := fmt.Append(nil, r.IntN(300))
		value := make([]byte, r.IntN(1+[]int{0, 10, 1000, 1100, 4000, 9000, 20_000, 70_000}[r.IntN(8)]))
		for i := range value {
			value[i] = byte(step)
		}
		switch r.IntN(8) {
		case 0, 1, 2:
			var old []byte
			had, stored := c.Exchange(key, value, &old)
			if v, was := live[string(key)]; had != was || had && string(v) != string(old) {
				t.Fatalf("seed %d: Exchange had one: %v; there was one: %v", seed, had, was)
			}
			if delete(live, string(key)); stored {
				live[string(key)] = value
			}
		case 3:
			if c.Replace(key, func([]byte) []byte { return value }) {
				live[string(key)] = value
			}
		case 4:
			if _, was := live[string(key)]; c.Remove(key, nil, nil) != was {
				t.Fatalf("seed %d: Remove removes what was not there, or not what was", seed)
			}
			delete(live, string(key))
		case 5, 6:
			for range r.IntN(4) {
				c.AppendGet(nil, key)
			}
		case 7:
			lessOrMore(t, r, c, most)
		}
	}
	if len(live) != c.Len() {
		t.Fatalf("seed %d: %d entries, %d were not heard of", seed, c.Len(), len(live))
	}
	check(t, c)
}

// TestExchangeReportsNoEntryThatLeftMeanwhile exchanges the only entry of a shard, to which another shard must give the room. While
// that shard makes it, another caller takes the entry.
func TestExchangeReportsNoEntryThatLeftMeanwhile(t *testing.T) {
	c := newStore(t, MinBudget)
	shardOf := func(key []byte) *shard { return c.shard(maphash.Bytes(c.seed, key)) }
	key, taken := []byte("key"), 0
	c.Use(Hooks{Left: func(other, _ []byte, _ bool) {
		if shardOf(other) == shardOf(key) {
			t.Errorf("%s has left the shard of %s", other, key)
		} else if c.Remove(key, nil, nil) {
			taken++
		}
	}})
	c.Set(key, []byte("value"), 0)
	for i := 0; c.room.Load() > c.Budget()/40; i++ {
		if other := fmt.Append(nil, i); shardOf(other) != shardOf(key) {
			c.Set(other, make([]byte, 1000), 0)
		}
	}
	var old []byte
	had, stored := c.Exchange(key, make([]byte, c.Budget()/20), &old)
	if !stored || had || taken != 1 {
		t.Errorf("stored: %v; it had one: %v; another caller has taken %d", stored, had, taken)
	}
	check(t, c)
}

// TestResizeAgainAndAgainUsesUpNothing makes a store smaller and larger in turn.
func TestResizeAgainAndAgainUsesUpNothing(t *testing.T) {
	c := made(t, 1, 64<<20)
	most := 0
	for turn := range kit.Rounds(200) {
		for _, budget := range []int64{4 << 20, 64 << 20} {
			fill(c, 2000, 1000)
			if err := c.Resize(budget); err != nil {
				t.Fatal(err)
			}
		}
		numbers := 0
		for i := range c.shards {
			numbers += len(c.shards[i].chunks)
		}
		if turn == 20 {
			most = numbers
		}
		if turn > 20 && numbers > 2*most {
			t.Fatalf("turn %d: %d numbers of chunks, %d in turn 20", turn, numbers, most)
		}
	}
	check(t, c)
}
