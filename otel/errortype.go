package strataotel

import (
	"context"
	"errors"
	"os"
	"reflect"

	"github.com/strata-cache/strata"
)

// wrappers are the types of errors that only add words to others.
var wrappers = map[string]bool{"*fmt.wrapError": true, "*origin.LoadError": true, "*strata.RemoteError": true} // read-only

// typeOf returns the value of error.type for err: a word for errors of package strata and of
// contexts, the word of a method ErrorType in the chain, or the Go type of the error. It never
// holds a part of the text.
func typeOf(err error) string {
	var own interface{ ErrorType() string }
	var panicked *strata.LoadPanicError
	switch {
	// The more special words come first: an error of a load may wrap the end of a context.
	case errors.As(err, &panicked):
		return "panic"
	case errors.As(err, &own):
		return own.ErrorType()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, strata.ErrClosed):
		return "closed"
	case errors.Is(err, strata.ErrOverloaded):
		return "overloaded"
	case errors.Is(err, strata.ErrRecursiveLoad):
		return "recursive_load"
	case errors.Is(err, strata.ErrLoadExited):
		return "load_exited"
	case errors.Is(err, strata.ErrNoLoader):
		return "no_loader"
	case errors.Is(err, strata.ErrKeyTooLong):
		return "key_too_long"
	}
	// The type of a wrapper says nothing about the failure.
	for wrappers[reflect.TypeOf(err).String()] {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	return reflect.TypeOf(err).String()
}
