package codec

import (
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/lossy"
)

// choices are where a generator takes its decisions from.
type choices interface{ IntN(n int) int }

// tape is the choices of a fuzzer, a byte each; zeros at the end.
type tape struct{ data []byte }

func (t *tape) IntN(n int) int {
	if len(t.data) == 0 {
		return 0
	}
	u := int(t.data[0])
	t.data = t.data[1:]
	return u % n
}

type (
	lower  struct{ S string } // is a text
	shows  struct{ A, B int } // encodes A alone
	nested struct {
		Name  string
		Next  *nested
		Items []nested
		By    map[string]nested
		Any   any
	}
)

func (l lower) MarshalText() ([]byte, error)     { return []byte(l.S), nil }
func (l *lower) UnmarshalText(data []byte) error { l.S = string(data); return nil }
func (s *shows) MarshalJSON() ([]byte, error)    { return json.Marshal(s.A) }
func (s *shows) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &s.A) }

// typeOf makes up a type.
func typeOf(c choices, depth int) reflect.Type {
	leaves := []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[any](), reflect.TypeFor[json.Number](), reflect.TypeFor[json.RawMessage](),
		reflect.TypeFor[lower](), reflect.TypeFor[shows](), reflect.TypeFor[nested](), reflect.TypeFor[*big.Int](), reflect.TypeFor[netip.Addr](),
		reflect.TypeFor[map[string]any](), reflect.TypeFor[error](),
	}
	keys := []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[int16](), reflect.TypeFor[lower](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[time.Time](),
	}
	if depth == 0 {
		return leaves[c.IntN(len(leaves))]
	}
	switch c.IntN(7) {
	case 0:
		return reflect.PointerTo(typeOf(c, depth-1))
	case 1:
		return reflect.SliceOf(typeOf(c, depth-1))
	case 2:
		return reflect.ArrayOf(c.IntN(3), typeOf(c, depth-1))
	case 3:
		return reflect.MapOf(keys[c.IntN(len(keys))], typeOf(c, depth-1))
	case 4, 5:
		fields := make([]reflect.StructField, c.IntN(5))
		for i := range fields {
			tags := []reflect.StructTag{"", `json:"` + reflect.StructTag(string(rune('a'+i))) + `"`, `json:",omitempty"`, `json:",omitzero"`, `json:",string"`}
			fields[i] = reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typeOf(c, depth-1), Tag: tags[c.IntN(len(tags))]}
		}
		return reflect.StructOf(fields)
	}
	return leaves[c.IntN(len(leaves))]
}

var (
	someTexts = []string{"", "a", "A", "ü", "�", "\\ufffd", `"\ufffd`, "1", "b\xff", "\xfe"} // read-only
	someRaws  = []string{"", "1", `{"a":[1]}`, `[1, 2]`, `"\ufffd"`, "null"}                 // read-only
	someZones = []int{0, 3600, -5400, 561}                                                   // read-only
)

// fill makes up a value.
func fill(c choices, v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(int64(c.IntN(250))*10_000_000, 0).In(time.FixedZone([]string{"", "X"}[c.IntN(2)], someZones[c.IntN(len(someZones))]))
		if c.IntN(2) == 0 {
			*x = x.UTC()
		}
	case *json.RawMessage:
		if raw := someRaws[c.IntN(len(someRaws))]; raw != "" {
			*x = json.RawMessage(raw)
		}
	case *json.Number:
		*x = json.Number([]string{"", "0", "1e3"}[c.IntN(3)])
	case **big.Int:
		if c.IntN(3) > 0 {
			*x = big.NewInt(int64(c.IntN(250)) - 100)
		}
	case *netip.Addr:
		*x = netip.AddrFrom4([4]byte{byte(c.IntN(250))})
	case *any:
		*x = dynamic(c, depth)
	case *error:
		if c.IntN(3) == 0 {
			*x = errors.New("a")
		}
	default:
		fillParts(c, v, depth)
	}
}

// dynamic makes up a value for an interface.
func dynamic(c choices, depth int) any {
	n := c.IntN(9)
	if depth <= 0 {
		n %= 6
	}
	switch n {
	case 0:
		return nil
	case 1:
		return c.IntN(2) == 0
	case 2:
		return float64(c.IntN(9))
	case 3:
		return someTexts[c.IntN(len(someTexts))]
	case 4:
		if c.IntN(3) == 0 {
			return c.IntN(9)
		}
		return map[string]any{}
	case 5:
		return []any{}
	case 6:
		return []any{dynamic(c, depth-1), dynamic(c, depth-1)}
	case 7:
		return map[string]any{someTexts[c.IntN(len(someTexts))]: dynamic(c, depth-1)}
	}
	return new(int)
}

