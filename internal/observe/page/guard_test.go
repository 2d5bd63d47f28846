package page

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answer is a handler that counts its requests and reads their bodies.
type answer struct {
	requests int
	read     int
	err      error
}

func (a *answer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	a.requests++
	body, err := io.ReadAll(r.Body)
	a.read, a.err = len(body), err
}

// testToken is the token of pages in tests.
const testToken = "token-of-a-test-0123"

// local returns a request with the token, as a program on this machine sends it.
func local(method string, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, "http://localhost:8080/debug/strata/", nil)
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("Authorization", "Bearer "+testToken)
	if change != nil {
		change(r)
	}
	return r
}

// send returns the status that a guarded page answers with, and whether the page has seen
// the request.
func send(o Options, r *http.Request) (status int, passed bool) {
	a := &answer{}
	w := httptest.NewRecorder()
	Guard(a, o).ServeHTTP(w, r)
	return w.Code, a.requests == 1
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func all(changes ...func(*http.Request)) func(*http.Request) {
	return func(r *http.Request) {
		for _, c := range changes {
			c(r)
		}
	}
}

func peer(a string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = a } }
func host(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }

func TestAuthorizeReplacesTheDefault(t *testing.T) {
	o := Options{Authorize: func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer x" }}
	away := all(peer("192.0.2.1:1"), host("admin.example"), header("X-Forwarded-For", "192.0.2.9"))
	if status, passed := send(o, local("GET", all(away, header("Authorization", "Bearer x")))); status != 200 || !passed {
		t.Errorf("authorised: %d, passed %v", status, passed)
	}
	for name, change := range map[string]func(*http.Request){"away": away, "local": nil} {
		if status, passed := send(o, local("GET", change)); status != 403 || passed {
			t.Errorf("%s without the header: %d, passed %v", name, status, passed)
		}
	}
}

func TestOnlyGetHeadAndPostAreAnswered(t *testing.T) {
	for _, m := range []string{"GET", "HEAD", "POST"} {
		if status, passed := send(Options{Token: testToken}, local(m, nil)); status != 200 || !passed {
			t.Errorf("%s: %d, passed %v", m, status, passed)
		}
	}
	for _, m := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"} {
		w := httptest.NewRecorder()
		a := &answer{}
		Guard(a, Options{Token: testToken}).ServeHTTP(w, local(m, nil))
		if w.Code != 405 || a.requests != 0 || w.Header().Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s: %d, passed %d, Allow %q", m, w.Code, a.requests, w.Header().Get("Allow"))
		}
	}
}

func TestOtherSitesCannotPost(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"cross-site":               header("Sec-Fetch-Site", "cross-site"),
		"same-site, other port":    header("Sec-Fetch-Site", "same-site"),
		"no page at all":           header("Sec-Fetch-Site", "none"),
		"unknown word":             header("Sec-Fetch-Site", "sideways"),
		"origin elsewhere":         header("Origin", "http://evil.example"),
		"origin of other port":     header("Origin", "http://localhost:9090"),
		"origin null":              header("Origin", "null"),
		"origin of other scheme":   header("Origin", "ftp://localhost:8080"),
		"origin that is none":      header("Origin", "http://[::1"),
		"origin and link":          all(header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")),
		"origin right, site wrong": all(header("Origin", "http://localhost:8080"), header("Sec-Fetch-Site", "cross-site")),
	} {
		if status, passed := send(Options{Token: testToken}, local("POST", change)); status != 403 || passed {
			t.Errorf("%s: status %d, passed %v", name, status, passed)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"no browser":  nil,
		"browser":     all(header("Sec-Fetch-Site", "same-origin"), header("Origin", "http://localhost:8080")),
		"old browser": header("Origin", "http://localhost:8080"),
	} {
		if status, passed := send(Options{Token: testToken}, local("POST", change)); status != 200 || !passed {
			t.Errorf("%s: status %d, passed %v", name, status, passed)
		}
	}
}

func TestOtherSitesCannotEmbedAnswers(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"image":    all(header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "image")),
		"fetch":    all(header("Sec-Fetch-Site", "same-site"), header("Sec-Fetch-Mode", "cors"), header("Sec-Fetch-Dest", "empty")),
		"frame":    all(header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "iframe")),
		"unstated": header("Sec-Fetch-Site", "cross-site"),
	} {
		if status, passed := send(Options{Token: testToken}, local("GET", change)); status != 403 || passed {
			t.Errorf("%s: status %d, passed %v", name, status, passed)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"link of another site": all(header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document")),
		"typed address":        header("Sec-Fetch-Site", "none"),
		"own script":           all(header("Sec-Fetch-Site", "same-origin"), header("Sec-Fetch-Mode", "cors")),
	} {
		if status, passed := send(Options{Token: testToken}, local("GET", change)); status != 200 || !passed {
			t.Errorf("%s: status %d, passed %v", name, status, passed)
		}
	}
}

func TestReadOnlyRefusesPosts(t *testing.T) {
	if status, passed := send(Options{ReadOnly: true, Token: testToken}, local("POST", nil)); status != 403 || passed {
		t.Errorf("POST: %d, passed %v", status, passed)
	}
	if status, passed := send(Options{ReadOnly: true, Token: testToken}, local("GET", nil)); status != 200 || !passed {
		t.Errorf("GET: %d, passed %v", status, passed)
	}
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	want := map[string]string{
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cache-Control":                "no-store",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"X-Accel-Buffering":            "no",
	}
	directives := []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "base-uri 'none'",
		"form-action 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
	}
	for name, r := range map[string]*http.Request{
		"answered":     local("GET", nil),
		"refused":      local("GET", header("Authorization", "")),
		"method":       local("PUT", nil),
		"other site":   local("POST", header("Sec-Fetch-Site", "cross-site")),
		"long address": httptest.NewRequest("GET", "http://localhost/?"+strings.Repeat("a", maxTarget), nil),
	} {
		w := httptest.NewRecorder()
		Guard(&answer{}, Options{Token: testToken}).ServeHTTP(w, r)
		sent := sentHeader(w)
		for h, v := range want {
			if got := sent.Get(h); got != v {
				t.Errorf("%s: %s is %q, want %q", name, h, got, v)
			}
		}
		csp := strings.Split(sent.Get("Content-Security-Policy"), "; ")
		if strings.Join(csp, "|") != strings.Join(directives, "|") {
			t.Errorf("%s: policy %q", name, csp)
		}
	}
}

