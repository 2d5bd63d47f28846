package gob

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/lossy"
)

// MaxDepth is the largest nesting depth of a value, for example the length of a
// linked list. Deeper values are refused by Append and Decode. Encoding a value
// that contains itself exhausts the stack.
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
	c := &gobCodec[V]{}
	binary.LittleEndian.PutUint32(c.mark[:], uint32(codec.Fingerprint[V](c)))
	c.err = c.prime()
	return c
}

type gobCodec[V any] struct {
	mark [header]byte
	err  error // reason why gob cannot encode V

	// whole: an encoded value is a gob stream of its own. Otherwise it is the
	// content of one message of type id with the shape root, and the pools hold
	// encoders and decoders that have processed prelude: the description of V
	// and one value.
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
func (*gobCodec[V]) Lost() []string {
	return lossy.Fields(reflect.TypeFor[V](), lossy.Format{
		Self:  []reflect.Type{reflect.TypeFor[gob.GobEncoder](), reflect.TypeFor[encoding.BinaryMarshaler]()},
		Kinds: []reflect.Kind{reflect.Chan, reflect.Func},
	})
}

// prime computes the description of V by gob.
func (c *gobCodec[V]) prime() (err error) {
	defer c.rescue("encode", &err)
	zero, ok := filled(reflect.TypeFor[V]())
	if !ok { // an interface: its description depends on the value
		c.whole = true
		return nil
	}
	var stream bytes.Buffer
	if err := gob.NewEncoder(&stream).EncodeValue(zero); err != nil {
		return c.fail("encode", err.Error(), err)
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
	c.whole = s.iface
	return nil
}

// filled returns a pointer to a zero value of type t. If t is a pointer type,
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
	b := append(dst, c.mark[:]...)
	if c.whole {
		b, err = appendWhole(b, &v)
	} else {
		b, err = c.appendBare(b, &v)
	}
	if err != nil {
		return dst, c.fail("encode", err.Error(), err)
	}
	if err := c.scan(b[len(dst)+header:]); err != nil {
		return dst, c.fail("encode", err.Error(), err)
	}
	return b, nil
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
	err := gob.NewEncoder(&w).Encode(v)
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
	err := e.enc.Encode(v)
	b := e.w.b
	e.w = sink{}
	if err == nil && len(b)-len(dst) <= keep {
		c.encoders.Put(e)
	}
	return b, err
}

// Decode implements [codec.Codec].
func (c *gobCodec[V]) Decode(data []byte) (v V, err error) {
	defer func() {
		if err != nil {
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
		err = gob.NewDecoder(bytes.NewReader(body)).Decode(&v)
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
		if err := d.dec.Decode(new(V)); err != nil {
			return err
		}
	}
	d.r = feed{body: body}
	d.r.head = appendUint(d.head[:0], uint64(len(c.id)+len(body)))
	d.r.head = append(d.r.head, c.id...)
	err := d.dec.Decode(v)
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
