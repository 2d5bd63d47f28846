package hello

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/strata-cache/strata/snapshot"
)

// Start names the step of a new instance before its first request.
type Start string

// The starts.
const (
	// Cold: nothing. Its memory is empty.
	Cold Start = "cold"
	// ByKeys: it reads the keys that the old instance has saved from L2.
	ByKeys Start = "keys"
	// ByTransfer: it takes over the entries of the old instance.
	ByTransfer Start = "transfer"
)

// Restart replaces the cache of the mode strata by the cache of a new instance, like a
// restart of the process. The shared tier keeps its entries. Requests that wait for a
// load of the old cache fail. The report is about the start of the new instance.
func (s *Service) Restart(ctx context.Context, start Start) (r snapshot.Report, err error) {
	return s.RestartWith(ctx, start, s.Jitter())
}

// Jitter is Options.Jitter of the present cache of the mode strata.
func (s *Service) Jitter() float64 { return s.layered.Load().jitter }

// RestartWith is Restart with another Options.Jitter. Entries that the new cache takes over live for as long as before.
func (s *Service) RestartWith(ctx context.Context, start Start, jitter float64) (r snapshot.Report, err error) {
	o := s.options
	o.Jitter = jitter
	fresh, err := newLayered(s.load, o)
	if err != nil {
		return r, err
	}
	// The old cache stays in use until the new one is warm, like an old process during a rolling
	// update.
	old := s.layered.Load()
	switch start {
	case Cold:
	case ByKeys:
		r, err = warmByKeys(ctx, old, fresh)
	case ByTransfer:
		r, err = warmByTransfer(ctx, old, fresh, s.options.Token)
	default:
		err = fmt.Errorf("hello: no start is called %q", start)
	}
	if err != nil {
		return r, errors.Join(err, fresh.close(ctx))
	}
	return r, s.retire(fresh).close(ctx)
}

// TakeOver takes over the entries of another service, at the address of its snapshot with its token.
func (s *Service) TakeOver(ctx context.Context, snapshotURL string) (snapshot.Report, error) {
	return snapshot.Pull(ctx, snapshotURL, snapshot.Options{}, s.layered.Load().cache)
}

// warmByKeys lets the old instance save its keys, as it would at its end, and the new one
// read them.
func warmByKeys(ctx context.Context, old, fresh *layered) (r snapshot.Report, err error) {
	// The keys go through a file, as between two processes.
	dir, err := os.MkdirTemp("", "strata-demo-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "keys")
	if r, err = snapshot.SaveKeys(ctx, path, snapshot.Options{}, old.cache); err != nil {
		return r, err
	}
	return snapshot.WarmKeys(ctx, path, snapshot.Options{}, fresh.cache)
}

// warmByTransfer lets the new instance pull the entries of the old one over a connection
// of this machine.
func warmByTransfer(ctx context.Context, old, fresh *layered, token string) (r snapshot.Report, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	server := &http.Server{Handler: old.snapshot, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	r, err = snapshot.Pull(ctx, "http://"+listener.Addr().String()+"/?token="+url.QueryEscape(token), snapshot.Options{}, fresh.cache)
	_ = server.Close() // its only client is done
	if e := <-served; err == nil && !errors.Is(e, http.ErrServerClosed) {
		err = e
	}
	return r, err
}
