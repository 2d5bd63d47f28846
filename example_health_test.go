package strata_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

// How does a platform learn whether it may send requests? Liveness asks nothing. Readiness
// waits for the start of the program, and reports L2 and the bus without asking them.
func ExampleCache_Stats_health() {
	ctx := context.Background()
	users, err := strata.New(strata.Options[string, user]{
		Name:   "users",
		TTL:    5 * time.Minute,
		Remote: strata.Remote[string, user]{Tier: stratatest.NewTier(), Bus: stratatest.NewBus()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)

	var started atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !started.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		s := users.Stats()
		fmt.Fprintf(w, "%s: breaker open %v, storing stopped %v, off %v", s.Name, s.BreakerOpen, s.StoringStopped, s.Off)
	})

	ask := func(path string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
		fmt.Println(path, w.Code, w.Body)
	}
	ask("/livez")
	ask("/readyz")
	started.Store(true) // after Warm
	ask("/readyz")
	// Output:
	// /livez 200 alive
	// /readyz 503 users: breaker open false, storing stopped false, off false
	// /readyz 200 users: breaker open false, storing stopped false, off false
}
