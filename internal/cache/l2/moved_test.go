package l2_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// restless is a tier in which another server takes over during each drop. Another operation hears
// of the new server before the drop ends.
type restless struct {
	*stratatest.Tier
	heard func()
	drops atomic.Int64
}

func (r *restless) Bind(remote.Space) remote.Tier { return r }

func (r *restless) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	l, err := r.Tier.Drop(ctx, d)
	if r.drops.Add(1) <= 3 {
		r.Restart()
		r.heard()
	}
	return l, err
}

// TestDropDuringTooManyChangesOfServerIsPending: the last of the servers may not know the drop when
// its call returns.
func TestDropDuringTooManyChangesOfServerIsPending(t *testing.T) {
	r := &restless{Tier: stratatest.NewTier()}
	s := open(r, nil)
	r.heard = func() { _, _ = s.Position(t.Context()) }
	var failed *l2.Unconfirmed
	_, err := s.Drop(t.Context(), []remote.Drop{{Key: "k"}})
	if !errors.As(err, &failed) || failed.Pending == 0 || !errors.Is(err, remote.ErrMoved) {
		t.Errorf("%v; want an unconfirmed drop that is pending", err)
	}
	if lost := s.Close(t.Context()); lost.Keys != 0 {
		t.Errorf("%+v was lost", lost)
	}
}
