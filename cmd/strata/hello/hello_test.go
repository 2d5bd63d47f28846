package hello_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/stratatest"
)

// slowOrigin is an origin that waits before each greeting.
type slowOrigin struct {
	delay time.Duration

	mu      sync.Mutex // guards below
	queries int64
	err     error
	cleared int64
}

func (o *slowOrigin) Greet(ctx context.Context, name, locale string) (origin.Greeting, error) {
	o.mu.Lock()
	o.queries++
	g := origin.Greeting{Name: name, Locale: locale, Text: "Hello, " + name + "!", Asked: o.queries}
	err := o.err
	o.mu.Unlock()
	select {
	case <-time.After(o.delay):
		return g, err
	case <-ctx.Done():
		return g, ctx.Err()
	}
}

func (o *slowOrigin) Clear(context.Context) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cleared++
	return 7, o.err
}

func (o *slowOrigin) Queries() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queries
}

func (*slowOrigin) Failures() int64 { return 0 }

func (o *slowOrigin) failWith(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = err
}

func newService(t *testing.T, o hello.Options) *hello.Service {
	t.Helper()
	s, err := hello.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// local returns a request to this machine by its name.
func local(method, target string) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "localhost"
	return r
}

func request(s http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, local(method, target))
	return w
}

func TestStampede(t *testing.T) {
	const callers = 100
	for _, tt := range []struct {
		mode    hello.Mode
		queries int64 // of concurrent callers
		later   int64 // of one later caller
	}{
		{hello.None, callers, 1},
		{hello.Naive, callers, 0}, // naive does not share loads
		{hello.Strata, 1, 0},
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &slowOrigin{delay: time.Second}
				s := newService(t, hello.Options{Origin: o, Mode: tt.mode})
				var ok atomic.Int64
				var wg sync.WaitGroup
				for range callers {
					wg.Go(func() {
						if request(s, "GET", "/hello?name=Ann&locale=en").Code == http.StatusOK {
							ok.Add(1)
						}
					})
				}
				wg.Wait()
				if o.Queries() != tt.queries || ok.Load() != callers {
					t.Errorf("%d queries for %d good answers; want %d for %d", o.Queries(), ok.Load(), tt.queries, callers)
				}
				if tt.mode == hello.Strata && s.Stats().Cache.Shared != callers-1 {
					t.Errorf("%d shared loads; want %d", s.Stats().Cache.Shared, callers-1)
				}
				request(s, "GET", "/hello?name=Ann&locale=en")
				if got := o.Queries() - tt.queries; got != tt.later {
					t.Errorf("%d queries for a later request; want %d", got, tt.later)
				}
			})
		})
	}
}

func TestGreetingsExpire(t *testing.T) {
	for _, mode := range []hello.Mode{hello.Naive, hello.Strata} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &slowOrigin{}
				s := newService(t, hello.Options{Origin: o, Mode: mode, TTL: time.Minute})
				for range 3 {
					request(s, "GET", "/hello?name=Ann&locale=en")
				}
				if o.Queries() != 1 || s.Stats().Cache.L1Hits != 2 {
					t.Errorf("%d queries, %d hits", o.Queries(), s.Stats().Cache.L1Hits)
				}
				time.Sleep(time.Minute + time.Millisecond)
				request(s, "GET", "/hello?name=Ann&locale=en")
				synctest.Wait() // strata answers at once, and loads in the background
				if o.Queries() != 2 {
					t.Errorf("%d queries after the TTL", o.Queries())
				}
			})
		})
	}
}

func TestInstancesShareLoadsThroughL2(t *testing.T) {
	o := &slowOrigin{}
	tier, bus := stratatest.NewTier(), stratatest.NewBus()
	a := newService(t, hello.Options{Origin: o, Tier: tier, Bus: bus})
	b := newService(t, hello.Options{Origin: o, Tier: tier, Bus: bus})
	const target = "/hello?name=A/n+n&locale=de-CH"
	first, second := request(a, "GET", target), request(b, "GET", target)
	if o.Queries() != 1 || first.Body.String() != second.Body.String() {
		t.Errorf("%d queries; answers %s and %s", o.Queries(), first.Body, second.Body)
	}
	if b.Stats().Cache.L2Hits != 1 {
		t.Errorf("%d hits in L2", b.Stats().Cache.L2Hits)
	}
	if w := request(a, "DELETE", "/hello"); w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	request(a, "GET", target)
	if o.Queries() != 2 {
		t.Errorf("%d queries after DELETE", o.Queries())
	}
}

