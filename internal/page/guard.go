// Package page has the common parts of all pages of strata: the choice of requests that they
// answer, streams of events, bounds of everything in a request, and the files of which they are
// made. It knows no cache.
package page

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Limits of requests. maxTarget is the greatest length of a path with its query.
const (
	maxBody   = 64 << 10
	maxTarget = 16 << 10
)

// bodyTimeout is the time that a client has to send a body, unless a test sets another.
const bodyTimeout = 10 * time.Second

// policy permits nothing but files and answers of the page itself. A script cannot turn
// text into markup or into code.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// Options are the options of Guard.
type Options struct {
	// Authorize decides which requests are answered. Nil answers those that come from this
	// machine; see Local.
	Authorize func(*http.Request) bool
	// ReadOnly refuses all requests that could change something.
	ReadOnly bool
}

// Guard returns a handler that passes requests on to next only if they are authorised,
// are a GET, HEAD or POST, and do not come from another site. It reads the body of a POST,
// whose length and time are bounded, and sets the headers of every answer.
func Guard(next http.Handler, o Options) http.Handler {
	return &guard{next: next, o: o, timeout: bodyTimeout}
}

type guard struct {
	next    http.Handler
	o       Options
	csrf    http.CrossOriginProtection
	timeout time.Duration
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if len(r.RequestURI) > maxTarget {
		Fail(w, http.StatusRequestURITooLong, errTarget)
		return
	}
	if err := g.authorize(r); err != nil {
		Fail(w, http.StatusForbidden, err)
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

// readBody replaces the body of a POST by one that has come, and that of other requests by
// none. The deadline ends with the body. One that a wrapper of w does not allow is left to the
// server.
func (g *guard) readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
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

func (g *guard) authorize(r *http.Request) error {
	if g.o.Authorize == nil {
		return Local(r)
	}
	if !g.o.Authorize(r) {
		return errUnauthorized
	}
	return nil
}

// sameOrigin finds requests that a page of another site has caused. Such a page may link
// to this one, but neither post to it nor embed its answers: a stream that it opens would
// be one of few. Programs that are no browsers say nothing about an origin.
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
	if origin := r.Header.Get("Origin"); origin != "" && site == "" {
		if o, err := url.Parse(origin); err != nil || o.Scheme != "http" && o.Scheme != "https" || o.Host != r.Host {
			return errOrigin
		}
	}
	return nil
}

// NotLocal is the reason why a request counts as one from elsewhere.
type NotLocal string

// Error returns the reason and the remedy.
func (e NotLocal) Error() string {
	return "strata: without Authorize, the page answers only requests from the machine it runs on: " + string(e)
}

// Reasons.
const (
	errPeer    = NotLocal("the address of the peer is not a loopback address")
	errHost    = NotLocal("the Host of the request is not a loopback address or localhost")
	errProxied = NotLocal("the request has passed a proxy")
)

// Local returns nil for a request that was made on this machine: the address of the peer
// and the Host are loopback addresses, and no header tells of a proxy. The Host matters
// because a browser can be led to this address under the name of another site. A proxy on
// this machine makes its clients local if it adds no header, and speaks HTTP/1.1.
func Local(r *http.Request) error {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	switch {
	case err != nil || !peer.Addr().Unmap().IsLoopback():
		return errPeer
	case !loopbackHost(r.Host):
		return errHost
	case !r.ProtoAtLeast(1, 1) || forwarded(r.Header):
		return errProxied
	}
	return nil
}

// loopbackHost reports whether a Host header, with or without a port, names the machine
// itself.
func loopbackHost(host string) bool {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false
		}
		host = name
	} else if name, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(name, "]"); !ok {
			return false
		}
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Zone() == "" && a.Unmap().IsLoopback()
}

// forwarders are headers that proxies add, beside those that begin with "X-Forwarded".
var forwarders = []string{ // read-only
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Original-Host",
	"X-Envoy-External-Address", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "X-Appengine-User-Ip",
}

func forwarded(h http.Header) bool {
	for _, name := range forwarders {
		if _, ok := h[name]; ok {
			return true
		}
	}
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded") {
			return true
		}
	}
	return false
}
