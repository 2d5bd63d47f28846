package checks

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/strata-cache/strata/remote/castier"
)

func batchChecks() []storeCheck {
	return []storeCheck{
		{"EachSwapOfABatchHasItsResult", checkBatch},
		{"ResultsLineUp", checkLinesUp},
		{"FailureOfOneIsNotThatOfAll", checkPartialFailure},
		{"OneOfManySwapsWins", checkOneWins},
		{"NoSwapIsLostOrDoneTwice", checkCounts},
	}
}

// batch is how many keys a call has.
const batch = 130

// checkBatch swaps many items at once, a third of them from an earlier version.
func checkBatch(v *storeView) {
	var swaps []castier.Swap
	for i := range batch {
		name := fmt.Sprint("k", i)
		old := v.put(name, "one", castier.Version{})
		is := v.put(name, "two", old)
		if i%3 == 0 {
			is = old
		}
		swaps = append(swaps, castier.Swap{Key: v.key(name), Value: []byte("three"), Version: is})
	}
	swapped, err := v.f.Store.SwapMany(v.ctx, swaps)
	if err != nil || len(swapped) != batch {
		v.Fatalf("SwapMany of %d items, a third of which have changed = %d results, %v", batch, len(swapped), err)
	}
	for i := range swaps {
		want := map[bool]string{true: "three", false: "two"}[i%3 != 0]
		if swapped[i] != (i%3 != 0) {
			v.Errorf("swap %d of a batch is reported as %v", i, swapped[i])
		}
		v.holds(fmt.Sprint("k", i), want)
	}
}

// checkLinesUp: items have the indexes of their keys, with and without an item.
func checkLinesUp(v *storeView) {
	var keys []string
	for i := range batch {
		name := fmt.Sprint("k", i)
		if keys = append(keys, v.key(name)); i%4 > 0 {
			v.put(name, name, castier.Version{})
		}
	}
	slices.Reverse(keys)
	items, err := v.f.Store.GetMany(v.ctx, keys)
	if err != nil || len(items) != batch {
		v.Fatalf("GetMany of %d keys = %d items, %v", batch, len(items), err)
	}
	for i, is := range items {
		name := strings.TrimPrefix(keys[i], v.prefix)
		n, _ := strconv.Atoi(name[1:])
		if (is.Version != castier.Version{}) != (n%4 > 0) || n%4 > 0 && string(is.Value) != name {
			v.Errorf("item %d of a batch, %s, is %.20q with version %+v", i, name, is.Value, is.Version)
		}
	}
}

// checkPartialFailure swaps one value, too large for most stores, among small ones. A store
// that takes it is as good.
func checkPartialFailure(v *storeView) {
	const size = 8 << 20
	swaps := []castier.Swap{{Key: v.key("a"), Value: []byte("v")}, {Key: v.key("large"), Value: make([]byte, size)}, {Key: v.key("b"), Value: []byte("v")}}
	swapped, err := v.f.Store.SwapMany(v.ctx, swaps)
	for i, name := range []string{"a", "large", "b"} {
		if err := errorOf(err, i); err != nil {
			if name != "large" {
				v.Errorf("%s fails beside a value of %d bytes: %v", name, size, err)
			}
			continue
		}
		if i >= len(swapped) || !swapped[i] {
			v.Errorf("%s is reported as lost, and has no error", name)
		} else if is := v.get(name); len(is.Value) != len(swaps[i].Value) {
			v.Errorf("%s is reported as written, and has %d bytes of %d", name, len(is.Value), len(swaps[i].Value))
		}
	}
}

// checkOneWins swaps one item from one version by many callers at once.
func checkOneWins(v *storeView) {
	version := castier.Version{}
	for round := range 20 {
		const callers = 16
		var won atomic.Int64
		var winner atomic.Value
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				value := fmt.Sprint(round, " by ", c)
				swapped, err := v.f.Store.SwapMany(v.ctx, []castier.Swap{{Key: v.key("k"), Value: []byte(value), Version: version}})
				switch {
				case err != nil || len(swapped) != 1:
					v.Errorf("SwapMany = %v, %v", swapped, err)
				case swapped[0]:
					won.Add(1)
					winner.Store(value)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			v.Fatalf("%d of %d swaps from one version are reported as done", won.Load(), callers)
		}
		version = v.holds("k", winner.Load().(string))
	}
}

// checkCounts counts by swaps, in batches of two keys and by many callers at once: the sum is the
// number of swaps reported as done.
func checkCounts(v *storeView) {
	const callers, each = 8, 15
	names := []string{"x", "y"}
	var done [2]atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if !countOnce(v, names, &done) {
					return
				}
			}
		})
	}
	wg.Wait()
	for i, name := range names {
		if sum, _ := strconv.ParseInt(string(v.get(name).Value), 10, 64); sum != done[i].Load() || sum == 0 {
			v.Errorf("%s was counted to %d by %d swaps that are reported as done", name, sum, done[i].Load())
		}
	}
}

// countOnce adds one to items by one batch of swaps. done gets the number of successful swaps
// of each item.
func countOnce(v *storeView, names []string, done *[2]atomic.Int64) (ok bool) {
	items, err := v.f.Store.GetMany(v.ctx, []string{v.key(names[0]), v.key(names[1])})
	if err != nil || len(items) != 2 {
		v.Errorf("GetMany = %d items, %v", len(items), err)
		return false
	}
	var swaps []castier.Swap
	for i, is := range items {
		n, _ := strconv.ParseInt(string(is.Value), 10, 64)
		swaps = append(swaps, castier.Swap{Key: v.key(names[i]), Value: strconv.AppendInt(nil, n+1, 10), Version: is.Version})
	}
	swapped, err := v.f.Store.SwapMany(v.ctx, swaps)
	if err != nil || len(swapped) != 2 {
		v.Errorf("SwapMany = %v, %v", swapped, err)
		return false
	}
	for i := range swapped {
		if swapped[i] {
			done[i].Add(1)
		}
	}
	return true
}