// Without a bus an instance does not hear of a deletion by another one.
func TestMemoryWithoutABusIsAsOldAsItsOptionSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := hello.Options{Origin: &slowOrigin{}, Tier: stratatest.NewTier(), MemoryTTL: 2 * time.Second}
		one, other := newService(t, options), newService(t, options)
		ask := func() string { return request(one, "GET", "/hello?name=Ann&locale=en").Body.String() }

		before := ask()
		if w := request(other, "DELETE", "/hello"); w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if got := ask(); got != before {
			t.Errorf("at once: %s; want %s, which shows that there is no bus", got, before)
		}
		time.Sleep(2 * time.Second) // in the bubble's time
		if got := ask(); got == before {
			t.Errorf("after 2s: %s, which was deleted", got)
		}
	})
}

func TestRestartedInstanceFindsItsEntries(t *testing.T) {
	for _, tt := range []struct {
		name           string
		o              hello.Options
		start          hello.Start
		queries        int64 // total
		l2Hits, l1Hits int64 // since the restart, also hits before the first request
	}{
		// No bus: after a bus connects, L2 must confirm the entries of L1.
		{"with L2", hello.Options{Tier: stratatest.NewTier()}, hello.Cold, 1, 1, 1},
		{"without", hello.Options{}, hello.Cold, 2, 0, 1},
		{"by keys", hello.Options{Tier: stratatest.NewTier()}, hello.ByKeys, 1, 1, 2},
		{"by transfer", hello.Options{Tier: stratatest.NewTier()}, hello.ByTransfer, 1, 1, 2},
		{"by transfer without L2", hello.Options{}, hello.ByTransfer, 1, 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := &slowOrigin{}
			tt.o.Origin = o
			s := newService(t, tt.o)
			request(s, "GET", "/hello?name=Ann&locale=en")
			if r, err := s.Restart(t.Context(), tt.start); err != nil || r.Warm() != int(tt.l1Hits-1) {
				t.Fatalf("%+v, %v", r, err)
			}
			for range 2 {
				if w := request(s, "GET", "/hello?name=Ann&locale=en"); w.Code != http.StatusOK {
					t.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
			if c := s.Stats().Cache; o.Queries() != tt.queries || c.L2Hits != tt.l2Hits || c.L1Hits != tt.l1Hits {
				t.Errorf("%d queries, %+v", o.Queries(), c)
			}
		})
	}
}

func TestAnswersAreCountedInAllModesAndOverRestarts(t *testing.T) {
	s := newService(t, hello.Options{Origin: &slowOrigin{}, Tier: stratatest.NewTier()})
	for _, mode := range []hello.Mode{hello.Strata, hello.Naive} {
		if err := s.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		for range 3 { // a load, and two answers of the memory
			request(s, "GET", "/hello?name=Ann&locale=en")
		}
	}
	if a := s.Answers(); a != (hello.Answers{Memory: 4}) {
		t.Errorf("%+v before", a)
	}
	if err := s.SetMode(hello.Strata); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restart(t.Context(), hello.Cold); err != nil {
		t.Fatal(err)
	}
	request(s, "GET", "/hello?name=Ann&locale=en")
	if a := s.Answers(); a != (hello.Answers{Memory: 4, L2: 1}) {
		t.Errorf("%+v after", a)
	}
}

func TestInstanceThatCannotStartLeavesTheOldOne(t *testing.T) {
	o := &slowOrigin{}
	s := newService(t, hello.Options{Origin: o})
	request(s, "GET", "/hello?name=Ann&locale=en")
	if _, err := s.Restart(t.Context(), "slowly"); err == nil {
		t.Error("a start that there is not is no error")
	}
	if _, err := s.Restart(t.Context(), hello.ByKeys); err == nil {
		t.Error("keys are read without L2")
	}
	request(s, "GET", "/hello?name=Ann&locale=en")
	if c := s.Stats().Cache; o.Queries() != 1 || c.L1Hits != 1 {
		t.Errorf("%d queries, %+v", o.Queries(), c)
	}
}

func TestSnapshotWantsTheToken(t *testing.T) {
	s := newService(t, hello.Options{Origin: &slowOrigin{}, Token: "token of a test"})
	request(s, "GET", "/hello?name=Ann&locale=en")
	for target, want := range map[string]int{
		"/snapshot": http.StatusForbidden, "/snapshot?token=x": http.StatusForbidden, "/snapshot?token=": http.StatusForbidden, "/snapshot?token=token+of+a+test": http.StatusOK,
	} {
		if w := request(s, "GET", target); w.Code != want || strings.Contains(w.Body.String(), "Ann") != (want == http.StatusOK) {
			t.Errorf("%s: %d %q", target, w.Code, w.Body)
		}
	}
}

func TestNameOfAnotherSiteIsRefusedOnEveryPath(t *testing.T) {
	s := newService(t, hello.Options{Origin: &slowOrigin{}, Token: "token of a test"})
	for _, r := range []*http.Request{
		local("GET", "/hello?name=Ann&locale=en"), local("DELETE", "/hello"), local("GET", "/mode"), local("PUT", "/mode?mode=none"), local("GET", "/stats"),
		local("GET", "/metrics"), local("GET", "/snapshot?token=token+of+a+test"), local("PUT", "/snapshot?token=token+of+a+test"), local("GET", "/none"),
	} {
		for _, host := range []string{"evil.example", "evil.example:8008", "127.0.0.1.evil.example", ""} {
			w := httptest.NewRecorder()
			r.Host, r.RemoteAddr = host, "127.0.0.1:5"
			if s.ServeHTTP(w, r); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "Ann") {
				t.Errorf("%s %s at %q: %d %s", r.Method, r.URL, host, w.Code, w.Body)
			}
		}
	}
	if s.Mode() != hello.Strata {
		t.Errorf("the mode is %s", s.Mode())
	}
}

