package tracing

import (
	"context"
	"strings"

	"github.com/strata-cache/strata/remote"
)

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

// Of returns the Owner of commands under ctx; nil for commands of the program itself.
func Of(ctx context.Context) *Owner {
	o, _ := ctx.Value(ownerKey{}).(*Owner)
	return o
}
