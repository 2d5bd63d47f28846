package compact_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/compact"
)

func TestDecodeRefuses(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<38)
	tests := []struct {
		name   string
		decode func() error
		want   error
	}{
		{"nothing", try[int](), codec.ErrShort},
		{"a byte too many", try[int](0, 0), codec.ErrLong},
		{"a longer form of a number", try[int](0x80, 0), codec.ErrMalformed},
		{"a number of 11 bytes", try[uint64](bytes.Repeat([]byte{0xff}, 11)...), codec.ErrRange},
		{"a number too large", try[int16](0x80, 0x80, 4), codec.ErrRange},
		{"an unsigned number too large", try[uint16](0x80, 0x80, 4), codec.ErrRange},
		{"a number too large in a slice", try[[]int32](2, 0x80, 0x80, 0x80, 0x80, 0x10), codec.ErrRange},
		{"a bool of 2", try[bool](2), codec.ErrMalformed},
		{"a pointer of 2", try[*int](2, 0), codec.ErrMalformed},
		{"half a float", try[float64](1, 2, 3, 4), codec.ErrShort},
		{"a string without an end", try[string](5, 'a'), codec.ErrShort},
		{"a key twice", try[map[string]string](3, 1, 'a', 0, 1, 'a', 0), codec.ErrMalformed},
		{"a key twice in another map", try[map[int][]int](3, 2, 0, 2, 0), codec.ErrMalformed},
		{"no byte for an element without bytes", try[[]struct{}](2), codec.ErrShort},
		{"another byte for an element without bytes", try[[]struct{}](2, 1), codec.ErrMalformed},
		{"two entries without bytes", try[map[struct{}]struct{}](3, 0, 0), codec.ErrMalformed},
		{"a nanosecond too many", try[time.Time](append([]byte{0}, binary.AppendUvarint(nil, 2e9)...)...), codec.ErrMalformed},
		{"a zone too far", try[time.Time](append([]byte{0, 1}, binary.AppendVarint(nil, 1<<31)...)...), codec.ErrRange},
		{"a huge string", try[string](huge...), codec.ErrShort},
		{"huge bytes", try[[]byte](huge...), codec.ErrShort},
		{"huge strings", try[[]string](huge...), codec.ErrShort},
		{"a huge slice", try[[]tree](huge...), codec.ErrShort},
		{"a huge slice of nothing", try[[]struct{}](huge...), codec.ErrShort},
		{"a huge map", try[map[string]string](huge...), codec.ErrShort},
		{"a huge map of slices", try[map[int][]int](huge...), codec.ErrShort},
		{"more elements than bytes", try[[]float64](4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), codec.ErrShort},
		{"no text", try[rude](6, 'R', 'E', 'F', 'U', 'S', 'E'), codec.ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			allocates(t, 1<<20, func() { err = tt.decode() })
			var e *codec.Error
			if !errors.As(err, &e) || e.Op != "decode" || !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func try[V any](data ...byte) func() error {
	return func() error {
		_, err := compact.New[V]().Decode(data)
		return err
	}
}

func allocates(t *testing.T, most uint64, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > most {
		t.Errorf("%d bytes allocated; want at most %d", grown, most)
	}
}

// Each length is at most the number of bytes left. That alone does not bound the sum of
// all lengths: the bytes that later siblings need must be set aside.
func TestNestedLengthsShareTheInput(t *testing.T) {
	type nest []nest
	const size = 1 << 16
	var data []byte
	for i := range 900 {
		data = binary.AppendUvarint(data, size-5000-uint64(i)*3)
	}
	data = append(data, make([]byte, size-len(data))...)
	c := compact.New[nest]()
	allocates(t, 100*size, func() {
		if _, err := c.Decode(data); err == nil {
			t.Error("accepted")
		}
	})
	type nested map[int]nested
	byKey := compact.New[nested]()
	allocates(t, 200*size, func() {
		if _, err := byKey.Decode(data); err == nil {
			t.Error("accepted")
		}
	})
}

func TestEveryCutIsRefused(t *testing.T) {
	c := compact.New[*many]()
	data := encode(t, c, sampleMany())
	for n := range data {
		if got, err := c.Decode(data[:n]); err == nil || got != nil {
			t.Fatalf("%d of %d bytes are accepted as %+v", n, len(data), got)
		}
	}
}

func TestDamageIsRefusedOrAnotherValue(t *testing.T) {
	c := compact.New[*many]()
	data := encode(t, c, sampleMany())
	for i := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			settle(t, c, damaged)
		}
	}
}

