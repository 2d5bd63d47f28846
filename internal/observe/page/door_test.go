package page

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingIsAnsweredWithoutTheToken has requests of this machine and of others, with all that a proxy adds or
// leaves out: none of it opens the page.
func TestNothingIsAnsweredWithoutTheToken(t *testing.T) {
	without := header("Authorization", "")
	for name, change := range map[string]func(*http.Request){
		"this machine":       without,
		"another machine":    all(without, peer("192.0.2.1:1"), host("admin.example")),
		"a proxy":            all(without, host("localhost"), header("X-Forwarded-For", "127.0.0.1")),
		"a wrong token":      header("Authorization", "Bearer "+testToken[1:]),
		"a longer token":     header("Authorization", "Bearer "+testToken+"x"),
		"another scheme":     header("Authorization", "Basic "+testToken),
		"an empty token":     header("Authorization", "Bearer "),
		"the token as name":  all(without, header("Cookie", testToken+"=x")),
		"a cookie of tokens": all(without, header("Cookie", NewDoor(testToken).cookie+"="+testToken)),
		"a wrong query":      all(without, func(r *http.Request) { r.URL.RawQuery = "token=x" }),
		"two tokens":         all(without, func(r *http.Request) { r.URL.RawQuery = "token=x&token=" + testToken }),
		"an empty query":     all(without, func(r *http.Request) { r.URL.RawQuery = "token=" }),
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
			for _, o := range []Options{{Token: testToken}, {}} {
				r := local(method, change)
				if status, passed := send(o, r); status != 403 || passed {
					t.Errorf("%s %s: status %d, passed %v", method, name, status, passed)
				}
			}
		}
	}
	if status, passed := send(Options{}, local("GET", nil)); status != 403 || passed {
		t.Errorf("a page without a token: status %d, passed %v", status, passed)
	}
	away := all(peer("192.0.2.1:1"), host("admin.example"), header("X-Forwarded-For", "192.0.2.9"))
	if status, passed := send(Options{Token: testToken}, local("GET", away)); status != 200 || !passed {
		t.Errorf("with the token, from elsewhere: status %d, passed %v", status, passed)
	}
}

// TestSchemeOfATokenIsTheSameInAnyCase: RFC 9110, 11.1.
func TestSchemeOfATokenIsTheSameInAnyCase(t *testing.T) {
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		if status, passed := send(Options{Token: testToken}, local("GET", header("Authorization", scheme+" "+testToken))); status != 200 || !passed {
			t.Errorf("%s: status %d, passed %v", scheme, status, passed)
		}
	}
}

