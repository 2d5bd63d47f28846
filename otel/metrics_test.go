package strataotel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	strataotel "github.com/strata-cache/strata/otel"
	"github.com/strata-cache/strata/otel/producer"
	"github.com/strata-cache/strata/stratatest"
)

// fixed is a Source with constant numbers.
type fixed = lab.FixedStats

// point is a number, or the count of a histogram, with its attributes.
type point struct {
	value      float64
	attributes attribute.Set
}

// collected is a metric.
type collected struct {
	metricdata.Metrics
	points []point
}

// sum adds the points of a metric with these attributes, key and value in turn.
func (c collected) sum(attributes ...string) (n float64) {
	for _, p := range c.points {
		fits := true
		for i := 0; i < len(attributes); i += 2 {
			v, ok := p.attributes.Value(attribute.Key(attributes[i]))
			fits = fits && ok && v.AsString() == attributes[i+1]
		}
		if fits {
			n += p.value
		}
	}
	return n
}

// collect returns all metrics by their names.
func collect(t testing.TB, reader metric.Reader) map[string]collected {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]collected{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if _, twice := byName[m.Name]; twice {
				t.Errorf("%s is there twice", m.Name)
			}
			byName[m.Name] = collected{m, points(t, m.Data)}
		}
	}
	return byName
}

func points(t testing.TB, data metricdata.Aggregation) (all []point) {
	t.Helper()
	switch d := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			all = append(all, point{float64(p.Value), p.Attributes})
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			all = append(all, point{p.Value, p.Attributes})
		}
	case metricdata.Gauge[int64]:
		for _, p := range d.DataPoints {
			all = append(all, point{float64(p.Value), p.Attributes})
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			all = append(all, point{p.Value, p.Attributes})
		}
	case metricdata.ExponentialHistogram[float64]:
		for _, p := range d.DataPoints {
			all = append(all, point{float64(p.Count), p.Attributes})
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			all = append(all, point{float64(p.Count), p.Attributes})
		}
	default:
		t.Fatalf("%T", data)
	}
	return all
}

// metricsOf returns the metrics of caches, their histograms included.
func metricsOf(t testing.TB, caches ...strataotel.Source) map[string]collected {
	t.Helper()
	var sources []producer.Source
	for _, c := range caches {
		sources = append(sources, c)
	}
	reader := metric.NewManualReader(metric.WithProducer(producer.New(sources...)))
	if _, err := strataotel.RegisterMetrics(metric.NewMeterProvider(metric.WithReader(reader)), caches...); err != nil {
		t.Fatal(err)
	}
	return collect(t, reader)
}

// unexported are the numbers of Stats without a metric, and the reason for each.
var unexported = map[string]string{ // read-only
	"Reads":              "the sum of strata.tier.requests of L1",
	"L1.Errors":          "L1 has no errors",
	"L1.TimedOut":        "L1 has no errors",
	"L1.Foreign":         "L1 has no foreign values",
	"L2.Errors":          "strata.remote.duration has them by operation",
	"L2.TimedOut":        "strata.remote.duration has them by operation",
	"Guard.Limit":        "the ceiling is a part of it",
	"Guard.Episodes":     "an episode is the time in which evictions of the guard go on",
	"Guard.EvictedBytes": "an estimate",
	"CallbacksLate":      "callbacks that are late cost nothing before they are so many that events are dropped",
}

func TestEveryNumberOfStatsHasAMetric(t *testing.T) {
	source, numbers := lab.NumberedCache("users")
	all := metricsOf(t, source)
	found := map[float64]bool{}
	for _, m := range all {
		for _, p := range m.points {
			found[p.value] = true
		}
	}
	for path, n := range numbers {
		if _, ok := unexported[path]; found[n] == ok {
			t.Errorf("Stats.%s: has a metric: %v, is listed as unexported: %v", path, found[n], ok)
		}
	}
	if n := all["strata.remote.duration"].sum("strata.op", "get"); n != 7001+7002+7003 {
		t.Errorf("%v requests for values have a duration", n)
	}
	if n := all["strata.tier.requests"].sum("strata.tier", "L2", "strata.result", "error"); n != 7002 {
		t.Errorf("%v requests for values have failed", n)
	}
	if n := all["strata.tier.requests"].sum("strata.tier", "L2", "strata.result", "timeout"); n != 7003 {
		t.Errorf("%v requests for values had no answer in time", n)
	}
	if v, ok := all["strata.info"].points[0].attributes.Value("strata.schema"); !ok || v.AsString() != "json 00" {
		t.Errorf("the schema is %q", v.AsString())
	}
}