// settle checks that accepted input is a form of its value, and that Decode and
// DecodeAlias agree.
func settle[V any](t *testing.T, c codec.Codec[V], data []byte) {
	t.Helper()
	kept := bytes.Clone(data)
	v, err := c.Decode(data)
	w, err2 := c.(codec.Aliaser[V]).DecodeAlias(data)
	if (err == nil) != (err2 == nil) {
		t.Fatalf("%x: %v when copied, %v when aliased", data, err, err2)
	}
	if err != nil {
		var e *codec.Error
		if !reflect.ValueOf(&v).Elem().IsZero() || !reflect.ValueOf(&w).Elem().IsZero() || !errors.As(err, &e) {
			t.Fatalf("%x: %v, and yet a value: %+v", data, err, v)
		}
		return
	}
	// Maps have no order, and a type that encodes itself may have several forms.
	again := encode(t, c, v)
	aliased := encode(t, c, w)
	if len(again) != len(aliased) {
		t.Fatalf("%x becomes %x when copied, %x when aliased", data, again, aliased)
	}
	if _, err := c.Decode(again); err != nil {
		t.Fatalf("%x becomes %x, which is refused: %v", data, again, err)
	}
	if !bytes.Equal(data, kept) {
		t.Fatalf("%x was changed to %x", kept, data)
	}
}

// exact checks that accepted input is the only form of its value.
func exact[V any](t *testing.T, c codec.Codec[V], data []byte) {
	t.Helper()
	v, err := c.Decode(data)
	if err != nil {
		return
	}
	if again := encode(t, c, v); !bytes.Equal(again, data) {
		t.Fatalf("%x decodes to %+v, which encodes to %x", data, v, again)
	}
}

// flat has fields of all kinds except maps, because the entries of a map have no order.
type flat struct {
	A int
	B []string
	C *flat
	D time.Time
	E [2]uint16
	F []struct{}
	G bool
	H []flat
	I []int32
	J float32
}

func TestAcceptedInputIsTheOnlyForm(t *testing.T) {
	c := compact.New[flat]()
	data := encode(t, c, flat{
		A: -1000, B: []string{"", "x"}, C: &flat{D: time.Unix(5, 6).In(time.FixedZone("", 60))}, D: time.Unix(7, 8).UTC(),
		E: [2]uint16{1, 1000}, F: make([]struct{}, 2), G: true, H: make([]flat, 2), I: []int32{1000, -1000}, J: 1,
	})
	r := rand.New(rand.NewPCG(1, 1))
	for range 50_000 {
		damaged := bytes.Clone(data)
		for range 1 + r.IntN(3) {
			damaged[r.IntN(len(damaged))] = byte(r.Uint32() >> r.IntN(8))
		}
		exact(t, c, damaged)
	}
}

// FuzzDecode decodes any bytes. Accepted input is the only form of its value.
func FuzzDecode(f *testing.F) {
	all, flats, trees := compact.New[*many](), compact.New[flat](), compact.New[tree]()
	f.Add(encode(f, all, sampleMany()))
	f.Add(encode(f, all, &many{}))
	f.Add(encode(f, flats, flat{C: &flat{}, B: []string{"a"}, H: make([]flat, 2)}))
	f.Add(encode(f, trees, *sampleMany().Tree))
	f.Add(bytes.Repeat([]byte{0, 1}, 2000))
	f.Add(bytes.Repeat([]byte{3}, 100))
	f.Fuzz(func(t *testing.T, data []byte) {
		settle(t, all, data)
		settle(t, trees, data)
		exact(t, flats, data)
	})
}
