package gob_test

import (
	"bytes"
	stdgob "encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/gob"
)

type money struct {
	Units    int64
	Currency string
}

type order struct {
	ID      uint64
	Lines   []line
	Total   money
	Paid    *money
	At      time.Time
	Notes   map[string][]byte
	Flags   [3]bool
	Phase   complex128
	Ratio   float32
	secrets string
}

type line struct {
	Name  string
	Count int32
	Tree  *tree
}

type tree struct {
	Kids []tree
	Next *tree
	V    int
}

type shape interface{ Area() float64 }

type square struct{ Side float64 }

func (s square) Area() float64 { return s.Side * s.Side }

type nested struct {
	Inner shape
	List  []shape
}

func (nested) Area() float64 { return 0 }

type holder struct {
	Before int
	Shape  shape
	More   map[string]any
	After  string
}

func register() {
	stdgob.Register(square{})
	stdgob.Register(nested{})
	stdgob.Register(money{})
	stdgob.Register([]line{})
}

func sampleOrder() order {
	return order{
		ID:    math.MaxUint64,
		Lines: []line{{"a", -1, &tree{V: 1, Kids: []tree{{V: 2}, {V: 3, Next: &tree{V: 4}}}}}, {"b", 2, nil}},
		Total: money{-5, "EUR"},
		Paid:  &money{1, "SEK"},
		At:    time.Date(2024, 2, 29, 1, 2, 3, 4, time.UTC),
		Notes: map[string][]byte{"x": {1, 2}, "": nil},
		Flags: [3]bool{true, false, true},
		Phase: complex(1, -2),
		Ratio: 0.5,
	}
}

