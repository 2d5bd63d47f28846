package codec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/strata-cache/strata/codec"
)

type address struct {
	Street string `json:"street"`
	Number int    `json:"number,omitempty"`
}

type user struct {
	ID      int64             `json:"id"`
	Name    string            `json:"name"`
	Tags    []string          `json:"tags"`
	Home    *address          `json:"home"`
	Ratings map[string]uint16 `json:"ratings"`
}

func sampleUser() user {
	return user{ID: -7, Name: "A <b> & c", Tags: []string{"x"}, Home: &address{Street: "S", Number: 3}, Ratings: map[string]uint16{"q": 9}}
}

// roundTrip appends v after a prefix and decodes the bytes after the prefix.
func roundTrip[V any](t *testing.T, c codec.Codec[V], v V) {
	t.Helper()
	data, err := c.Append([]byte("prefix"), v)
	if err != nil {
		t.Fatalf("%s: append: %v", c.Name(), err)
	}
	rest, ok := bytes.CutPrefix(data, []byte("prefix"))
	if !ok {
		t.Fatalf("%s: append lost the contents of dst: %q", c.Name(), data)
	}
	got, err := c.Decode(rest)
	if err != nil {
		t.Fatalf("%s: decode: %v", c.Name(), err)
	}
	if !reflect.DeepEqual(got, v) {
		t.Fatalf("%s: got %v, want %v", c.Name(), got, v)
	}
}

func TestValuesSurviveTheRoundTrip(t *testing.T) {
	roundTrip(t, codec.JSON[user](), sampleUser())
	roundTrip(t, codec.JSON[*user](), nil)
	roundTrip(t, codec.JSON[map[string]any](), map[string]any{"a": 1.5, "b": nil})
	roundTrip(t, codec.JSON[json.RawMessage](), json.RawMessage(`{"a":1}`))
	roundTrip(t, codec.Bytes(), []byte{0, 255})
	roundTrip(t, codec.Bytes(), []byte{})
	roundTrip(t, codec.String(), "\xff\x00ü")
	roundTrip(t, codec.Integer[int8](), math.MinInt8)
	roundTrip(t, codec.Integer[int64](), math.MinInt64)
	roundTrip(t, codec.Integer[int64](), math.MaxInt64)
	roundTrip(t, codec.Integer[uint64](), math.MaxUint64)
	roundTrip(t, codec.Integer[uint8](), 0)
}

