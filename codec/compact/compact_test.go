package compact_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/compact"
	"github.com/strata-cache/strata/stratatest"
)

type colour uint8

type base struct {
	ID      int64
	private string
}

type note struct {
	base
	*extra
	time.Time
	Text string
}

type extra struct{ More []string }

type tree struct {
	Kids   []tree
	Next   *tree
	ByName map[string]*tree
	V      int
}

// many has a field of each kind.
type many struct {
	I    int
	I8   int8
	I16  int16
	I32  int32
	I64  int64
	U    uint
	U8   colour
	U16  uint16
	U32  uint32
	U64  uint64
	Ptr  uintptr
	F32  float32
	F64  float64
	C64  complex64
	C128 complex128
	B    bool
	S    string
	Raw  []byte
	Hash [4]byte
	Pair [2]string
	Ints []int32
	Cols []colour
	Grid [][]float32
	Set  map[string]struct{}
	By   map[int16][]string
	Tags map[string]string
	Home *note
	Tree *tree
	At   time.Time
	From netip.Addr
	Sum  big.Int
	Void []struct{}
	mu   sync.Mutex
}

func sampleMany() *many {
	return &many{
		I: -1, I8: -128, I16: math.MinInt16, I32: math.MaxInt32, I64: math.MinInt64,
		U: 1, U8: 255, U16: math.MaxUint16, U32: math.MaxUint32, U64: math.MaxUint64, Ptr: 7,
		F32: 0.5, F64: math.Inf(-1), C64: 1i, C128: complex(1, -2), B: true, S: "\xff\x00ü",
		Raw: []byte{}, Hash: [4]byte{1, 2, 3, 4}, Pair: [2]string{"", "b"},
		Ints: []int32{0, 1, -1, 127, -128, 1 << 20}, Cols: []colour{1, 2}, Grid: [][]float32{nil, {}, {1, 2}},
		Set: map[string]struct{}{"a": {}, "": {}}, By: map[int16][]string{-5: {"x", "y"}, 0: nil, 9: {}},
		Tags: map[string]string{"k": "v", "": strings.Repeat("long ", 100)},
		Home: &note{base: base{ID: 3}, extra: &extra{[]string{"m"}}, Time: time.Unix(5, 6).UTC(), Text: "t"},
		Tree: &tree{V: 1, Kids: []tree{{V: 2}, {V: 3, Next: &tree{V: 4}}}, ByName: map[string]*tree{"n": nil, "o": {V: 5}}},
		At:   time.Date(2026, 11, 23, 1, 2, 3, 4, time.UTC), From: netip.MustParseAddr("::1"), Sum: *big.NewInt(math.MaxInt64),
		Void: make([]struct{}, 3),
	}
}

func encode[V any](t testing.TB, c codec.Codec[V], v V) []byte {
	t.Helper()
	data, err := c.Append(nil, v)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return data
}

// roundTrip checks that a value comes back, copied and aliased, with a new state and
// with a used one.
func roundTrip[V any](t *testing.T, v V) {
	t.Helper()
	c := compact.New[V]()
	for range 3 {
		data := encode(t, c, v)
		for _, decode := range []func([]byte) (V, error){c.Decode, c.(codec.Aliaser[V]).DecodeAlias} {
			got, err := decode(data)
			if err != nil {
				t.Fatalf("%T: decode: %v", v, err)
			}
			if !reflect.DeepEqual(got, v) {
				t.Fatalf("%T: got %+v, want %+v", v, got, v)
			}
		}
	}
}

