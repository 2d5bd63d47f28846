package memory_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/memory"
)

func TestEntryThatIsNotReadIsGoneWithinIdleTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := &byReason{}
		c := mustNew(t, memory.Options[string, int]{IdleTTL: 8 * time.Second, OnEvict: heard.add})
		for _, k := range []string{"read", "touched", "peeked", "left"} {
			c.Set(k, 1)
		}
		for range 20 {
			time.Sleep(3 * time.Second)
			if _, ok := c.Get("read"); !ok || !c.Touch("touched") {
				t.Fatal("an entry that is read is gone")
			}
			c.Peek("peeked")
		}
		synctest.Wait()
		slices.Sort(heard.m[memory.Expired])
		heard.want(t, map[memory.Reason][]string{memory.Expired: {"left", "peeked"}})
		if n := c.Len(); n != 2 || c.Touch("left") || c.Touch("none") {
			t.Fatalf("%d entries, want 2", n)
		}
		time.Sleep(7*time.Second - time.Millisecond)
		mustHold(t, c, "read", 1)
		time.Sleep(time.Second + time.Millisecond)
		mustMiss(t, c, "read")
		mustMiss(t, c, "touched")
	})
}

func TestTouchIsAUseAndNotCounted(t *testing.T) {
	c := mustNew(t, memory.Options[int, int]{MaxEntries: 3, Policy: memory.LRU})
	for k := range 3 {
		c.Set(k, k)
	}
	if !c.Touch(0) {
		t.Fatal("the key is not there")
	}
	c.Set(3, 3)
	var keys []int
	for k := range c.All() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if st := c.Stats(); !slices.Equal(keys, []int{0, 2, 3}) || st.Hits+st.Misses != 0 {
		t.Errorf("keys %v, %+v", keys, st)
	}
}

func TestIdleTTLBelowAMillisecondIsRefused(t *testing.T) {
	for _, d := range []time.Duration{-1, 1, time.Millisecond - 1} {
		if _, err := memory.New(memory.Options[int, int]{IdleTTL: d}); err == nil {
			t.Errorf("%v is accepted", d)
		}
	}
}

// Keep sessions for as long as they are used.
func ExampleCache_Touch() {
	sessions, err := memory.New(memory.Options[string, string]{IdleTTL: 30 * time.Minute, TTL: 12 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sessions.Close()

	sessions.Set("4711", "ada")
	fmt.Println(sessions.Touch("4711"), sessions.Touch("4712"))
	// Output: true false
}
