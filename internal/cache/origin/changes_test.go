package origin_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/origin"
)

func asJSON[V any](dst []byte, v V) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(dst, b...), err
}

// counts compares values in turn, each with the one before, in a cache without an L2 and without a
// codec.
func counts[V any](values ...V) (got [2]uint64) {
	c := origin.NewChanges[V](false, false, nil)
	for i := range values[1:] {
		c.Loaded(&values[i], &values[i+1], 0, nil)
	}
	got[0], got[1] = c.Read()
	return got
}

// version is compared by its method Equal.
type version struct {
	number int
	notes  []string
}

func (v *version) Equal(o *version) bool { return v.number == o.number }

type bare []byte

type plain struct {
	id    int
	name  string
	ratio [2]float64
	_     bool
}

type pointing struct{ at *int }

func TestValuesAreComparedByTheirType(t *testing.T) {
	one, again, noon := 1, 1, time.Now()
	for name, c := range map[string]struct{ got, want [2]uint64 }{
		"numbers":                      {counts(1, 1, 2), [2]uint64{1, 1}},
		"texts":                        {counts("a", "b", "b", "b"), [2]uint64{1, 2}},
		"structs":                      {counts(plain{id: 1}, plain{id: 1}, plain{id: 1, ratio: [2]float64{0, 1}}), [2]uint64{1, 1}},
		"arrays":                       {counts([2]string{"a"}, [2]string{"a"}), [2]uint64{0, 1}},
		"bytes":                        {counts([]byte("a"), []byte("a"), []byte{}, nil), [2]uint64{1, 2}},
		"named bytes":                  {counts(bare("a"), bare("a"), bare("b")), [2]uint64{1, 1}},
		"times":                        {counts(noon, noon.UTC(), noon.Add(1)), [2]uint64{1, 1}},
		"a method":                     {counts(&version{number: 1}, &version{1, []string{"new"}}, &version{number: 2}), [2]uint64{1, 1}},
		"a method, and no value":       {counts(nil, nil, &version{}, nil), [2]uint64{2, 1}},
		"pointers, not compared":       {counts(&one, &again), [2]uint64{}},
		"pointers inside":              {counts(pointing{&one}, pointing{&again}), [2]uint64{}},
		"slices":                       {counts([]string{"a"}, []string{"b"}), [2]uint64{}},
		"interfaces with no == inside": {counts[any]([]int{1}, []int{1}, 7), [2]uint64{}},
		"interfaces in a struct":       {counts(struct{ v any }{[]int{1}}, struct{ v any }{[]int{1}}), [2]uint64{}},
	} {
		if c.got != c.want {
			t.Errorf("%s: changed and unchanged %v, want %v", name, c.got, c.want)
		}
	}
}

func sealed(payload string, tags ...string) []byte {
	b := envelope.Begin(nil)
	var f envelope.Flags
	if len(tags) > 0 {
		b, f = envelope.AppendTags(b, 7, tags), envelope.Tagged
	}
	b = append(b, payload...)
	envelope.Seal(b, "k", 1, f)
	return b
}

func TestValuesOfL2AreComparedByTheirBytes(t *testing.T) {
	c := origin.NewChanges(true, true, func([]byte, []string) ([]byte, error) {
		t.Error("a value was encoded")
		return nil, nil
	})
	old, now := []string{"a"}, []string{"b"}
	load := func(sum uint64, data []byte, changed, unchanged uint64) {
		t.Helper()
		c.Loaded(&old, &now, sum, data)
		if a, b := c.Read(); a != changed || b != unchanged {
			t.Errorf("changed %d, unchanged %d, want %d and %d", a, b, changed, unchanged)
		}
	}
	sum := c.Sum([]byte("ab"))
	load(0, sealed("ab"), 0, 0)
	load(sum, nil, 0, 0)
	load(sum, sealed("ab"), 0, 1)
	load(sum, sealed("ab", "tag"), 0, 2)
	load(sum, sealed("abc"), 1, 2)
	load(c.Sum(nil), sealed(""), 1, 3)
	load(c.Sum(nil), sealed("", "tag"), 1, 4)
}

func TestOneLoadIn16IsEncodedWithoutL2(t *testing.T) {
	encoded, at := 0, map[int]int{}
	c := origin.NewChanges(false, true, func(dst []byte, v []int) ([]byte, error) {
		encoded++
		return asJSON(dst, v)
	})
	for block := range 64 {
		value := []int{block % 2}
		for i := range origin.EveryChange {
			before := encoded
			c.Loaded(&[]int{0}, &value, 0, nil)
			if encoded > before {
				at[i]++
			}
		}
		if encoded != 2*(block+1) {
			t.Fatalf("%d values were encoded for %d loads", encoded, (block+1)*origin.EveryChange)
		}
	}
	if a, b := c.Read(); a != 512 || b != 512 {
		t.Errorf("changed %d, unchanged %d, want 512 each", a, b)
	}
	if len(at) < origin.EveryChange/2 {
		t.Errorf("the loads that are compared are at the places %v of each %d", at, origin.EveryChange)
	}
}

func TestValuesThatCannotBeEncodedAreNotCounted(t *testing.T) {
	c := origin.NewChanges(false, true, func([]byte, []int) ([]byte, error) { return nil, errors.New("no") })
	for range 100 {
		c.Loaded(&[]int{0}, &[]int{0}, 0, nil)
	}
	if a, b := c.Read(); a+b != 0 {
		t.Errorf("changed %d, unchanged %d, want none", a, b)
	}
}

func TestSumsAreOfTheWholePayloadAndNeverZero(t *testing.T) {
	c := origin.NewChanges[[]string](true, false, nil)
	if c.Sum(nil) == 0 || c.Sum([]byte("a")) == c.Sum([]byte("b")) || c.Sum([]byte("a")) != c.Sum([]byte{'a'}) {
		t.Error("a sum is zero, or does not depend on its bytes alone")
	}
	if n := origin.NewChanges[int](true, false, nil).Sum([]byte("a")); n != 0 {
		t.Errorf("numbers need no sum, and have %d", n)
	}
}

func TestComparingPlainValuesAllocatesNothing(t *testing.T) {
	c, old, now := origin.NewChanges[plain](false, false, nil), plain{id: 1, name: "a"}, plain{id: 2, name: "b"}
	if n := testing.AllocsPerRun(100, func() { c.Loaded(&old, &now, 0, nil) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
