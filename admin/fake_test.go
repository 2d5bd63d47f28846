package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/memory"
)

// fake is a cache with answers that a test sets. It records the calls that could
// change something.
type fake struct {
	mu       sync.Mutex
	name     string
	stats    strata.Stats
	info     observe.Info
	settings []observe.Setting
	events   []observe.Event
	hot      observe.Hot
	answers  []observe.Explanation
	err      error
	calls    []string
	asked    int           // calls of Stats
	watched  atomic.Int64  // calls of Watch
	hold     chan struct{} // not nil: Explain waits for it
}

var _ Cache = (*strata.Cache[string, int])(nil)

// with changes the cache.
func (f *fake) with(change func(*fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fake) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fake) Name() string { return f.name }

func (f *fake) Stats() strata.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.stats
}
func (f *fake) Inside() strata.Inside       { return strata.Inside(transfer.NewParts(f, nil)) }
func (f *fake) Info() observe.Info          { return f.info }
func (f *fake) Settings() []observe.Setting { return f.settings }
func (f *fake) Hot() observe.Hot            { return f.hot }
func (f *fake) Watch()                      { f.watched.Add(1) }

func (f *fake) Events(after uint64) (all []observe.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.Number > after {
			all = append(all, e)
		}
	}
	return all
}

func (f *fake) Explain(ctx context.Context, key string) ([]observe.Explanation, error) {
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
		}
	}
	return f.answers, f.call("explain " + key)
}

func (f *fake) Invalidate(_ context.Context, key string, soft bool) error {
	return f.call(word(soft, "key "+key))
}

func (f *fake) InvalidateTags(_ context.Context, tags []string, soft bool) error {
	return f.call(word(soft, "tags "+strings.Join(tags, "|")))
}

func (f *fake) Tune(t strata.Tuning) error {
	call, v := "tune", reflect.ValueOf(t)
	for field, change := range v.Fields() {
		if !change.IsNil() {
			call += fmt.Sprintf(" %s=%v", field.Name, change.Elem())
		}
	}
	return f.call(call)
}

func (f *fake) InvalidateAll(_ context.Context, soft bool) error { return f.call(word(soft, "all")) }

func word(soft bool, text string) string {
	if soft {
		return "expire " + text
	}
	return "invalidate " + text
}

func (f *fake) call(text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, text)
	return f.err
}

// testToken is the token of pages in tests.
const testToken = "token-of-a-test-0123"

// local returns a request of a browser on this machine, with the token.
func local(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:8080", "127.0.0.1:50000"
	r.Header.Set("Authorization", "Bearer "+testToken)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// ask sends a request and returns status and body.
func ask(h http.Handler, r *http.Request) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// answer sends a request, which must succeed, and decodes the answer strictly: the types
// name all fields of the JSON.
func answer[T any](t *testing.T, h http.Handler, r *http.Request) (v T) {
	t.Helper()
	status, body := ask(h, r)
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil || status != 200 {
		t.Fatalf("%s %s: %d %s, %v", r.Method, r.URL, status, body, err)
	}
	return v
}

// pageOf returns a page, and closes it at the end of the test.
func pageOf(t *testing.T, o Options, caches ...Cache) *Page {
	t.Helper()
	if o.Authorize == nil {
		o.Token = testToken
	}
	p := New(o, caches...)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestRoutesWorkBelowAnyPrefix(t *testing.T) {
	p := pageOf(t, Options{}, &fake{name: "users"})
	for _, prefix := range []string{"/", "/debug/strata/", "/a/api/b/", "/assets/"} {
		mux := http.NewServeMux()
		mux.Handle(prefix, p)
		stripped := http.StripPrefix(strings.TrimSuffix(prefix, "/"), p)
		for name, h := range map[string]http.Handler{"mux": mux, "stripped": stripped} {
			for path, want := range map[string]string{
				"": "<!doctype html>", "assets/admin.js": "import {", "assets/page.js": "export function", "assets/uplot.js": "uPlot",
				"assets/page.css": ":root", "assets/admin.css": ".cache", "assets/icon.svg": "<svg", "assets/uplot-LICENSE.txt": "MIT",
				"api/caches": `"caches":[{"name":"users"`, "api/cache?name=users": `"samples":[]`, "api/explain?name=users&key=k": `"instances":[]`,
			} {
				if status, body := ask(h, local("GET", prefix+path, "")); status != 200 || !strings.Contains(body, want) {
					t.Errorf("%s %s%s: %d %.80s", name, prefix, path, status, body)
				}
			}
			if status, body := ask(h, local("POST", prefix+"api/all", `{"name":"users"}`)); status != 200 {
				t.Errorf("%s %s: %d %s", name, prefix, status, body)
			}
		}
	}
}

func TestPageBelowAFolderNamedAsItsOwnIsFound(t *testing.T) {
	p := pageOf(t, Options{})
	for _, path := range []string{"/api/strata", "/internal/api/strata", "/assets/strata"} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, local("GET", path, ""))
		if to := w.Header().Get("Location"); w.Code != http.StatusTemporaryRedirect || to != "./strata/" {
			t.Errorf("%s: %d, to %q", path, w.Code, to)
		}
		if status, body := ask(p, local("GET", path+"/", "")); status != 200 || !strings.Contains(body, "<!doctype html>") {
			t.Errorf("%s/: %d %.80s", path, status, body)
		}
	}
}

