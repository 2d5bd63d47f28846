package castier_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
)

// garbage are values that a counter never has.
var garbage = []string{"", "x", "12x", "-1", "1.5", strings.Repeat("9", 30), strings.Repeat("g", 1000), "\x00\xff"} // read-only

// TestCounterThatIsDamagedIsReplaced damages each counter. The values of its scope are absent
// then, and new ones are stored and found, also by instances that begin later.
func TestCounterThatIsDamagedIsReplaced(t *testing.T) {
	for _, servers := range []int{1, 3} {
		for _, kind := range []string{":d", ":x", ":D", ":X", ":e", ":c"} {
			for _, text := range garbage {
				synctest.Test(t, func(t *testing.T) { damages(t, servers, kind, text) })
			}
		}
	}
}

// damages makes the counters of a kind the same text.
func damages(t *testing.T, servers int, kind, text string) {
	m, tier := open(t, servers)
	keep(t, tier, "ada", "bob")
	damaged := false
	for server := range servers {
		m.Each(server, func(key string, is *lab.ModelItem) {
			if strings.HasSuffix(key, kind) {
				is.Data, damaged = []byte(text), true
			}
		})
	}
	if want := servers == 1 && strings.Contains(":d:x:c", kind) || servers > 1 && strings.Contains(":D:X:c", kind); damaged != want {
		t.Fatalf("%d servers have %s: %v", servers, kind, damaged)
	}
	time.Sleep(1100 * time.Millisecond) // in a bubble
	late := another(m)
	for _, key := range []string{"ada", "bob"} {
		// A lost soft drop of everything leaves a stale value.
		if held := get(t, late, key); damaged && kind != ":c" && held.Fresh > 0 {
			t.Errorf("%s damaged by %.10q: %+v", kind, text, held)
		}
	}
	for i := range 3 {
		key := fmt.Sprint("new", i)
		keep(t, late, key)
		for _, reader := range []string{string(get(t, tier, key).Data), string(get(t, another(m), key).Data)} {
			if reader != key {
				t.Errorf("%s damaged by %.10q: %q is read as %q", kind, text, key, reader)
			}
		}
	}
}

// TestTagsAreDroppedWhateverDamagesTheirClock damages the clock of tags, or a tag, by any
// text, also by other numbers. A drop drops the values loaded before it, and reads find
// the values loaded after it.
func TestTagsAreDroppedWhateverDamagesTheirClock(t *testing.T) {
	for round := range 400 {
		synctest.Test(t, func(t *testing.T) {
			m, tier := open(t, 1+round%3)
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
			dropTags(t, tier, false, "t")
			time.Sleep(2 * time.Second)
			stored := func(who *remote.Lease) bool { return tagsOf(t, another(m), "t").Dropped <= who.Clock }
			before := acquire(t, tier, "before").Lease
			if !stored(&before) {
				t.Fatal("a value is dropped before anything is damaged")
			}
			time.Sleep(time.Duration(2000+rand.IntN(3000)) * time.Millisecond)
			kind := []string{":c", ":tt"}[rand.IntN(2)]
			for server := range 1 + round%3 {
				m.Each(server, func(key string, is *lab.ModelItem) {
					if strings.HasSuffix(key, kind) {
						is.Data = damagedBy(rand.IntN(6), is.Data)
					}
				})
			}
			if kind == ":c" {
				late := another(m) // knows nothing of the clock
				dropTags(t, late, false, "t")
				if stored(&before) {
					t.Errorf("a value from before a drop is there, with clock %d", before.Clock)
				}
			}
			for range 3 { // an instance that finds the damage mends it
				tagsOf(t, another(m), "t")
			}
			time.Sleep(2 * time.Second)
			if after := acquire(t, another(m), "after").Lease; !stored(&after) {
				t.Errorf("%s is damaged: a value from after it has clock %d, the tag %+v", kind, after.Clock, tagsOf(t, another(m), "t"))
			}
		})
	}
}

// TestClockOfTagsNearItsEndIsReplaced: the next drops would begin at 0 again, earlier than all leases.
func TestClockOfTagsNearItsEndIsReplaced(t *testing.T) {
	for _, before := range []uint64{0, 1, 2, 1 << 20, 1 << 31} {
		synctest.Test(t, func(t *testing.T) {
			m, tier := open(t, 1)
			dropTags(t, tier, false, "t")
			time.Sleep(2 * time.Second)
			m.Each(0, func(key string, is *lab.ModelItem) {
				if strings.HasSuffix(key, ":c") {
					is.Data = strconv.AppendUint(nil, math.MaxUint64-before, 10)
				}
			})
			for range 4 {
				time.Sleep(2 * time.Second)
				lease := acquire(t, tier, "before").Lease
				dropTags(t, tier, false, "t")
				judged(t, tier, "t", lease.Clock)
				judged(t, another(m), "t", lease.Clock)
				time.Sleep(2 * time.Second)
				if after := acquire(t, tier, "after").Lease; after.Clock < tagsOf(t, tier, "t").Dropped {
					t.Errorf("%d before the end: a value from after the drop has clock %d, the tag %+v", before, after.Clock, tagsOf(t, tier, "t"))
				}
			}
		})
	}
}

// damagedBy returns data with a kind of damage.
func damagedBy(kind int, data []byte) []byte {
	data = slices.Clone(data)
	switch kind {
	case 0:
		return []byte(garbage[rand.IntN(len(garbage))])
	case 1:
		data[rand.IntN(len(data))] ^= 1 << rand.IntN(8)
	case 2:
		return data[:rand.IntN(len(data))]
	case 3:
		return append(data, data[rand.IntN(len(data))])
	case 4:
		return bytes.Repeat(data, 2)
	case 5:
		return strconv.AppendUint(nil, rand.Uint64()>>rand.IntN(64), 10)
	}
	return data
}
