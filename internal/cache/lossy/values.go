package lossy

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Rules describe the work of an encoding on values that it accepts. See [NewValues].
type Rules struct {
	// Format says which fields are left out. Its Self are the methods that encode.
	Format
	// Decodes are the interfaces of types that decode themselves.
	Decodes []reflect.Type
	// Encode encodes v, which is a part that encodes itself, or a map whose keys do. Decode
	// reads the result into the value behind a pointer, as another program does.
	Encode func(v reflect.Value) ([]byte, error)
	Decode func(data []byte, to reflect.Value) error
	// MaxDepth bounds the nesting of structs, maps, lists and interfaces.
	MaxDepth int

	// JSON: a time has no seconds in its zone, null is a nil of any depth, an interface
	// holds the types that a decoder chooses, the elements of a map have no addresses,
	// and keys are texts.
	JSON bool
	// SkipsZero says that the encoding leaves out a field with a pointer to a zero
	// value.
	SkipsZero bool
}

// MostParts bounds the parts of a value of a type that may contain itself: a part in
// several places is encoded once for each place, and the number of places may be
// exponential.
const MostParts = 1 << 24

// Errors of [Values.Check].
var (
	ErrDeep  = errors.New("nested too deep, or in itself") // read-only
	ErrParts = errors.New("too many parts")                // read-only
)

// Values finds, in values of one type, the parts that an encoding would change without an error, or
// could not read again. It is made once for a type; parts of types that always survive
// are not looked at.
type Values struct {
	Rules
	root *node
	// Open says that values may be deeper than the type, Self that some parts encode
	// themselves, and Texts that some parts are texts.
	Open, Self, Texts bool
	nests             bool // a part that encodes itself may have parts without end
	embeds            bool // structs are embedded by pointers
}

// Change is the error for a value that an encoding would change.
type Change struct {
	// Path leads to the part from the value; Why has no part of the value.
	Path, Why string
	cause     error
}

// Error implements error.
func (c *Change) Error() string {
	if c.Path == "" {
		return c.Why
	}
	return strings.TrimPrefix(c.Path, ".") + ": " + c.Why
}

// Unwrap returns the cause, such as [ErrDeep].
func (c *Change) Unwrap() error { return c.cause }

// in notes that the part is behind a step of the path.
func (c *Change) in(step string) *Change {
	const longest = 80
	if c != nil && len(c.Path) < longest {
		c.Path = step + c.Path
	}
	return c
}

func changed(why string) *Change { return &Change{Why: why} }

// node checks the values of a type; without a check all survive.
type node struct {
	check func(w *walk, v reflect.Value) *Change
	done  bool
	again bool // the type contains itself
}

func (n *node) plain() bool { return n.done && n.check == nil }

// walk is one running Check of a value that may be deeper than its type; nil for any
// other value.
type walk struct{ depth, pointers, parts, most int }

// enter counts a part with parts inside.
func (w *walk) enter() *Change {
	if w == nil {
		return nil
	}
	w.parts++
	w.depth++
	switch {
	case w.depth > w.most:
		return &Change{Why: ErrDeep.Error(), cause: ErrDeep}
	case w.parts > MostParts:
		return &Change{Why: ErrParts.Error(), cause: ErrParts}
	}
	return nil
}

// leave is the opposite of enter.
func (w *walk) leave() {
	if w != nil {
		w.depth--
	}
}

// follow counts followed pointers, which do not count as levels.
func (w *walk) follow(n int) *Change {
	if w == nil {
		return nil
	}
	if w.pointers += n; w.pointers > 4*w.most {
		return &Change{Why: ErrDeep.Error(), cause: ErrDeep}
	}
	return nil
}

// NewValues returns the Values of a type.
func NewValues(t reflect.Type, r Rules) *Values { return newValues(t, r, new(sync.Map)) }

