package carrier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/wire"
)

// ContentType is the content type of an answer with a snapshot.
const ContentType = "application/vnd.strata.snapshot"

// EntriesHeader is the header of an answer with about the number of its entries.
const EntriesHeader = "Strata-Snapshot-Entries"

// ErrStalled says that no bytes came for the time of Request.Stall.
var ErrStalled = errors.New("no bytes have come")

// NewClient returns a client for snapshots. It follows no redirect, which would send the
// header of a request elsewhere.
func NewClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			// A handler that refuses a snapshot says so before it is sent.
			ExpectContinueTimeout: 2 * time.Second,
			DisableCompression:    true,
			ReadBufferSize:        128 << 10,
			WriteBufferSize:       128 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Request is a question for a snapshot.
type Request struct {
	Client *http.Client
	URL    *url.URL
	Header http.Header
	// Stall is how long bytes may not come.
	Stall time.Duration
}

// Answer is the snapshot that comes. It is not safe for concurrent use.
type Answer struct {
	// Entries is about the number of its entries; zero if the handler does not say.
	Entries int64

	body   io.ReadCloser
	within time.Duration
	ctx    context.Context //nolint:containedctx // the life of the answer, as in net/http
	cancel context.CancelCauseFunc
}

// Pull sends the request. The error has the status of an answer without a snapshot, and the reason
// that a handler gives for it.
func Pull(ctx context.Context, r Request) (*Answer, error) {
	a := &Answer{within: r.Stall}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(a.ctx, http.MethodGet, r.URL.String(), nil)
	if err != nil {
		a.cancel(nil)
		return nil, wire.CleanError(err)
	}
	for name, values := range r.Header {
		req.Header[name] = values
		if strings.EqualFold(name, "Host") && len(values) > 0 { // package net/http takes it from there
			req.Host = values[0]
			delete(req.Header, name)
		}
	}
	var answer *http.Response
	// The first bytes have the same limit of time as the others.
	a.guard(func() { answer, err = r.Client.Do(req) }) //nolint:bodyclose // Close closes it
	if err != nil {
		why := a.cause(err)
		a.cancel(nil) // the context of the caller may live on for long
		return nil, why
	}
	a.body = answer.Body
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); answer.StatusCode != http.StatusOK || kind != ContentType {
		defer a.Close()
		return nil, Refusal(r.URL, answer, a)
	}
	a.Entries, _ = strconv.ParseInt(answer.Header.Get(EntriesHeader), 10, 64) // for the progress only
	return a, nil
}

// maxText is the length of the reason that an error quotes, in bytes.
const maxText = 256

// Refusal is the error of an answer without a snapshot, with this body. It quotes only the text of
// a handler that refuses: a proxy may have changed the type of an answer with entries.
func Refusal(of *url.URL, answer *http.Response, body io.Reader) error {
	said := ""
	if answer.StatusCode >= http.StatusBadRequest {
		b, _ := io.ReadAll(io.LimitReader(body, maxText)) // as much as there is
		if text := strings.TrimSpace(string(b)); strings.HasPrefix(text, "snapshot: ") {
			said = fmt.Sprintf(": %q", text)
		}
	}
	status := strings.TrimSpace(strconv.Itoa(answer.StatusCode) + " " + http.StatusText(answer.StatusCode))
	return fmt.Errorf("%s answers with no snapshot, and status %s%s", of.Host, status, said)
}

// Read implements [io.Reader]. Its error wraps [ErrStalled] if no bytes came in time.
func (a *Answer) Read(b []byte) (n int, err error) {
	a.guard(func() { n, err = a.body.Read(b) })
	if err != nil && err != io.EOF {
		err = a.cause(err)
	}
	return n, err
}

// Close ends the answer.
func (a *Answer) Close() error {
	a.cancel(nil)
	return a.body.Close()
}

// guard runs f with the limit of the time without bytes.
func (a *Answer) guard(f func()) {
	t := time.AfterFunc(a.within, func() { a.cancel(fmt.Errorf("%w for %v", ErrStalled, a.within)) })
	defer t.Stop()
	f()
}

// cause is the reason why the context has ended, if it has, and otherwise err without texts from
// outside.
func (a *Answer) cause(err error) error {
	if why := context.Cause(a.ctx); why != nil {
		return why
	}
	return wire.CleanError(err)
}
