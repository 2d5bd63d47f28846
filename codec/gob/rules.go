package gob

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"reflect"

	"github.com/strata-cache/strata/internal/cache/lossy"
)

// rules describe encoding/gob.
var rules = lossy.Rules{ // read-only
	Format: lossy.Format{
		Self:   []reflect.Type{reflect.TypeFor[gob.GobEncoder](), reflect.TypeFor[encoding.BinaryMarshaler]()},
		Kinds:  []reflect.Kind{reflect.Chan, reflect.Func},
		Behind: true,
	},
	Decodes:   []reflect.Type{reflect.TypeFor[gob.GobDecoder](), reflect.TypeFor[encoding.BinaryUnmarshaler]()},
	Encode:    encodePart,
	Decode:    decodePart,
	MaxDepth:  MaxDepth,
	SkipsZero: true,
}

// encodePart encodes a part by its method, which costs less than a stream, or else as a
// stream.
func encodePart(v reflect.Value) ([]byte, error) {
	// Methods may belong to the pointer, so the value needs an address.
	p := v
	if v.CanAddr() {
		p = v.Addr()
	} else if v.Kind() != reflect.Map {
		p = reflect.New(v.Type())
		p.Elem().Set(v)
	}
	switch x := p.Interface().(type) {
	case gob.GobEncoder:
		return x.GobEncode()
	case encoding.BinaryMarshaler:
		return x.MarshalBinary()
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).EncodeValue(v)
	return b.Bytes(), err
}

// decodePart is the opposite of encodePart.
func decodePart(data []byte, to reflect.Value) error {
	switch x := to.Interface().(type) {
	case gob.GobDecoder:
		return x.GobDecode(data)
	case encoding.BinaryUnmarshaler:
		return x.UnmarshalBinary(data)
	}
	return gob.NewDecoder(bytes.NewReader(data)).DecodeValue(to)
}
