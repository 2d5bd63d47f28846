package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata"
)

// collector keeps the bodies of requests by their path.
type collector struct {
	mu     sync.Mutex
	bodies map[string]string
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(r.Body); err == nil {
			body = z
		}
	}
	var b bytes.Buffer
	_, _ = io.Copy(&b, body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies[r.URL.Path] += b.String()
}

func TestSpansAndMetricsReachTheCollector(t *testing.T) {
	c := &collector{bodies: map[string]string{}}
	server := httptest.NewServer(c)
	defer server.Close()
	sent, err := New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := strata.New(strata.Options[string, int]{Name: "hello", TTL: time.Minute, Tracer: sent.Tracer()})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close(context.Background())
	if err := sent.Watch(t.Context(), cache); err != nil {
		t.Fatal(err)
	}
	if _, err := cache.GetOrLoad(t.Context(), "k", func(context.Context, string) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	if err := sent.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"/v1/traces":  {"get hello", "load hello", "strata-demo"},
		"/v1/metrics": {"strata.tier.requests", "strata.load.duration", "hello"},
	} {
		for _, w := range want {
			if !strings.Contains(c.bodies[path], w) {
				t.Errorf("%s has no %q in %d bytes", path, w, len(c.bodies[path]))
			}
		}
	}
}

func TestAddressesOfCollectorsAreChecked(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:4318", "ftp://x", "http://", "http://user:secret@x:1"} {
		if err := Check(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
		if _, err := New(t.Context(), bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestCollectorThatIsNotThereIsNoHindrance(t *testing.T) {
	sent, err := New(t.Context(), "http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := strata.New(strata.Options[string, int]{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close(context.Background())
	if err := sent.Watch(t.Context(), cache); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_ = sent.Close()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the end has taken %v", took)
	}
}