func TestDecodeRefuses(t *testing.T) {
	over := append(bytes.Repeat([]byte{255}, 9), 0x7f)
	u8, i8, i64 := codec.Integer[uint8](), codec.Integer[int8](), codec.Integer[int64]()
	js, jn := codec.JSON[user](), codec.JSON[int]()
	tests := []struct {
		name   string
		decode func() error
		want   error
	}{
		{"integer empty", func() error { _, err := i64.Decode(nil); return err }, codec.ErrShort},
		{"integer cut", func() error { _, err := i64.Decode([]byte{0x80}); return err }, codec.ErrShort},
		{"integer with a tail", func() error { _, err := i64.Decode([]byte{1, 1}); return err }, codec.ErrLong},
		{"integer in a longer form", func() error { _, err := i64.Decode([]byte{0x81, 0}); return err }, codec.ErrMalformed},
		{"integer over 64 bits", func() error { _, err := i64.Decode(over); return err }, codec.ErrRange},
		{"256 as uint8", func() error { _, err := u8.Decode([]byte{0x80, 2}); return err }, codec.ErrRange},
		{"128 as int8", func() error { _, err := i8.Decode([]byte{0x80, 2}); return err }, codec.ErrRange},
		{"json empty", func() error { _, err := js.Decode(nil); return err }, nil},
		{"json cut", func() error { _, err := js.Decode([]byte(`{"id":1`)); return err }, nil},
		{"json with a tail", func() error { _, err := js.Decode([]byte(`{}{}`)); return err }, nil},
		{"json of another kind", func() error { _, err := js.Decode([]byte(`{"id":"secret"}`)); return err }, nil},
		{"json number too large", func() error { _, err := codec.JSON[int8]().Decode([]byte(`300`)); return err }, nil},
		{"json null for a struct", func() error { _, err := js.Decode([]byte("null")); return err }, codec.ErrMalformed},
		{"json null for a number", func() error { _, err := jn.Decode([]byte(" null\n")); return err }, codec.ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.decode()
			if err == nil {
				t.Fatal("accepted")
			}
			var e *codec.Error
			if !errors.As(err, &e) || e.Op != "decode" || e.Type == "" {
				t.Fatalf("not an *Error with its place: %#v", err)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestErrorsQuoteNoValues(t *testing.T) {
	type secret struct{ N int8 }
	_, err := codec.JSON[secret]().Decode([]byte(`{"N":12345}`))
	if err == nil || strings.Contains(err.Error(), "12345") {
		t.Errorf("got %v", err)
	}
	_, err = codec.JSON[map[string]int]().Decode([]byte(`{"alice@example.com":"x"}`))
	if err == nil || strings.Contains(err.Error(), "alice") || !strings.Contains(err.Error(), "does not fit int") {
		t.Errorf("got %v", err)
	}
	_, err = codec.JSON[rude]().Decode([]byte(`"hunter2"`))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	_, err = codec.JSON[float64]().Append(nil, math.Inf(1))
	if err == nil {
		t.Error("infinity was encoded as JSON")
	}
}

func TestFailedDecodeReturnsZero(t *testing.T) {
	v, err := codec.JSON[user]().Decode([]byte(`{"name":"half","id":"x"}`))
	if err == nil || !reflect.DeepEqual(v, user{}) {
		t.Fatalf("got %v, %v: a half-filled value", v, err)
	}
}

// rude panics with its input.
type rude struct{ S string }

func (r *rude) UnmarshalJSON(data []byte) error { panic(string(data)) }
func (r rude) MarshalJSON() ([]byte, error)     { panic(r.S) }

func TestPanicOfAMethodIsAnError(t *testing.T) {
	c := codec.JSON[rude]()
	_, err := c.Decode([]byte("1"))
	var p *codec.PanicError
	if !errors.As(err, &p) || p.Value != "1" || len(p.Stack) == 0 {
		t.Fatalf("decode: got %v", err)
	}
	dst := []byte("abc")
	out, err := c.Append(dst, rude{"x"})
	if !errors.As(err, &p) || string(out) != "abc" {
		t.Fatalf("append: got %q, %v", out, err)
	}
}

func TestFailedAppendReturnsDst(t *testing.T) {
	out, err := codec.JSON[func()]().Append([]byte("abc"), func() {})
	if err == nil || string(out) != "abc" {
		t.Fatalf("got %q, %v", out, err)
	}
}

func TestDecodedBytesAreACopy(t *testing.T) {
	for _, c := range []codec.Codec[[]byte]{codec.Bytes(), codec.JSON[[]byte]()} {
		data, _ := c.Append(nil, []byte("value"))
		v, err := c.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		clear(data)
		if string(v) != "value" {
			t.Errorf("%s: value changed with the buffer: %q", c.Name(), v)
		}
	}
}

func TestAliasedValuesReferToTheInput(t *testing.T) {
	data := []byte("valueTAIL")
	for _, c := range []codec.Codec[[]byte]{codec.Bytes(), codec.WithName(codec.Bytes(), "n"), codec.Versioned(codec.Bytes())} {
		v, err := c.(codec.Aliaser[[]byte]).DecodeAlias(data[:5])
		if err != nil || &v[0] != &data[0] || len(v) != 5 || cap(v) != 5 {
			t.Errorf("%T: %q with capacity %d, %v; want a part of the input", c, v, cap(v), err)
		}
	}
	for _, c := range []codec.Codec[string]{codec.String(), codec.WithName(codec.String(), "n")} {
		s, err := c.(codec.Aliaser[string]).DecodeAlias(data[:5])
		if err != nil || s != "value" || unsafe.StringData(s) != &data[0] {
			t.Errorf("%T: %q, %v; want a part of the input", c, s, err)
		}
	}
	if v, err := codec.Bytes().(codec.Aliaser[[]byte]).DecodeAlias(nil); v == nil || err != nil {
		t.Errorf("%v, %v; want an empty slice", v, err)
	}
	if s, err := codec.String().(codec.Aliaser[string]).DecodeAlias(nil); s != "" || err != nil {
		t.Errorf("%q, %v; want an empty string", s, err)
	}
}

func TestCodecWithoutAliasesIsCopiedFromBehindAnother(t *testing.T) {
	c := codec.WithName(codec.JSON[user](), "n")
	data, _ := c.Append(nil, sampleUser())
	v, err := c.(codec.Aliaser[user]).DecodeAlias(data)
	clear(data)
	if err != nil || !reflect.DeepEqual(v, sampleUser()) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestJSONUsesPointerMethods(t *testing.T) {
	data, err := codec.JSON[shout]().Append(nil, shout{"a"})
	if err != nil || string(data) != `"a!"` {
		t.Fatalf("got %s, %v", data, err)
	}
}

type shout struct{ s string }

func (s *shout) MarshalJSON() ([]byte, error) { return json.Marshal(s.s + "!") }

func (s *shout) UnmarshalJSON(data []byte) error {
	err := json.Unmarshal(data, &s.s)
	s.s = strings.TrimSuffix(s.s, "!")
	return err
}

func FuzzDecodeJSON(f *testing.F) {
	c := codec.JSON[user]()
	seed, _ := c.Append(nil, sampleUser())
	f.Add(seed)
	f.Add([]byte(`{"home":null}`))
	f.Add([]byte("null"))
	f.Add(bytes.Repeat([]byte("["), 20000))
	f.Fuzz(func(t *testing.T, data []byte) { settle(t, c, data) })
}

func FuzzDecodeInteger(f *testing.F) {
	for _, seed := range []string{"", "\x00", "\x80\x01", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x80\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		exact(t, codec.Integer[int8](), data)
		exact(t, codec.Integer[uint16](), data)
		exact(t, codec.Integer[int64](), data)
		exact(t, codec.Integer[uint64](), data)
	})
}

func FuzzDecodeRaw(f *testing.F) {
	f.Add([]byte("\xffabc"))
	f.Fuzz(func(t *testing.T, data []byte) {
		exact(t, codec.Bytes(), data)
		exact(t, codec.String(), data)
	})
}

// settle checks an accepted input: the encoding of its value decodes to a value with
// the same encoding.
func settle[V any](t *testing.T, c codec.Codec[V], data []byte) {
	t.Helper()
	v, err := c.Decode(data)
	if err != nil {
		return
	}
	roundTrip(t, c, v)
}

// exact checks that an accepted input is the only form of its value.
func exact[V any](t *testing.T, c codec.Codec[V], data []byte) {
	t.Helper()
	v, err := c.Decode(data)
	if err != nil {
		return
	}
	if again, err := c.Append(nil, v); err != nil || !bytes.Equal(again, data) {
		t.Fatalf("%s: %x decodes to %v, which encodes to %x (%v)", c.Name(), data, v, again, err)
	}
}

// BenchmarkJSON measures one encoding into a large enough buffer, and one decoding, of
// a struct with a slice, a map and a pointer.
func BenchmarkJSON(b *testing.B) {
	c, v := codec.JSON[user](), sampleUser()
	data, _ := c.Append(nil, v)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		buf := make([]byte, 0, 2*len(data))
		for b.Loop() {
			if _, err := c.Append(buf, v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
