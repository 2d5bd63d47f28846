package checks

import (
	"bytes"
	"reflect"
	"sync"
	"testing"

	"github.com/strata-cache/strata/codec"
)

// CodecChecks returns the promises of a codec, each as a test of c with the values.
func CodecChecks[V any](c codec.Codec[V], values []V) []CodecCheck {
	var all []CodecCheck
	for _, p := range codecPromises[V]() {
		all = append(all, CodecCheck{p.name, func(t testing.TB) { p.run(&codecView[V]{t, c, values}) }})
	}
	return all
}

// CodecCheck is one promise.
type CodecCheck struct {
	// Name is the promise.
	Name string
	// Run fails t if the promise is not kept.
	Run func(t testing.TB)
}

type codecPromise[V any] struct {
	name string
	run  func(v *codecView[V])
}

type codecView[V any] struct {
	testing.TB
	codec  codec.Codec[V]
	values []V
}

func codecPromises[V any]() []codecPromise[V] {
	return []codecPromise[V]{
		{"NameIsConstant", (*codecView[V]).checkName},
		{"ValuesComeBack", (*codecView[V]).checkRoundTrip},
		{"AppendAppends", (*codecView[V]).checkAppend},
		{"MemoryIsNotShared", (*codecView[V]).checkMemory},
		{"AliasesAreTheSameValues", (*codecView[V]).checkAliases},
		{"DifferentValuesDiffer", (*codecView[V]).checkDistinct},
		{"DamagedInputIsHarmless", (*codecView[V]).checkDamage},
		{"ConcurrentUseIsSafe", (*codecView[V]).checkConcurrent},
	}
}

func (v *codecView[V]) encode(value V) []byte {
	v.Helper()
	data, err := v.codec.Append(nil, value)
	if err != nil {
		v.Fatalf("Append(%+v): %v", value, err)
	}
	return data
}

// yields fails unless data decodes to want.
func (v *codecView[V]) yields(data []byte, want V) V {
	v.Helper()
	got, err := v.codec.Decode(data)
	if err != nil {
		v.Fatalf("Decode of %+v: %v", want, err)
	}
	if !sameValue(got, want) {
		v.Fatalf("decoded %+v; want %+v", got, want)
	}
	return got
}

// checkName: entries in L2 name the codec that can read them.
func (v *codecView[V]) checkName() {
	if a, b := v.codec.Name(), v.codec.Name(); a == "" || a != b {
		v.Errorf("Name() = %q, then %q; want a constant", a, b)
	}
}

// checkRoundTrip: a value from L2 is the value that was loaded.
func (v *codecView[V]) checkRoundTrip() {
	for _, value := range v.values {
		v.yields(v.encode(value), value)
	}
}

// checkAppend: the bytes in front of a value stay, whether or not there is room behind them.
func (v *codecView[V]) checkAppend() {
	for _, value := range v.values {
		want := v.encode(value)
		for _, dst := range [][]byte{[]byte("prefix"), append(make([]byte, 0, 4096), "prefix"...)} {
			got, err := v.codec.Append(dst, value)
			if err != nil {
				v.Fatalf("Append: %v", err)
			}
			rest, ok := bytes.CutPrefix(got, []byte("prefix"))
			if !ok || len(rest) != len(want) {
				v.Fatalf("Append to %q gave %d bytes; want the prefix and %d bytes", "prefix", len(got), len(want))
			}
			v.yields(rest, value)
		}
	}
}

// checkMemory: the cache uses the memory of encoded bytes again.
func (v *codecView[V]) checkMemory() {
	for _, value := range v.values {
		data := v.encode(value)
		got := v.yields(data, value)
		for i := range data {
			data[i] ^= 0xff
		}
		if !sameValue(got, value) {
			v.Errorf("a decoded value or its origin shares memory with encoded bytes: %+v; want %+v", got, value)
		}
		v.yields(v.encode(value), got)
	}
}

// checkAliases is about codecs with DecodeAlias: it agrees with Decode on every input.
func (v *codecView[V]) checkAliases() {
	a, ok := v.codec.(codec.Aliaser[V])
	if !ok {
		return
	}
	for _, value := range v.values {
		data := v.encode(value)
		kept := bytes.Clone(data)
		if got, err := a.DecodeAlias(data); err != nil || !sameValue(got, value) {
			v.Fatalf("DecodeAlias gave %+v, %v; want %+v", got, err, value)
		}
		if !bytes.Equal(data, kept) {
			v.Errorf("DecodeAlias of %+v has changed its input", value)
		}
		for n := 0; n < len(data); n += max(1, len(data)/512) {
			want, refused := v.codec.Decode(data[:n:n])
			got, err := a.DecodeAlias(data[:n:n])
			if (err == nil) != (refused == nil) || !sameValue(got, want) {
				v.Errorf("DecodeAlias gave %+v, %v for the first %d bytes of %+v; Decode %+v, %v", got, err, n, value, want, refused)
			}
		}
	}
}

// checkDistinct: two values with one encoding would be the same value to every reader.
func (v *codecView[V]) checkDistinct() {
	for i, a := range v.values {
		for _, b := range v.values[:i] {
			if !sameValue(a, b) && bytes.Equal(v.encode(a), v.encode(b)) {
				v.Errorf("%+v and %+v have the same encoding", a, b)
			}
		}
	}
}

// checkDamage decodes damaged data: that may fail, and then yields nothing.
func (v *codecView[V]) checkDamage() {
	var zero V
	try := func(data []byte) {
		v.Helper()
		defer func() {
			if r := recover(); r != nil {
				v.Errorf("Decode panicked: %v; input %.80q", r, data)
			}
		}()
		if got, err := v.codec.Decode(data); err != nil && !reflect.DeepEqual(got, zero) {
			v.Errorf("Decode returned both %+v and error %v", got, err)
		}
	}
	try(nil)
	for _, value := range v.values {
		data := v.encode(value)
		step := max(1, len(data)/512)
		for i := 0; i < len(data); i += step {
			try(data[:i:i])
			damaged := bytes.Clone(data)
			for bit := range 8 {
				damaged[i] = data[i] ^ 1<<bit
				try(damaged)
			}
		}
		try(append(bytes.Clone(data), 0))
		try(append(bytes.Clone(data), data...))
	}
}

// checkConcurrent: all goroutines of a program share one codec.
func (v *codecView[V]) checkConcurrent() {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, value := range v.values {
				data, err := v.codec.Append(nil, value)
				if err != nil {
					v.Errorf("Append: %v", err)
					return
				}
				if got, err := v.codec.Decode(data); err != nil || !sameValue(got, value) {
					v.Errorf("decoded %+v, %v; want %+v", got, err, value)
				}
			}
		})
	}
	wg.Wait()
}

// sameValue reports whether two values are equal. A codec need not tell a nil slice or map from an
// empty one.
func sameValue[V any](a, b V) bool {
	if e, ok := any(a).(interface{ Equal(V) bool }); ok {
		return e.Equal(b)
	}
	if x, y := reflect.ValueOf(a), reflect.ValueOf(b); x.IsValid() && y.IsValid() && x.Kind() == y.Kind() {
		if k := x.Kind(); (k == reflect.Slice || k == reflect.Map) && x.Len() == 0 && y.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a, b)
}
