package compact

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/lossy"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// choices are where a generator takes its decisions from.
type choices interface{ IntN(n int) int }

// inner is a type in itself, for generated types.
type inner struct {
	Next *inner
	All  []inner
	At   time.Time
	hidden
}

type hidden struct{ Found uint8 }

// knot has elements with nothing but values of the type around them.
type knot struct {
	ID    uint8
	Ends  []struct{ To knot }
	Pairs [][2]knot
	Parts map[string]struct{ ties }
	Whole *[1]struct{ All []struct{ knot } }
}

type ties struct{ L, R knot }

// typeOf makes up a type.
func typeOf(c choices, depth int) reflect.Type {
	leaves := []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[uintptr](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[complex64](),
		reflect.TypeFor[complex128](), reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[struct{}](), reflect.TypeFor[inner](), reflect.TypeFor[map[string]string](),
		reflect.TypeFor[knot](),
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
		return reflect.ArrayOf(c.IntN(4), typeOf(c, depth-1))
	case 3:
		return reflect.MapOf(leaves[c.IntN(17)], typeOf(c, depth-1))
	case 4, 5:
		fields := make([]reflect.StructField, c.IntN(6))
		for i := range fields {
			fields[i] = reflect.StructField{Name: "F" + strconv.Itoa(i), Type: typeOf(c, depth-1)}
		}
		return reflect.StructOf(fields)
	default:
		return leaves[c.IntN(len(leaves))]
	}
}

// fill makes up a value.
func fill(c choices, v reflect.Value, depth int) {
	switch k := v.Kind(); k {
	case reflect.Bool:
		v.SetBool(c.IntN(2) == 1)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(number(c)) >> (64 - v.Type().Bits()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(number(c) >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float(c))
	case reflect.Complex64, reflect.Complex128:
		v.SetComplex(complex(float(c), float(c)))
	case reflect.String:
		v.SetString(string(make([]byte, size(c))) + strconv.Itoa(c.IntN(300)))
	case reflect.Pointer:
		if depth > 0 && c.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(c, v.Elem(), depth-1)
		}
	default:
		fillParts(c, v, depth)
	}
}

func fillParts(c choices, v reflect.Value, depth int) {
	t := v.Type()
	switch n := size(c); {
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(int64(number(c))>>8, int64(c.IntN(1e9))).UTC()))
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			if f := v.Field(i); f.CanSet() {
				fill(c, f, depth-1)
			}
		}
	case t.Kind() == reflect.Array:
		for i := range v.Len() {
			fill(c, v.Index(i), depth-1)
		}
	case n == 0 || depth <= 0: // nil
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, n-1, n-1))
		for i := range v.Len() {
			fill(c, v.Index(i), depth-1)
		}
	default:
		v.Set(reflect.MakeMap(t))
		for range n - 1 {
			key, elem := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			fill(c, key, depth-1)
			fill(c, elem, depth-1)
			v.SetMapIndex(key, elem)
		}
	}
}

func size(c choices) int {
	if c.IntN(20) == 0 {
		return c.IntN(300)
	}
	return c.IntN(5)
}

// number returns small numbers about as often as large ones.
func number(c choices) uint64 {
	u := uint64(c.IntN(math.MaxInt)) << 1
	return u >> c.IntN(64) << c.IntN(64)
}

// float returns no NaN, which differs from itself.
func float(c choices) float64 { return float64(c.IntN(1000)-500) / 4 }

// roundTripOf checks a value that p points to, and returns its bytes.
func roundTripOf(t *testing.T, n *node, p reflect.Value) []byte {
	t.Helper()
	var e encoder
	data := n.encode(&e, nil, p.UnsafePointer())
	if e.err != nil {
		t.Fatalf("%v: %v", p.Type().Elem(), e.err)
	}
	if len(data) < n.least || n.least == 0 && len(data) > 0 {
		t.Fatalf("%v: %d bytes; at least %d are expected", p.Type().Elem(), len(data), n.least)
	}
	flat := data
	if n.flat {
		var ok bool
		if flat, ok = appendLeaves(n.leaves, nil, p.UnsafePointer()); !ok || len(flat) != len(data) {
			t.Fatalf("%v: %x as leaves, %x otherwise", p.Type().Elem(), flat, data)
		}
	}
	for _, alias := range []bool{false, true} {
		q := reflect.New(p.Type().Elem())
		d := decoder{data: data, alias: alias}
		if alias {
			d.data = flat
		}
		n.decode(&d, q.UnsafePointer())
		if d.err != nil || d.pos != len(data) || d.reserved != 0 || d.depth != 0 {
			t.Fatalf("%v: %v at %d of %d bytes; %d reserved, depth %d", p.Type().Elem(), d.err, d.pos, len(data), d.reserved, d.depth)
		}
		if !reflect.DeepEqual(q.Interface(), p.Interface()) {
			t.Fatalf("%v: got %+v, want %+v", p.Type().Elem(), q.Elem(), p.Elem())
		}
	}
	return data
}

