package test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/strata-cache/strata/internal/cache/evict"
	"github.com/strata-cache/strata/memory"
)

// memoryCall is a call of a memory.Cache for one key, and memoryResult its result.
type (
	memoryCall struct {
		kind  string
		value int
	}
	memoryResult struct {
		value int
		ok    bool
	}
)

// memoryKey is the state of one key.
type memoryKey struct {
	value int
	held  bool
}

// step returns the result of a call in a state, and the next state. The cache has room
// for all keys, so nothing leaves by itself.
func (r memoryKey) step(c memoryCall) (memoryResult, memoryKey) {
	switch c.kind {
	case "get":
		return memoryResult{r.value, r.held}, r
	case "set":
		return memoryResult{ok: true}, memoryKey{c.value, true}
	case "set if absent":
		if r.held {
			return memoryResult{r.value, false}, r
		}
		return memoryResult{c.value, true}, memoryKey{c.value, true}
	case "delete":
		return memoryResult{ok: r.held}, memoryKey{}
	case "add":
		return memoryResult{r.value + c.value, true}, memoryKey{r.value + c.value, true}
	default: // take: remove the value if there is one
		return memoryResult{}, memoryKey{}
	}
}

// memoryModel says that each key is a register.
var memoryModel = porcupine.Model{ // read-only
	Init: func() any { return memoryKey{} },
	Step: func(state, input, output any) (bool, any) {
		want, next := state.(memoryKey).step(input.(memoryCall))
		return output.(memoryResult) == want, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v = %+v", input, output) },
}

// call carries out c on a cache.
func (c memoryCall) call(m *memory.Cache[int, int], key int) (r memoryResult) {
	switch c.kind {
	case "get":
		r.value, r.ok = m.Get(key)
	case "set":
		r.ok = m.Set(key, c.value)
	case "set if absent":
		r.value, r.ok = m.SetIfAbsent(key, c.value)
	case "delete":
		r.ok = m.Delete(key)
	case "add":
		r.value, r.ok = m.Compute(key, func(old int, _ bool) (int, memory.Op) { return old + c.value, memory.Store })
	default:
		r.value, r.ok = m.Compute(key, func(old int, ok bool) (int, memory.Op) {
			if !ok {
				return 0, memory.Keep
			}
			return old, memory.Remove
		})
	}
	return r
}

// memoryKinds are the kinds of calls.
var memoryKinds = []string{"get", "get", "get", "set", "set if absent", "delete", "add", "take"} // read-only

// memoryHistory lets eight goroutines call a cache for a few keys, while other keys make
// its table grow, and returns the calls of each key.
func memoryHistory(m *memory.Cache[int, int], seed uint64) map[int][]porcupine.Operation {
	const keys, callers, calls = 3, 8, 60
	all := map[int][]porcupine.Operation{}
	var mu sync.Mutex // guards all
	var wg sync.WaitGroup
	start := time.Now()
	for id := range callers {
		wg.Go(func() {
			own := map[int][]porcupine.Operation{}
			r := rand.New(rand.NewPCG(seed, uint64(id)))
			for i := range calls {
				key, c := r.IntN(keys), memoryCall{memoryKinds[r.IntN(len(memoryKinds))], 1 + r.IntN(9)}
				from := time.Since(start)
				result := c.call(m, key)
				own[key] = append(own[key], porcupine.Operation{
					ClientId: id, Input: c, Call: int64(from), Output: result, Return: int64(time.Since(start)),
				})
				m.Set(1000+1000*id+i, 1)
			}
			mu.Lock()
			defer mu.Unlock()
			for key, ops := range own {
				all[key] = append(all[key], ops...)
			}
		})
	}
	wg.Wait()
	return all
}

// TestMemoryIsLinearizable looks for an order of the calls of each key of a memory.Cache
// that explains all results.
func TestMemoryIsLinearizable(t *testing.T) {
	for _, policy := range evict.Policies() {
		for round := range *linearHistories / 10 {
			m, err := memory.New(memory.Options[int, int]{MaxEntries: 100_000, Policy: memory.Policy(policy), TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			for key, ops := range memoryHistory(m, uint64(round)) {
				if got := porcupine.CheckOperationsTimeout(memoryModel, ops, 10*time.Second); got == porcupine.Illegal {
					t.Fatalf("%v, round %d: no order of the %d calls of key %d explains their results", policy, round, len(ops), key)
				}
			}
			m.Close()
		}
	}
}
