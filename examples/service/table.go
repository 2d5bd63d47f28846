package main

import (
	"context"
	"sync"

	"github.com/strata-cache/strata"
)

// table stands for a database.
type table struct {
	mu      sync.Mutex // guards below
	rows    map[string]user
	queries int
	err     error // of every call, if the database is down
}

// newTable returns a table with one user.
func newTable() *table { return &table{rows: map[string]user{"ann": {ID: "ann", Name: "Ann"}}} }

func (t *table) find(_ context.Context, id string) (user, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queries++
	u, ok := t.rows[id]
	if t.err == nil && !ok {
		return user{}, strata.ErrNotFound
	}
	return u, t.err
}

func (t *table) save(_ context.Context, u user) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.rows[u.ID] = u
	}
	return t.err
}
