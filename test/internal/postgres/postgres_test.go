//go:build unix

package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/strata-cache/strata/test/internal/postgres"
)

func TestPostgresRefusesMoreThanItsConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	const most = 5
	pg := postgres.Start(t, most)
	var open int
	for range 2 * most {
		conn, err := pgx.Connect(t.Context(), pg.URL)
		if err != nil {
			continue
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		open++
	}
	if open > most || open == 0 {
		t.Errorf("%d connections were accepted; want at most %d", open, most)
	}
	pg.Kill()
	if conn, err := pgx.Connect(t.Context(), pg.URL); err == nil {
		conn.Close(t.Context())
		t.Error("a killed server accepted a connection")
	}
}
