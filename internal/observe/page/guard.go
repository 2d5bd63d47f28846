// Package page has the common parts of all pages of strata: the choice of requests that they
// answer, streams of events, bounds of everything in a request, and the files of the pages. It
// knows no cache.
package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/observe"
)

// Limits of requests. maxTarget is the greatest length of a path with its query.
const (
	maxBody   = 64 << 10
	maxTarget = 16 << 10
)

// bodyTimeout is the time in which a client must send a body, unless a test sets another.
const bodyTimeout = 10 * time.Second

// policy permits nothing but files and answers of the page itself. A script cannot turn
// text into markup or into code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Options are the options of Guard.
type Options struct {
	// Authorize decides which requests are answered. Nil answers the requests with the Token.
	Authorize func(*http.Request) bool
	// Token is a secret that requests must have, as Admit of a Door says. Without Authorize and Token no request
	// is answered.
	Token string
	// ReadOnly refuses all requests that could change something.
	ReadOnly bool
	// Tell, if set, gets the whole address of the page, with the token, once: when the first request without
	// the token comes.
	Tell func(address string)
}

// Guard returns a handler that passes requests on to next only if they are authorised,
// are a GET, HEAD or POST, and do not come from another site. It reads the body of a POST,
// within a bound of length and of time, and sets the headers of every answer.
func Guard(next http.Handler, o Options) http.Handler {
	return &guard{next: next, o: o, door: NewDoor(o.Token), timeout: bodyTimeout, tell: observe.NewRunner()}
}

type guard struct {
	next    http.Handler
	o       Options
	door    *Door
	told    atomic.Bool
	tell    *observe.Runner
	csrf    http.CrossOriginProtection
	timeout time.Duration
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if len(r.RequestURI) > maxTarget {
		Fail(w, http.StatusRequestURITooLong, errTarget)
		return
	}
	// Authorised first: a stranger learns nothing about methods or bodies.
	if !g.authorize(w, r) {
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		if g.o.ReadOnly {
			Fail(w, http.StatusForbidden, errReadOnly)
			return
		}
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		Fail(w, http.StatusMethodNotAllowed, errMethod)
		return
	}
	if err := g.sameOrigin(r); err != nil {
		Fail(w, http.StatusForbidden, err)
		return
	}
	if err := g.readBody(w, r); err != nil {
		Fail(w, http.StatusBadRequest, fmt.Errorf("strata: the body of the request cannot be read: %w", err))
		return
	}
	g.next.ServeHTTP(w, r)
}

// readBody reads the body of a POST into memory, and removes the body of other requests. The
// deadline ends with the body. If a wrapper of w does not allow a deadline, only the timeouts
// of the server apply.
func (g *guard) readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		// A handler must not wait for a body that it has no use for.
		r.Body = http.NoBody
		return nil
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.timeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err
}

var (
	errTarget       = errors.New("strata: the address is too long")
	errReadOnly     = errors.New("strata: the page is read-only")
	errMethod       = errors.New("strata: the page answers GET, HEAD and POST")
	errUnauthorized = errors.New("strata: the request is not authorised")
	errToken        = errors.New("strata: the page wants a token: the log of the program, or the command that has started it, names the whole address with ?token=")
	errOrigin       = errors.New("strata: the request comes from another site")
)

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Accel-Buffering", "no")
}

// authorize reports whether the request goes on; else it is answered.
func (g *guard) authorize(w http.ResponseWriter, r *http.Request) bool {
	if g.o.Authorize != nil {
		if !g.o.Authorize(r) {
			Fail(w, http.StatusForbidden, errUnauthorized)
			return false
		}
		return true
	}
	switch ok, enters := g.door.Admit(r); {
	case enters:
		g.door.Enter(w, r)
		return false
	case ok:
		return true
	}
	if g.o.Tell != nil && g.o.Token != "" && g.told.CompareAndSwap(false, true) {
		address := addressOf(r) + "?token=" + url.QueryEscape(g.o.Token)
		g.tell.Run(r.Context(), func() { g.o.Tell(address) }) // the log of a program may block
	}
	Fail(w, http.StatusForbidden, errToken)
	return false
}

// sameOrigin finds requests that a page of another site has caused. Such a page may link
// to this one, but neither post to it nor embed its answers: its streams would use up the
// few of [MaxStreams]. Programs other than browsers say nothing about an origin.
func (g *guard) sameOrigin(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	if r.Method != http.MethodPost {
		link := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
		if site == "" || site == "same-origin" || site == "none" || link {
			return nil
		}
		return errOrigin
	}
	if g.csrf.Check(r) != nil || site != "" && site != "same-origin" {
		return errOrigin
	}
	// An old browser sends no Sec-Fetch-Site, but names the origin of a POST.
	if origin := r.Header.Get("Origin"); origin != "" && site == "" {
		if o, err := url.Parse(origin); err != nil || o.Scheme != "http" && o.Scheme != "https" || o.Host != r.Host {
			return errOrigin
		}
	}
	return nil
}
