package strataprom_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	strataprom "github.com/strata-cache/strata/prometheus"
	"github.com/strata-cache/strata/stratatest"
)

// fleet is two caches with traffic, over an L2 and a bus that can be broken.
type fleet struct {
	caches []*strata.Cache[string, int]
	bus    *stratatest.Bus
	broken atomic.Bool // L2
	end    context.CancelFunc
	done   sync.WaitGroup
}

func startFleet(t *testing.T) *fleet {
	f := &fleet{bus: stratatest.NewBus()}
	tier := stratatest.FaultyTier(stratatest.NewTier(), func(string, string) (time.Duration, error) {
		if f.broken.Load() || rand.IntN(200) == 0 { // a fault now and then opens no breaker
			return 0, errors.New("connection refused")
		}
		return 100 * time.Microsecond, nil
	})
	for _, name := range []string{"users", "products"} {
		c, err := strata.New(strata.Options[string, int]{
			Name: name, TTL: time.Second, Stale: strata.Stale{WhileRevalidate: time.Second, OnError: time.Minute},
			Memory: strata.Memory[string, int]{MaxEntries: 300},
			Remote: strata.Remote[string, int]{Tier: tier, Bus: f.bus},
		})
		if err != nil {
			t.Fatal(err)
		}
		f.caches = append(f.caches, c)
	}
	var ctx context.Context
	ctx, f.end = context.WithCancel(context.Background())
	for i := range 4 {
		f.done.Go(func() { call(ctx, f.caches[i%2]) })
	}
	return f
}

// call calls a cache until ctx ends.
func call(ctx context.Context, c *strata.Cache[string, int]) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint(int(rand.ExpFloat64() * 300))
		_, _ = c.GetOrLoad(ctx, key, func(ctx context.Context, _ string) (int, error) {
			select {
			case <-time.After(time.Duration(rand.IntN(4)) * time.Millisecond):
			case <-ctx.Done():
			}
			if rand.IntN(50) == 0 {
				return 0, errors.New("down")
			}
			return n, nil
		})
		if n%50 == 0 {
			_ = c.Invalidate(ctx, key)
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (f *fleet) stop() {
	f.end()
	f.done.Wait()
	f.broken.Store(false)
	for _, c := range f.caches {
		_ = c.Close(context.Background())
	}
}

// await waits until ok, for two minutes.
func await(t *testing.T, ok func() bool) bool {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// TestPanelsAndAlertsInARealPrometheus has Prometheus scrape two caches, once as text, which
// gives classic histograms, and once native ones. Without prometheus, which is in Debian's
// package of that name, it is skipped.
func TestPanelsAndAlertsInARealPrometheus(t *testing.T) {
	f := startFleet(t)
	defer f.stop()
	mux := http.NewServeMux()
	reg := prometheus.NewRegistry()
	reg.MustRegister(strataprom.NewCollector(f.caches[0], f.caches[1]))
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	target := httptest.NewServer(mux)
	defer target.Close()
	addr := strings.TrimPrefix(target.URL, "http://")
	classic := servers.StartPrometheus(t, filepath.Join(dashboards, "alerts.yml"), addr)
	native := servers.StartPrometheus(t, filepath.Join(dashboards, "alerts.yml"), addr, "--enable-feature=native-histograms")

	for _, p := range readPanels(t) {
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5s", "$__range", "10s", "$job", ".*", "$instance", ".*", "$service", ".*", "$cache", ".*").Replace(q.Expr)
			if !await(t, func() bool { return classic.Has(t.Context(), expr) }) {
				t.Errorf("%s: no data from classic histograms for\n%s", p.Title, expr)
			}
			if !await(t, func() bool { return native.Has(t.Context(), expr) }) {
				t.Errorf("%s: no data from native histograms for\n%s", p.Title, expr)
			}
			if t.Failed() {
				return
			}
		}
	}
	if !await(t, func() bool { return native.Has(t.Context(), "histogram_count(strata_load_duration_seconds) > 0") }) || classic.Has(t.Context(), "histogram_count(strata_load_duration_seconds)") {
		t.Error("the histograms are not native in one server and classic in the other")
	}

	fires := func(name string, want bool) {
		t.Helper()
		if !await(t, func() bool { return classic.Firing(t.Context())[name] == want }) {
			t.Errorf("%s fires: %v; all that fire: %v", name, !want, slices.Collect(maps.Keys(classic.Firing(t.Context()))))
		}
	}
	fires("StrataL2BreakerOpen", false)
	fires("StrataBusDown", false)
	f.bus.Cut()
	fires("StrataBusDown", true)
	fires("StrataL2BreakerOpen", false)
	f.bus.Join()
	fires("StrataBusDown", false)
	f.broken.Store(true)
	fires("StrataL2BreakerOpen", true)
	f.broken.Store(false)
	fires("StrataL2BreakerOpen", false)
}
