package snapshot

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/dump"
)

// Pull fills caches with the entries of another instance, whose [Handler] serves them at a
// URL. Call it before the new instance listens; it can also run while the caches are in
// use, since it replaces no entry. It asks for a share of the entries by each of several
// connections.
//
// If Pull fails, it logs a warning and returns an error, which is no reason not to start:
// the entries so far are in use. It returns the errors of Load, an error of the network,
// one that wraps [ErrStalled] if no bytes came for Options.Stall, and one with the status
// of an answer that is no snapshot.
func Pull(ctx context.Context, from string, o Options, caches ...Cache) (Report, error) {
	rd, err := newReading(ctx, o, dump.Values, caches)
	if err != nil {
		return Report{}, err
	}
	defer rd.cancel()
	return rd.end("entries are taken over", "entries are taken over in part", rd.pull(from))
}

func (rd *reading) pull(from string) error {
	at, err := url.Parse(from)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return fmt.Errorf("snapshot: %q is not the URL of a Handler: it begins with neither http:// nor https://", at.Redacted())
	}
	client := rd.o.Client
	if client == nil {
		client = newClient()
		defer client.CloseIdleConnections()
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // does not fail
	n := cmp.Or(rd.o.Streams, defaultStreams)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = rd.pullShare(client, share(at, id, i, n), id) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// newClient returns the client of a Pull. A redirect would send Options.Header elsewhere.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			DisableCompression:  true,
			ReadBufferSize:      128 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// share is the URL of one of n streams.
func share(at *url.URL, id [16]byte, i, n int) *url.URL {
	u := *at
	q := u.Query()
	q.Set("stream", strconv.Itoa(i))
	q.Set("of", strconv.Itoa(n))
	q.Set("id", hex.EncodeToString(id[:]))
	u.RawQuery = q.Encode()
	return &u
}

var errOtherSnapshot = errors.New("the answer is another snapshot than the one that was asked for")

// pullShare takes in one stream. Its clock is that of this machine: the other instance
// begins the snapshot after the request.
func (rd *reading) pullShare(client *http.Client, at *url.URL, id [16]byte) error {
	ctx, cancel := context.WithCancelCause(rd.ctx)
	defer cancel(nil)
	in, err := rd.begin()
	if err != nil {
		return err
	}
	defer in.close()
	begun, from := time.Now(), &stallGuard{within: cmp.Or(rd.o.Stall, defaultStall), cancel: cancel}
	body, err := from.ask(ctx, client, at, rd.o.Header)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("snapshot: %w", err)
	}
	defer body.Close()
	rd.meter.expect(from.entries, 0)
	return in.stream(&pipe{ctx: ctx, pace: rd.pace, meter: rd.meter, r: from}, func(h dump.Header) (func() time.Duration, error) {
		if h.ID != id {
			return nil, errOtherSnapshot
		}
		return func() time.Duration { return time.Since(begun) }, nil
	})
}

// stallGuard is the body of an answer, with a limit of the time for which no bytes come.
type stallGuard struct {
	within  time.Duration
	cancel  context.CancelCauseFunc
	body    io.Reader
	entries int64 // that the answer announces
}

// guard runs f with the limit.
func (g *stallGuard) guard(f func()) {
	t := time.AfterFunc(g.within, func() { g.cancel(fmt.Errorf("%w for %v", ErrStalled, g.within)) })
	defer t.Stop()
	f()
}

func (g *stallGuard) Read(b []byte) (n int, err error) {
	g.guard(func() { n, err = g.body.Read(b) })
	return n, err
}

// maxAnswer is the length of the text that an error quotes of an answer, in bytes.
const maxAnswer = 256

// ask sends the request, and returns the body of an answer that may be a snapshot.
func (g *stallGuard) ask(ctx context.Context, client *http.Client, at *url.URL, header http.Header) (io.Closer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	var answer *http.Response
	g.guard(func() { answer, err = client.Do(req) })
	if err != nil {
		return nil, err
	}
	g.body = answer.Body
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); answer.StatusCode != http.StatusOK || kind != contentType {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(g, maxAnswer)) // as much as there is
		return nil, fmt.Errorf("%s answers with status %s: %q", at.Host, answer.Status, strings.TrimSpace(string(text)))
	}
	g.entries, _ = strconv.ParseInt(answer.Header.Get(headerEntries), 10, 64) // for the progress only
	return answer.Body, nil
}
