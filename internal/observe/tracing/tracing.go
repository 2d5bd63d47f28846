// Package tracing runs commands of clients within a [remote.Trace].
package tracing

import (
	"context"
	"errors"

	"github.com/strata-cache/strata/internal/observe/callback"
	"github.com/strata-cache/strata/remote"
)

// ErrPanicked is the error of a call in which a function of the caller has panicked.
var ErrPanicked = errors.New("a function of the caller has panicked")

// Run runs f, which sends the command c, and tells t of it and of its [Owner]. read returns the
// status of the reply behind an error of f; answer says that the reply only says "no value", so it
// does not count as a failure.
func Run(ctx context.Context, t remote.Trace, c remote.Command, f func() error, read func(error) (status string, answer bool)) error {
	if c.Cache == "" {
		Of(ctx).Sends(&c)
	}
	end := t(ctx, c)
	if end == nil {
		return f()
	}
	e := remote.CommandEnd{Err: ErrPanicked}
	defer func() { end(e) }() // also if a callback of f panics
	err := f()
	e.Err = nil
	if err == nil {
		return nil
	}
	var answer bool
	if e.Status, answer = read(err); !answer {
		e.Err = err
	}
	return err
}

// Bounded returns a Trace that tells t, and waits for t as package callback says: a t that does not return
// holds up no command. Nil if t is nil.
func Bounded(t remote.Trace) remote.Trace {
	if t == nil {
		return nil
	}
	r := callback.NewRunner()
	return func(ctx context.Context, c remote.Command) func(remote.CommandEnd) {
		var end func(remote.CommandEnd)
		if !r.Run(ctx, func() { end = t(ctx, c) }) || end == nil {
			return nil
		}
		return func(e remote.CommandEnd) { r.Run(ctx, func() { end(e) }) }
	}
}
