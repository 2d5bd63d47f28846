// Traces: commands of clients run within a remote.Trace, and say for which cache they run.

package observe

import (
	"context"
	"errors"
	"strings"

	"github.com/strata-cache/strata/remote"
)

// ErrPanicked is the error of a call in which a function of the caller has panicked.
var ErrPanicked = errors.New("a function of the caller has panicked")

// RunTraced runs f, which sends the command c, and tells t of it and of its [Owner]. read returns the
// status of the reply behind an error of f; answer says that the reply only says "no value", so it
// does not count as a failure.
func RunTraced(ctx context.Context, t remote.Trace, c remote.Command, f func() error, read func(error) (status string, answer bool)) error {
	if c.Cache == "" {
		OwnerIn(ctx).Sends(&c)
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

// BoundTrace returns a Trace that tells t, and waits for t as a [Runner] waits: a t that does not return
// holds up no command; a piece of work that t begins late ends with its command. Nil if t is nil.
func BoundTrace(t remote.Trace) remote.Trace {
	if t == nil {
		return nil
	}
	r := NewRunner()
	return func(ctx context.Context, c remote.Command) func(remote.CommandEnd) {
		var g Ending[remote.CommandEnd]
		if r.Run(ctx, func() { g.Begins(t(ctx, c)) }) && g.end == nil {
			return nil // t leaves out the command, or has panicked
		}
		return func(e remote.CommandEnd) {
			if end := g.Ends(e); end != nil {
				r.Run(ctx, func() { end(e) })
			}
		}
	}
}

// Owner says for which cache commands are sent. Commands that the program sends itself have
// none. The zero Owner owns the upkeep: commands that a client, a Tier or a Bus asks for
// itself.
type Owner struct{ Service, Cache string }

// OwnerOf returns the Owner of the commands for a space, as [remote.SpaceName] makes its name.
func OwnerOf(space string) *Owner {
	if service, cache, ok := strings.Cut(space, "{"); ok {
		return &Owner{service, cache}
	}
	return &Owner{Cache: space}
}

// ownerKey is the key of an Owner in a context.
type ownerKey struct{}

// Own returns ctx for commands of o.
func (o *Owner) Own(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownerKey{}, o)
}

// Upkeep returns ctx for commands of upkeep.
func Upkeep(ctx context.Context) context.Context { return (&Owner{}).Own(ctx) }

// Sends notes in c that it is sent for o, unless o is nil.
func (o *Owner) Sends(c *remote.Command) {
	if o != nil {
		c.Service, c.Cache, c.Upkeep = o.Service, o.Cache, *o == Owner{}
	}
}

// OwnerIn returns the Owner of commands under ctx; nil for commands of the program itself.
func OwnerIn(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}