func TestDeleteClearsEveryMode(t *testing.T) {
	o := &slowOrigin{}
	s := newService(t, hello.Options{Origin: o})
	ask := func() {
		for _, m := range hello.Modes() {
			request(s, "PUT", "/mode?mode="+string(m))
			request(s, "GET", "/hello?name=Ann&locale=en")
		}
	}
	ask()
	ask()
	if o.Queries() != 4 { // none, naive, strata, none
		t.Fatalf("%d queries before", o.Queries())
	}
	w := request(s, "DELETE", "/hello")
	if w.Code != http.StatusOK || w.Body.String() != `{"deleted":7}`+"\n" || o.cleared != 1 {
		t.Errorf("status %d: %s; cleared %d times", w.Code, w.Body, o.cleared)
	}
	ask()
	if o.Queries() != 7 {
		t.Errorf("%d queries; want 7", o.Queries())
	}
}

func TestModeSwitchesWhileServing(t *testing.T) {
	s := newService(t, hello.Options{Origin: &slowOrigin{}})
	if w := request(s, "GET", "/mode"); w.Body.String() != `{"mode":"strata","modes":["none","naive","strata"]}`+"\n" {
		t.Errorf("mode is %s", w.Body)
	}
	if w := request(s, "PUT", "/mode?mode=naive"); w.Code != http.StatusOK || s.Mode() != hello.Naive {
		t.Errorf("status %d, mode %s", w.Code, s.Mode())
	}
	if w := request(s, "PUT", "/mode?mode=best"); w.Code != http.StatusBadRequest || s.Mode() != hello.Naive {
		t.Errorf("status %d, mode %s", w.Code, s.Mode())
	}
	if err := s.SetMode("best"); err == nil || s.Mode() != hello.Naive {
		t.Errorf("error %v, mode %s", err, s.Mode())
	}
}

func TestBadRequestsAreAnsweredInJSON(t *testing.T) {
	s := newService(t, hello.Options{Origin: &slowOrigin{}})
	long := strings.Repeat("x", 101)
	for _, tt := range []struct {
		name, method, target string
		status               int
		text, allow          string
	}{
		{"no name", "GET", "/hello?locale=en", 400, "name is missing", ""},
		{"blank name", "GET", "/hello?name=+&locale=en", 400, "name is missing", ""},
		{"two names", "GET", "/hello?name=a&name=b&locale=en", 400, "name is given more than once", ""},
		{"long name", "GET", "/hello?locale=en&name=" + long, 400, "name is too long", ""},
		{"control character", "GET", "/hello?locale=en&name=a%00b", 400, "name is not printable text", ""},
		{"not UTF-8", "GET", "/hello?locale=en&name=%ff", 400, "name is not printable text", ""},
		{"no locale", "GET", "/hello?name=a", 400, "locale is missing", ""},
		{"long locale", "GET", "/hello?name=a&locale=" + long, 400, "locale is too long", ""},
		{"slash in locale", "GET", "/hello?name=a&locale=en/US", 400, "locale is not a language tag like ru-RU", ""},
		{"only dashes", "GET", "/hello?name=a&locale=---", 400, "locale is not a language tag like ru-RU", ""},
		{"malformed query", "GET", "/hello?name=%zz", 400, "malformed query", ""},
		{"wrong method", "POST", "/hello", 405, "method not allowed", "GET, DELETE"},
		{"wrong method for mode", "DELETE", "/mode", 405, "method not allowed", "GET, PUT"},
		{"wrong method for stats", "PUT", "/stats", 405, "method not allowed", "GET"},
		{"no such mode", "PUT", "/mode?mode=x", 400, "mode must be one of none, naive, strata", ""},
		{"no such path", "GET", "/helo", 404, "no such path; there are /hello, /mode, /stats, /metrics and /snapshot", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := request(s, tt.method, tt.target)
			var got struct{ Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("body %q: %v", w.Body, err)
			}
			if w.Code != tt.status || got.Error != tt.text || w.Header().Get("Allow") != tt.allow {
				t.Errorf("status %d, %q, Allow %q", w.Code, got.Error, w.Header().Get("Allow"))
			}
			if kind := w.Header().Get("Content-Type"); kind != "application/json; charset=utf-8" {
				t.Errorf("content type %s", kind)
			}
		})
	}
	if n := s.Stats().Requests; n != 0 {
		t.Errorf("%d of them were counted as requests", n)
	}
}

