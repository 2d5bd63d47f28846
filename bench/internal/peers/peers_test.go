package peers_test

import (
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/strata-cache/strata/bench/internal/peers"
)

// TestEveryPeerKeepsItsContract looks for mistakes in the adapters.
func TestEveryPeerKeepsItsContract(t *testing.T) {
	contract(t, peers.All[uint64, uint64](), func(i int) uint64 { return uint64(i) })
	contract(t, peers.All[string, uint64](), strconv.Itoa)
	contract(t, peers.Bytes(eight()), strconv.Itoa)
}

// eight writes a number as eight bytes.
func eight() peers.Codec[uint64] {
	return peers.Codec[uint64]{
		Append: binary.BigEndian.AppendUint64,
		Decode: binary.BigEndian.Uint64,
		Size:   16,
	}
}

func contract[K peers.Key](t *testing.T, all []peers.Peer[K, uint64], key func(int) K) {
	for _, p := range all {
		for _, ttl := range []time.Duration{0, time.Hour} {
			if ttl > 0 && !p.Kind.Is(peers.Expires) {
				continue
			}
			t.Run(p.Name+"/"+ttl.String(), func(t *testing.T) {
				for _, synchronous := range []bool{false, p.Name == peers.Otter} {
					const capacity = 1000
					c, err := p.Open(peers.Config{Capacity: capacity, TTL: ttl, Synchronous: synchronous})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					returnsWhatWasSet(t, c, key)
					if p.Kind.Is(peers.Bounded) {
						keepsToItsCapacity(t, c, key, capacity)
					}
				}
			})
		}
	}
}

func returnsWhatWasSet[K peers.Key](t *testing.T, c peers.Cache[K, uint64], key func(int) K) {
	t.Helper()
	const n = 10
	if v, ok := c.Get(key(n)); v != 0 || ok {
		t.Fatalf("empty: %d, %v", v, ok)
	}
	var keys []K
	for i := range n {
		keys = append(keys, key(i))
		c.Set(key(i), 1)
		c.Settle() // ristretto loses a second write that comes before it has applied the first
		c.Set(key(i), 100+uint64(i))
		c.Settle()
	}
	for i, k := range keys {
		if v, ok := c.Get(k); v != 100+uint64(i) || !ok {
			t.Fatalf("key %d: %d, %v", i, v, ok)
		}
	}
	if found, last := c.Hits(append(keys[:n:n], key(n))); found != n || last != 100+n-1 {
		t.Errorf("%d of %d hits, the last %d", found, n, last)
	}
	// The first is written, the second found, the last missed and so written.
	if hits := c.Mix([]K{key(0), key(1), key(n)}, []bool{true, false, false}, 7); hits != 1 {
		t.Errorf("%d hits of one", hits)
	}
	c.Settle()
	for i, want := range map[int]uint64{0: 7, 1: 101, n: 7} {
		if v, _ := c.Get(key(i)); v != want {
			t.Errorf("key %d after the mix: %d instead of %d", i, v, want)
		}
	}
}

// keepsToItsCapacity checks the number of entries after many writes. It allows
// for a tenth above the capacity, which a late eviction may leave, and for half
// of it, because some parts are full while others are not.
func keepsToItsCapacity[K peers.Key](t *testing.T, c peers.Cache[K, uint64], key func(int) K, capacity int) {
	t.Helper()
	const times, batch = 5, 100
	for i := range times * capacity {
		c.Set(key(i), 1)
		if i%batch == 0 {
			c.Settle()
		}
	}
	c.Settle()
	held := 0
	for i := range times * capacity {
		if _, ok := c.Get(key(i)); ok {
			held++
		}
	}
	if held < capacity/2 || held > capacity*11/10 {
		t.Errorf("holds %d entries with room for %d", held, capacity)
	}
}