func newValues(t reflect.Type, r Rules, known *sync.Map) *Values {
	b := &planner{Values: &Values{Rules: r}, seen: map[place]*node{}, known: known}
	b.root = b.node(place{of: t, addressed: true})
	return b.Values
}

// Check returns a *Change if the value behind a pointer does not survive. It looks at
// the cheap parts; for the others it calls Again.
func (s *Values) Check(pointer any) error {
	v := reflect.ValueOf(pointer).Elem()
	if c := s.checkParts(v); c != nil {
		return c
	}
	if s.embeds && !s.keepsEmbedded(v) {
		return changed("a pointer to an embedded struct would be decoded as nil: none of its fields is written")
	}
	return nil
}

// checkParts checks the parts of v by themselves.
func (s *Values) checkParts(v reflect.Value) *Change {
	if s.root.plain() {
		return nil
	}
	var w *walk
	// Only a value deeper than its type can be without end, and needs the counts.
	if s.Open {
		w = &walk{most: s.MaxDepth}
	}
	return s.root.check(w, v)
}

// again returns v as another program has it.
func (r *Rules) again(v reflect.Value) (reflect.Value, error) {
	to := reflect.New(v.Type())
	data, err := r.Encode(v)
	if err == nil {
		err = r.Decode(data, to)
	}
	return to.Elem(), err
}

// planner makes the nodes of a type and of all types in it.
type planner struct {
	*Values
	seen  map[place]*node
	known *sync.Map // of *Values, of the types in interfaces
}

// place is a type, with two properties of the values there: whether they have
// addresses, and whether they are embedded, so that their own methods do not encode
// them.
type place struct {
	of                  reflect.Type
	addressed, embedded bool
}

func (b *planner) node(at place) *node {
	if n := b.seen[at]; n != nil {
		if !n.done {
			n.again, b.Open = true, true
		}
		return n
	}
	// The node is known before its parts are, so that a type inside itself finds it.
	n := &node{}
	b.seen[at] = n
	check := b.plan(at)
	if n.again && check == nil {
		check = func(*walk, reflect.Value) *Change { return nil }
	}
	n.check, n.done = check, true
	return n
}

// plan returns the check of a type; nil if all values survive.
func (b *planner) plan(at place) func(*walk, reflect.Value) *Change {
	t := at.of
	b.Texts = b.Texts || t.Kind() == reflect.String || t.Kind() == reflect.Interface || b.selfMade(t)
	switch {
	case b.JSON && (t == nativeMap || t == nativeList):
		b.Open, b.Texts = true, true
		return checkNative
	case b.JSON && fullName(t) == "encoding/json.Number":
		return checkNumber
	case t.Kind() == reflect.Interface:
		return b.dynamic(t)
	case t.Kind() == reflect.Pointer:
		return b.pointer(t, at.embedded)
	case !at.embedded && b.selfMade(t):
		return b.self(t, at.addressed)
	}
	switch t.Kind() {
	case reflect.Slice:
		return b.list(b.node(place{of: t.Elem(), addressed: true}))
	case reflect.Array:
		return b.list(b.node(place{of: t.Elem(), addressed: at.addressed}))
	case reflect.Map:
		return b.mapping(t)
	case reflect.Struct:
		return b.structure(at)
	}
	return nil
}

// selfMade reports whether values of t are encoded or decoded by methods.
func (b *planner) selfMade(t reflect.Type) bool {
	return b.encodesItself(t) || implements(t, b.Decodes)
}

// proven are types of the standard library with methods that keep values as they are.
var proven = map[string]bool{ // read-only
	"math/big.Int": true, "math/big.Rat": true, "net.IP": true,
	"net/netip.Addr": true, "net/netip.AddrPort": true, "net/netip.Prefix": true,
}

