package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"

	"github.com/strata-cache/strata/internal/lossy"
)

// JSON returns a codec that writes values as encoding/json does, without
// escaping HTML.
//
// It has the limits of encoding/json: unexported fields are lost, and so is the
// concrete type in an interface (a number is decoded as float64). A null is
// refused unless V is a pointer, map, slice or interface or has an
// UnmarshalJSON method.
func JSON[V any]() Codec[V] {
	t := reflect.TypeFor[V]()
	c := jsonCodec[V]{}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		c.nullable = true
	default:
		c.nullable = reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	}
	return c
}

type jsonCodec[V any] struct{ nullable bool }

const jsonName = "json"

func (jsonCodec[V]) Name() string   { return jsonName }
func (jsonCodec[V]) tagKey() string { return jsonName }

func (jsonCodec[V]) Append(dst []byte, v V) (out []byte, err error) {
	out = dst
	defer rescue[V](jsonName, "encode", &err)
	w := appender{b: dst}
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	// By pointer, so that methods with pointer receivers are used.
	if err := e.Encode(&v); err != nil {
		return dst, jsonError[V]("encode", err)
	}
	return w.b[:len(w.b)-1], nil // without the encoder's line feed
}

// Check returns an error if JSON cannot encode the type V, for instance a
// channel or a function.
func (jsonCodec[V]) Check() (err error) {
	defer rescue[V](jsonName, "encode", &err)
	var unsupported *json.UnsupportedTypeError
	if _, err := json.Marshal(new(V)); errors.As(err, &unsupported) {
		return jsonError[V]("encode", err)
	}
	return nil
}

// Lost implements [Lossy].
func (jsonCodec[V]) Lost() []string {
	return lossy.Fields(reflect.TypeFor[V](), lossy.Format{
		Self:     []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()},
		Kinds:    []reflect.Kind{reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer},
		Tag:      jsonName,
		Promotes: true,
	})
}

func (c jsonCodec[V]) Decode(data []byte) (v V, err error) {
	defer func() {
		if err != nil {
			v = *new(V)
		}
	}()
	defer rescue[V](jsonName, "decode", &err)
	if !c.nullable && string(bytes.TrimSpace(data)) == "null" {
		return v, fail[V](jsonName, "decode", "null for a type without one", ErrMalformed)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, jsonError[V]("decode", err)
	}
	return v, nil
}

// jsonError makes an Error from the parts of an error of encoding/json that
// quote no data.
func jsonError[V any](op string, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var unsupported *json.UnsupportedTypeError
	reason := "a method of the value type, or the value itself, is at fault"
	switch {
	case errors.As(err, &syntax):
		reason = "syntax error at byte " + strconv.FormatInt(syntax.Offset, 10)
	case errors.As(err, &kind):
		reason = "field " + strconv.Quote(kind.Field) + " does not fit " + kind.Type.String()
	case errors.As(err, &unsupported):
		reason = "no form for " + unsupported.Type.String()
	}
	return fail[V](jsonName, op, reason, err)
}

// appender is an io.Writer that appends to a slice.
type appender struct{ b []byte }

// Write appends p.
func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}