func TestAddressWithoutSlashLeadsToThePage(t *testing.T) {
	p := pageOf(t, Options{})
	for target, want := range map[string]string{
		"/debug/strata": "./strata/", "/strata": "./strata/", "//evil": "./evil/", "/a%2Fb": "./b/", "/x:y": "./x:y/",
	} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, local("GET", "http://localhost:8080"+target, ""))
		if got := w.Header().Get("Location"); w.Code != 307 || got != want {
			t.Errorf("%s: %d %q, want %q", target, w.Code, got, want)
		}
	}
	stripped := http.StripPrefix("/debug/strata", p)
	w := httptest.NewRecorder()
	if stripped.ServeHTTP(w, local("GET", "/debug/strata", "")); w.Header().Get("Location") != "./strata/" {
		t.Errorf("stripped: %d %q", w.Code, w.Header().Get("Location"))
	}
}

func TestOtherAddressesAreNotFound(t *testing.T) {
	p := pageOf(t, Options{}, &fake{name: "users"})
	for target, want := range map[string]int{
		"/favicon.ico": 404, "/api/nothing.js": 404, "/api/../x.go": 404, "/assets/none.js": 404, "/assets/..%2fadmin.go": 404, "/debug/strata/admin.go": 404,
		"/api/cache?name=nobody": 404, "/api/explain?name=nobody&key=k": 404, "/api/stream?name=nobody": 404, "/api/cache": 404, "/api/stream?name=": 404,
		"/api/all": 405, "/api/tune": 405, "/api/invalidate": 405, "/api/tags": 405,
	} {
		if status, body := ask(p, local("GET", target, "")); status != want || !strings.Contains(body, `{"error":"`) {
			t.Errorf("GET %s: %d %s, want %d", target, status, body, want)
		}
	}
	for target, want := range map[string]int{"/": 405, "/assets/page.css": 405, "/api/caches": 405, "/api/stream": 405, "/api/nothing": 405} {
		if status, _ := ask(p, local("POST", target, "{}")); status != want {
			t.Errorf("POST %s: %d, want %d", target, status, want)
		}
	}
	if status, body := ask(p, local("POST", "/api/all", `{"name":"nobody"}`)); status != 404 {
		t.Errorf("an action on an unknown cache: %d %s", status, body)
	}
}

func TestNamesOnThePageAreDistinct(t *testing.T) {
	p := pageOf(t, Options{}, &fake{name: "users"}, &fake{}, &fake{name: "users"}, &fake{}, &fake{name: "users (2)"})
	var names []string
	for _, c := range answer[api.Overview](t, p, local("GET", "/api/caches", "")).Caches {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, "|"); got != "users|cache|users (2)|cache (2)|users (2) (2)" {
		t.Error(got)
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "cache 2 of 2 is nil") {
			t.Errorf("a nil cache: %v", r)
		}
	}()
	Handler(&fake{}, nil)
}

func TestPageWithoutCachesAnswers(t *testing.T) {
	p := pageOf(t, Options{})
	if o := answer[api.Overview](t, p, local("GET", "/api/caches", "")); o.Caches == nil || len(o.Caches) != 0 {
		t.Errorf("%+v", o)
	}
}