func TestValuesSurviveTheRoundTrip(t *testing.T) {
	roundTrip(t, sampleMany())
	roundTrip(t, &many{Void: []struct{}{}, Ints: []int32{}, Set: map[string]struct{}{}, By: map[int16][]string{}, Tags: map[string]string{}})
	roundTrip(t, sampleProfile())
	roundTrip(t, profile{})
	roundTrip[*many](t, nil)
	roundTrip(t, new(*many))
	roundTrip(t, struct{}{})
	roundTrip(t, [0]int{})
	roundTrip(t, [3]struct{}{})
	roundTrip(t, []int(nil))
	roundTrip(t, []int{})
	roundTrip(t, []*int{nil, new(int)})
	roundTrip(t, []bool{true, false})
	roundTrip(t, []int64{math.MinInt64, math.MaxInt64})
	roundTrip(t, []uint64{0, math.MaxUint64})
	roundTrip(t, []uint32{0, math.MaxUint32})
	roundTrip(t, []float64{0, math.MaxFloat64})
	roundTrip(t, []complex64{1i})
	roundTrip(t, [][0]int{{}, {}})
	roundTrip(t, map[string]int{"a": -1})
	roundTrip(t, map[string]int64(nil))
	roundTrip(t, map[string]int64{"a": -1, "b": math.MaxInt64})
	roundTrip(t, map[string]float64{"a": -1})
	roundTrip(t, map[string]bool{"a": true, "b": false})
	roundTrip(t, map[int]string{-1: "a"})
	roundTrip(t, map[int64]string{math.MinInt64: ""})
	roundTrip(t, map[colour]string{1: "a"})
	roundTrip(t, map[colour]bool{1: true, 2: false})
	roundTrip(t, map[[2]string]time.Time{{"a", "b"}: time.Unix(1, 2).UTC()})
	roundTrip(t, map[struct{}]struct{}{{}: {}})
	roundTrip(t, map[netip.Addr]netip.Prefix{netip.MustParseAddr("1.2.3.4"): netip.MustParsePrefix("1.2.0.0/16")})
	roundTrip(t, []map[int]*tree{{1: {V: 2}}, nil})
	roundTrip(t, strings.Repeat("x", 300))
	roundTrip(t, [4]byte{1, 2, 3, 4})
	roundTrip(t, time.Time{})
	roundTrip(t, *big.NewInt(-7))
}

func TestCodecConforms(t *testing.T) {
	stratatest.TestCodec(t, compact.New[*many](), nil, &many{}, sampleMany())
	stratatest.TestCodec(t, compact.New[profile](), profile{}, sampleProfile())
	stratatest.TestCodec(t, compact.New[tree](), tree{}, *sampleMany().Tree)
	stratatest.TestCodec(t, compact.New[string](), "", "a", strings.Repeat("b", 1000))
	stratatest.TestCodec(t, compact.New[[]byte](), nil, []byte{}, []byte("a"))
	stratatest.TestCodec(t, compact.New[map[string][]int](), nil, map[string][]int{"a": {1}, "b": nil})
}

// The bytes of this version. A change of them needs another name of the codec, because
// values in a shared tier would be misread.
func TestBytesOfTheFormat(t *testing.T) {
	type all struct {
		I   int
		U   uint16
		B   bool
		Y   int8
		F   float32
		C   complex64
		S   string
		Raw []byte
		L   []int32
		Nil []int32
		A   [2]uint8
		M   map[string]int
		P   *int8
		Q   *int8
		T   time.Time
		Z   time.Time
		N   netip.Addr
		E   []struct{}
		base
	}
	one := int8(1)
	data := encode(t, compact.New[all](), all{
		I: -300, U: 300, B: true, Y: -1, F: 1, C: 2i, S: "hé", Raw: []byte{9}, L: []int32{-1, 64},
		A: [2]uint8{5, 6}, M: map[string]int{"k": 2}, P: &one,
		T: time.Unix(1000, 5).UTC(), Z: time.Unix(-1, 0).In(time.FixedZone("", -3600)),
		N: netip.AddrFrom4([4]byte{1, 2, 3, 4}), E: make([]struct{}, 2), base: base{ID: 4},
	})
	const want = "d704" + "ac02" + "01" + "ff" + "0000803f" + "0000000000000040" + "0368c3a9" + "0209" +
		"030180" + "01" + "00" + "0506" + "02016b04" + "0101" + "00" + "d00f0a" + "01" + "01" + "9f38" + "0401020304" + "030000" + "08"
	if got := hex.EncodeToString(data); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if name := compact.New[int]().Name(); name != "compact" {
		t.Errorf("name: %q", name)
	}
}

