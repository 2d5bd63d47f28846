package codec

// Codec turns values of one type into bytes and back. Its methods are safe for
// concurrent use.
type Codec[V any] interface {
	// Name tells this codec and its format from all others, for example
	// "json". Whoever changes a format changes its name: values written under
	// another name are not decoded but loaded anew. It is constant.
	Name() string

	// Append appends the encoded value to dst and returns the longer slice, as
	// the append function does. It keeps neither dst nor anything that v
	// refers to. On error it returns dst as it was, though bytes between its
	// length and its capacity may have been overwritten.
	Append(dst []byte, v V) ([]byte, error)

	// Decode is the inverse of Append. The value shares no memory with data,
	// which the caller may use again at once. On error the value is the zero
	// value. Input that Append cannot have written is an error, as is input
	// with bytes left over.
	Decode(data []byte) (V, error)
}

// Checker is a Codec that knows beforehand whether it can carry its type, so
// that a mistake shows when a cache is made and not when it is first used.
type Checker interface {
	// Check returns the error that every Append would return, or nil.
	Check() error
}

// WithName returns c under another name. A new name disowns all values written
// under the old one: give one when the meaning of a type changes and its shape
// does not.
func WithName[V any](c Codec[V], name string) Codec[V] {
	return named[V]{Codec: c, name: name}
}

type named[V any] struct {
	Codec[V]
	name string
}

func (n named[V]) Name() string { return n.name }

// Check forwards to the codec that was renamed.
func (n named[V]) Check() error {
	if c, ok := n.Codec.(Checker); ok {
		return c.Check()
	}
	return nil
}

func (n named[V]) tagKey() string {
	if t, ok := n.Codec.(tagged); ok {
		return t.tagKey()
	}
	return ""
}