// partly are proven types of which JSON changes some values, with checks for these. read-only
var partly = map[string]func(*walk, reflect.Value) *Change{
	"net/netip.Prefix": func(_ *walk, v reflect.Value) *Change {
		if p := valueOf[netip.Prefix](v); !p.IsValid() && p != (netip.Prefix{}) {
			return changed("a netip.Prefix is not valid")
		}
		return nil
	},
	"net/netip.AddrPort": func(_ *walk, v reflect.Value) *Change {
		if a := valueOf[netip.AddrPort](v); !a.IsValid() && a.Port() != 0 {
			return changed("a netip.AddrPort has a port and no address")
		}
		return nil
	},
}

// valueOf returns v as a T.
func valueOf[T any](v reflect.Value) T {
	if v.CanAddr() { // this way makes no copy in the heap
		return *v.Addr().Interface().(*T)
	}
	return v.Interface().(T)
}

// fullName is the name of a type with its import path.
func fullName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// self checks parts that encode themselves: by their values after the way there and back.
func (b *planner) self(t reflect.Type, addressed bool) func(*walk, reflect.Value) *Change {
	switch name := fullName(t); {
	case t == timeType && !b.JSON:
		return checkBinaryTime
	case t == timeType:
		return checkTime
	case b.JSON && partly[name] != nil:
		return partly[name]
	case proven[name] && (addressed || !b.JSON || b.hasMethods(t)):
		return nil
	}
	// The effect of a method is known only from a call: the value is encoded, decoded and compared.
	b.Self, b.nests = true, b.nests || b.endless(t, map[reflect.Type]bool{})
	return func(_ *walk, v reflect.Value) *Change {
		if c := b.Bound(v); c != nil {
			return c
		}
		data, err := b.Encode(v)
		if err != nil {
			return &Change{Why: "refused by a method of " + t.String(), cause: err}
		}
		return b.Back(v, data)
	}
}

// Back checks that v comes back from data, its encoding.
func (s *Values) Back(v reflect.Value, data []byte) *Change {
	to := reflect.New(v.Type())
	if err := s.Decode(data, to); err != nil {
		return &Change{Why: v.Type().String() + " cannot be decoded again", cause: err}
	}
	if !s.Same(v, to.Elem()) {
		return changed(v.Type().String() + " would be decoded as another value")
	}
	return nil
}

// hasMethods reports whether values of t without an address encode themselves.
func (b *planner) hasMethods(t reflect.Type) bool {
	return slices.ContainsFunc(b.Format.Self, t.Implements)
}

var timeType = reflect.TypeFor[time.Time]() // read-only

func checkTime(_ *walk, v reflect.Value) *Change {
	if _, offset := valueOf[time.Time](v).Zone(); offset%60 != 0 {
		return changed("the zone of a time has seconds")
	}
	return nil
}

// checkBinaryTime checks a time for its own binary form. The decoder takes negative seconds of a zone for positive ones.
func checkBinaryTime(_ *walk, v reflect.Value) *Change {
	if _, offset := valueOf[time.Time](v).Zone(); offset < 0 && offset%60 != 0 {
		return changed("the zone of a time is west of UTC by a number of minutes and seconds")
	}
	return nil
}

// pointer checks pointers. A pointer to a nil becomes a nil itself, unless a method writes it.
func (b *planner) pointer(t reflect.Type, embedded bool) func(*walk, reflect.Value) *Change {
	elem := b.node(place{t.Elem(), true, embedded})
	made := b.JSON && !embedded && b.selfMade(t.Elem())
	self := made && t.Elem() != timeType && !proven[fullName(t.Elem())]
	// The method of a list or map is called for nil, too, and may write something else than null.
	called := made && (t.Elem().Kind() == reflect.Slice || t.Elem().Kind() == reflect.Map)
	nullable := b.JSON && isNilable(t.Elem().Kind()) && !called
	if elem.plain() && !nullable && !self {
		return nil
	}
	return func(w *walk, v reflect.Value) *Change {
		if v.IsNil() {
			return nil
		}
		to := v.Elem()
		if nullable && to.IsNil() {
			return changed("a pointer to a nil " + t.Elem().String() + " would be decoded as nil")
		}
		if elem.plain() {
			return nil
		}
		c := w.follow(1)
		if c == nil {
			c = elem.check(w, to)
		}
		_ = w.follow(-1)
		if c != nil || !self {
			return c
		}
		// A method may encode a value as null, which a decoder takes for a nil pointer.
		if back, err := b.again(v); err != nil || back.IsNil() {
			return changed("a pointer to a " + t.Elem().String() + " would be decoded as nil")
		}
		return nil
	}
}