func TestOneGreetingHasOneKey(t *testing.T) {
	o := &slowOrigin{}
	s := newService(t, hello.Options{Origin: o})
	for _, locale := range []string{"ru-RU", "ru_ru", "RU-ru", "ru-RU-"} {
		w := request(s, "GET", "/hello?name=Ann&locale="+locale)
		if !strings.Contains(w.Body.String(), `"locale":"ru-RU"`) {
			t.Errorf("%s: %s", locale, w.Body)
		}
	}
	if o.Queries() != 1 {
		t.Errorf("%d queries", o.Queries())
	}
}

func TestOriginErrorsAreNeitherCachedNorLeaked(t *testing.T) {
	for _, mode := range hello.Modes() {
		for _, tt := range []struct {
			name string
			err  error
			text string
		}{
			{"known", errors.Join(errors.New("password=secret"), origin.ErrTooManyConnections), "origin: too many connections"},
			{"unknown", errors.New("password=secret"), "the greeting could not be loaded"},
		} {
			t.Run(string(mode)+" "+tt.name, func(t *testing.T) {
				o := &slowOrigin{err: tt.err}
				s := newService(t, hello.Options{Origin: o, Mode: mode})
				w := request(s, "GET", "/hello?name=Ann&locale=en")
				if w.Code != http.StatusServiceUnavailable || w.Body.String() != `{"error":"`+tt.text+`"}`+"\n" {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
				if w := request(s, "DELETE", "/hello"); w.Code != http.StatusServiceUnavailable {
					t.Errorf("status of DELETE is %d: %s", w.Code, w.Body)
				}
				o.failWith(nil)
				if w := request(s, "GET", "/hello?name=Ann&locale=en"); w.Code != http.StatusOK {
					t.Errorf("status afterwards %d: %s", w.Code, w.Body)
				}
				if st := s.Stats(); st.Requests != 2 || st.Errors != 1 {
					t.Errorf("%d requests, %d errors", st.Requests, st.Errors)
				}
			})
		}
	}
}

func TestStatsAreJSON(t *testing.T) {
	s := newService(t, hello.Options{Origin: &slowOrigin{}})
	request(s, "GET", "/hello?name=Ann&locale=en")
	request(s, "GET", "/hello?name=Ann&locale=en")
	want := `{"mode":"strata","requests":2,"errors":0,"origin_queries":1,"origin_failures":0,` +
		`"cache":{"l1_hits":1,"l2_hits":0,"shared_loads":0,"entries":1}}` + "\n"
	if w := request(s, "GET", "/stats"); w.Body.String() != want {
		t.Errorf("stats are %s", w.Body)
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    hello.Options
	}{
		{"no origin", hello.Options{}},
		{"no such mode", hello.Options{Origin: &slowOrigin{}, Mode: "best"}},
		{"negative TTL", hello.Options{Origin: &slowOrigin{}, TTL: -1}},
		{"negative bound", hello.Options{Origin: &slowOrigin{}, MaxEntries: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := hello.New(tt.o); err == nil {
				t.Error("no error")
			}
		})
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("name=World&locale=ru-RU")
	f.Add("name=%ff&locale=a_b-C;d")
	s, err := hello.New(hello.Options{Origin: &slowOrigin{}, Mode: hello.None})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		w := httptest.NewRecorder()
		r := local("GET", "/hello")
		r.URL = &url.URL{Path: "/hello", RawQuery: query}
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
			t.Errorf("status %d", w.Code)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("body %q", w.Body)
		}
	})
}

func TestMetricsAreThoseOfTheCacheThatServes(t *testing.T) {
	s := newService(t, hello.Options{Origin: &slowOrigin{}})
	request(s, "GET", "/hello?name=Ann&locale=en")
	hit := func(want string) {
		t.Helper()
		request(s, "GET", "/hello?name=Ann&locale=en")
		line := `strata_tier_requests_total{cache="hello",cache_service="",result="hit",tier="L1"} ` + want + "\n"
		if w := request(s, "GET", "/metrics"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), line) || strings.Contains(w.Body.String(), "Ann") {
			t.Errorf("status %d, want the line %s and no key in\n%s", w.Code, line, w.Body)
		}
	}
	hit("1")
	if _, err := s.Restart(t.Context(), hello.Cold); err != nil {
		t.Fatal(err)
	}
	request(s, "GET", "/hello?name=Ann&locale=en")
	hit("1")
}
