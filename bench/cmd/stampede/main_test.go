package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
)

func TestOneLoadForAllInstances(t *testing.T) {
	server, err := servers.RunRedis()
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := server.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	cfg := config{callers: 200, latency: 20 * time.Millisecond, atOnce: 20}
	want := map[int]int64{1: 200, 2: 1, 3: 1, 4: instances, 5: 1}
	for i, r := range subjects(cfg, client) {
		if err := r.stampede(t.Context(), cfg); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		if i > 0 && r.calls[0] != want[i+1] || r.calls[0] > want[i+1] || r.calls[0] < 1 {
			t.Errorf("%s: %d calls on the origin, want %d", r.name, r.calls[0], want[i+1])
		}
	}
}

func TestTableHasEveryRow(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), config{rounds: 1, callers: 50, latency: time.Millisecond, atOnce: 5}, &out)
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range subjects(config{}, nil) {
		if !strings.Contains(out.String(), "\n| "+r.name+" |") {
			t.Errorf("no row %q in\n%s", r.name, &out)
		}
	}
}