// sentHeader returns the header as it was when the answer began.
func sentHeader(w *httptest.ResponseRecorder) http.Header {
	resp := w.Result()
	resp.Body.Close()
	return resp.Header
}

func TestBodyAndAddressAreBounded(t *testing.T) {
	for size, ok := range map[int]bool{0: true, maxBody: true, maxBody + 1: false, 10 << 20: false} {
		r := local("POST", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat("a", size))) })
		a := &answer{}
		w := httptest.NewRecorder()
		Guard(a, Options{Token: testToken}).ServeHTTP(w, r)
		if ok && (a.requests != 1 || a.read != size || a.err != nil) || !ok && (a.requests != 0 || w.Code != 413) {
			t.Errorf("%d bytes: %d, %d requests, read %d, %v", size, w.Code, a.requests, a.read, a.err)
		}
	}
	a := &answer{}
	Guard(a, Options{Token: testToken}).ServeHTTP(httptest.NewRecorder(), local("GET", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("body")) }))
	if a.read != 0 || a.err != nil {
		t.Errorf("the body of a GET: read %d, %v", a.read, a.err)
	}
	long := local("GET", func(r *http.Request) { r.RequestURI = "/?" + strings.Repeat("a", maxTarget) })
	if status, passed := send(Options{Token: testToken}, long); status != 414 || passed {
		t.Errorf("long address: %d, passed %v", status, passed)
	}
}

// TestBodyThatDoesNotComeIsNotWaitedFor sends a part of a body, and then nothing. The deadline
// of a complete body does not end an action that takes longer.
func TestBodyThatDoesNotComeIsNotWaitedFor(t *testing.T) { synctest.Test(t, waitForNoBody) }

func waitForNoBody(t *testing.T) {
	a := &answer{}
	long := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-r.Context().Done():
			t.Error("the context of the action has ended")
		}
		a.ServeHTTP(w, r)
	})
	l := newSimulated()
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: &guard{next: long, o: Options{Token: testToken}, door: NewDoor(testToken), timeout: 200 * time.Millisecond}}}
	server.Start()
	defer server.Close()
	conn, err := l.dial(t.Context(), "tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	status := func() string {
		line, err := answers.ReadString('\n')
		for l := line; err == nil && l != "\r\n"; {
			l, err = answers.ReadString('\n')
		}
		return line
	}
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+testToken+"\r\nContent-Length: 2\r\n\r\na")
	fmt.Fprint(conn, "b")
	if got := status(); !strings.Contains(got, " 200 ") {
		t.Fatalf("a body in two parts: %q", got)
	}
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+testToken+"\r\nContent-Length: 2\r\n\r\na")
	if got := status(); !strings.Contains(got, " 408 ") || a.requests != 1 {
		t.Errorf("half a body: %q, %d requests", got, a.requests)
	}
}