func fillParts(c choices, v reflect.Value, depth int) {
	switch n := c.IntN(4); v.Kind() {
	case reflect.Bool:
		v.SetBool(n > 1)
	case reflect.Int, reflect.Int16:
		v.SetInt(int64(c.IntN(100)) - 50)
	case reflect.Uint8:
		v.SetUint(uint64(c.IntN(250)))
	case reflect.Float64:
		v.SetFloat(float64(c.IntN(100)) / 8)
	case reflect.String:
		v.SetString(someTexts[c.IntN(len(someTexts))])
	case reflect.Struct:
		for i := range v.NumField() {
			fill(c, v.Field(i), depth-1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(c, v.Index(i), depth-1)
		}
	case reflect.Pointer:
		if depth > 0 && n > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(c, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
			for i := range v.Len() {
				fill(c, v.Index(i), depth-1)
			}
		}
	case reflect.Map:
		if depth > 0 && n > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n - 1 {
				key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(c, key, depth-1)
				fill(c, elem, depth-1)
				v.SetMapIndex(key, elem)
			}
		}
	}
}

// alike compares two values: times by their instants, and nil and empty as equal.
func alike(a, b reflect.Value) bool {
	if a.Type() != b.Type() {
		return false
	}
	switch x := a.Interface().(type) {
	case time.Time:
		return x.Equal(b.Interface().(time.Time))
	case *big.Int, netip.Addr, json.Number:
		return reflect.DeepEqual(x, b.Interface())
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return alike(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !alike(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !alike(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for i := a.MapRange(); i.Next(); {
			if other := b.MapIndex(i.Key()); !other.IsValid() || !alike(i.Value(), other) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// judge encodes the value behind p. Accepted values come back, and refused ones would
// not have.
func judge(t *testing.T, p reflect.Value) (accepted bool) {
	t.Helper()
	of := p.Type().Elem()
	data, err := newJSONForm(of).append(nil, p.Interface())
	var change *lossy.Change
	if err != nil && !errors.As(err, &change) {
		return false // encoding/json refuses it
	}
	if accepted = err == nil; !accepted {
		if data, err = json.Marshal(p.Interface()); err != nil {
			return false
		}
	}
	back := reflect.New(of)
	failed := json.Unmarshal(data, back.Interface())
	if same := failed == nil && alike(p.Elem(), back.Elem()); same != accepted {
		t.Fatalf("%v: %+v is encoded as %s, %v, and comes back as %+v, %v", of, p.Elem(), data, change, back.Elem(), failed)
	}
	return accepted
}

// TestJSONStoresJustWhatComesBack makes up types and values.
func TestJSONStoresJustWhatComesBack(t *testing.T) {
	counts := map[bool]int{}
	seeds := 20_000
	if testing.Short() { // as kit.Rounds, which imports this package
		seeds /= 4
	}
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		of := typeOf(r, int(seed%4))
		for range 3 {
			p := reflect.New(of)
			fill(r, p.Elem(), 5)
			counts[judge(t, p)]++
		}
	}
	if counts[true] < seeds/2 || counts[false] < seeds/2 {
		t.Errorf("of the values %v were accepted", counts)
	}
}

// FuzzJSONStoresJustWhatComesBack makes up a type and a value of it from the input.
func FuzzJSONStoresJustWhatComesBack(f *testing.F) {
	f.Add(uint8(0), []byte("abc"))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range uint8(20) {
		seed := make([]byte, 60)
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(i, seed)
	}
	f.Fuzz(func(t *testing.T, depth uint8, data []byte) {
		c := &tape{data}
		p := reflect.New(typeOf(c, int(depth%4)))
		fill(c, p.Elem(), 5)
		judge(t, p)
	})
}

// TestTextThatIsNoUTF8IsFoundInEachPart is for a version of Go in which encoding/json
// writes such a text like a valid one.
func TestTextThatIsNoUTF8IsFoundInEachPart(t *testing.T) {
	const bad = "a\xff"
	type inner struct{ S string }
	type outer struct {
		S    string
		List []string
		Map  map[string]inner
		Any  any
		At   *inner
		Raw  []byte
		Left string `json:"-"`
		When time.Time
	}
	f := newJSONForm(reflect.TypeFor[outer]())
	for name, want := range map[string]struct {
		v   outer
		bad bool
	}{
		"valid":   {outer{S: "\ufffd", List: []string{"\ufffd"}, Map: map[string]inner{"\ufffd": {"\ufffd"}}, Any: "\ufffd", Raw: []byte(bad), When: time.Now()}, false},
		"left":    {outer{Left: bad}, false},
		"field":   {outer{S: bad}, true},
		"list":    {outer{List: []string{"", bad}}, true},
		"key":     {outer{Map: map[string]inner{bad: {}}}, true},
		"element": {outer{Map: map[string]inner{"": {bad}}}, true},
		"any":     {outer{Any: map[string]any{"x": []any{bad}}}, true},
		"pointer": {outer{At: &inner{bad}}, true},
	} {
		if got := f.values.Garbled(reflect.ValueOf(want.v)); got != want.bad {
			t.Errorf("%s: %v", name, got)
		}
	}
}
