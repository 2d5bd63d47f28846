package gob

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/strata-cache/strata/codec"
)

// MaxDepth is how deeply a value may be nested: the elements of a list in
// which each points to the next, for example. Deeper values are refused on
// both sides. A value that contains itself has no end; encoding one exhausts
// the stack.
const MaxDepth = 10000

const (
	name = "gob"
	// header is the length of the fingerprint before each value.
	header = 4
	// keep is the size up to which a value's buffers are used again.
	keep = 1 << 20
)

// New returns the gob codec for V. If gob cannot carry V, every use of the
// codec says so, and so does its Check method (see [codec.Checker]).
func New[V any]() codec.Codec[V] {
	c := &gobCodec[V]{}
	binary.LittleEndian.PutUint32(c.mark[:], uint32(codec.Fingerprint[V](c)))
	c.err = c.prime()
	return c
}

type gobCodec[V any] struct {
	mark [header]byte
	err  error // why V cannot be carried

	// whole: a value is a gob stream of its own. Otherwise it is the inside of
	// one message of type id, shaped like root, and the pools hold encoders
	// and decoders that have seen prelude: the description of V and one value.
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

// prime learns how gob describes V.
func (c *gobCodec[V]) prime() (err error) {
	defer c.rescue("encode", &err)
	zero, ok := filled(reflect.TypeFor[V]())
	if !ok { // an interface, which cannot be described before there is a value
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

// filled returns a pointer to a zero value of type t with all pointers that
// lead to it, or false if that ends at an interface.
func filled(t reflect.Type) (reflect.Value, bool) {
	p := reflect.New(t)
	v := p.Elem()
	for range 100 { // type T *T has no end; gob refuses it in its own words
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
	if err != nil { // its text may quote the input
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

// scan refuses what must not reach encoding/gob.
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

// rescue turns a panic of a method of V into an error; it must be deferred
// directly.
func (c *gobCodec[V]) rescue(op string, err *error) {
	if r := recover(); r != nil {
		p := &codec.PanicError{Value: r, Stack: debug.Stack()}
		*err = c.fail(op, p.Error(), p)
	}
}