// TestPageBehindAProxyThatAddsNothingIsClosed has a proxy on this machine, as the peer of the
// server, and the proxy writes the Host.
func TestPageBehindAProxyThatAddsNothingIsClosed(t *testing.T) {
	a := &answer{}
	back := httptest.NewServer(Guard(a, Options{Token: testToken}))
	defer back.Close()
	to, _ := url.Parse(back.URL)
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
	defer front.Close()
	resp, err := http.Post(front.URL+"/api/all", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 403 || a.requests != 0 {
		t.Errorf("status %d, %d requests", resp.StatusCode, a.requests)
	}
}

// TestBrowserThatFollowsTheAddressStaysIn follows an address with a token, as a browser does.
func TestBrowserThatFollowsTheAddressStaysIn(t *testing.T) {
	a, told := &answer{}, make(chan string, 10)
	mux := http.NewServeMux()
	mux.Handle("/debug/strata/", Guard(a, Options{Token: testToken, Tell: func(address string) { told <- address }}))
	server := httptest.NewServer(mux)
	defer server.Close()
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	get := func(address, host string) (status int, ended string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		r.Host = host
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if bytes.Contains(body, []byte(testToken)) {
			t.Errorf("the answer has the token: %s", body)
		}
		return resp.StatusCode, resp.Request.URL.String()
	}
	page := server.URL + "/debug/strata/"
	for range 3 {
		if status, _ := get(page, "evil.example"); status != 403 {
			t.Fatalf("before: status %d", status)
		}
	}
	address := <-told
	if address != page+"?token="+testToken || len(told) != 0 {
		t.Fatalf("told %q, and %d more", address, len(told))
	}
	browser.CheckRedirect = func(r *http.Request, _ []*http.Request) error { r.Host = ""; return nil }
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	r.Header.Set("Accept", "text/html")
	resp, err := browser.Do(r)
	if err != nil || resp.StatusCode != 200 || resp.Request.URL.String() != page {
		t.Fatalf("following the address: %v, %v", resp, err)
	}
	resp.Body.Close()
	if status, ended := get(page+"api/caches", ""); status != 200 || ended != page+"api/caches" {
		t.Errorf("afterwards: status %d at %s", status, ended)
	}
	if other, _ := url.Parse(server.URL + "/elsewhere/"); len(jar.Cookies(other)) != 0 {
		t.Error("the cookie is sent to another part of the program")
	}
}

func TestCookieIsForThePageOnly(t *testing.T) {
	d, w := NewDoor(testToken), httptest.NewRecorder()
	r := httptest.NewRequest("GET", "https://h/debug/?token="+testToken+"&x=1", nil)
	d.Enter(w, r)
	c := w.Result().Cookies()
	if len(c) != 1 || !c[0].HttpOnly || !c[0].Secure || c[0].SameSite != http.SameSiteStrictMode || c[0].Domain != "" || strings.Contains(c[0].String(), testToken) {
		t.Errorf("cookies %v", c)
	}
	if to := w.Header().Get("Location"); w.Code != 303 || to != "./?x=1" {
		t.Errorf("%d to %q", w.Code, to)
	}
	if NewDoor("another").cookie == d.cookie {
		t.Error("the pages of one host take each other's cookie")
	}
}

func TestForeignHosts(t *testing.T) {
	for host, foreign := range map[string]bool{
		"localhost": false, "LOCALHOST:8080": false, "127.0.0.1:80": false, "[::1]:80": false, "::1": false, "192.0.2.1": false, "demo:8080": false, "a.localhost": false, "localhost.": false,
		"evil.example": true, "evil.example:80": true, "localhost.evil.example": true, "127.0.0.1.evil.example:8080": true, "evil.example.": true, "": true, "localhost:80@evil.example": true, "a b": true,
	} {
		if got := ForeignHost(host); got != foreign {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// TestReadersThatReadNothingKeepNobodyAway fills all places with streams that no client reads.
func TestReadersThatReadNothingKeepNobodyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Streams{}
		begin := func() (func(), error) {
			_, done, err := s.begin(t.Context())
			return done, err
		}
		var ends []func()
		for range MaxStreams {
			done, err := begin()
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, done)
		}
		if _, err := begin(); err != ErrStreams {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(shortest)
		for range MaxStreams {
			done, err := begin()
			if err != nil {
				t.Errorf("after %v: %v", shortest, err)
				continue
			}
			ends = append(ends, done)
		}
		if _, err := begin(); err != ErrStreams || s.Open() != MaxStreams {
			t.Errorf("streams that are young: %v, %d open", err, s.Open())
		}
		for _, done := range ends {
			done()
		}
		s.Close()
	})
}

// TestLogThatBlocksHoldsUpNoRequest has a log that takes the address of the page and does not return.
func TestLogThatBlocksHoldsUpNoRequest(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	var told atomic.Int32
	g := Guard(new(answer), Options{Token: testToken, Tell: func(string) { told.Add(1); <-free }})
	for range 3 {
		done := make(chan int)
		go func() {
			w := httptest.NewRecorder()
			g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
			done <- w.Code
		}()
		select {
		case code := <-done:
			if code != 403 {
				t.Errorf("status %d", code)
			}
		case <-time.After(time.Minute):
			t.Fatal("a request waits for the log")
		}
	}
	if told.Load() != 1 {
		t.Errorf("told %d times", told.Load())
	}
}
