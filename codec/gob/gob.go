package gob

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"io"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/cache/lossy"
)

// MaxDepth is the largest nesting depth of a value, for example the length of a
// linked list. Deeper values are refused by Append and Decode, and so is a value that
// contains itself.
const MaxDepth = 10000

const (
	name = "gob"
	// header is the length of the fingerprint before each value.
	header = 4
	// keep is the largest size of a value for which buffers are reused.
	keep = 1 << 20
)

// New returns the gob codec for V. If gob cannot encode V, every method returns
// the error, including Check (see [codec.Checker]).
func New[V any]() codec.Codec[V] {
	c := &gobCodec[V]{values: lossy.NewValues(reflect.TypeFor[V](), rules)}
	binary.LittleEndian.PutUint32(c.mark[:], uint32(codec.Fingerprint[V](c)))
	c.err = c.prime()
	return c
}

type gobCodec[V any] struct {
	mark [header]byte
	err  error // reason why gob cannot encode V

	values *lossy.Values

	// whole: an encoded value is a gob stream of its own. Otherwise it is the
	// content of one message of type id with the shape root, and the pools hold
	// encoders and decoders after they have processed prelude: the description of V and
	// one value.
	whole    bool
	prelude  []byte
	id       []byte
	root     *node
	encoders sync.Pool // of *encoder
	decoders sync.Pool // of *decoder
}

// Name implements [codec.Codec].
func (*gobCodec[V]) Name() string { return name }

// Check implements [codec.Checker].
func (c *gobCodec[V]) Check() error { return c.err }

// Lost implements [codec.Lossy].
func (*gobCodec[V]) Lost() []string { return lossy.Fields(reflect.TypeFor[V](), &rules) }

// prime computes the description of V by gob.
func (c *gobCodec[V]) prime() (err error) {
	zero, ok := filled(reflect.TypeFor[V]())
	if !ok { // an interface: its description depends on the value
		c.whole = true
		return nil
	}
	var stream bytes.Buffer
	if err := c.describe(&stream, zero); err != nil {
		if stream.Len() == 0 || strings.Contains(err.Error(), "has no exported fields") {
			return err
		}
		c.whole = true // gob, or a method, refuses a zero value only
		return nil
	}
	s := scanner{rest: stream.Bytes()}
	id, err := s.stream()
	if err != nil {
		return c.fail("encode", err.Error(), err)
	}
	c.prelude, c.id, c.root = stream.Bytes(), appendInt(nil, id), s.types[id]
	if c.root == nil {
		c.root = builtin(id)
	}
	c.whole = s.iface || !c.decodesZero()
	return nil
}

// describe writes the description of V and a zero value. If a method of the value is at
// fault, the description is written before the error.
func (c *gobCodec[V]) describe(w io.Writer, zero reflect.Value) (err error) {
	defer c.rescue("encode", &err)
	if err := gob.NewEncoder(w).EncodeValue(zero); err != nil {
		return c.fail("encode", err.Error(), err)
	}
	return nil
}

// decodesZero reports whether the zero value after the description can be decoded: a
// method may refuse it.
func (c *gobCodec[V]) decodesZero() bool {
	var err error
	func() {
		defer c.rescue("decode", &err)
		err = gob.NewDecoder(bytes.NewReader(c.prelude)).Decode(target(new(V)))
	}()
	return err == nil
}

// source is the argument for gob to encode v: a pointer to the value, for methods with pointer
// receivers. Gob panics for a pointer to a pointer to a value that encodes itself.
func source[V any](v *V) any {
	if reflect.TypeFor[V]().Kind() == reflect.Pointer {
		return *v
	}
	return v
}

// target is where gob decodes a value for v.
func target[V any](v *V) any {
	if t := reflect.TypeFor[V](); t.Kind() == reflect.Pointer {
		p := reflect.New(t.Elem())
		reflect.ValueOf(v).Elem().Set(p.Convert(t))
		return p.Interface()
	}
	return v
}

