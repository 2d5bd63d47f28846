package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/servers"
)

func TestTableHasEveryRow(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), config{rounds: 2, slice: 20 * time.Millisecond, goroutines: 10, keys: 500, skew: 1.01}, &out)
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{redisOnly, goRedis, localOnly, tieredWarm, tieredCold, tieredZipf} {
		if !strings.Contains(out.String(), "\n| "+name+" |") {
			t.Errorf("no row %q in\n%s", name, &out)
		}
	}
}