func sampleHolder() holder {
	return holder{
		Before: 1,
		Shape:  nested{Inner: square{2}, List: []shape{square{3}, nested{Inner: square{4}}, nil}},
		More:   map[string]any{"m": money{1, "X"}, "l": []line{{"n", 1, nil}}, "i": 7, "s": "t"},
		After:  "end",
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

// roundTrip checks that the decoded value equals the one from plain gob.
func roundTrip[V any](t *testing.T, v V) {
	t.Helper()
	var stream bytes.Buffer
	var want V
	if err := stdgob.NewEncoder(&stream).Encode(&v); err != nil {
		t.Fatal(err)
	}
	if err := stdgob.NewDecoder(&stream).Decode(&want); err != nil {
		t.Fatal(err)
	}
	c := gob.New[V]()
	for range 3 { // new encoders, then encoders from the pool
		got, err := c.Decode(encode(t, c, v))
		if err != nil {
			t.Fatalf("%T: decode: %v", v, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%T: got %+v, want %+v", v, got, want)
		}
	}
}

func TestValuesSurviveTheRoundTrip(t *testing.T) {
	register()
	roundTrip(t, sampleOrder())
	roundTrip(t, order{})
	roundTrip(t, &order{ID: 1})
	p := &money{1, "x"}
	roundTrip(t, &p)
	roundTrip(t, sampleHolder())
	roundTrip(t, holder{})
	roundTrip[shape](t, square{1})
	roundTrip[any](t, "text")
	roundTrip(t, []shape{square{1}, nested{Inner: square{2}}, nil, square{3}})
	roundTrip(t, map[string]any{"a": 1, "b": []line{{"x", 1, &tree{}}}})
	roundTrip(t, 42)
	roundTrip(t, -1)
	roundTrip(t, uint64(math.MaxUint64))
	roundTrip(t, "")
	roundTrip(t, strings.Repeat("x", 300))
	roundTrip(t, []byte{1, 2, 3})
	roundTrip(t, [4]byte{1, 2, 3, 4})
	roundTrip(t, map[money][]string{{1, "a"}: {"b"}})
	roundTrip(t, []map[int]*tree{{1: {V: 2}}})
	roundTrip(t, time.Unix(5, 0).UTC())
	roundTrip(t, *big.NewInt(math.MaxInt64))
	roundTrip(t, []complex64{1i})
	roundTrip(t, math.Inf(-1))
}

func TestValueCarriesNoDescription(t *testing.T) {
	var plain bytes.Buffer
	v := sampleOrder()
	if err := stdgob.NewEncoder(&plain).Encode(v); err != nil {
		t.Fatal(err)
	}
	data := encode(t, gob.New[order](), v)
	t.Logf("%d bytes, plain gob %d", len(data), plain.Len())
	if len(data)*2 > plain.Len() {
		t.Errorf("%d bytes, plain gob %d: less than half was expected", len(data), plain.Len())
	}
	if bytes.Contains(data, []byte("Currency")) {
		t.Error("a value carries field names")
	}
}

// encoding/gob numbers types in the order of their first use in a process. The
// values below were written by a process with other numbers; every reader must
// be able to decode them.
func TestOtherProcessesReadIt(t *testing.T) {
	register()
	type shifts struct{ A, B []money }
	encode(t, gob.New[shifts](), shifts{}) // uses up type numbers
	readsAs(t, money{-5, "EUR"}, "f19a74b50109010345555200")
	readsAs(t, holder{Before: 1, Shape: nested{Inner: square{2}}, After: "end"},
		"c8a4a4783dff8103010106686f6c64657201ff8200010401064265666f726501040001055368617065011000"+
			"01044d6f726501ff840001054166746572010c00000027ff83040101176d61705b737472696e675d696e7465"+
			"7266616365207b7d01ff8400010c0110000062ff82010201346769746875622e636f6d2f7374726174612d63"+
			"616368652f7374726174612f636f6465632f676f625f746573742e6e6573746564ff85030101066e65737465"+
			"6401ff860001020105496e6e657201100001044c69737401ff880000001eff87020101105b5d676f625f7465"+
			"73742e736861706501ff88000110000064ff865301346769746875622e636f6d2f7374726174612d63616368"+
			"652f7374726174612f636f6465632f676f625f746573742e737175617265ff890301010673717561726501ff"+
			"8a000101010453696465010800000007ff8a03014000000203656e6400")
}

func readsAs[V any](t *testing.T, want V, written string) {
	t.Helper()
	data, err := hex.DecodeString(written)
	if err != nil {
		t.Fatal(err)
	}
	got, err := gob.New[V]().Decode(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestValueOfAnotherTypeIsForeign(t *testing.T) {
	type moved struct {
		Currency string
		Units    int64
	}
	data := encode(t, gob.New[money](), money{1, "EUR"})
	_, err := gob.New[moved]().Decode(data)
	if !errors.Is(err, codec.ErrForeign) {
		t.Fatalf("got %v", err)
	}
}

// The first value in an interface includes its description. The second one must
// include it again, because a reader gets one without the other.
func TestDescriptionsDoNotLeakBetweenValues(t *testing.T) {
	register()
	write := gob.New[holder]()
	first := encode(t, write, sampleHolder())
	second := encode(t, write, sampleHolder())
	for _, data := range [][]byte{second, first, second} {
		got, err := gob.New[holder]().Decode(data)
		if err != nil || !reflect.DeepEqual(got, sampleHolder()) {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
}

func TestTypesThatGobCannotCarry(t *testing.T) {
	type self *self
	tests := []struct {
		name  string
		codec interface {
			Check() error
		}
		try func() error
	}{
		{"no exported field", gob.New[struct{ a int }]().(codec.Checker), nil},
		{"function", gob.New[func()]().(codec.Checker), nil},
		{"channel", gob.New[chan int]().(codec.Checker), nil},
		{"pointer to itself", gob.New[self]().(codec.Checker), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.codec.Check(); err == nil {
				t.Error("passes for a type that can be carried")
			}
		})
	}
	c := gob.New[func()]()
	if out, err := c.Append([]byte("abc"), nil); err == nil || string(out) != "abc" {
		t.Errorf("append: got %q, %v", out, err)
	}
	if _, err := c.Decode(make([]byte, 10)); err == nil {
		t.Error("decode accepts")
	}
	if err := gob.New[order]().(codec.Checker).Check(); err != nil {
		t.Errorf("order: %v", err)
	}
}

func TestAppendRefuses(t *testing.T) {
	type unregistered struct{ A int }
	var list tree
	for range gob.MaxDepth {
		next := list
		list = tree{Next: &next}
	}
	tests := []struct {
		name string
		try  func() ([]byte, error)
	}{
		{"nil pointer", func() ([]byte, error) { return gob.New[*order]().Append([]byte("abc"), nil) }},
		{"nil behind a pointer", func() ([]byte, error) { return gob.New[**order]().Append([]byte("abc"), new(*order)) }},
		{"nil interface", func() ([]byte, error) { return gob.New[any]().Append([]byte("abc"), nil) }},
		{"nil element", func() ([]byte, error) { return gob.New[[]*money]().Append([]byte("abc"), []*money{nil}) }},
		{"unregistered", func() ([]byte, error) { return gob.New[any]().Append([]byte("abc"), unregistered{1}) }},
		{"too deep", func() ([]byte, error) { return gob.New[tree]().Append([]byte("abc"), list) }},
		{"panic", func() ([]byte, error) { return gob.New[rude]().Append([]byte("abc"), rude{true}) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := tt.try()
			var e *codec.Error
			if !errors.As(err, &e) || e.Op != "encode" || string(out) != "abc" {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
}

// rude panics on request.
type rude struct{ angry bool }

func (r rude) GobEncode() ([]byte, error) {
	if r.angry {
		panic("no")
	}
	return []byte("ok"), nil
}

func (r *rude) GobDecode(data []byte) error {
	if string(data) != "ok" {
		panic("no")
	}
	return nil
}

func TestPanicOfAMethodIsAnError(t *testing.T) {
	c := gob.New[rude]()
	_, err := c.Append(nil, rude{true})
	var p *codec.PanicError
	if !errors.As(err, &p) || p.Value != "no" {
		t.Errorf("append: got %v", err)
	}
	_, err = c.Decode(bytes.Replace(encode(t, c, rude{}), []byte("ok"), []byte("ko"), 1))
	p = nil
	if !errors.As(err, &p) || p.Value != "no" {
		t.Errorf("decode: got %v", err)
	}
	if _, err = c.Append(nil, rude{}); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	register()
	orders, holders := gob.New[order](), gob.New[holder]()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				want := sampleOrder()
				want.ID = uint64(g*1000 + i)
				data, err := orders.Append(nil, want)
				got, err2 := orders.Decode(data)
				if err := errors.Join(err, err2); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v, %v", got, err)
				}
				h := holder{Shape: square{float64(g)}, After: fmt.Sprint(i)}
				data, err = holders.Append(nil, h)
				hot, err2 := holders.Decode(data)
				if err := errors.Join(err, err2); err != nil || !reflect.DeepEqual(hot, h) {
					t.Errorf("got %+v, %v", hot, err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkGob measures one encoding into a large enough buffer, and one decoding, and
// compares them with a plain gob stream per value.
func BenchmarkGob(b *testing.B) {
	c, v := gob.New[order](), sampleOrder()
	data := encode(b, c, v)
	var stream bytes.Buffer
	if err := stdgob.NewEncoder(&stream).Encode(v); err != nil {
		b.Fatal(err)
	}
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	buf := make([]byte, 0, 2*stream.Len())
	run("append", func() error { _, err := c.Append(buf, v); return err })
	run("append/plain", func() error {
		return stdgob.NewEncoder(bytes.NewBuffer(buf)).Encode(v)
	})
	run("decode", func() error { _, err := c.Decode(data); return err })
	run("decode/plain", func() error {
		var v order
		return stdgob.NewDecoder(bytes.NewReader(stream.Bytes())).Decode(&v)
	})
}
