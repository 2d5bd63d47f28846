package kit

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/strata-cache/strata/remote"
)

// Owners counts the commands of a client by the cache for which they are sent. The zero
// Owners has none. It is safe for concurrent use.
type Owners struct {
	mu  sync.Mutex
	all map[string]int
}

// Trace is for the Options.Trace of a client.
func (o *Owners) Trace(_ context.Context, c remote.Command) func(remote.CommandEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string]int{}
	}
	o.all[fmt.Sprintf("%s of %s, upkeep %v", c.Cache, c.Service, c.Upkeep)]++
	return nil
}

// Only expects commands for one owner, "CACHE of SERVICE, upkeep BOOL", and forgets them.
func (o *Owners) Only(t *testing.T, want string) {
	t.Helper()
	o.These(t, want)
}

// These is Only for some owners, each of which has commands.
func (o *Owners) These(t *testing.T, want ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, owner := range want {
		if o.all[owner] == 0 {
			t.Errorf("got %v, want some of %q", o.all, owner)
		}
	}
	if len(o.all) != len(want) {
		t.Errorf("got %v, want %q alone", o.all, want)
	}
	o.all = nil
}
