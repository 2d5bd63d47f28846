package stratahttp

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

// service is a server. Its handler answers with the value of one key in a
// cache, the number of the load that returned it.
type service struct {
	url     string
	handler http.Handler
	loads   atomic.Int64
	asked   atomic.Int64 // calls of authorize
}

// start starts a service with the middleware that wrap returns.
func start(t *testing.T, contextControls bool, wrap func(s *service) func(http.Handler) http.Handler) *service {
	t.Helper()
	s := &service{}
	cache, err := strata.New(strata.Options[string, int64]{
		TTL: time.Hour, ContextControls: contextControls,
		Loader: func(context.Context, string) (int64, error) { return s.loads.Add(1), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cache.Close(context.Background()) })
	s.handler = wrap(s)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := cache.GetOrLoad(r.Context(), "k", nil)
		if err != nil {
			v = -1
		}
		fmt.Fprint(w, v)
	}))
	server := httptest.NewUnstartedServer(s.handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// admins authorises requests with the right token.
func (s *service) admins(r *http.Request) bool {
	s.asked.Add(1)
	return r.Header.Get("Authorization") == "Bearer secret"
}

// get sends a request with these headers, without changing their spelling.
func (s *service) get(t *testing.T, header http.Header) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// want fails the test unless a request with these headers gets the value of the
// given load.
func (s *service) want(t *testing.T, load int64, header http.Header) {
	t.Helper()
	if got, err := s.get(t, header); err != nil || got != fmt.Sprint(load) {
		t.Errorf("got %q, %v; want the value of load %d", got, err, load)
	}
}

func byAdmin(header http.Header) http.Header {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Authorization", "Bearer secret")
	return header
}

func byAdmins(s *service) func(http.Handler) http.Handler { return Controls(s.admins) }

func TestAuthorizedRequestReadsPastTheCacheAndStoresForAll(t *testing.T) {
	s := start(t, true, byAdmins)
	s.want(t, 1, nil)
	s.want(t, 1, nil)
	s.want(t, 2, byAdmin(http.Header{"Cache-Control": {"no-cache"}}))
	s.want(t, 2, nil)
	s.want(t, 2, byAdmin(nil))
	s.want(t, 3, byAdmin(http.Header{"Pragma": {"no-cache"}}))
	s.want(t, 3, nil)
}

// TestPragmaCountsByItself calls the handler without a server: the server of
// HTTP/1 adds a Cache-Control for a Pragma, the server of HTTP/2 does not.
func TestPragmaCountsByItself(t *testing.T) {
	s := start(t, true, byAdmins)
	s.want(t, 1, nil)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header = byAdmin(http.Header{"Pragma": {"no-cache"}})
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if got := w.Body.String(); got != "2" {
		t.Errorf("got the value of load %s, want 2", got)
	}
}

func TestRequestThatIsNotAuthorizedIsAnsweredFromTheCache(t *testing.T) {
	noCache := http.Header{"Cache-Control": {"no-cache"}, "Pragma": {"no-cache"}}
	for name, authorize := range map[string]func(s *service) func(*http.Request) bool{
		"nil":        func(*service) func(*http.Request) bool { return nil },
		"admins may": func(s *service) func(*http.Request) bool { return s.admins },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, true, func(s *service) func(http.Handler) http.Handler { return Controls(authorize(s)) })
			for range 3 {
				s.want(t, 1, noCache)
			}
		})
	}
}

func TestAuthorizeIsAskedOnlyForRequestsThatAsk(t *testing.T) {
	s := start(t, true, byAdmins)
	s.want(t, 1, byAdmin(nil))
	s.want(t, 1, http.Header{"Cache-Control": {"max-age=0"}})
	if n := s.asked.Load(); n != 0 {
		t.Errorf("asked %d times about requests that do not ask", n)
	}
	s.want(t, 1, http.Header{"Cache-Control": {"no-cache"}})
	if n := s.asked.Load(); n != 1 {
		t.Errorf("asked %d times about one that does", n)
	}
}

func TestCacheWithoutContextControlsIgnoresThem(t *testing.T) {
	s := start(t, false, byAdmins)
	s.want(t, 1, nil)
	s.want(t, 1, byAdmin(http.Header{"Cache-Control": {"no-cache"}}))
}

func TestOnlyTheHeadersThatAreNamedCount(t *testing.T) {
	s := start(t, true, func(s *service) func(http.Handler) http.Handler {
		return Controls(s.admins, "X-Reload", "x-other")
	})
	s.want(t, 1, nil)
	s.want(t, 1, byAdmin(http.Header{"Cache-Control": {"no-cache"}, "Pragma": {"no-cache"}}))
	s.want(t, 2, byAdmin(http.Header{"X-Reload": {"no-cache"}}))
	s.want(t, 3, byAdmin(http.Header{"X-Other": {"no-cache"}}))
}

