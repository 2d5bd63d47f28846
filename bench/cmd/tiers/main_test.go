package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
)

func TestTableHasEveryRow(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), config{rounds: 2, slice: 20 * time.Millisecond, goroutines: 10, keys: 500, skew: 1.01, origin: "sqlite"}, &out)
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{originOnly, redisOnly, goRedis, localOnly, tieredWarm, tieredCold, tieredZipf, redisAlone, tieredAlone} {
		if !strings.Contains(out.String(), "\n| "+name+" |") {
			t.Errorf("no row %q in\n%s", name, &out)
		}
	}
}

func TestOriginThatIsNoDatabaseIsRefused(t *testing.T) {
	for _, url := range []string{"", "mysql://user:hunter2@h/db", "postgres://user:hunter2@%zz/db", "postgres://user:hunter2@127.0.0.1:1/db?sslmode=hunter2"} {
		if _, err := openOrigin(t.Context(), url, []string{"k"}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
