package checks

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote/castier"
)

func abilityChecks() []storeCheck {
	return []storeCheck{
		{"ClockGoesOn", checkClock},
		{"CountersBeginWhereTheyAreToldTo", checkCounters},
		{"DamagedCountersAreReplaced", checkDamaged},
		{"NoAdditionIsLost", checkAdditions},
		{"TouchedItemsHaveAnotherLife", checkTouch},
	}
}

// ability returns the Store as a T, or skips the check.
func ability[T any](v *storeView) T {
	a, ok := v.f.Store.(T)
	if !ok {
		v.Skipf("the Store is no %v", reflect.TypeFor[T]())
	}
	return a
}

// checkClock compares readings with the time that passes between them: a clock set meanwhile
// would jump.
func checkClock(v *storeView) {
	c := ability[castier.Clock](v)
	const slack = 2 * time.Second // how long a call, and a sleep more than told, may take
	var begun, first, last time.Time
	for i := range 5 {
		asked := time.Now()
		t, step, err := c.Now(v.ctx)
		switch {
		case err != nil:
			v.Fatalf("Now: %v", err)
		case step < 0 || step > 2*time.Second:
			v.Errorf("the clock has steps of %v", step)
		case t.UnixMilli() <= 0:
			v.Errorf("the clock shows %v, not a time after 1970", t)
		case i == 0:
			begun, first = asked, t
		case t.Before(last):
			v.Errorf("the clock went from %v back to %v", last, t)
		}
		slept := time.Duration(i) * 700 * time.Millisecond
		if passed := t.Sub(first); passed < slept-step || passed > max(slept, asked.Sub(begun))+step+slack {
			v.Errorf("the clock went on by %v while %v passed", passed, slept)
		}
		last = t
		v.f.Sleep(700 * time.Millisecond)
	}
}

// add adds to one counter.
func (v *storeView) add(c castier.Counter, name string, delta, first uint64) uint64 {
	v.Helper()
	sums, err := c.AddMany(v.ctx, []castier.Add{{Key: v.key(name), Delta: delta, First: first}})
	if err != nil || len(sums) != 1 {
		v.Fatalf("AddMany(%s) = %v, %v; want one sum", name, sums, err)
	}
	return sums[0]
}

// checkCounters: a counter that is lost begins at a number that it never had, and only if the
// caller wants that.
func checkCounters(v *storeView) {
	c := ability[castier.Counter](v)
	const first = 1<<62 + 5
	if n := v.add(c, "n", 7, 0); n != 0 || v.get("n").Version != (castier.Version{}) {
		v.Errorf("a counter that is not to be made is %d", n)
	}
	if n := v.add(c, "n", 7, first); n != first {
		v.Errorf("a counter that begins at %d is %d", uint64(first), n)
	}
	for i, first := range []uint64{0, 9} {
		if n, want := v.add(c, "n", 7, first), uint64(1<<62+5)+7*uint64(i+1); n != want {
			v.Errorf("a counter is %d, want %d", n, want)
		}
	}
	if n, want := v.add(c, "n", 0, 9), uint64(1<<62+5+14); n != want {
		v.Errorf("a counter to which nothing is added is %d, want %d", n, want)
	}
	v.holds("n", strconv.FormatUint(1<<62+5+14, 10))
	sums, err := c.AddMany(v.ctx, []castier.Add{{Key: v.key("n"), Delta: 1, First: 3}, {Key: v.key("m"), Delta: 1, First: 3}, {Key: v.key("l"), Delta: 1}})
	if want := []uint64{1<<62 + 5 + 15, 3, 0}; err != nil || fmt.Sprint(sums) != fmt.Sprint(want) {
		v.Errorf("additions to three counters = %v, %v; want %v", sums, err, want)
	}
}

func checkDamaged(v *storeView) {
	c := ability[castier.Counter](v)
	for _, text := range []string{"", "x", "12x", "-", "99999999999999999999999"} {
		v.add(c, "n", 1, 1)
		if !v.swap("n", text, v.get("n").Version, 0) {
			v.Fatalf("the item of a counter is not swapped")
		}
		if n := v.add(c, "n", 1, 0); n != 0 {
			v.Errorf("%.10q is counted without a number to begin at: %d", text, n)
		}
		v.holds("n", text)
		if n := v.add(c, "n", 1, 70); n != 70 {
			v.Errorf("%.10q is counted: %d", text, n)
		}
		if n := v.add(c, "n", 2, 900); n != 72 {
			v.Errorf("%.10q is not replaced for good: %d", text, n)
		}
	}
}

func checkAdditions(v *storeView) {
	c := ability[castier.Counter](v)
	const callers, each = 8, 15
	var mu sync.Mutex // guards seen
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				sums, err := c.AddMany(v.ctx, []castier.Add{{Key: v.key("n"), Delta: 1, First: 1}})
				if err != nil || len(sums) != 1 {
					v.Errorf("AddMany = %v, %v", sums, err)
					return
				}
				mu.Lock()
				seen[sums[0]] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for n := uint64(1); n <= callers*each; n++ {
		if !seen[n] {
			v.Fatalf("no addition of one returned %d, of %d additions", n, callers*each)
		}
	}
}

func checkTouch(v *storeView) {
	toucher := ability[castier.Toucher](v)
	touch := func(name string, life time.Duration) bool {
		v.Helper()
		touched, err := toucher.TouchMany(v.ctx, []castier.Touch{{Key: v.key(name), Life: life}, {Key: v.key("never"), Life: life}})
		if err != nil || len(touched) != 2 || touched[1] {
			v.Fatalf("TouchMany of an item, and of one that does not exist = %v, %v", touched, err)
		}
		return touched[0]
	}
	if toucher.Large() < 0 {
		v.Errorf("Large is %d", toucher.Large())
	}
	for name, life := range map[string]time.Duration{"longer": 2 * time.Second, "longest": 2 * time.Second, "same": 0} {
		if !v.swap(name, name, castier.Version{}, life) {
			v.Fatalf("%s is not written", name)
		}
	}
	if !touch("longer", time.Hour) || !touch("longest", 0) || !touch("same", 0) {
		v.Errorf("an item that exists is not touched")
	}
	v.f.Sleep(4 * time.Second)
	for _, name := range []string{"longer", "longest", "same"} {
		v.holds(name, name)
	}
	first := v.put("k", "one", castier.Version{})
	second := v.put("k", "two", first)
	if !touch("k", time.Hour) {
		v.Errorf("an item that exists is not touched")
	}
	third := v.holds("k", "two")
	if third == first {
		v.Errorf("a touched item has version %+v again, which it had before the last write", third)
	}
	if v.swap("k", "late", first, 0) || third != second && v.swap("k", "late", second, 0) {
		v.Errorf("a swap of a touched item from an earlier version was done")
	}
	v.put("k", "three", third)
}
