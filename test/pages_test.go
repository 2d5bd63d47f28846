//go:build unix

package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// TestBeginnersGetAServiceWithTests does all that docs/guide/begin.md says, in an empty
// directory: the programs, Redis, the metrics, the test.
func TestBeginnersGetAServiceWithTests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the libraries of Prometheus and OpenTelemetry")
	}
	page, err := os.ReadFile("../docs/guide/begin.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	port := servers.Port(t)
	reader := kit.Reader{
		Tree:    root,
		Env:     []string{"GOWORK=off"},
		Replace: []string{"localhost:6379", servers.StartRedis(t).Addr, "localhost:8080", fmt.Sprintf("localhost:%d", port)},
	}
	reader.Follow(t, string(page))
}

// TestExampleOfSeveralCachesRuns runs it on a Redis, and compares its output with the page
// docs/guide/several-caches.md.
func TestExampleOfSeveralCachesRuns(t *testing.T) {
	page, err := os.ReadFile("../docs/guide/several-caches.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	// Redis has a tenth of a second for an answer, or the user is loaded once more: a busy machine may exceed it.
	for range 5 {
		cmd := exec.Command("go", "run", "github.com/strata-cache/strata/examples/caches", "-redis", "redis://"+servers.StartRedis(t).Addr)
		out, err = cmd.CombinedOutput()
		if err == nil && strings.Contains(string(page), "It prints:\n\n```\n"+string(out)+"```\n") {
			return
		}
	}
	t.Errorf("%v\n%s", err, out)
}

// TestCachesOfOneBusShareASubscription counts the connections of three caches.
func TestCachesOfOneBusShareASubscription(t *testing.T) {
	for _, tt := range []struct {
		name   string
		shared bool
		want   int
	}{{"one bus", true, 1}, {"a bus each", false, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			server := servers.StartRedis(t)
			client := server.Client(t)
			tier, bus := redis.NewTier(client), redis.NewBus(client)
			for _, name := range []string{"users", "prices", "stock"} {
				if !tt.shared {
					tier, bus = redis.NewTier(client), redis.NewBus(client)
				}
				c, err := strata.New(strata.Options[string, string]{
					Service: "shop", Name: name, TTL: time.Minute, Remote: strata.Remote[string, string]{Tier: tier, Bus: bus},
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close(t.Context()) })
				for end := time.Now().Add(10 * time.Second); !c.Stats().Connected; <-time.After(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("the bus of %s does not connect", name)
					}
				}
			}
			list, err := client.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").String()
			if got := strings.Count(list, "id="); err != nil || got != tt.want {
				t.Errorf("%d subscriptions, want %d: %v\n%s", got, tt.want, err, list)
			}
		})
	}
}
