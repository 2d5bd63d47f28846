package strataprom_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	strataprom "github.com/strata-cache/strata/prometheus"
	"github.com/strata-cache/strata/stratatest"
)

// fixed is a Source with constant numbers.
type fixed = lab.FixedStats

// registry returns one that checks more than others, with a collector of caches.
func registry(t testing.TB, caches ...strataprom.Source) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(strataprom.NewCollector(caches...)); err != nil {
		t.Fatal(err)
	}
	return reg
}

func gather(t testing.TB, reg prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range all {
		byName[f.GetName()] = f
	}
	return byName
}

// value is the number of a metric; the count of a histogram.
func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return float64(m.Histogram.GetSampleCount())
}

// sum adds the metrics of a family with these labels, name and value in turn.
func sum(f *dto.MetricFamily, labels ...string) (n float64) {
	for _, m := range f.GetMetric() {
		if has(m, labels) {
			n += value(m)
		}
	}
	return n
}

func has(m *dto.Metric, labels []string) bool {
	have := map[string]string{}
	for _, l := range m.Label {
		have[l.GetName()] = l.GetValue()
	}
	for i := 0; i < len(labels); i += 2 {
		if have[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// unexported are the numbers of Stats without a metric, and the reason for each.
var unexported = map[string]string{ // read-only
	"Reads":              "the sum of strata_tier_requests_total of L1",
	"L1.Errors":          "L1 has no errors",
	"L1.TimedOut":        "L1 has no errors",
	"L1.Foreign":         "L1 has no foreign values",
	"L2.Errors":          "strata_remote_duration_seconds has them by operation",
	"L2.TimedOut":        "strata_remote_duration_seconds has them by operation",
	"Guard.Limit":        "the ceiling is a part of it",
	"Guard.Episodes":     "an episode is the time in which evictions of the guard go on",
	"Guard.EvictedBytes": "an estimate",
	"CallbacksLate":      "callbacks that are late cost nothing before they are so many that events are dropped",
}

func TestEveryNumberOfStatsHasAMetric(t *testing.T) {
	source, numbers := lab.NumberedCache("users")
	found := map[float64]bool{}
	all := gather(t, registry(t, source))
	for _, f := range all {
		for _, m := range f.Metric {
			found[value(m)] = true
		}
	}
	for path, n := range numbers {
		if _, ok := unexported[path]; found[n] == ok {
			t.Errorf("Stats.%s: has a metric: %v, is listed as unexported: %v", path, found[n], ok)
		}
	}
	if n := sum(all["strata_remote_duration_seconds"], "op", "get"); n != 7001+7002+7003 {
		t.Errorf("%v requests for values have a duration", n)
	}
	if n := sum(all["strata_tier_requests_total"], "tier", "L2", "result", "error"); n != 7002 {
		t.Errorf("%v requests for values have failed", n)
	}
	if n := sum(all["strata_tier_requests_total"], "tier", "L2", "result", "timeout"); n != 7003 {
		t.Errorf("%v requests for values had no answer in time", n)
	}
}

func TestEverySwitchOfStatsHasAMetric(t *testing.T) {
	gauges := func(s fixed) (on float64) {
		for _, f := range gather(t, registry(t, s)) {
			if f.GetType() == dto.MetricType_GAUGE {
				on += sum(f)
			}
		}
		return on
	}
	source, _ := lab.NumberedCache("users")
	v, all := reflect.ValueOf(&source).Elem(), gauges(source)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Bool {
			f.SetBool(false)
			if n := gauges(source); n != all-1 {
				t.Errorf("Stats.%s changes the gauges from %v to %v", v.Type().Field(i).Name, all, n)
			}
			f.SetBool(true)
		}
	}
}

func TestTwoCachesOfOneNameAreAnErrorOfRegister(t *testing.T) {
	a, b := fixed{Name: "users"}, fixed{Name: "users"}
	register := func(caches ...strataprom.Source) error {
		return prometheus.NewRegistry().Register(strataprom.NewCollector(caches...))
	}
	if err := register(a, b); err == nil || !strings.Contains(err.Error(), `two caches have the name "users"`) {
		t.Errorf("in one collector: %v", err)
	}
	if err := register(a, nil, (*strata.Cache[string, int])(nil)); err == nil || !strings.Contains(err.Error(), "cache 2 of 3 is nil") || !strings.Contains(err.Error(), "cache 3 of 3 is nil") {
		t.Errorf("nil: %v", err)
	}
	if err := register(); err == nil || !strings.Contains(err.Error(), "no cache") {
		t.Errorf("without caches: %v", err)
	}
	reg := registry(t, a)
	if err := reg.Register(strataprom.NewCollector(b)); err == nil {
		t.Error("two collectors with caches of one name are registered")
	}
	if err := reg.Register(strataprom.NewCollector(fixed{Name: "products"}, b)); err == nil {
		t.Error("a collector with a new cache and one of a name that is taken is registered")
	}
	if err := reg.Register(strataprom.NewCollector(fixed{Name: "products"})); err != nil {
		t.Errorf("a second collector with a cache of its own: %v", err)
	}
	if n := len(gather(t, reg)["strata_entries"].Metric); n != 2 {
		t.Errorf("%d caches are collected", n)
	}
}

func TestLintFindsNothing(t *testing.T) {
	source, _ := lab.NumberedCache("users")
	problems, err := testutil.GatherAndLint(registry(t, source))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestSeriesOfACacheAreBounded(t *testing.T) {
	lone := fixed{Name: "lone"}
	full, _ := lab.NumberedCache("full")
	full.Operations = nil
	usual := full
	usual.Compressed, usual.StoredRaw = 0, 0 // its Codec does not compress
	usual.DecodeErrors = 0                   // its L1 keeps values as they are
	for i, op := range []string{"get", "tags", "acquire", "put", "extend", "renew", "release", "drop", "drop_tags", "drop_all"} {
		for _, result := range []string{"ok", "error", "timeout", "cancelled"} {
			o := strata.OperationStats{Operation: op, Result: result}
			for b := range o.Latency.Buckets {
				o.Latency.Buckets[b] = 1
			}
			full.Operations = append(full.Operations, o)
			if i > 0 && i < 4 && result == "ok" {
				usual.Operations = append(usual.Operations, o)
			}
		}
	}
	for _, c := range []struct {
		source fixed
		most   int
	}{{lone, 88}, {usual, 220}, {full, 890}} {
		n := 0
		for _, f := range gather(t, registry(t, c.source)) {
			for _, m := range f.Metric {
				if n++; m.Histogram != nil {
					n += len(m.Histogram.Bucket) + 2 // +Inf, sum and count
				}
			}
		}
		if n > c.most || n < c.most*3/4 {
			t.Errorf("cache %s has %d series, want up to %d", c.source.Name, n, c.most)
		}
	}
}

// traffic sends all kinds of calls to instances, and waits until the caches are quiet.
func traffic(t *testing.T, instances ...*strata.Cache[string, int]) {
	var wg sync.WaitGroup
	for i := range 3000 {
		c, key := instances[i%len(instances)], fmt.Sprintf("key-of-ann-%d", i%23)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%40)*time.Millisecond)
			defer cancel()
			switch i % 29 {
			case 0:
				c.Invalidate(t.Context(), key)
			case 1:
				c.Expire(t.Context(), key)
			case 2:
				c.Get(t.Context(), key)
			case 3:
				c.GetMany(ctx, []string{key, "key-of-ann-1", "key-of-ann-2"}, nil)
			case 4:
				c.Set(t.Context(), key, i)
			default:
				c.GetOrLoad(ctx, key, func(context.Context, string) (int, error) {
					time.Sleep(time.Duration(i%5) * 10 * time.Millisecond)
					switch i % 7 {
					case 0:
						return 0, strata.ErrNotFound
					case 1:
						return 0, errors.New("down")
					case 2:
						panic("boom")
					case 3:
						return 0, strata.ErrNotModified
					}
					return i, nil
				})
			}
		})
		if i%50 == 0 {
			time.Sleep(7 * time.Millisecond)
		}
	}
	wg.Wait()
	time.Sleep(time.Minute)
	synctest.Wait()
}

