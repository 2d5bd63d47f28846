package codec

// Codec encodes values of one type as bytes and decodes them. Its methods are
// safe for concurrent use.
type Codec[V any] interface {
	// Name identifies the codec and its format, for example "json". It is
	// constant. A codec with a changed format must have a new name: values
	// written under another name are not decoded but loaded anew.
	Name() string

	// Append appends the encoded value to dst and returns the longer slice,
	// like the function append. It keeps neither dst nor anything that v refers
	// to. On error it returns dst unchanged, except that bytes between its
	// length and its capacity may be overwritten. A value that Decode would return as
	// another one, or not at all, is an error, unless the type says so (see [Lossy]);
	// nil and empty slices and maps count as equal.
	Append(dst []byte, v V) ([]byte, error)

	// Decode is the inverse of Append. The value shares no memory with data, so
	// the caller may reuse data at once. On error the value is the zero value.
	// Input that Append cannot have written is an error, and so is input with
	// extra bytes at the end.
	Decode(data []byte) (V, error)
}

// Checker is a Codec that can check its type before the first use, so that an
// unsuitable type is an error of the cache's constructor.
type Checker interface {
	// Check returns the error that every Append would return, or nil.
	Check() error
}

// Lossy is a Codec that leaves fields of values out.
type Lossy interface {
	// Lost returns the paths of the fields that Append leaves out, or refuses unless they
	// have the values in parentheses behind the path, such as "Home.street", "Items[].n"
	// or "Err (only nil)", or nil.
	Lost() []string
}

// Aliaser is a Codec that can decode without copying. It is for data that its holder
// keeps unchanged anyway, such as a frame of a snapshot.
type Aliaser[V any] interface {
	// DecodeAlias is like Decode, but strings and byte slices of the value may refer to
	// data. So data must never change afterwards, nor may the elements of byte slices
	// of the value; appending to such a slice copies it. A value keeps all of data in
	// memory, even if it refers to a few bytes only.
	DecodeAlias(data []byte) (V, error)
}

// WithName returns c with another name. Values written under the old name are
// not read any more. Change the name when the meaning of a type changes and its
// shape does not.
func WithName[V any](c Codec[V], name string) Codec[V] {
	return named[V]{wrapped: wrapped[V]{c}, name: name}
}

type named[V any] struct {
	wrapped[V]
	name string
}

func (n named[V]) Name() string { return n.name }