// otherName returns the name of a metric of package prometheus as this package has it, and its unit
// if the name tells that.
func otherName(name string) (string, string) {
	unit := ""
	name = strings.TrimSuffix(name, "_total")
	for token, u := range map[string]string{"_seconds": "s", "_bytes": "By"} {
		if strings.Contains(name, token) {
			name, unit = strings.Replace(name, token, "", 1), u
		}
	}
	return strings.ReplaceAll(name, "_", "."), unit
}

func TestNamesAreThoseOfPackagePrometheusWithDots(t *testing.T) {
	code, err := os.ReadFile("../internal/observe/metrics/families.go")
	if err != nil {
		t.Fatal(err)
	}
	source, _ := lab.NumberedCache("users")
	all := metricsOf(t, source)
	n := 0
	for _, match := range regexp.MustCompile(`"(strata_[a-z0-9_]+)"`).FindAllStringSubmatch(string(code), -1) {
		n++
		name, unit := otherName(match[1])
		m, ok := all[name]
		if !ok {
			t.Errorf("%s is missing, which is %s", name, match[1])
			continue
		}
		if m.Description == "" || m.Unit == "" || unit != "" && m.Unit != unit {
			t.Errorf("%s has the unit %q and the description %q", name, m.Unit, m.Description)
		}
		sum, isInt := m.Data.(metricdata.Sum[int64])
		floats, isFloat := m.Data.(metricdata.Sum[float64])
		if counts := isInt && sum.IsMonotonic || isFloat && floats.IsMonotonic; counts != strings.HasSuffix(match[1], "_total") {
			t.Errorf("%s is a counter: %v, unlike %s", name, counts, match[1])
		}
	}
	if n != len(all) {
		t.Errorf("%d metrics, and %d of package prometheus", len(all), n)
	}
}

func TestAttributesOfMetricsAreNamesOfStrata(t *testing.T) {
	source, _ := lab.NumberedCache("users")
	source.Parts.Service = "shop"
	allowed := strings.Fields("cache.name cache.service tier result outcome reason origin op direction version schema l2 bus partition server")
	for name, m := range metricsOf(t, source) {
		for _, p := range m.points {
			if v, _ := p.attributes.Value("strata.cache.name"); v.AsString() != "users" {
				t.Errorf("%s is of the cache %q", name, v.AsString())
			}
			if v, _ := p.attributes.Value("strata.cache.service"); v.AsString() != "shop" {
				t.Errorf("%s is of the service %q", name, v.AsString())
			}
			for _, a := range p.attributes.ToSlice() {
				if !slices.Contains(allowed, strings.TrimPrefix(string(a.Key), "strata.")) {
					t.Errorf("%s has the attribute %s", name, a.Key)
				}
			}
		}
	}
}

// traffic sends all kinds of calls to a cache, and waits until it is quiet.
func traffic(t *testing.T, c *strata.Cache[string, int]) {
	var calls sync.WaitGroup
	for i := range 2000 {
		key := fmt.Sprintf("key-of-ann-%d", i%23)
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i%40)*time.Millisecond)
			defer cancel()
			switch i % 23 {
			case 0:
				_ = c.Invalidate(t.Context(), key)
			case 1:
				_, _ = c.Get(t.Context(), key)
			case 2:
				_ = c.Set(t.Context(), key, i)
			default:
				_, _ = c.GetOrLoad(ctx, key, func(context.Context, string) (int, error) {
					time.Sleep(time.Duration(i%5) * 10 * time.Millisecond)
					switch i % 7 {
					case 0:
						return 0, strata.ErrNotFound
					case 1:
						return 0, errors.New("key-of-ann is down")
					}
					return i, nil
				})
			}
		})
		if i%20 == 0 {
			time.Sleep(30 * time.Millisecond) // in the bubble
		}
	}
	calls.Wait()
	time.Sleep(time.Minute) // in the bubble
}

func TestMetricsOfAQuietCacheAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache(t, nil, stratatest.NewTier(), func(o *strata.Options[string, int]) { o.TTL, o.Jitter = 50*time.Millisecond, 0 })
		traffic(t, c)
		s := c.Stats()
		all := metricsOf(t, c)
		equal := func(what string, got, want float64) {
			t.Helper()
			if got != want || got == 0 {
				t.Errorf("%s: %v, want %v and not 0", what, got, want)
			}
		}
		equal("reads", all["strata.tier.requests"].sum("strata.tier", "L1"), float64(s.Reads))
		equal("misses", all["strata.misses"].sum(),
			all["strata.tier.requests"].sum("strata.tier", "L1", "strata.result", "miss")+all["strata.refreshes"].sum("strata.result", "started"))
		equal("flights", all["strata.flights"].sum(), all["strata.misses"].sum("strata.outcome", "flight"))
		equal("loads", all["strata.loads"].sum(), all["strata.flights"].sum("strata.outcome", "loaded"))
		equal("durations of loads", all["strata.load.duration"].sum(), all["strata.loads"].sum())
		for name, m := range all {
			for _, p := range m.points {
				if text := p.attributes.Encoded(attribute.DefaultEncoder()); strings.Contains(text, "ann") {
					t.Errorf("%s has a key: %s", name, text)
				}
			}
		}
	})
}

func TestWrongCachesAreErrorsAndRegisterNothing(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	for want, caches := range map[string][]strataotel.Source{
		"no cache":                          nil,
		`two caches have the name "users"`:  {fixed{Name: "users"}, fixed{Name: "users"}},
		"cache 2 of 2 is nil":               {fixed{Name: "users"}, nil},
		"strataotel: cache 1 of 1 is nil":   {(*strata.Cache[string, int])(nil)},
		"cache 2 of 3 is nil\nstrataotel: ": {fixed{}, nil, nil},
	} {
		if stop, err := strataotel.RegisterMetrics(provider, caches...); err == nil || stop != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if all := collect(t, reader); len(all) != 0 {
		t.Errorf("%d metrics are registered", len(all))
	}
}

func TestMetricsEndWithUnregister(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	stop, err := strataotel.RegisterMetrics(provider, fixed{Name: "users"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strataotel.RegisterMetrics(provider, fixed{Name: "products"}); err != nil {
		t.Fatal(err)
	}
	if n := len(collect(t, reader)["strata.entries"].points); n != 2 {
		t.Errorf("%d caches are observed", n)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, reader)["strata.entries"].points; len(got) != 1 || !strings.Contains(got[0].attributes.Encoded(attribute.DefaultEncoder()), "products") {
		t.Errorf("got %v", got)
	}
	if stop, err = strataotel.RegisterMetrics(nil, fixed{Name: "users"}); err != nil {
		t.Error(err) // the global provider
	} else if err = stop(); err != nil {
		t.Error(err)
	}
}

func TestCacheWithoutL2AndBusHasNoMetricsOfThem(t *testing.T) {
	all := metricsOf(t, fixed{Name: "lone"})
	for name, m := range all {
		if strings.HasPrefix(name, "strata.bus") || strings.HasPrefix(name, "strata.remote") || strings.HasPrefix(name, "strata.breaker") {
			t.Errorf("%s: %v", name, m)
		}
	}
	if n := all["strata.info"].sum(); n != 1 {
		t.Errorf("strata.info is %v", n)
	}
}

func TestTenGoroutinesCollectAndRegister(t *testing.T) {
	source, _ := lab.NumberedCache("users")
	reader := metric.NewManualReader(metric.WithProducer(producer.New(source)))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	var all sync.WaitGroup
	for i := range 10 {
		c := cache(t, nil, stratatest.NewTier(), func(o *strata.Options[string, int]) { o.Name = fmt.Sprint("users", i) })
		all.Go(func() {
			stop, err := strataotel.RegisterMetrics(provider, c)
			if err != nil {
				t.Error(err)
				return
			}
			for k := range 50 {
				_, _ = c.GetOrLoad(t.Context(), fmt.Sprint(k), func(context.Context, string) (int, error) { return k, nil })
				if k%10 == 0 {
					collect(t, reader)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
