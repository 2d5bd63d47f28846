package strataprom_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/servers"
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
		if n%20 == 0 {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
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

// server is a process of Prometheus.
type server struct{ url string }

// startPrometheus starts a Prometheus that scrapes addr five times a second. Alerts that are
// true for a second fire, in place of the times in alerts.yml.
func startPrometheus(t *testing.T, addr string, flags ...string) *server {
	path, dir := program(t, "prometheus"), t.TempDir()
	rules := regexp.MustCompile(`(?m)^( +)for: .*$`).ReplaceAll(readFile(t, "alerts.yml"), []byte("${1}for: 1s"))
	config := fmt.Sprintf(`
global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}
rule_files: [alerts.yml]
scrape_configs: [{job_name: test, static_configs: [{targets: [%q]}]}]
`, addr)
	for name, data := range map[string]string{"alerts.yml": string(rules), "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	listen := l.Addr().String()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, append(flags, "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", listen)...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{}
	servers.DieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if data, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s", data)
		}
		log.Close()
	})
	return &server{"http://" + listen}
}

// get asks the server, and reports whether it has answered.
func (s *server) get(ctx context.Context, path string, v any) (ok bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(v) == nil
}

// has reports whether the answer to a query has a number.
func (s *server) has(ctx context.Context, expr string) bool {
	var answer struct {
		Data struct {
			Result []struct {
				Value     [2]any
				Histogram []any
			}
		}
	}
	if !s.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr), &answer) {
		return false
	}
	for _, r := range answer.Data.Result {
		if n, ok := r.Value[1].(string); ok && n != "NaN" || r.Histogram != nil {
			return true
		}
	}
	return false
}

// firing returns the alerts that fire.
func (s *server) firing(ctx context.Context) map[string]bool {
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	all := map[string]bool{}
	s.get(ctx, "/api/v1/alerts", &answer)
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			all[a.Labels["alertname"]] = true
		}
	}
	return all
}

// await waits until ok, for half a minute.
func await(t *testing.T, ok func() bool) bool {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
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
	program(t, "prometheus")
	f := startFleet(t)
	defer f.stop()
	mux := http.NewServeMux()
	reg := prometheus.NewRegistry()
	reg.MustRegister(strataprom.NewCollector(f.caches[0], f.caches[1]))
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	target := httptest.NewServer(mux)
	defer target.Close()
	addr := strings.TrimPrefix(target.URL, "http://")
	classic := startPrometheus(t, addr)
	native := startPrometheus(t, addr, "--enable-feature=native-histograms")

	for _, p := range readPanels(t) {
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5s", "$__range", "10s", "$job", ".*", "$instance", ".*", "$cache", ".*").Replace(q.Expr)
			if !await(t, func() bool { return classic.has(t.Context(), expr) }) {
				t.Errorf("%s: no data from classic histograms for\n%s", p.Title, expr)
			}
			if !await(t, func() bool { return native.has(t.Context(), expr) }) {
				t.Errorf("%s: no data from native histograms for\n%s", p.Title, expr)
			}
			if t.Failed() {
				return
			}
		}
	}
	if !native.has(t.Context(), "histogram_count(strata_load_duration_seconds) > 0") || classic.has(t.Context(), "histogram_count(strata_load_duration_seconds)") {
		t.Error("the histograms are not native in one server and classic in the other")
	}

	fires := func(name string, want bool) {
		t.Helper()
		if !await(t, func() bool { return classic.firing(t.Context())[name] == want }) {
			t.Errorf("%s fires: %v; all that fire: %v", name, !want, slices.Collect(maps.Keys(classic.firing(t.Context()))))
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
