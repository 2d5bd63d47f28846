package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// TestAlertsFireWhenTheRedisOfTheDemoDies has a real Prometheus scrape the demo, kills its Redis,
// and starts it again. Seconds stand for the minutes of dashboards/alerts.yml. L2 and the bus are
// one server: one alert says that it is dead.
func TestAlertsFireWhenTheRedisOfTheDemoDies(t *testing.T) {
	if testing.Short() {
		t.Skip("the module prometheus has a shorter test without a server")
	}
	server := servers.StartRedis(t)
	client := server.Client(t)
	db, err := origin.Open(t.Context(), origin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	demo, err := hello.New(hello.Options{Origin: db, TTL: time.Second, MaxEntries: 50, Tier: redis.NewTier(client), Bus: redis.NewBus(client)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(demo)
	prometheus := servers.StartPrometheus(t, "../dashboards/alerts.yml", strings.TrimPrefix(web.URL, "http://"))

	ctx, end := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer func() {
		end()
		readers.Wait()
		web.Close()
		_ = demo.Close(context.Background())
	}()
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				url := fmt.Sprintf("%s/hello?name=World%d&locale=en-GB", web.URL, rand.IntN(200))
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if answer, err := http.DefaultClient.Do(r); err == nil {
					answer.Body.Close()
				}
			}
		})
	}

	await := func(what string, ok func() bool) {
		t.Helper()
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	fires := func(name string, want bool) {
		t.Helper()
		await(fmt.Sprintf("%s fires: %v", name, want), func() bool { return prometheus.Firing(ctx)[name] == want })
	}
	await("the demo is scraped", func() bool {
		return prometheus.Has(ctx, "rate(strata_remote_duration_seconds_count[5s]) > 0") && prometheus.Has(ctx, "strata_bus_connected == 1")
	})
	fires("StrataL2BreakerOpen", false)
	server.Kill()
	fires("StrataL2BreakerOpen", true)
	fires("StrataBusDown", false)
	server.Restart()
	fires("StrataL2BreakerOpen", false)
}
