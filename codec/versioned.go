package codec

import "fmt"

// Older describes the values that an older version of the program has stored, and how to
// read them. [From] makes one.
type Older[V any] struct {
	// Fingerprint is the [Fingerprint] of the values in that version.
	Fingerprint uint64
	// Decode returns the value of this version for an encoded value of the older one. It has the
	// obligations of the method Decode of a [Codec]. A value for which it returns an error counts
	// as damaged: it is loaded anew.
	Decode func(data []byte) (V, error)
}

// From describes an older version of the values: c decodes an Old, and convert turns it
// into the value of this version. Its panic is an error, like a panic of the codec.
//
// Old has the name and the shape that the type had in that version, and c the name,
// because the fingerprint depends on them: leave the old type as it is, and give the
// new one a new name.
func From[Old, V any](c Codec[Old], convert func(Old) (V, error)) Older[V] {
	return Older[V]{
		Fingerprint: Fingerprint(c),
		Decode: func(data []byte) (v V, err error) {
			defer func() {
				if err != nil {
					v = *new(V)
				}
			}()
			defer rescue[V](c.Name(), "decode", &err)
			old, err := c.Decode(data)
			if err != nil {
				return v, err
			}
			if v, err = convert(old); err != nil {
				return v, fail[V](c.Name(), "decode", "not converted from "+typeName[Old](), err)
			}
			return v, nil
		},
	}
}

// Upgrader is a Codec that can also read the values that older versions of the program have stored.
type Upgrader[V any] interface {
	// Older returns the older versions in the order in which the cache tries them.
	// Every call returns the same versions.
	Older() []Older[V]
}

// Versioned returns c for a cache that also reads the values of older versions of the
// program, the newest first. It encodes as c, and has the fingerprint of c: values of
// this version are stored beside the values of older versions, and older versions never
// read them.
//
// A cache asks L2 once more for each older version if there is no value of this one.
// Leave out a version when no instance of it runs any more, and its last values
// have expired.
func Versioned[V any](c Codec[V], older ...Older[V]) Codec[V] {
	return versioned[V]{wrapped[V]{c}, append(older[:len(older):len(older)], wrapped[V]{c}.Older()...)}
}

type versioned[V any] struct {
	wrapped[V]
	older []Older[V]
}

// Older implements [Upgrader].
func (c versioned[V]) Older() []Older[V] { return c.older }

// Check returns the error of c, or one about versions that cannot be told apart.
func (c versioned[V]) Check() error {
	if err := c.wrapped.Check(); err != nil {
		return err
	}
	seen := map[uint64]bool{Fingerprint(c.Codec): true}
	for i, o := range c.older {
		switch {
		case o.Decode == nil:
			return fmt.Errorf("codec: versioned %s: older version %d has no Decode", typeName[V](), i+1)
		case o.Fingerprint == 0:
			return fmt.Errorf("codec: versioned %s: older version %d has no Fingerprint", typeName[V](), i+1)
		case seen[o.Fingerprint]:
			return fmt.Errorf("codec: versioned %s: older version %d has the fingerprint of another version", typeName[V](), i+1)
		}
		seen[o.Fingerprint] = true
	}
	return nil
}

// wrapped is a codec with all its abilities, for codecs around it.
type wrapped[V any] struct{ Codec[V] }

// Check calls the Check method of the codec, if it has one.
func (w wrapped[V]) Check() error {
	if c, ok := w.Codec.(Checker); ok {
		return c.Check()
	}
	return nil
}

// Older calls the Older method of the codec, if it has one.
func (w wrapped[V]) Older() []Older[V] {
	if c, ok := w.Codec.(Upgrader[V]); ok {
		return c.Older()
	}
	return nil
}

// DecodeAlias calls the DecodeAlias method of the codec if it has one, else Decode.
func (w wrapped[V]) DecodeAlias(data []byte) (V, error) {
	if c, ok := w.Codec.(Aliaser[V]); ok {
		return c.DecodeAlias(data)
	}
	return w.Decode(data)
}

// Lost calls the Lost method of the codec, if it has one.
func (w wrapped[V]) Lost() []string {
	if c, ok := w.Codec.(Lossy); ok {
		return c.Lost()
	}
	return nil
}

// Counts calls the Counts method of the codec, if it has one.
func (w wrapped[V]) Counts() (shortened, raw uint64) {
	if c, ok := w.Codec.(interface {
		Counts() (shortened, raw uint64)
	}); ok {
		return c.Counts()
	}
	return 0, 0
}

func (w wrapped[V]) tagKey() string {
	if t, ok := w.Codec.(tagged); ok {
		return t.tagKey()
	}
	return ""
}
