package page

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// served starts a server with streams of counted events.
func served(t *testing.T, every time.Duration, event func(context.Context) any) (*Streams, string) {
	t.Helper()
	s := &Streams{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Serve(w, r, every, event) }))
	t.Cleanup(server.Close)
	t.Cleanup(s.Close)
	return s, server.URL
}

// reply is an answer. Its body is closed at the end of the test.
type reply struct {
	status int
	header http.Header
	body   io.Reader
}

func open(t *testing.T, ctx context.Context, client *http.Client, url string) reply {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return reply{resp.StatusCode, resp.Header, resp.Body}
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not so after 20 s: %s", what)
		}
	}
}

func TestStreamHasOneJSONEventAtATime(t *testing.T) {
	n := 0
	_, url := served(t, time.Millisecond, func(context.Context) any {
		n++
		return map[string]any{"n": n, "text": "two\nlines</script>\u2028"}
	})
	resp := open(t, t.Context(), http.DefaultClient, url)
	if got := resp.header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	lines := bufio.NewScanner(resp.body)
	for i := 1; i <= 5; i++ {
		var e struct {
			N    int
			Text string
		}
		if !lines.Scan() || json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &e) != nil || e.N != i || e.Text != "two\nlines</script>\u2028" {
			t.Fatalf("event %d is %q", i, lines.Text())
		}
		if strings.Contains(lines.Text(), "<") {
			t.Errorf("markup: %q", lines.Text())
		}
		if !lines.Scan() || lines.Text() != "" {
			t.Fatalf("event %d does not end: %q", i, lines.Text())
		}
	}
}

func TestStreamsAreLimited(t *testing.T) {
	s, url := served(t, time.Hour, func(context.Context) any { return 1 })
	ctx, leave := context.WithCancel(t.Context())
	open(t, ctx, http.DefaultClient, url)
	for range MaxStreams - 1 {
		if resp := open(t, t.Context(), http.DefaultClient, url); resp.status != 200 {
			t.Fatal(resp.status)
		}
	}
	over := open(t, t.Context(), http.DefaultClient, url)
	if over.status != 503 || over.header.Get("Retry-After") == "" || s.Open() != MaxStreams {
		t.Errorf("one more: %d, Retry-After %q, open %d", over.status, over.header.Get("Retry-After"), s.Open())
	}
	leave()
	until(t, "a stream has ended with its request", func() bool { return s.Open() == MaxStreams-1 })
	if resp := open(t, t.Context(), http.DefaultClient, url); resp.status != 200 {
		t.Errorf("after one has left: %d", resp.status)
	}
}

func TestCloseEndsStreams(t *testing.T) {
	var ended atomic.Bool
	s, url := served(t, time.Hour, func(ctx context.Context) any {
		context.AfterFunc(ctx, func() { ended.Store(true) })
		return 1
	})
	resp := open(t, t.Context(), http.DefaultClient, url)
	s.Close()
	if s.Open() != 0 {
		t.Errorf("%d are open after Close", s.Open())
	}
	if body, err := io.ReadAll(resp.body); err != nil || !strings.HasPrefix(string(body), "data: 1\n\n") {
		t.Errorf("body %q, %v", body, err)
	}
	until(t, "the context of events ends", ended.Load)
	if late := open(t, t.Context(), http.DefaultClient, url); late.status != 503 {
		t.Errorf("after Close: %d", late.status)
	}
	s.Close()
}

// TestStalledClientLosesItsStream has a client that reads nothing: the buffers of the
// connection fill up, and a later event cannot be written.
func TestStalledClientLosesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("a", 8<<20)
		var events atomic.Int64
		s, l := &Streams{timeout: 100 * time.Millisecond}, newSimulated()
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Serve(w, r, time.Millisecond, func(context.Context) any {
				if events.Add(1) == 1 {
					return "small"
				}
				return big
			})
		})}}
		server.Start()
		defer server.Close()
		defer s.Close()
		conn, err := l.dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		until(t, "the stream begins", func() bool { return events.Load() > 1 })
		until(t, "the stream ends", func() bool { return s.Open() == 0 })
	})
}

// TestStreamOutlivesDeadlines has longer pauses between events than the deadlines of a
// server and of an event: over HTTP/2, a deadline ends a stream on which nothing is written.
func TestStreamOutlivesDeadlines(t *testing.T) {
	for name, two := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { outliveDeadlines(t, two) }) })
	}
}

func outliveDeadlines(t *testing.T, two bool) {
	s, l := &Streams{timeout: 50 * time.Millisecond}, newSimulated()
	server := &httptest.Server{Listener: l, EnableHTTP2: two, Config: &http.Server{
		WriteTimeout: 50 * time.Millisecond,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Serve(w, r, 80*time.Millisecond, func(context.Context) any { return r.ProtoMajor })
		}),
	}}
	server.StartTLS()
	defer server.Close()
	defer s.Close()
	transport := server.Client().Transport.(*http.Transport)
	transport.DialContext = l.dial
	defer transport.CloseIdleConnections()
	stream := open(t, t.Context(), server.Client(), server.URL)
	lines := bufio.NewScanner(stream.body)
	for i := range 20 {
		if want := map[bool]string{false: "data: 1", true: "data: 2"}[two]; !lines.Scan() || lines.Text() != want || !lines.Scan() {
			t.Fatalf("the stream has ended after %d events: %q, %v", i, lines.Text(), lines.Err())
		}
	}
}

// wrapper hides the methods of the ResponseWriter below.
type wrapper struct{ http.ResponseWriter }

func TestWrappedResponseWriterGetsAClearError(t *testing.T) {
	w := httptest.NewRecorder()
	new(Streams).Serve(wrapper{w}, httptest.NewRequest("GET", "/", nil), time.Second, func(context.Context) any { return 1 })
	if w.Code != 501 || !strings.Contains(w.Body.String(), "Unwrap") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