func isNilable(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Map || k == reflect.Slice || k == reflect.Interface
}

// list checks the elements of slices and arrays.
func (b *planner) list(elem *node) func(*walk, reflect.Value) *Change {
	if elem.plain() {
		return nil
	}
	return func(w *walk, v reflect.Value) *Change {
		if v.Kind() == reflect.Slice && v.IsNil() {
			return nil
		}
		c := w.enter()
		for i := 0; i < v.Len() && c == nil; i++ {
			c = elem.check(w, v.Index(i)).in("[]")
		}
		w.leave()
		return c
	}
}

// mapping checks the elements of maps, and keys that encode themselves as texts or refer
// to other values.
func (b *planner) mapping(t reflect.Type) func(*walk, reflect.Value) *Change {
	elem := b.node(place{of: t.Elem(), addressed: !b.JSON})
	b.Texts = true
	// A key that encodes itself may become a text that two keys share, one that refers to another value is
	// never equal to its copy, and one that leaves out a field may be equal to the copy of another key.
	keys := (b.selfMade(t.Key()) || refers(t.Key()) || b.leavesOutPart(t.Key())) && (!proven[fullName(t.Key())] || b.JSON && partly[fullName(t.Key())] != nil)
	if elem.plain() && !keys {
		return nil
	}
	return func(w *walk, v reflect.Value) *Change {
		if v.IsNil() {
			return nil
		}
		if keys && v.Len() > 0 && !b.keepsKeys(v) {
			return changed("a key of the type " + t.Key().String() + " would be decoded as another")
		}
		if elem.plain() {
			return nil
		}
		c := w.enter()
		for i := v.MapRange(); c == nil && i.Next(); {
			c = elem.check(w, b.addressable(i.Value())).in("[]")
		}
		w.leave()
		return c
	}
}

// addressable returns v with an address, unless the encoding gives it none.
func (b *planner) addressable(v reflect.Value) reflect.Value {
	if b.JSON {
		return v
	}
	p := reflect.New(v.Type()).Elem()
	p.Set(v)
	return p
}

// keepsKeys reports whether each key of a map finds its own entry in another program.
func (b *planner) keepsKeys(v reflect.Value) bool {
	keys := reflect.MakeMapWithSize(reflect.MapOf(v.Type().Key(), reflect.TypeFor[int]()), v.Len())
	for i := v.MapRange(); i.Next(); {
		keys.SetMapIndex(i.Key(), reflect.ValueOf(keys.Len())) // each entry has its number
	}
	back, err := b.again(keys)
	if err != nil || back.Len() != v.Len() {
		return false
	}
	for i := keys.MapRange(); i.Next(); {
		if entry := back.MapIndex(i.Key()); !entry.IsValid() || entry.Int() != i.Value().Int() {
			return false
		}
	}
	return true
}

// leavesOutPart reports whether a field of the struct t, or of a struct in it, is not encoded, although == looks at it.
func (b *planner) leavesOutPart(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return b.leavesOutPart(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if f.Name != "_" && (b.leavesOut(&f) || b.leavesOutPart(f.Type)) {
				return true
			}
		}
	}
	return false
}

// refers reports whether a value of t may refer to another value, so that a copy of both
// is not equal to the original.
func refers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Chan, reflect.UnsafePointer:
		return true
	case reflect.Array:
		return refers(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if refers(f.Type) {
				return true
			}
		}
	}
	return false
}