func planOf(t testing.TB, of reflect.Type) *node {
	t.Helper()
	b := builder{root: of, seen: map[reflect.Type]*node{}}
	n := b.plan()
	if b.refused != "" {
		t.Fatal(b.refused)
	}
	return n
}

func TestGeneratedTypesAndValuesSurviveTheRoundTrip(t *testing.T) {
	for seed := range uint64(kit.Rounds(1500)) {
		r := rand.New(rand.NewPCG(seed, 1))
		of := typeOf(r, 1+r.IntN(4))
		n := planOf(t, of)
		for range 4 {
			p := reflect.New(of)
			fill(r, p.Elem(), 5)
			data := roundTripOf(t, n, p)
			refusesCuts(t, n, of, data, r)
		}
	}
}

func TestElementsOfNothingButTheTypeAroundThemKeepTheirValues(t *testing.T) {
	v := knot{ID: 1, Ends: []struct{ To knot }{{knot{ID: 2}}}, Pairs: [][2]knot{{{ID: 3}, {}}}, Parts: map[string]struct{ ties }{"a": {ties{R: knot{ID: 4}}}}}
	roundTripOf(t, planOf(t, reflect.TypeFor[knot]()), reflect.ValueOf(&v))
}

// refusesCuts checks that input which ends early, or too late, is refused.
func refusesCuts(t *testing.T, n *node, of reflect.Type, data []byte, r *rand.Rand) {
	t.Helper()
	if len(data) == 0 {
		return
	}
	for _, cut := range []int{0, len(data) - 1, r.IntN(len(data))} {
		d := decoder{data: data[:cut]}
		n.decode(&d, reflect.New(of).UnsafePointer())
		if d.err == nil {
			t.Fatalf("%v: %d of %d bytes are accepted: %x", of, cut, len(data), data)
		}
	}
}

func TestLostFieldsAreThoseThatOtherCodecsLose(t *testing.T) {
	type deep struct {
		A       []map[string]*inner
		b       int
		C       struct{ d, E int }
		_       int
		private hidden
	}
	type locked struct {
		sync.Mutex
		Mu   sync.RWMutex
		Wait *sync.WaitGroup
		Map  sync.Map
		N    int
	}
	for _, of := range []reflect.Type{reflect.TypeFor[deep](), reflect.TypeFor[locked](), reflect.TypeFor[*inner](), reflect.TypeFor[[]time.Time]()} {
		b := builder{root: of, seen: map[reflect.Type]*node{}}
		b.plan()
		if b.refused != "" {
			t.Error(b.refused)
		}
		want := lossy.Fields(of, &lossy.Rules{Format: lossy.Format{Self: []reflect.Type{reflect.TypeFor[binaryMethods]()}, Promotes: true}})
		if !reflect.DeepEqual(b.lost, want) {
			t.Errorf("%v: got %q, want %q", of, b.lost, want)
		}
	}
}

// tape is a generator's choices, one byte or eight each.
type tape struct{ data []byte }

// IntN returns the next choice, and 0 at the end.
func (t *tape) IntN(n int) int {
	u := uint64(0)
	for range 8 {
		if len(t.data) == 0 {
			break
		}
		u = u<<8 | uint64(t.data[0])
		t.data = t.data[1:]
		if n <= 256 {
			break
		}
	}
	return int(u % uint64(n))
}

// FuzzRoundTrip makes up a type and a value of it from the input.
func FuzzRoundTrip(f *testing.F) {
	f.Add(uint8(0), []byte("abc"))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range uint8(20) {
		seed := make([]byte, 200)
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(i, seed)
	}
	f.Fuzz(func(t *testing.T, depth uint8, data []byte) {
		c := &tape{data}
		of := typeOf(c, int(depth%4))
		p := reflect.New(of)
		fill(c, p.Elem(), 4)
		roundTripOf(t, planOf(t, of), p)
	})
}