func TestOddHeadersAreReadAsTheyAreMeantOrIgnored(t *testing.T) {
	long := strings.Repeat("x", maxHeader)
	many := slices.Repeat([]string{long[:maxHeader/64]}, 64)
	tests := []struct {
		name   string
		header http.Header
		asks   bool
	}{
		{"upper case", http.Header{"cAcHe-cOnTrOl": {"No-CACHE"}}, true},
		{"among others", http.Header{"Cache-Control": {"max-age=0,\t no-cache ,x"}}, true},
		{"in a second value", http.Header{"Cache-Control": {"max-age=0", "no-cache"}}, true},
		{"after a quoted comma", http.Header{"Cache-Control": {`x="a\", b", no-cache`}}, true},
		{"after empty directives", http.Header{"Cache-Control": {",, ,no-cache"}}, true},
		{"just short enough", http.Header{"Cache-Control": {"no-cache," + long[:maxHeader-10]}}, true},
		{"inside a quoted string", http.Header{"Cache-Control": {`x="a, no-cache, b"`}}, false},
		{"behind a quote that does not end", http.Header{"Cache-Control": {`x="a, no-cache`}}, false},
		{"part of a word", http.Header{"Cache-Control": {"no-cachet, xno-cache, no-cache=x"}}, false},
		{"empty", http.Header{"Cache-Control": {""}}, false},
		{"another directive", http.Header{"Cache-Control": {"no-store, max-age=0"}}, false},
		{"Pragma beside Cache-Control", http.Header{"Cache-Control": {"max-age=0"}, "Pragma": {"no-cache"}}, false},
		{"too long", http.Header{"Cache-Control": {"no-cache," + long[:maxHeader-9]}}, false},
		{"too many", http.Header{"Cache-Control": append(many, "no-cache")}, false},
		{"huge", http.Header{"Cache-Control": {strings.Repeat("no-cache,", 60_000)}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, true, byAdmins)
			s.want(t, 1, nil)
			load := int64(1)
			if tt.asks {
				load++
			}
			s.want(t, load, byAdmin(tt.header))
		})
	}
}

func TestPanicOfAuthorizeEndsTheRequestBeforeItsHandler(t *testing.T) {
	reached := false
	h := Controls(func(*http.Request) bool { panic("authorize") })(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Cache-Control", "no-cache")
	p := func() (p any) {
		defer func() { p = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), r)
		return nil
	}()
	if p != "authorize" || reached {
		t.Errorf("the server sees the panic %v, the handler was reached: %v; want the callback's, false", p, reached)
	}

	s := start(t, true, func(*service) func(http.Handler) http.Handler {
		return Controls(func(*http.Request) bool { panic("authorize") })
	})
	s.want(t, 1, nil)
	if _, err := s.get(t, http.Header{"Cache-Control": {"no-cache"}}); err == nil {
		t.Error("the request was answered")
	}
	s.want(t, 1, nil) // nothing was loaded, and the server still runs
}

func TestHeadersAreTheMiddlewaresOwn(t *testing.T) {
	headers := []string{"X-Reload"}
	s := start(t, true, func(s *service) func(http.Handler) http.Handler { return Controls(s.admins, headers...) })
	headers[0] = "X-Other"
	s.want(t, 1, nil)
	s.want(t, 2, byAdmin(http.Header{"X-Reload": {"no-cache"}}))
}

func FuzzNoCache(f *testing.F) {
	for _, seed := range []string{"", "no-cache", "NO-CACHE , x", `x="no-cache,"`, `"\`, ",,,", "no-cache=1", "\xff,no-cache"} {
		f.Add(seed, "")
		f.Add("max-age=0", seed)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		got := noCache([]string{a, b})
		if len(a)+len(b)+2 > maxHeader {
			if got {
				t.Errorf("asks with %d bytes", len(a)+len(b))
			}
			return
		}
		if strings.Contains(a+b, `"`) {
			if got && !strings.Contains(strings.ToLower(a+","+b), "no-cache") {
				t.Errorf("%q, %q asks", a, b)
			}
			return
		}
		want := false
		for _, d := range strings.Split(a+","+b, ",") {
			want = want || strings.ToLower(strings.Trim(d, " \t")) == "no-cache"
		}
		if got != want {
			t.Errorf("%q, %q asks: %v, want %v", a, b, got, want)
		}
	})
}