// TestDetailHasEverything compares an answer with the cache.
func TestDetailHasEverything(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	f := &fake{
		name:     "users",
		info:     observe.Info{Name: "users", Service: "shop", Instance: "i", Version: "v1", Schema: "json 1", L2: "*redis.Tier", L2Server: "10.0.0.1:6379", Bus: "*redis.Bus", Partition: "strict", ShowKeys: true, TextKeys: true},
		settings: []observe.Setting{{Name: "TTL", Value: "1m0s", Tuned: true}, {Name: "Jitter", Value: "0.1", Default: true}},
		events:   []observe.Event{{Number: 7, At: at, Level: "warn", Text: "circuit breaker of L2 is open"}, {Number: 8, At: at, Level: "info", Text: "again"}},
		hot: observe.Hot{
			Since: at, Sampled: 5, Every: 16, Reads: 80, LoadTime: time.Second,
			ByReads:    []observe.HotKey{{Key: "a", Reads: 9, Loads: 1, LoadTime: 3, Over: 2}},
			ByLoadTime: []observe.HotKey{{Key: "b", Reads: 1, Loads: 2, LoadTime: 4}},
		},
		stats: strata.Stats{
			Reads: 100, L1: strata.TierStats{Hits: 90, Misses: 10}, Saved: time.Hour, OriginFailing: time.Minute, OriginSlow: time.Second, Entries: 12, MaxEntries: 20, Connected: true,
			Guard:      memory.GuardStats{Limit: 256 << 20, Source: "cgroup", Ceiling: 130 << 20, Heap: 120 << 20, Evicted: 7, Active: true, Exhausted: true},
			BusSilence: time.Second, Pending: 3, BreakerOpen: true, BreakerChanges: 5,
			Operations: []strata.OperationStats{{Operation: "put", Result: "ok"}, {Operation: "get", Result: "ok"}},
		},
	}
	p := pageOf(t, Options{ReadOnly: true}, f)
	f.with(func(f *fake) {
		f.stats.Loads.Latency.Buckets[20] = 5
		f.stats.Loads.Running = 2
		f.stats.BusEcho.Buckets[10] = 1
		f.stats.EvictionAge.Buckets[25] = 1
		f.stats.Operations = []strata.OperationStats{{Operation: "put", Result: "ok"}, {Operation: "get", Result: "ok"}}
		f.stats.Operations[1].Latency.Buckets[11] = 1
	})
	d := answer[api.Detail](t, p, local("GET", "/api/cache?name=users", ""))
	n := d.Numbers
	if !d.ReadOnly || d.Name != "users" || d.Info != api.Info(f.info) || len(d.Settings) != 2 || d.Settings[0] != api.Setting(f.settings[0]) {
		t.Errorf("%+v", d)
	}
	if len(d.Events) != 2 || d.Events[0] != (api.Event{Number: 7, At: at.UnixMilli(), Level: "warn", Text: "circuit breaker of L2 is open"}) {
		t.Errorf("events %+v", d.Events)
	}
	if d.Hot.Since != at.UnixMilli() || d.Hot.Every != 16 || d.Hot.Reads != 80 || len(d.Hot.ByReads) != 1 || d.Hot.ByReads[0] != api.HotKey(f.hot.ByReads[0]) || d.Hot.ByLoadTime[0].Key != "b" {
		t.Errorf("hot %+v", d.Hot)
	}
	if n.Reads.Total != 100 || n.Reads.L1 != 90 || n.Loads.Saved != time.Hour || n.Loads.Failing != time.Minute || n.Loads.Slow != time.Second || n.Loads.P99 != time.Second || n.Loads.Running != 2 ||
		n.Memory.Entries != 12 || n.Memory.MaxEntries != 20 || n.Memory.EvictionAgeP50 != 32*time.Second ||
		!n.Bus.Connected || n.Bus.Silence != time.Second || n.Bus.Pending != 3 || n.Bus.EchoP99 == 0 || !n.Remote.BreakerOpen || n.Remote.BreakerChanges != 5 || n.Remote.P99 == 0 {
		t.Errorf("numbers %+v", n)
	}
	if want := (api.Guard{Limit: 256 << 20, Source: "cgroup", Ceiling: 130 << 20, Heap: 120 << 20, Evicted: 7, Active: true, Exhausted: true}); n.Guard == nil || *n.Guard != want {
		t.Errorf("guard %+v", n.Guard)
	}
	f.with(func(f *fake) { f.stats.Guard = memory.GuardStats{Ceiling: 1} })
	if d := answer[api.Detail](t, p, local("GET", "/api/cache?name=users", "")); d.Numbers.Guard != nil {
		t.Errorf("a guard without a limit: %+v", d.Numbers.Guard)
	}
	later := answer[api.Detail](t, pageOf(t, Options{}, f), local("GET", "/api/cache?name=users&after=7", ""))
	if len(later.Events) != 1 || later.Events[0].Number != 8 {
		t.Errorf("events after 7: %+v", later.Events)
	}
}
