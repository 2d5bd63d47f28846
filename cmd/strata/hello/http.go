package hello

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/internal/observe/page"
	"github.com/strata-cache/strata/stratahttp"
)

// Bounds of the parameters, in bytes.
const (
	maxName   = 100
	maxLocale = 35
)

// NewServer returns a server for h with bounds on times and sizes that a client
// controls.
func NewServer(h http.Handler, errorLog *log.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errorLog,
	}
}

// ServeHTTP handles a request; see the package comment.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if page.ForeignHost(r.Host) {
		writeError(w, http.StatusForbidden, "the Host of the request is the name of another site")
		return
	}
	s.mux.ServeHTTP(w, r)
}

// methods are the handlers of one path by method.
type methods map[string]http.HandlerFunc

// routes returns the paths of the service. Those of the mode strata take its present cache with
// each request.
func (s *Service) routes() *http.ServeMux {
	mux := http.NewServeMux()
	admit := func(r *http.Request) bool { return s.layered.Load().admit(r) }
	mux.Handle("/hello", stratahttp.Controls(admit)(methods{http.MethodGet: s.getHello, http.MethodDelete: s.deleteHello}))
	mux.Handle("/mode", methods{http.MethodGet: s.getMode, http.MethodPut: s.putMode})
	mux.Handle("/stats", methods{http.MethodGet: s.getStats})
	// The cache is looked up by each request, here and below: a restart replaces it, and its
	// handlers with it.
	mux.Handle("/metrics", methods{http.MethodGet: func(w http.ResponseWriter, r *http.Request) { s.layered.Load().metrics.ServeHTTP(w, r) }})
	mux.HandleFunc("/snapshot", func(w http.ResponseWriter, r *http.Request) { s.layered.Load().snapshot.ServeHTTP(w, r) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusNotFound, "no such path; there are /hello, /mode, /stats, /metrics and /snapshot")
	})
	return mux
}

// ServeHTTP calls the handler of the method. HEAD is a GET without a body.
func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h, ok := m[method]; ok {
		h(w, r)
		return
	}
	var allow []string
	for _, known := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if _, ok := m[known]; ok {
			allow = append(allow, known)
		}
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	writeError(w, http.StatusMethodNotAllowed, "method not allowed")
}

// getHello answers with a greeting, by way of the cache of the present mode.
func (s *Service) getHello(w http.ResponseWriter, r *http.Request) {
	key, err := keyOf(r.URL)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	// Only requests that reach the cache count, so that hits and requests have the same base.
	s.requests.Add(1)
	g, err := s.cache(s.Mode()).get(r.Context(), key)
	if err != nil {
		s.errors.Add(1)
		writeError(w, http.StatusServiceUnavailable, explain(err))
		return
	}
	writeJSON(w, http.StatusOK, g)
}

// explain returns the text for a client about a failed load.
func explain(err error) string {
	// Only known texts are told: the text of any other error may name the database, or its address.
	for _, known := range []error{origin.ErrTooManyConnections, origin.ErrLocked, origin.ErrUnavailable} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return "the greeting could not be loaded"
}

// deleteHello empties the origin and all caches.
func (s *Service) deleteHello(w http.ResponseWriter, r *http.Request) {
	n, err := s.Clear(r.Context())
	if err != nil {
		writeError(w, http.StatusServiceUnavailable, "not everything could be cleared")
		return
	}
	writeJSON(w, http.StatusOK, map[string]int64{"deleted": n})
}

// modeAnswer is the answer to all requests for /mode.
type modeAnswer struct {
	Mode  Mode   `json:"mode"`
	Modes []Mode `json:"modes"`
}

func (s *Service) getMode(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, modeAnswer{s.Mode(), Modes()})
}

func (s *Service) putMode(w http.ResponseWriter, r *http.Request) {
	m, err := ParseMode(r.URL.Query().Get("mode"))
	if err == nil {
		err = s.SetMode(m)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, modeAnswer{m, Modes()})
}

func (s *Service) getStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Stats())
}

// keyOf parses the parameters of a request for a greeting.
func keyOf(u *url.URL) (Key, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Key{}, errors.New("malformed query")
	}
	name, err := parameter(q, "name", maxName)
	if err != nil {
		return Key{}, err
	}
	locale, err := parameter(q, "locale", maxLocale)
	if err != nil {
		return Key{}, err
	}
	if locale, err = canonical(locale); err != nil {
		return Key{}, err
	}
	return Key{Name: name, Locale: locale}, nil
}

func parameter(q url.Values, name string, most int) (string, error) {
	v := q[name]
	switch {
	case len(v) == 0 || strings.TrimSpace(v[0]) == "":
		return "", errors.New(name + " is missing")
	case len(v) > 1:
		return "", errors.New(name + " is given more than once")
	// The bound is for the origin, which stores a row for each name.
	case len(v[0]) > most:
		return "", errors.New(name + " is too long")
	case !utf8.ValidString(v[0]) || strings.ContainsFunc(v[0], unicode.IsControl):
		return "", errors.New(name + " is not printable text")
	}
	return v[0], nil
}

// canonical returns a language tag in its usual spelling, for instance ru-RU
// for ru_ru, so that one greeting has one key.
func canonical(locale string) (string, error) {
	tags := strings.FieldsFunc(locale, func(r rune) bool { return r == '-' || r == '_' })
	for i, tag := range tags {
		if len(tag) > 8 || strings.ContainsFunc(tag, notAlphanumeric) {
			return "", errors.New("locale is not a language tag like ru-RU")
		}
		tags[i] = strings.ToLower(tag)
		if i > 0 && len(tag) == 2 {
			tags[i] = strings.ToUpper(tag)
		}
	}
	if len(tags) == 0 || len(tags[0]) < 2 {
		return "", errors.New("locale is not a language tag like ru-RU")
	}
	return strings.Join(tags, "-"), nil
}

// notAlphanumeric is about ASCII only: tags of languages have no other letters.
func notAlphanumeric(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

func writeError(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, struct {
		Error string `json:"error"`
	}{text})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // cannot happen with the types of this package
		status, b = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The error means that the client has left.
	_, _ = w.Write(append(b, '\n'))
}
