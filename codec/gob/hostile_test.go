package gob_test

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"testing"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/gob"
)

// mark returns the header of values of type V.
func mark[V any](t testing.TB, v V) []byte {
	t.Helper()
	return encode(t, gob.New[V](), v)[:4:4]
}

func TestDecodeRefuses(t *testing.T) {
	list := append(mark(t, tree{}), bytes.Repeat([]byte{2}, 1<<20)...) // Next, Next, Next ...
	huge := []byte{0, 0xfb, 0x40, 0, 0, 0, 0}                          // 2^38 elements, then the end
	tests := []struct {
		name   string
		decode func() error
	}{
		{"endless nesting", func() error { _, err := gob.New[tree]().Decode(list); return err }},
		{"huge map", func() error {
			_, err := gob.New[map[int]int]().Decode(append(mark(t, map[int]int{}), huge...))
			return err
		}},
		{"more map entries than bytes", func() error {
			_, err := gob.New[map[int]int]().Decode(append(mark(t, map[int]int{}), 0, 0xfd, 0x20, 0, 0, 1, 2))
			return err
		}},
		{"huge slice", func() error { _, err := gob.New[[]int]().Decode(append(mark(t, []int{}), huge...)); return err }},
		{"huge string", func() error { _, err := gob.New[string]().Decode(append(mark(t, ""), huge...)); return err }},
		{"field beyond the last", func() error { _, err := gob.New[money]().Decode(append(mark(t, money{}), 3, 0, 0)); return err }},
		{"number of 9 bytes", func() error {
			_, err := gob.New[uint64]().Decode(append(mark(t, uint64(0)), 0, 0xf7, 1, 2, 3, 4, 5, 6, 7, 8, 9))
			return err
		}},
		{"no zero before a number", func() error { _, err := gob.New[int]().Decode(append(mark(t, 0), 1, 2)); return err }},
		{"number too large", func() error { _, err := gob.New[int8]().Decode(append(mark(t, int8(0)), 0, 0xfe, 7, 7)); return err }},
		{"nothing", func() error { _, err := gob.New[int]().Decode(nil); return err }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := tt.decode()
			runtime.ReadMemStats(&after)
			var e *codec.Error
			if !errors.As(err, &e) || e.Op != "decode" {
				t.Errorf("got %v", err)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
				t.Errorf("%d bytes allocated", grown)
			}
		})
	}
}

func TestEveryCutIsRefused(t *testing.T) {
	register()
	everyCut(t, gob.New[order](), sampleOrder())
	everyCut(t, gob.New[holder](), sampleHolder())
	everyCut(t, gob.New[[]int](), []int{1, 1000, -3})
}

func everyCut[V any](t *testing.T, c codec.Codec[V], v V) {
	t.Helper()
	data := encode(t, c, v)
	for n := range data {
		if got, err := c.Decode(data[:n]); err == nil {
			t.Fatalf("%T: %d of %d bytes are accepted as %+v", v, n, len(data), got)
		}
	}
	if _, err := c.Decode(append(data, 0)); !errors.Is(err, codec.ErrLong) {
		t.Fatalf("%T: a byte too many: %v", v, err)
	}
}

func TestDeepestValueIsCarried(t *testing.T) {
	var list tree
	for range gob.MaxDepth - 2 {
		next := list
		list = tree{Next: &next}
	}
	c := gob.New[tree]()
	v, err := c.Decode(encode(t, c, list))
	if err != nil || v.Next == nil {
		t.Fatal(err)
	}
}

// FuzzDecodeGob decodes any bytes after a valid header. An accepted value must
// encode, and decode to the same value.
func FuzzDecodeGob(f *testing.F) {
	register()
	orders, holders := gob.New[order](), gob.New[holder]()
	f.Add(encode(f, orders, sampleOrder())[4:])
	f.Add(encode(f, orders, order{})[4:])
	f.Add(encode(f, holders, sampleHolder())[4:])
	f.Add(encode(f, holders, holder{More: map[string]any{"a": []line{{}}}})[4:])
	f.Add(bytes.Repeat([]byte{2}, 100))
	orderMark, holderMark := mark(f, order{}), mark(f, holder{})
	f.Fuzz(func(t *testing.T, data []byte) {
		settle(t, orders, append(orderMark, data...))
		settle(t, holders, append(holderMark, data...))
	})
}

func settle[V any](t *testing.T, c codec.Codec[V], data []byte) {
	t.Helper()
	v, err := c.Decode(data)
	if err != nil {
		if !reflect.ValueOf(&v).Elem().IsZero() {
			t.Fatalf("%v, and yet a value: %+v", err, v)
		}
		return
	}
	again, err := c.Append(nil, v)
	if err != nil {
		t.Fatalf("%x decodes to %+v, which does not encode: %v", data, v, err)
	}
	w, err := c.Decode(again)
	if err != nil {
		t.Fatalf("%x decodes to %+v, which encodes to %x: %v", data, v, again, err)
	}
	// The length may differ for a map, which has no order, and for an
	// interface, where the first value includes a description.
	_, open := any(v).(holder)
	if third, err := c.Append(nil, w); err != nil || !open && len(third) != len(again) {
		t.Fatalf("%x changes from one round trip to the next (%v)", data, err)
	}
}