func TestTimesKeepInstantAndOffset(t *testing.T) {
	c := compact.New[[]time.Time]()
	amsterdam, lmt := time.FixedZone("CET", 3600), time.FixedZone("LMT", 1172)
	in := []time.Time{
		time.Now(),
		{},
		time.Unix(0, 0), time.Unix(1, 999999999).In(amsterdam), time.Unix(-1, 1).In(lmt),
		time.Unix(math.MaxInt64, 0).UTC(), time.Unix(math.MinInt64, 0).UTC(), time.Unix(5, 0).In(time.FixedZone("", 0)),
	}
	out, err := c.Decode(encode(t, c, in))
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range out {
		_, offset := got.Zone()
		_, want := in[i].Zone()
		if !got.Equal(in[i]) || offset != want {
			t.Errorf("%v became %v", in[i], got)
		}
		if utc := in[i].Location() == time.UTC; utc != (got.Location() == time.UTC) {
			t.Errorf("%v became %v: UTC and other zones are not kept apart", in[i], got)
		}
		if in[i].Location() == time.Local && got.Location() != time.Local {
			t.Errorf("%v became %v: the local zone is not kept", in[i], got)
		}
	}
	roundTrip(t, time.Unix(1, 2).UTC())
}

func TestZoneTooFarFromUTCIsRefused(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("an int holds no such offset")
	}
	offset := math.MaxInt32
	far := time.Unix(0, 0).In(time.FixedZone("", offset+1))
	if _, err := compact.New[[]time.Time]().Append(nil, []time.Time{far}); !errors.Is(err, codec.ErrRange) {
		t.Errorf("in a slice: %v", err)
	}
	if out, err := compact.New[time.Time]().Append([]byte("abc"), far); !errors.Is(err, codec.ErrRange) || string(out) != "abc" {
		t.Errorf("alone: %q, %v", out, err)
	}
}

func TestFieldsOfAnEmbeddedTypeThatEncodesItselfAreKept(t *testing.T) {
	type event struct {
		time.Time
		Name string
	}
	roundTrip(t, event{time.Unix(1, 2).UTC(), "launch"})
}

