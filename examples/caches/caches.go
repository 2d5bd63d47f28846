package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/remote"
)

// caches are all caches of the service. They share a tier and a bus, and so the connections
// of one client.
type caches struct {
	users  *strata.Cache[string, string]
	prices *strata.Cache[int, float64]
}

// open makes the caches. The service has one name, and each cache another one.
func open(tier remote.Tier, bus remote.Bus, db *database) (*caches, error) {
	users, err := strata.New(strata.Options[string, string]{
		Service: "shop", Name: "users", TTL: time.Hour, Loader: db.user,
		Remote: strata.Remote[string, string]{Tier: tier, Bus: bus},
	})
	if err != nil {
		return nil, err
	}
	prices, err := strata.New(strata.Options[int, float64]{
		Service: "shop", Name: "prices", TTL: time.Minute, Loader: db.price,
		Remote: strata.Remote[int, float64]{Tier: tier, Bus: bus},
	})
	if err != nil {
		return nil, errors.Join(err, users.Close(context.Background()))
	}
	return &caches{users, prices}, nil
}

// Close closes the caches beside each other: each may take as long as ctx for pending
// invalidations. The client is closed after them, as the invalidations need it.
func (c *caches) Close(ctx context.Context) error {
	var closing sync.WaitGroup
	var errs [2]error
	closing.Go(func() { errs[0] = c.users.Close(ctx) })
	closing.Go(func() { errs[1] = c.prices.Close(ctx) })
	closing.Wait()
	return errors.Join(errs[:]...)
}