// options returns the options of an instance over a tier and a bus.
func options(tier *stratatest.Tier, bus *stratatest.Bus) strata.Options[string, int] {
	return strata.Options[string, int]{
		Name: "users", TTL: 50 * time.Millisecond, Stale: strata.Stale{OnError: time.Minute},
		Remote: strata.Remote[string, int]{Tier: tier, Bus: bus},
	}
}

func TestMetricsOfAQuietCacheAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		var caches []*strata.Cache[string, int]
		for range 2 {
			c, err := strata.New(options(tier, bus))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			caches = append(caches, c)
		}
		traffic(t, caches...)
		for _, c := range caches {
			s := c.Stats()
			all := gather(t, registry(t, c))
			equal := func(what string, got, want float64) {
				if got != want || got == 0 {
					t.Errorf("%s: %v, want %v and not 0", what, got, want)
				}
			}
			equal("reads", sum(all["strata_tier_requests_total"], "tier", "L1"), float64(s.Reads))
			equal("misses", sum(all["strata_misses_total"]),
				sum(all["strata_tier_requests_total"], "tier", "L1", "result", "miss")+sum(all["strata_refreshes_total"], "result", "started"))
			equal("flights", sum(all["strata_flights_total"]), sum(all["strata_misses_total"], "outcome", "flight"))
			equal("loads", sum(all["strata_loads_total"]), sum(all["strata_flights_total"], "outcome", "loaded"))
			equal("durations of loads", sum(all["strata_load_duration_seconds"]), sum(all["strata_loads_total"]))
			equal("L2 hits", sum(all["strata_tier_requests_total"], "tier", "L2", "result", "hit"), sum(all["strata_flights_total"], "outcome", "l2"))
			if n := sum(all["strata_loads_in_flight"]); n != 0 {
				t.Errorf("%v loads run in a quiet cache", n)
			}
			for _, f := range all {
				if strings.Contains(f.String(), "ann") {
					t.Errorf("%s has a key: %s", f.GetName(), f)
				}
			}
		}
	})
}