func TestSharedPointersBecomeCopies(t *testing.T) {
	shared := &tree{V: 1}
	c := compact.New[[]*tree]()
	got, err := c.Decode(encode(t, c, []*tree{shared, shared}))
	if err != nil || got[0] == got[1] || got[0].V != 1 || got[1].V != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestUnsupportedTypesAreNamedByTheirPath(t *testing.T) {
	type user struct {
		Name string
		Meta any
	}
	type team struct{ Members map[string][]*user }
	type hooked struct{ Hook func() }
	type clock time.Time
	type account struct{ Opened clock }
	type keyed struct{ By map[*int]int }
	for want, c := range map[string]any{
		"user.Meta: interface is not supported, use codec/gob":             compact.New[user](),
		"team.Members[][].Meta: interface is not supported, use codec/gob": compact.New[*team](),
		"value: interface is not supported, use codec/gob":                 compact.New[any](),
		"value[]: interface is not supported, use codec/gob":               compact.New[map[string]any](),
		"hooked.Hook: func is not supported":                               compact.New[hooked](),
		"value: chan is not supported":                                     compact.New[chan int](),
		"value[]: unsafe.Pointer is not supported":                         compact.New[[]unsafe.Pointer](),
		"account.Opened: compact_test.clock has no exported field":         compact.New[account](),
		"keyed.By[key]: keys with pointers are not supported":              compact.New[keyed](),
		"value[key]: interface is not supported, use codec/gob":            compact.New[map[any]int](),
	} {
		var e *codec.Error
		err := c.(codec.Checker).Check()
		if !errors.As(err, &e) || !strings.HasPrefix(e.Reason, want) || e.Codec != "compact" || e.Type == "" {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	c := compact.New[user]()
	if out, err := c.Append([]byte("abc"), user{}); err == nil || string(out) != "abc" {
		t.Errorf("append: got %q, %v", out, err)
	}
	if _, err := c.Decode([]byte{0, 0}); err == nil {
		t.Error("decode accepts")
	}
	if err := compact.New[*many]().(codec.Checker).Check(); err != nil {
		t.Errorf("many: %v", err)
	}
}

func TestRecursionIsBounded(t *testing.T) {
	list := func(n int) *tree {
		var l *tree
		for range n {
			l = &tree{Next: l}
		}
		return l
	}
	roundTrip(t, list(compact.MaxDepth))
	ring := &tree{}
	ring.Kids = []tree{{Next: ring}, {Next: ring}}
	c := compact.New[*tree]()
	for what, v := range map[string]*tree{"too long": list(compact.MaxDepth + 2), "ring": ring} {
		out, err := c.Append([]byte("abc"), v)
		if err == nil || string(out) != "abc" || !strings.Contains(err.Error(), "nested too deep, or in itself") {
			t.Errorf("%s: %q, %v", what, out, err)
		}
	}
	deep := bytes.Repeat([]byte{0, 1}, 1<<20) // no kids, a next one, and so on
	if _, err := c.Decode(append([]byte{1}, deep...)); err == nil || !strings.Contains(err.Error(), "nested too deep") {
		t.Errorf("deep input: %v", err)
	}
	type self *self
	if out, err := compact.New[self]().Append(nil, nil); err != nil || len(out) != 1 {
		t.Errorf("nil of a pointer to itself: %x, %v", out, err)
	}
	var knot self
	knot = &knot
	if _, err := compact.New[self]().Append(nil, knot); err == nil {
		t.Error("a pointer to itself is encoded")
	}
}

// rude panics, or refuses, on request.
type rude struct{ mood string }

func (r rude) MarshalBinary() ([]byte, error) {
	switch r.mood {
	case "panic":
		panic("hunter2")
	case "refuse":
		return nil, errors.New("hunter2")
	}
	return []byte(r.mood), nil
}

func (r *rude) UnmarshalBinary(data []byte) error {
	switch string(data) {
	case "PANIC":
		panic("hunter2")
	case "REFUSE":
		return errors.New("hunter2")
	}
	r.mood = string(data)
	return nil
}

func TestPanicsAndErrorsOfMethodsAreErrors(t *testing.T) {
	c := compact.New[[]rude]()
	for _, mood := range []string{"panic", "refuse", "PANIC", "REFUSE"} {
		out, err := c.Append([]byte("abc"), []rude{{"calm"}, {mood}})
		if string(out) != "abc" { // upper case is refused by UnmarshalBinary
			t.Errorf("%s: %q", mood, out)
		}
		if mood == strings.ToUpper(mood) {
			other := strings.Repeat("x", len(mood))
			if out, err = c.Append(nil, []rude{{"calm"}, {other}}); err != nil {
				t.Fatal(err)
			}
			var v []rude
			if v, err = c.Decode(bytes.Replace(out, []byte(other), []byte(mood), 1)); v != nil {
				t.Errorf("%s: a value: %v", mood, v)
			}
		}
		var e *codec.Error
		if !errors.As(err, &e) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", mood, err)
		}
		var p *codec.PanicError
		if strings.EqualFold(mood, "panic") != errors.As(err, &p) {
			t.Errorf("%s: %v", mood, err)
		}
	}
	roundTrip(t, []rude{{"calm"}})
	roundTrip(t, map[string]rude{"a": {"calm"}, "b": {}})
	roundTrip(t, rude{"calm"})
}

// keeper keeps the address of its receiver.
type keeper struct {
	n    byte
	self *keeper
}

func (k *keeper) MarshalBinary() ([]byte, error) { return []byte{k.n}, nil }
func (k *keeper) UnmarshalBinary(data []byte) error {
	k.n, k.self = data[0], k
	return nil
}

func TestReceiversBelongToOneValue(t *testing.T) {
	single, byName := compact.New[keeper](), compact.New[map[int]keeper]()
	var all []keeper
	for i := range byte(10) {
		v, err := single.Decode(encode(t, single, keeper{n: i}))
		m, err2 := byName.Decode(encode(t, byName, map[int]keeper{1: {n: 100 + i}, 2: {n: 200 + i}}))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		all = append(all, v, m[1], m[2])
	}
	for _, k := range all {
		if k.self.n != k.n {
			t.Fatalf("the receiver of value %d belongs to value %d now", k.n, k.self.n)
		}
	}
}

func TestAliasesPointIntoTheInputAndCopiesDoNot(t *testing.T) {
	type value struct {
		S string
		B []byte
		T string
	}
	c := compact.New[value]()
	for _, size := range []int{1, 100, 200, 5000} {
		text := strings.Repeat("x", size)
		data := encode(t, c, value{text, []byte(text), text})
		inside := func(p *byte) bool {
			from, at := uintptr(unsafe.Pointer(&data[0])), uintptr(unsafe.Pointer(p))
			return at >= from && at < from+uintptr(len(data))
		}
		v, err := c.(codec.Aliaser[value]).DecodeAlias(data)
		if err != nil || !inside(unsafe.StringData(v.S)) || !inside(&v.B[0]) || cap(v.B) != len(v.B) {
			t.Errorf("aliased: %+v, %v", v, err)
		}
		v, err = c.Decode(data)
		if err != nil || inside(unsafe.StringData(v.S)) || inside(&v.B[0]) {
			t.Errorf("copied: %+v, %v", v, err)
		}
		_ = append(v.B, "more"...)
		clear(v.B)
		clear(data)
		if v.S != text || v.T != text {
			t.Errorf("strings beside bytes that were changed: %q, %q", v.S, v.T)
		}
	}
}

func TestValuesShareNoMemoryWithOtherValues(t *testing.T) {
	type value struct {
		S string
		N [100]byte
	}
	c := compact.New[value]()
	var last *byte
	for range 10 {
		v, err := c.Decode(encode(t, c, value{S: "ab"}))
		if err != nil {
			t.Fatal(err)
		}
		if at := unsafe.StringData(v.S); last != nil && uintptr(unsafe.Pointer(at)) == uintptr(unsafe.Pointer(last))+2 {
			t.Fatal("a value keeps the string of the value before in memory")
		} else {
			last = at
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := compact.New[*many]()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				want := sampleMany()
				want.ID(g*1000 + i)
				data, err := c.Append(nil, want)
				got, err2 := c.Decode(data)
				if err := errors.Join(err, err2); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func (m *many) ID(i int) { m.I = i }

func TestOneBufferTakesValuesWithoutAllocations(t *testing.T) {
	c, v := compact.New[profile](), sampleProfile()
	data := encode(t, c, v)
	buf := make([]byte, 0, 2*len(data))
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Append(buf, v) }); n > 0 {
		t.Errorf("append: %v allocations", n)
	}
	// Two slices, a map with its entries; and one for all strings.
	if n := testing.AllocsPerRun(100, func() { _, _ = c.(codec.Aliaser[profile]).DecodeAlias(data) }); n > 4 {
		t.Errorf("aliased: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Decode(data) }); n > 5 {
		t.Errorf("copied: %v allocations", n)
	}
}