// filled returns the source of a zero value of type t. If t is a pointer type,
// it also allocates the pointed-to values, level by level. It reports false if
// that ends at an interface.
func filled(t reflect.Type) (reflect.Value, bool) {
	p := reflect.New(t)
	v := p.Elem()
	for range 100 { // a bound for type T *T, which gob refuses
		if v.Kind() != reflect.Pointer {
			break
		}
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if t.Kind() == reflect.Pointer {
		p = p.Elem()
	}
	return p, v.Kind() != reflect.Interface
}

// Append implements [codec.Codec].
func (c *gobCodec[V]) Append(dst []byte, v V) (out []byte, err error) {
	out = dst
	defer c.rescue("encode", &err)
	if c.err != nil {
		return dst, c.err
	}
	if hollow(v) {
		return dst, c.fail("encode", "nil pointer", nil)
	}
	if err := c.values.Check(&v); err != nil {
		return dst, c.fail("encode", err.Error(), err)
	}
	b := append(dst, c.mark[:]...)
	if c.whole {
		b, err = appendWhole(b, &v)
	} else {
		b, err = c.appendBare(b, &v)
	}
	if err != nil {
		return dst, c.fail("encode", err.Error(), err)
	}
	// What Decode would refuse must not be stored, for all instances to fail on.
	if err := c.scan(b[len(dst)+header:]); err != nil {
		return dst, c.fail("encode", err.Error(), err)
	}
	if c.whole && !c.keeps(b[len(dst):], &v) {
		return dst, c.fail("encode", "an interface would hold another value", nil)
	}
	return b, nil
}

// keeps reports whether v comes back from an encoded value, with the same types in its
// interfaces: gob has the name of a type from a registration, which may be for a pointer.
func (c *gobCodec[V]) keeps(data []byte, v *V) bool {
	back, err := c.Decode(data)
	return err == nil && c.values.Same(reflect.ValueOf(v).Elem(), reflect.ValueOf(&back).Elem())
}

// hollow reports whether v is a nil pointer or a pointer to one.
func hollow[V any](v V) bool {
	if k := reflect.TypeFor[V]().Kind(); k != reflect.Pointer && k != reflect.Interface {
		return false
	}
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer {
		r = r.Elem()
	}
	return !r.IsValid()
}

func appendWhole[V any](dst []byte, v *V) ([]byte, error) {
	w := sink{b: dst}
	err := gob.NewEncoder(&w).Encode(source(v))
	return w.b, err
}

func (c *gobCodec[V]) appendBare(dst []byte, v *V) ([]byte, error) {
	e, _ := c.encoders.Get().(*encoder)
	if e == nil {
		e = newEncoder()
		zero, _ := filled(reflect.TypeFor[V]())
		if err := e.enc.EncodeValue(zero); err != nil {
			return dst, err
		}
	}
	e.w = sink{b: dst, strip: true}
	err := e.enc.Encode(source(v))
	b := e.w.b
	e.w = sink{}
	// An encoder that has failed may have sent a part of a description, and is not used again. One
	// that has written a large value keeps a buffer of that size.
	if err == nil && len(b)-len(dst) <= keep {
		c.encoders.Put(e)
	}
	return b, err
}

// Decode implements [codec.Codec].
func (c *gobCodec[V]) Decode(data []byte) (v V, err error) {
	defer func() {
		if err != nil {
			// A half decoded value must not reach a caller that overlooks the error.
			v = *new(V)
		}
	}()
	defer c.rescue("decode", &err)
	switch {
	case c.err != nil:
		return v, c.err
	case len(data) < header:
		return v, c.fail("decode", codec.ErrShort.Error(), codec.ErrShort)
	case [header]byte(data) != c.mark:
		return v, c.fail("decode", codec.ErrForeign.Error(), codec.ErrForeign)
	}
	body := data[header:]
	if err := c.scan(body); err != nil {
		return v, c.fail("decode", err.Error(), err)
	}
	if c.whole {
		err = gob.NewDecoder(bytes.NewReader(body)).Decode(target(&v))
	} else {
		err = c.decodeBare(body, &v)
	}
	if err != nil { // the text of err may quote the input
		return v, c.fail("decode", "refused by encoding/gob", errors.Join(codec.ErrMalformed, err))
	}
	return v, nil
}

func (c *gobCodec[V]) decodeBare(body []byte, v *V) error {
	d, _ := c.decoders.Get().(*decoder)
	if d == nil {
		d = newDecoder()
		d.r = feed{body: c.prelude}
		if err := d.dec.Decode(target(new(V))); err != nil {
			return err
		}
	}
	d.r = feed{body: body}
	// The stored bytes are the content of a message alone: the length and the type in front of it
	// are made again.
	d.r.head = appendUint(d.head[:0], uint64(len(c.id)+len(body)))
	d.r.head = append(d.r.head, c.id...)
	err := d.dec.Decode(target(v))
	d.r = feed{}
	if err == nil && len(body) <= keep {
		c.decoders.Put(d)
	}
	return err
}

// scan returns an error for input that encoding/gob must not decode.
func (c *gobCodec[V]) scan(body []byte) error {
	if c.whole {
		s := scanner{rest: body}
		_, err := s.stream()
		return err
	}
	s := scanner{msg: body}
	return s.single(c.root)
}

func (*gobCodec[V]) fail(op, reason string, cause error) error {
	return &codec.Error{Codec: name, Op: op, Type: reflect.TypeFor[V]().String(), Reason: reason, Err: cause}
}

// rescue converts a panic of a method of V to an error. It must be deferred
// directly.
func (c *gobCodec[V]) rescue(op string, err *error) {
	if r := recover(); r != nil {
		p := &codec.PanicError{Value: r, Stack: debug.Stack()}
		*err = c.fail(op, p.Error(), p)
	}
}