func TestClosedCacheCanBeScraped(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		c, err := strata.New(options(stratatest.NewTier(), stratatest.NewBus()))
		if err != nil {
			t.Fatal(err)
		}
		if when == "before" {
			c.Close(t.Context())
		}
		reg := registry(t, c)
		c.Close(t.Context())
		if all := gather(t, reg); len(all) < 30 {
			t.Errorf("closed %s NewCollector: %d metrics", when, len(all))
		}
	}
}

// TestCachesOfOneNameInTwoServicesAreTwo has a cache of a library beside one of the program, in one
// collector and in two.
func TestCachesOfOneNameInTwoServicesAreTwo(t *testing.T) {
	ours, theirs := fixed{Name: "users"}, fixed{Name: "users", Parts: strata.Parts{Service: "lib"}}
	together, apart := registry(t, ours, theirs), registry(t, theirs)
	apart.MustRegister(strataprom.NewCollector(ours))
	for name, reg := range map[string]*prometheus.Registry{"together": together, "apart": apart} {
		var services []string
		for _, m := range gather(t, reg)["strata_entries"].GetMetric() {
			for _, l := range m.Label {
				if l.GetName() == "cache_service" {
					services = append(services, l.GetValue())
				}
			}
		}
		if !slices.Equal(services, []string{"", "lib"}) {
			t.Errorf("%s: caches of the services %q", name, services)
		}
	}
	if err := apart.Register(strataprom.NewCollector(theirs)); err == nil {
		t.Error("a cache of a name and a service that are taken is registered")
	}
}

// TestEveryMetricNamesTheService registers a cache with a service and one without in one
// registry: their label names must agree.
func TestEveryMetricNamesTheService(t *testing.T) {
	reg := registry(t, fixed{Name: "a", Parts: strata.Parts{Service: "shop"}})
	reg.MustRegister(strataprom.NewCollector(fixed{Name: "b"}))
	for name, f := range gather(t, reg) {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if want := map[string]string{"a": "shop", "b": ""}[labels["cache"]]; labels["cache_service"] != want {
				t.Errorf("%s of %q has the service %q", name, labels["cache"], labels["cache_service"])
			}
		}
	}
}

func TestCacheWithoutL2AndBusHasNoMetricsOfThem(t *testing.T) {
	all := gather(t, registry(t, fixed{Name: "lone"}))
	for name, f := range all {
		if strings.HasPrefix(name, "strata_bus") || strings.HasPrefix(name, "strata_remote") || strings.HasPrefix(name, "strata_breaker") {
			t.Errorf("%s: %v", name, f)
		}
	}
	if n := sum(all["strata_info"]); n != 1 {
		t.Errorf("strata_info is %v", n)
	}
}

func BenchmarkScrapeOfFiftyCaches(b *testing.B) {
	var caches []strataprom.Source
	for i := range 50 {
		o := options(stratatest.NewTier(), stratatest.NewBus())
		o.Name = fmt.Sprint("cache", i)
		c, err := strata.New(o)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close(context.Background())
		for k := range 100 {
			_, _ = c.GetOrLoad(b.Context(), fmt.Sprint(k), func(context.Context, string) (int, error) { return k, nil })
		}
		_ = c.Invalidate(b.Context(), "1")
		caches = append(caches, c)
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(strataprom.NewCollector(caches...))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := reg.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
