package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"

	"github.com/strata-cache/strata/internal/cache/lossy"
)

// JSON returns a codec that writes values as encoding/json does, without
// escaping HTML.
//
// Append refuses a value that another program would decode as another one:
//   - a text in another form than UTF-8, or a time with seconds in its zone;
//   - an interface that holds anything except nil, bool, float64, string, []any and
//     map[string]any;
//   - a pointer to nil, a nil [json.RawMessage] or an empty [json.Number] without omitempty;
//   - a pointer to an embedded struct none of whose fields is written, or one to an unexported struct;
//   - a [netip.Prefix] or [netip.AddrPort] that is not valid, unless it is zero;
//   - a map with a key that its own text does not find again;
//   - a part with methods such as MarshalJSON that do not undo each other, or that do not with the option
//     string of its field;
//   - a value nested more than 10 000 times.
//
// Append accepts changes that the type announces: unexported fields and fields with the tag
// "-" or the name of another field are lost, and with omitempty an empty slice or map becomes
// nil. Lost names such fields, and interfaces. Append also accepts values that come back equal by the methods of their
// type, and yet not the same: a [net.IP] of 4 bytes comes back with 16, a [big.Float] with a precision of 64 bits, and a time
// without the name of its zone.
//
// Decode refuses null unless V is a pointer, map, slice or interface or has an UnmarshalJSON
// method.
func JSON[V any]() Codec[V] {
	t := reflect.TypeFor[V]()
	c := jsonCodec[V]{jsonForm: newJSONForm(t)}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		c.nullable = true
	default:
		c.nullable = reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	}
	return c
}

type jsonCodec[V any] struct {
	*jsonForm
	nullable bool
}

const jsonName = "json"

func (jsonCodec[V]) Name() string   { return jsonName }
func (jsonCodec[V]) tagKey() string { return jsonName }

func (c jsonCodec[V]) Append(dst []byte, v V) (out []byte, err error) {
	out = dst
	defer rescue[V](jsonName, "encode", &err)
	// By pointer, so that methods with pointer receivers are used.
	b, err := c.append(dst, &v)
	if err != nil {
		return dst, jsonError[V]("encode", err)
	}
	return b, nil
}

// jsonForm encodes the values of one type, by reflection while the program runs.
type jsonForm struct {
	of     reflect.Type
	values *lossy.Values
}

func newJSONForm(t reflect.Type) *jsonForm { return &jsonForm{t, lossy.NewValues(t, jsonRules)} }

// append appends the value behind a pointer. A value that does not survive is a
// *lossy.Change.
func (f *jsonForm) append(dst []byte, pointer any) ([]byte, error) {
	if err := f.values.Check(pointer); err != nil {
		return nil, err
	}
	w := appender{b: dst}
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	if err := e.Encode(pointer); err != nil {
		return nil, err
	}
	out := w.b[:len(w.b)-1] // without the encoder's line feed
	if why := f.spoilt(out[len(dst):], pointer); why != "" {
		return nil, &lossy.Change{Why: why}
	}
	return out, nil
}

// spoilt returns the reason why data does not decode to the value behind pointer, and "" if it
// does.
func (f *jsonForm) spoilt(data []byte, pointer any) (why string) {
	switch {
	case (f.values.Open || f.values.Self) && jsonDepth(data) > jsonMostDepth:
		return lossy.ErrDeep.Error()
	case !f.values.Texts:
		return ""
	case !replaced(data):
		if !replacesInside || !bytes.Contains(data, replacement) || !f.values.Garbled(reflect.ValueOf(pointer).Elem()) {
			return ""
		}
	case f.values.Self: // a method may have written that itself
		back := reflect.New(f.of)
		if err := json.Unmarshal(data, back.Interface()); err == nil && f.values.Same(reflect.ValueOf(pointer).Elem(), back.Elem()) {
			return ""
		}
	}
	return "a string or key of a map is no UTF-8"
}

// jsonMostDepth is how many objects and lists in each other encoding/json decodes.
const jsonMostDepth = 10_000

// jsonDepth returns how deep objects and lists are nested in data, or zero if data has too few
// bytes for more than jsonMostDepth of them.
func jsonDepth(data []byte) (most int) {
	if len(data) < 2*jsonMostDepth {
		return 0
	}
	depth, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{', c == '[':
			depth++
			most = max(most, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return most
}

// replacement is the character that encoding/json writes in the place of invalid UTF-8.
var replacement = []byte("\ufffd") // read-only

// replacesInside says that encoding/json writes the replacement character for invalid UTF-8 as the
// character itself, as a valid text has it, and not as its escape sequence. It does so since Go
// 1.27. read-only
var replacesInside = func() bool {
	data, err := json.Marshal("\xff")
	return err == nil && bytes.Contains(data, replacement)
}()

// replaced reports whether JSON has the escape sequence that encoding/json writes in the
// place of invalid UTF-8. The character of a valid text is not escaped.
func replaced(data []byte) bool {
	const escape = `\ufffd`
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte(escape))
		if i < 0 {
			return false
		}
		at += i
		before := 0 // backslashes, of which each two are one in the text
		for before < at && data[at-1-before] == '\\' {
			before++
		}
		if before%2 == 0 {
			return true
		}
		at += len(escape)
	}
}

// Check returns an error if JSON cannot encode the type V, for instance a
// channel or a function.
func (jsonCodec[V]) Check() error {
	var unsupported *json.UnsupportedTypeError
	if err := encodeZero[V](); errors.As(err, &unsupported) {
		return jsonError[V]("encode", err)
	}
	return nil
}

// encodeZero returns the error of JSON for a zero value. A method of V may fail or panic
// for that and not for others.
func encodeZero[V any]() (err error) {
	defer rescue[V](jsonName, "encode", &err)
	_, err = json.Marshal(new(V))
	return err
}

// Lost implements [Lossy].
func (jsonCodec[V]) Lost() []string {
	return lossy.Fields(reflect.TypeFor[V](), &jsonRules)
}

// jsonRules describe encoding/json.
var jsonRules = lossy.Rules{ // read-only
	Format: lossy.Format{
		Self:     []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()},
		Kinds:    []reflect.Kind{reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer},
		Tag:      jsonName,
		Promotes: true,
	},
	Decodes:  []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()},
	Encode:   encodePart,
	Decode:   func(data []byte, to reflect.Value) error { return json.Unmarshal(data, to.Interface()) },
	MaxDepth: jsonMostDepth,
	JSON:     true,
}

// encodePart encodes a part of a value. One without an address has no methods of pointers.
func encodePart(v reflect.Value) ([]byte, error) {
	if v.CanAddr() {
		v = v.Addr()
	}
	var w appender
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false) // as the whole value is encoded: a json.RawMessage comes back with its own bytes
	if err := e.Encode(v.Interface()); err != nil {
		return nil, err
	}
	return w.b[:len(w.b)-1], nil
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
	var change *lossy.Change
	reason := "a method of the value type, or the value itself, is at fault"
	switch {
	case errors.As(err, &change):
		reason = change.Error()
	case errors.As(err, &syntax):
		reason = "syntax error at byte " + strconv.FormatInt(syntax.Offset, 10)
	case errors.As(err, &kind):
		// No Field: it may have the key of a map, which is a part of the value.
		reason = "a value before byte " + strconv.FormatInt(kind.Offset, 10) + " does not fit " + kind.Type.String()
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
