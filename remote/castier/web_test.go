package castier_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
	"github.com/strata-cache/strata/stratatest"
)

// site is the service of the example: items with entity tags.
type site struct {
	mu    sync.Mutex // guards below
	pages map[string]page
	last  int
}

type page struct {
	data []byte
	tag  string // empty for none
	ends time.Time
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.pages[r.URL.Path]
	if !is.ends.IsZero() && !time.Now().Before(is.ends) {
		is = page{}
	}
	switch {
	case r.Method == http.MethodHead:
	case r.Method == http.MethodGet && is.tag == "":
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", is.tag)
		_, _ = w.Write(is.data)
	case is.tag != r.Header.Get("If-Match") || is.tag == "" && r.Header.Get("If-None-Match") != "*":
		w.WriteHeader(http.StatusPreconditionFailed)
	case len(body) > 1<<20:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	default:
		s.last++
		is = page{data: body, tag: fmt.Sprintf("%q", strconv.Itoa(s.last))}
		if life, _ := strconv.Atoi(r.Header.Get("Life")); life > 0 {
			is.ends = time.Now().Add(time.Duration(life) * time.Second)
		}
		s.pages[r.URL.Path] = is
		w.WriteHeader(http.StatusNoContent)
	}
}

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	end   chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.end) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// overWeb runs f in a bubble with a service.
func overWeb(t *testing.T, f func(t *testing.T, w *web)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{conns: make(chan net.Conn), end: make(chan struct{})}
		server := &http.Server{Handler: &site{pages: map[string]page{}}, ReadHeaderTimeout: time.Minute}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := server.Serve(p); !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		})
		transport := &http.Transport{DialContext: p.dial, MaxIdleConnsPerHost: 64}
		defer func() { // also if a check is skipped
			transport.CloseIdleConnections()
			_ = server.Close()
			wg.Wait()
		}()
		f(t, &web{"http://items.internal/", &http.Client{Transport: transport}})
	})
}

// TestWebOfTheExampleConforms: it is a Store, and a Tier over it is a Tier.
func TestWebOfTheExampleConforms(t *testing.T) {
	for name, check := range stratatest.StoreChecks() {
		t.Run(name, func(t *testing.T) {
			overWeb(t, func(t *testing.T, w *web) {
				check(t, func(*testing.T) (castier.Store, func(time.Duration)) { return w, time.Sleep })
			})
		})
	}
	for name, check := range stratatest.TierChecks() {
		t.Run(name, func(t *testing.T) {
			overWeb(t, func(t *testing.T, w *web) {
				check(t, func(*testing.T) (remote.Tier, func(time.Duration)) { return castier.New(w), time.Sleep })
			})
		})
	}
}
