package strataprom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin"
	strataprom "github.com/strata-cache/strata/prometheus"
)

func ExampleNewCollector() {
	users, err := strata.New(strata.Options[string, int]{Service: "shop", Name: "users", TTL: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	products, err := strata.New(strata.Options[string, int]{Service: "shop", Name: "products", TTL: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()

	prometheus.MustRegister(strataprom.NewCollector(users, products))
	mux.Handle("/metrics", promhttp.Handler())
	mux.Handle("/debug/strata/", admin.Handler(users, products))

	for range 3 {
		_, _ = users.GetOrLoad(context.Background(), "ann", func(context.Context, string) (int, error) { return 1, nil })
	}
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "strata_tier_requests_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// strata_tier_requests_total{cache="products",cache_service="shop",result="hit",tier="L1"} 0
	// strata_tier_requests_total{cache="products",cache_service="shop",result="miss",tier="L1"} 0
	// strata_tier_requests_total{cache="users",cache_service="shop",result="hit",tier="L1"} 2
	// strata_tier_requests_total{cache="users",cache_service="shop",result="miss",tier="L1"} 1
}
