package keyname

import (
	"encoding"
	"reflect"
)

// texts returns the conversions by the methods MarshalText of K and UnmarshalText of
// its pointer. ok is false if either is missing.
func texts[K comparable]() (n Names[K], ok bool) {
	var zero K
	_, marshals := any(zero).(encoding.TextMarshaler)
	_, parses := any(&zero).(encoding.TextUnmarshaler)
	if !marshals || !parses {
		return n, false
	}
	return Names[K]{Of: textOf[K], Parse: parseText[K]}, true
}

// textOf returns the text of a key, if it is the text of this key alone: it is
// parsed again. So two keys never share a name, and an instance that reads the
// name in a message finds the key.
func textOf[K comparable](key K) (string, error) {
	text, err := any(key).(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return "", textError[K]("MarshalText failed", err)
	}
	name := string(text)
	switch back, err := parseText[K](name); {
	case err != nil:
		return "", err
	case back != key:
		return "", textError[K]("the text of a key is that of another key, too", nil)
	}
	return name, nil
}

// parseText returns the key with a text.
func parseText[K comparable](s string) (key K, err error) {
	if err := any(&key).(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err != nil {
		return *new(K), textError[K]("UnmarshalText failed", err)
	}
	return key, nil
}

// TextError is the error of a key without a text, or with a text shared with another
// key. The text of the error quotes no part of the key; Err may quote one.
type TextError struct {
	Type, Reason string
	Err          error
}

// Error implements error.
func (e *TextError) Error() string { return "strata: key of type " + e.Type + ": " + e.Reason }

// Unwrap returns the cause. It may be nil.
func (e *TextError) Unwrap() error { return e.Err }

func textError[K comparable](reason string, cause error) error {
	return &TextError{Type: reflect.TypeFor[K]().String(), Reason: reason, Err: cause}
}
