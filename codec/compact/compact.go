package compact

import (
	"errors"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"unsafe"

	"github.com/strata-cache/strata/codec"
)

// MaxDepth is how often a value may be nested in itself, for example the length of a
// linked list. Append and Decode refuse deeper values, and Append therefore refuses a
// value that refers to itself.
const MaxDepth = 1000

const name = "compact"

// New returns the codec for V. It has the methods of [codec.Checker], [codec.Lossy]
// and [codec.Aliaser]. If V has no compact form, Check and all other methods return an
// error that names the field.
func New[V any]() codec.Codec[V] {
	c := &compactCodec[V]{}
	t := reflect.TypeFor[V]()
	b := builder{root: t, seen: map[reflect.Type]*node{}}
	c.root = b.plan()
	c.lost = b.lost
	if b.refused != "" {
		c.err = c.fail("encode", b.refused, nil)
	}
	return c
}

type compactCodec[V any] struct {
	root *node
	lost []string
	err  error // reason why V has no compact form

	states sync.Pool // of *state[V]
}

// state has the encoder, the decoder and the value of one call. It is on the heap,
// because nodes are called through function variables with addresses, and is kept for
// the next call.
type state[V any] struct {
	out encoder
	in  decoder
	v   V
}

// Name implements [codec.Codec].
func (*compactCodec[V]) Name() string { return name }

// Check implements [codec.Checker].
func (c *compactCodec[V]) Check() error { return c.err }

// Lost implements [codec.Lossy].
func (c *compactCodec[V]) Lost() []string { return c.lost }

// take returns a state with the zero value of V, a used one if possible. If V has methods the state
// is always new, because a method may keep the address of its receiver.
func (c *compactCodec[V]) take() *state[V] {
	if s, _ := c.states.Get().(*state[V]); s != nil {
		return s
	}
	return &state[V]{}
}

// put keeps a state for another call, without anything of the value in it.
func (c *compactCodec[V]) put(s *state[V]) {
	if c.root.methods {
		return
	}
	s.v = *new(V)
	s.out = encoder{}
	s.in.clear()
	c.states.Put(s)
}

// Append implements [codec.Codec].
func (c *compactCodec[V]) Append(dst []byte, v V) (out []byte, err error) {
	if c.err != nil {
		return dst, c.err
	}
	if c.root.flat {
		if b, ok := appendLeaves(c.root.leaves, dst, unsafe.Pointer(&v)); ok {
			return b, nil
		}
	}
	return c.appendParts(dst, v)
}

func (c *compactCodec[V]) appendParts(dst []byte, v V) (out []byte, err error) {
	out = dst
	defer c.rescue("encode", &err)
	s := c.take()
	s.v = v
	b := c.root.encode(&s.out, dst, unsafe.Pointer(&s.v))
	if err := s.out.err; err != nil {
		c.put(s)
		return dst, c.fail("encode", err.Error(), errors.Unwrap(err))
	}
	c.put(s)
	return b, nil
}

// Decode implements [codec.Codec].
func (c *compactCodec[V]) Decode(data []byte) (V, error) { return c.decode(data, false) }

// DecodeAlias implements [codec.Aliaser].
func (c *compactCodec[V]) DecodeAlias(data []byte) (V, error) { return c.decode(data, true) }

func (c *compactCodec[V]) decode(data []byte, alias bool) (v V, err error) {
	if c.err != nil {
		return v, c.err
	}
	defer c.rescue("decode", &err)
	s := c.take()
	s.in.data, s.in.alias = data, alias
	c.root.decode(&s.in, unsafe.Pointer(&s.v))
	if s.in.pos < len(data) {
		s.in.fail(codec.ErrLong)
	}
	if err := s.in.err; err != nil {
		at := s.in.at
		c.put(s)
		return v, c.fail("decode", err.Error()+" at byte "+strconv.Itoa(at), errors.Unwrap(err))
	}
	v = s.v
	c.put(s)
	return v, nil
}

func (*compactCodec[V]) fail(op, reason string, cause error) error {
	return &codec.Error{Codec: name, Op: op, Type: reflect.TypeFor[V]().String(), Reason: reason, Err: cause}
}

// rescue converts a panic of a method of V to an error. It must be deferred
// directly.
func (c *compactCodec[V]) rescue(op string, err *error) {
	if r := recover(); r != nil {
		p := &codec.PanicError{Value: r, Stack: debug.Stack()}
		*err = c.fail(op, p.Error(), p)
	}
}
