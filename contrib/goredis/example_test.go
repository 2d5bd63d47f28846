package goredis_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/contrib/goredis"
)

// A cache uses the client that the service has already.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379", ContextTimeoutEnabled: true})
	defer rdb.Close()

	tier, err := goredis.NewTier(rdb) // opens nothing yet
	if err != nil {
		log.Fatal(err)
	}
	bus, err := goredis.NewBus(rdb)
	if err != nil {
		log.Fatal(err)
	}
	greetings, err := strata.New(strata.Options[string, string]{
		Name:   "greetings",
		TTL:    time.Hour,
		Remote: strata.Remote[string, string]{Tier: tier, Bus: bus},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer greetings.Close(context.Background())

	hello, err := greetings.GetOrLoad(context.Background(), "hello", func(_ context.Context, key string) (string, error) {
		return key + ", world", nil
	})
	fmt.Println(hello, err)
}

func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(readme), "```go\n")
	code, _, _ = strings.Cut(code, "```")
	lines := 0
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		lines++
		if !strings.Contains(string(example), line) {
			t.Errorf("the example has no line %s", line)
		}
	}
	if lines < 10 {
		t.Errorf("found %d lines of code", lines)
	}
}
