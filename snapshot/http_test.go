package snapshot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// listener accepts the connections of a host in memory.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { close(l.closed); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

// serve serves h to the client that it returns, in a bubble.
func serve(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := netsim.Pair(64 << 10)
		select {
		case l.conns <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
	})
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func anyone(*http.Request) bool { return true }

const at = "http://instance/debug/snapshot"

func TestPullTakesOverTheEntriesOfAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		users, products := alone(t, "users", 8000), alone(t, "products", 3000)
		must(t, users.SetNotFound(t.Context(), "none"))
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, users, products))
		for _, streams := range []int{0, 1, 7} {
			users2, products2 := alone(t, "users", 0), alone(t, "products", 0)
			var last snapshot.Progress
			o := snapshot.Options{Client: client, Streams: streams, Progress: func(p snapshot.Progress) { last = p }}
			r, err := snapshot.Pull(t.Context(), at, o, users2, products2)
			if err != nil || r.Warm() != 11_001 || len(r.Caches) != 2 {
				t.Errorf("%d streams: %+v, %v", streams, r, err)
			}
			if holds(t, users2, 8000) != 8000 || holds(t, products2, 3000) != 3000 {
				t.Errorf("%d streams: entries are missing", streams)
			}
			if last.Entries != 11_001 || last.Bytes != r.Bytes || last.TotalEntries < 10_900 || last.TotalEntries > 11_000 {
				t.Errorf("%d streams: told of %+v", streams, last)
			}
		}
	})
}

func TestPullReplacesNothingAndMissesNoDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		donor := alone(t, "users", 20_000)
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, BytesPerSecond: 100_000}, donor))
		c := alone(t, "users", 0)
		must(t, c.Set(t.Context(), "k1", "v1"))
		must(t, c.Set(t.Context(), "k2", "mine"))
		go func() { // while the entries come
			for i := 0; i < 20_000; i += 100 {
				_ = donor.Invalidate(t.Context(), "k"+strconv.Itoa(i))
				_ = c.Invalidate(t.Context(), "k"+strconv.Itoa(i+1))
				time.Sleep(10 * time.Millisecond) // in the bubble
			}
		}()
		r, err := snapshot.Pull(t.Context(), at, snapshot.Options{Client: client}, c)
		if err != nil || r.Took < 4*time.Second || r.Caches[0].Present != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if v, _ := c.Get(t.Context(), "k2"); v != "mine" {
			t.Errorf("k2 is %q", v)
		}
		must(t, c.Invalidate(t.Context(), "k2"))
		if n := holds(t, c, 20_000); n > 20_000-401 || n < 20_000-430 { // a few others share a mark with a changed key
			t.Errorf("%d entries after 401 drops", n)
		}
		for i := 0; i < 20_000; i += 100 {
			if _, ok := c.Get(t.Context(), "k"+strconv.Itoa(i)); ok {
				t.Fatalf("k%d, which the other instance has dropped, is there", i)
			}
		}
	})
}

func TestPullOfInstancesThatShareABusBringsBackNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus := stratatest.NewTier(), stratatest.NewBus()
		donor, _ := shared(t, tier, bus)
		fill(t, donor, 10_000)
		time.Sleep(time.Second) // in the bubble
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, BytesPerSecond: 400_000}, donor))
		c, cut := shared(t, tier, bus)
		go func() {
			for i := 0; i < 10_000; i += 100 {
				_ = donor.Invalidate(t.Context(), "k"+strconv.Itoa(i))
				if i == 7000 {
					cut.Cut()
				}
				time.Sleep(8 * time.Millisecond) // in the bubble
			}
		}()
		r, err := snapshot.Pull(t.Context(), at, snapshot.Options{Client: client}, c)
		if err != nil || r.Caches[0].Stored < 1000 || r.Took < 700*time.Millisecond {
			t.Errorf("%+v, %v", r, err)
		}
		cut.Join()
		time.Sleep(5 * time.Second) // in the bubble, until the drops of meanwhile are known
		for i := 0; i < 10_000; i += 100 {
			if v, ok := c.Get(t.Context(), "k"+strconv.Itoa(i)); ok {
				t.Fatalf("k%d is back as %q", i, v)
			}
		}
	})
}

// broken is a Handler with answers that are changed on their way.
func broken(h http.Handler, change func(http.ResponseWriter) http.ResponseWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(change(w), r) })
}

// cutAfter is an answer that ends in the middle, or that stalls.
type cutAfter struct {
	http.ResponseWriter
	left  int
	stall chan struct{}
}

func (c *cutAfter) Write(b []byte) (int, error) {
	if c.left -= len(b); c.left > 0 {
		return c.ResponseWriter.Write(b)
	}
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	if c.stall != nil {
		<-c.stall
	}
	panic(http.ErrAbortHandler)
}

func TestPrefixOfAPullServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		donor := alone(t, "users", 30_000)
		h := snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, donor)
		c := alone(t, "users", 0)
		client := serve(t, broken(h, func(w http.ResponseWriter) http.ResponseWriter { return &cutAfter{ResponseWriter: w, left: 300_000} }))
		r, err := snapshot.Pull(t.Context(), at, snapshot.Options{Client: client}, c)
		if err == nil || r.Warm() < 5000 || r.Warm() > 29_000 || holds(t, c, 30_000) != r.Warm() {
			t.Errorf("%+v, %v", r, err)
		}
		stall := make(chan struct{})
		client = serve(t, broken(h, func(w http.ResponseWriter) http.ResponseWriter {
			return &cutAfter{ResponseWriter: w, left: 300_000, stall: stall}
		}))
		c, begun := alone(t, "users", 0), time.Now()
		r, err = snapshot.Pull(t.Context(), at, snapshot.Options{Client: client, Stall: 3 * time.Second}, c)
		if !errors.Is(err, snapshot.ErrStalled) || time.Since(begun) < 3*time.Second || time.Since(begun) > 3100*time.Millisecond || r.Warm() < 5000 || holds(t, c, 30_000) != r.Warm() {
			t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
		}
		close(stall)
	})
}

func TestPullEndsAfterItsTimeAndWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		donor := alone(t, "users", 30_000)
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, BytesPerSecond: 50_000}, donor))
		c, begun := alone(t, "users", 0), time.Now()
		r, err := snapshot.Pull(t.Context(), at, snapshot.Options{Client: client, Within: 4 * time.Second}, c)
		if !errors.Is(err, snapshot.ErrTime) || time.Since(begun) != 4*time.Second || r.Warm() == 0 || c.Len() != r.Warm() {
			t.Errorf("%+v, %v after %v", r, err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err = snapshot.Pull(ctx, at, snapshot.Options{Client: client}, c); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestPullSaysWhyThereIsNoSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := map[string]http.HandlerFunc{
			"403":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
			"302":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
			"200 OK": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
			"not a snapshot": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/vnd.strata.snapshot")
				_, _ = io.WriteString(w, strings.Repeat("x", 100))
			},
			"snapshot ends early": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/vnd.strata.snapshot")
			},
			"no bytes have come for": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		}
		c := alone(t, "users", 0)
		for want, answer := range answers {
			_, err := snapshot.Pull(t.Context(), at, snapshot.Options{Client: serve(t, answer), Streams: 1}, c)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		for _, url := range []string{"", "instance:80", "ftp://instance/", "http://", "http://a b/", "http://instance/%zz"} {
			if _, err := snapshot.Pull(t.Context(), url, snapshot.Options{Client: serve(t, http.NotFoundHandler())}, c); err == nil {
				t.Errorf("%q is pulled", url)
			}
		}
		other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.URL.RawQuery = "" // so that the answer has another ID
			snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, alone(t, "users", 5)).ServeHTTP(w, r)
		}))
		if r, err := snapshot.Pull(t.Context(), at, snapshot.Options{Client: other, Streams: 1}, c); err == nil || r.Entries() != 0 {
			t.Errorf("another snapshot: %+v, %v", r, err)
		}
	})
}

// answerTo returns the status and the body of an answer.
func answerTo(t *testing.T, client *http.Client, method, query string, body io.Reader) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at+query, body)
	must(t, err)
	r, err := client.Do(req)
	must(t, err)
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	must(t, err)
	if r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %s: headers are %v", method, query, r.Header)
	}
	return r.StatusCode, string(all)
}

func TestHandlerRefusesRequestsThatAreNotAuthorised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		donor := alone(t, "users", 10)
		var asked atomic.Int64
		for _, authorize := range []func(*http.Request) bool{nil, func(*http.Request) bool { asked.Add(1); return false }} {
			client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: authorize, AllowPut: true}, donor))
			for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodHead, http.MethodPost} {
				if status, body := answerTo(t, client, method, "", nil); status != http.StatusForbidden || strings.Contains(body, "v1") {
					t.Errorf("%s: %d %q", method, status, body)
				}
			}
		}
		if asked.Load() != 4 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

func TestHandlerRefusesWrongRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, alone(t, "users", 10)))
		for _, query := range []string{
			"?mode=all", "?max=0", "?max=-1", "?max=x", "?of=0", "?of=17", "?of=2&stream=2", "?stream=1", "?stream=-1", "?id=00", "?id=" + strings.Repeat("z", 32), "?id=" + strings.Repeat("0", 34),
			"?mode=keys&of=2", "?max=99999999999999999999",
		} {
			if status, body := answerTo(t, client, http.MethodGet, query, nil); status != http.StatusBadRequest || !strings.HasPrefix(body, "snapshot: ") {
				t.Errorf("%s: %d %q", query, status, body)
			}
		}
		for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodHead} {
			if status, _ := answerTo(t, client, method, "", nil); status != http.StatusMethodNotAllowed {
				t.Errorf("%s: %d", method, status)
			}
		}
	})
}

func TestHandlerServesAFewRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		h := snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, alone(t, "users", 10))
		var n atomic.Int64
		client := serve(t, broken(h, func(w http.ResponseWriter) http.ResponseWriter {
			if n.Add(1) > 32 {
				return w
			}
			return &cutAfter{ResponseWriter: w, stall: hold}
		}))
		for range 32 {
			go func() {
				if r, err := client.Get(at); err == nil {
					r.Body.Close()
				}
			}()
		}
		synctest.Wait()
		if status, _ := answerTo(t, client, http.MethodGet, "", nil); status != http.StatusServiceUnavailable {
			t.Errorf("the request 33 gets %d", status)
		}
		close(hold)
		synctest.Wait()
		if status, _ := answerTo(t, serve(t, h), http.MethodGet, "", nil); status != http.StatusOK {
			t.Errorf("then %d", status)
		}
	})
}

func TestPutFillsTheCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, alone(t, "users", 5000))
		must(t, err)
		c := alone(t, "users", 0)
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, AllowPut: true}, c))
		var report struct {
			snapshot.Report
			Error string
		}
		status, body := answerTo(t, client, http.MethodPut, "", bytes.NewReader(file.Bytes()))
		if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusOK || report.Warm() != 5000 || report.Error != "" || holds(t, c, 5000) != 5000 {
			t.Errorf("%d %s, %v", status, body, err)
		}
		must(t, c.InvalidateAll(t.Context()))
		status, body = answerTo(t, client, http.MethodPut, "", bytes.NewReader(file.Bytes()[:file.Len()-1]))
		if err := json.Unmarshal([]byte(body), &report); err != nil || status != http.StatusUnprocessableEntity || !strings.Contains(report.Error, "ends early") {
			t.Errorf("a snapshot that is cut: %d %s, %v", status, body, err)
		}
	})
}

// slowly sends some bytes at a time.
type slowly struct {
	io.Reader
	bytes int
	pause time.Duration
}

func (s slowly) Read(b []byte) (int, error) {
	time.Sleep(s.pause) // in the bubble
	return s.Reader.Read(b[:min(len(b), s.bytes)])
}

// TestSlowPutsEnd has peers that send a byte now and then: they hold no place for long. One that is slow, and not that
// slow, is served.
func TestSlowPutsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, alone(t, "users", 5000))
		must(t, err)
		c := alone(t, "users", 0)
		for _, h := range []http.Handler{
			snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, AllowPut: true}, c),
			// A handler with a lower rate than its peer waits for itself.
			snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, AllowPut: true, BytesPerSecond: 1000}, c),
		} {
			client, begun := serve(t, h), time.Now()
			body := slowly{bytes.NewReader(file.Bytes()), 1, 10 * time.Second}
			if status, _ := answerTo(t, client, http.MethodPut, "", body); status == http.StatusOK || time.Since(begun) > time.Minute {
				t.Errorf("a byte in 10 s: status %d after %v", status, time.Since(begun))
			}
			body = slowly{bytes.NewReader(file.Bytes()), 4 << 10, time.Second}
			if status, answer := answerTo(t, client, http.MethodPut, "", body); status != http.StatusOK || holds(t, c, 5000) != 5000 {
				t.Errorf("4 KiB in a second: status %d, %s", status, answer)
			}
		}
	})
}

func TestHandlerKeepsToItsRateOverAllAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone, BytesPerSecond: 100_000}, alone(t, "users", 15_000)))
		c := alone(t, "users", 0)
		r, err := snapshot.Pull(t.Context(), at, snapshot.Options{Client: client, Streams: 4}, c)
		want := time.Duration(r.Bytes) * time.Second / 100_000
		if err != nil || r.Took < want*8/10 || r.Took > want*11/10 {
			t.Errorf("%v for %d bytes, %v", r.Took, r.Bytes, err)
		}
	})
}

func TestHandlerWithoutCachesPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone})
}

// TestPeerThatStopsReadingLosesItsConnection has peers that take different numbers of bytes of an answer: some
// leave nothing but its last bytes, which the server writes when the handler has returned.
func TestPeerThatStopsReadingLosesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := alone(t, "users", 50)
		l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
		var states sync.Map // of connections
		server := &http.Server{Handler: snapshot.Handler(snapshot.HandlerOptions{Authorize: anyone}, c), ConnState: func(c net.Conn, s http.ConnState) { states.Store(c, s) }}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		windows := map[net.Conn]int{}
		for window := 100; window < 2500; window += 80 {
			ours, theirs := netsim.Pair(window)
			defer ours.Close()
			l.conns <- theirs
			windows[theirs] = window
			_, err := io.WriteString(ours, "GET /debug/snapshot HTTP/1.1\r\nHost: instance\r\n\r\n")
			must(t, err)
		}
		time.Sleep(5 * time.Minute) // in the bubble
		for conn, window := range windows {
			if s, _ := states.Load(conn); s == http.StateActive {
				t.Errorf("a peer that has taken %d bytes keeps its connection", window)
			}
		}
	})
}
