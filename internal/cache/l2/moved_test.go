package l2_test

import (
	"context"
	"errors"
	"testing"

	"github.com/strata-cache/strata/internal/cache/l2"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// restless is a tier in which another server takes over during each drop of a call. Another operation
// hears of the new server before the drop ends. Drops that are tried again wait until the call has ended.
type restless struct {
	*stratatest.Tier
	heard func()
	ended chan struct{}
}

// byCall marks the context of the call.
type byCall struct{}

func (r *restless) Bind(remote.Space) remote.Tier { return r }

func (r *restless) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	if ctx.Value(byCall{}) == nil {
		<-r.ended
		return r.Tier.Drop(ctx, d)
	}
	l, err := r.Tier.Drop(ctx, d)
	r.Restart()
	r.heard()
	return l, err
}

// DropAll is the drop of a queue without room for single ones.
func (r *restless) DropAll(ctx context.Context, soft bool) error {
	<-r.ended
	return r.Tier.DropAll(ctx, soft)
}

// TestDropDuringTooManyChangesOfServerIsPending: the last of the servers may not know the drop when
// its call returns.
func TestDropDuringTooManyChangesOfServerIsPending(t *testing.T) {
	r := &restless{Tier: stratatest.NewTier(), ended: make(chan struct{})}
	s := open(r, nil)
	r.heard = func() { _, _ = s.Position(t.Context()) }
	var failed *l2.Unconfirmed
	_, err := s.Drop(context.WithValue(t.Context(), byCall{}, true), []remote.Drop{{Key: "k"}})
	close(r.ended)
	if !errors.As(err, &failed) || failed.Pending == 0 || !errors.Is(err, remote.ErrMoved) {
		t.Errorf("%v; want an unconfirmed drop that is pending", err)
	}
	if lost := s.Close(t.Context()); lost.Keys != 0 {
		t.Errorf("%+v was lost", lost)
	}
}
