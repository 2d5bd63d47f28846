// Package kit has helpers that tests of several packages share.
package kit

import (
	"context"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

// Acquire requests the lease of one key.
func Acquire(ctx context.Context, t remote.Tier, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	return Refresh(ctx, t, key, 0, d)
}

// Refresh requests the lease of one key to replace the value with that ID.
func Refresh(ctx context.Context, t remote.Tier, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
	return Ask(ctx, t, remote.Request{Key: key, Replace: id}, d)
}

// Ask makes one request for a lease.
func Ask(ctx context.Context, t remote.Tier, r remote.Request, d time.Duration) (remote.Held, remote.Lease, error) {
	acquired, err := t.Acquire(ctx, []remote.Request{r}, d)
	if err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	return acquired[0].Held, acquired[0].Lease, acquired[0].Err
}

// AcquireMany requests the leases of keys. The first error of a request becomes the
// error of the call.
func AcquireMany(ctx context.Context, t remote.Tier, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
	acquired, err := t.Acquire(ctx, Requests(keys...), d)
	if err != nil {
		return nil, nil, err
	}
	held, leases := make([]remote.Held, len(acquired)), make([]remote.Lease, len(acquired))
	for i, a := range acquired {
		if a.Err != nil {
			return nil, nil, a.Err
		}
		held[i], leases[i] = a.Held, a.Lease
	}
	return held, leases, nil
}

// Requests returns requests for the leases of keys.
func Requests(keys ...string) []remote.Request {
	r := make([]remote.Request, len(keys))
	for i, key := range keys {
		r[i].Key = key
	}
	return r
}

// EachRequest answers each request by f, all at once, as servers of several keys
// do.
func EachRequest(r []remote.Request, f func(remote.Request) (remote.Held, remote.Lease, error)) ([]remote.Acquired, error) {
	acquired := make([]remote.Acquired, len(r))
	var all sync.WaitGroup
	for i := range r {
		all.Go(func() {
			a := &acquired[i]
			a.Held, a.Lease, a.Err = f(r[i])
		})
	}
	all.Wait()
	return acquired, nil
}
