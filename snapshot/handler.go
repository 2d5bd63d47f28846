package snapshot

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/carrier"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

const (
	// defaultRate is the rate of a Handler in bytes per second over all its answers.
	defaultRate = 100e6
	// frameWithin is how long a peer of a Handler may take to read one frame, or to send leastBytes.
	frameWithin = 30 * time.Second
	leastBytes  = 64 << 10
	// maxAnswers is the number of requests that a Handler serves at once.
	maxAnswers = 2 * maxStreams
)

// HandlerOptions configure [Handler]. Authorize is required.
type HandlerOptions struct {
	// Authorize allows a request, or refuses it with status 403. A snapshot holds all that
	// the caches hold, so that no request is trusted without it, not even one from the
	// same machine. It is called in the goroutine of the request and must be safe for
	// concurrent use. A nil Authorize refuses all requests.
	Authorize func(*http.Request) bool
	// AllowPut allows PUT requests, which fill the caches with the entries of a snapshot.
	// Without it they are answered by status 405.
	AllowPut bool
	// BytesPerSecond limits the rate of all answers together, so that callers of the
	// caches do not feel them. Zero means 100 MB/s, a negative number no limit.
	BytesPerSecond int64
	// Logger gets one line about each request. Nil means the Logger of the first cache.
	Logger *slog.Logger
}

// Handler serves the entries of caches to [Pull] and to the command "strata snapshot".
//
// GET answers with a snapshot as a stream. Parameters of the query: mode=keys asks for keys
// without values, max=N for the N hottest entries of each cache, and stream=I&of=N&id=ID
// for one of N streams that share the entries; ID are 32 hexadecimal digits. PUT, if it is
// allowed, fills the caches from the body and answers with a [Report] in JSON; it ends if 30 seconds bring less than
// 64 KiB of the body. Up to 32 requests are served at once, others are answered by status 503.
//
// Handler panics if no cache is given, or two have one name.
func Handler(o HandlerOptions, caches ...Cache) http.Handler {
	all, err := sources(caches)
	if err != nil {
		panic(err)
	}
	if o.BytesPerSecond == 0 {
		o.BytesPerSecond = defaultRate
	}
	logger := (&Options{Logger: o.Logger}).logger(all)
	return &handler{o: o, caches: caches, all: all, logger: logger, pace: newPacer(o.BytesPerSecond), slots: make(chan struct{}, maxAnswers)}
}

type handler struct {
	o      HandlerOptions
	caches []Cache
	all    []transfer.Source
	logger *slog.Logger
	pace   *pacer
	slots  chan struct{}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case h.o.Authorize == nil:
		http.Error(w, "snapshot: HandlerOptions.Authorize is not set", http.StatusForbidden)
		return
	case !h.o.Authorize(r):
		http.Error(w, "snapshot: the request is not authorised", http.StatusForbidden)
		return
	}
	// A snapshot takes memory and processor time from the callers of the caches: the number at once
	// is bounded.
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "snapshot: too many requests at once", http.StatusServiceUnavailable)
		return
	}
	switch {
	case r.Method == http.MethodGet:
		h.get(w, r)
	case r.Method == http.MethodPut && h.o.AllowPut:
		h.put(w, r)
	default:
		w.Header().Set("Allow", map[bool]string{false: "GET", true: "GET, PUT"}[h.o.AllowPut])
		http.Error(w, "snapshot: method is not allowed", http.StatusMethodNotAllowed)
	}
}

// get answers with a snapshot.
func (h *handler) get(w http.ResponseWriter, r *http.Request) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // its text quotes the query
		http.Error(w, "snapshot: the query cannot be read", http.StatusBadRequest)
		return
	}
	out, err := h.ask(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", carrier.ContentType)
	// The reader can show how far it is. The number is about right: entries come and go meanwhile.
	w.Header().Set(carrier.EntriesHeader, strconv.FormatInt(out.total(), 10))
	to := http.NewResponseController(w)
	m := newMeter(nil)
	p := &pipe{ctx: r.Context(), pace: h.pace, meter: m, w: w, before: func() {
		_ = to.SetWriteDeadline(time.Now().Add(frameWithin)) // not all servers can
	}, flush: func() { _ = to.Flush() }}
	report, err := out.stream(p)
	report.Bytes, report.Took = m.end()
	report.log(h.logger, "snapshot is sent", "snapshot is sent in part", err)
	// The server writes the last bytes after this function has returned, and ends the deadline then.
	p.before()
}

// ask is the snapshot that a query asks for.
func (h *handler) ask(q url.Values) (*writing, error) {
	out := &writing{o: &Options{}, mode: format.Values, all: h.all, header: format.Header{Streams: 1}}
	switch mode := q.Get("mode"); mode {
	case "", "values":
	case "keys":
		out.mode = format.Keys
	default:
		return nil, errors.New("snapshot: mode is not keys or values")
	}
	var err error
	number := func(name string, otherwise, least, most int) int {
		text := q.Get(name)
		if text == "" {
			return otherwise
		}
		n, bad := strconv.Atoi(text)
		if bad != nil || n < least || n > most {
			err = fmt.Errorf("snapshot: %s is not a number from %d to %d", name, least, most)
		}
		return n
	}
	out.o.MaxEntries = number("max", 0, 1, math.MaxInt32)
	out.header.Mode, out.header.Streams = out.mode, number("of", 1, 1, maxStreams)
	out.header.Stream = number("stream", 0, 0, max(0, out.header.Streams-1))
	_, _ = rand.Read(out.header.ID[:]) // does not fail
	if id := q.Get("id"); id != "" {
		if b, bad := hex.DecodeString(id); bad != nil || copy(out.header.ID[:], b) != len(out.header.ID) || len(b) != len(out.header.ID) {
			return nil, errors.New("snapshot: id is not 32 hexadecimal digits")
		}
	}
	if out.mode == format.Keys && out.header.Streams > 1 {
		return nil, errors.New("snapshot: keys come as one stream")
	}
	return out, err
}

// put fills the caches from the body.
func (h *handler) put(w http.ResponseWriter, r *http.Request) {
	from := http.NewResponseController(w)
	// There is no limit on the whole: the request itself, and the least rate of its body, bound
	// the time.
	rd, err := newReading(r.Context(), Options{Within: -1, Logger: h.logger}, format.Values, h.caches)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer rd.cancel()
	p := &pipe{ctx: rd.ctx, pace: h.pace, meter: rd.meter, r: &punctual{r: r.Body, deadline: from.SetReadDeadline, left: frameWithin}}
	rd.meter.expect(0, r.ContentLength)
	in, err := rd.begin()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer in.close()
	in.whole = true // it may be a file
	report, err := rd.end("snapshot is taken in", "snapshot is taken in in part", in.stream(p, sinceCreation))
	answer := struct {
		Report
		Error string `json:",omitempty"`
	}{Report: report}
	w.Header().Set("Content-Type", "application/json")
	if err == nil {
		_ = from.SetReadDeadline(time.Time{}) // else the server reads no rest of the body for longer than that
	} else {
		answer.Error = err.Error()
		w.WriteHeader(http.StatusUnprocessableEntity)
	}
	_ = json.NewEncoder(w).Encode(answer) // the peer may have gone
}
