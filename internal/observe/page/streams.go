package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"
)

// MaxStreams is the highest number of streams of one page open at the same time.
const MaxStreams = 16

// writeTimeout is the time in which the client of a stream must take an event, unless a
// test sets another.
const writeTimeout = 5 * time.Second

// Errors of streams.
var (
	ErrStreams = errors.New("strata: as many streams are open as the page allows; try again later")
	ErrClosed  = errors.New("strata: the page is closed")
	errWrapped = errors.New("strata: a stream needs a http.ResponseWriter that http.ResponseController understands: a wrapper around it lacks the method Unwrap")
)

// Streams are the streams of events of one page. The zero value has none. All methods may
// be called at the same time.
type Streams struct {
	mu     sync.Mutex
	open   map[*stream]struct{}
	closed bool
	all    sync.WaitGroup

	timeout time.Duration
}

type stream struct {
	cancel context.CancelFunc
	begun  time.Time
}

// shortest is for how long a stream keeps its place in any case.
const shortest = 10 * time.Second

// Serve answers with a stream of server-sent events: one at once, and one each interval,
// until the request ends, the client does not take an event, or Close is called. Each event
// is a result of next as JSON; next gets a context that ends with the stream. A client that
// comes when MaxStreams are open takes the place of the oldest one, or, if all are younger than
// shortest, is told to come again. A server learns late that a client reads nothing, because small
// events wait in buffers of the system. So such clients keep others away for a short time only; a
// browser that loses its place opens another stream by itself.
func (s *Streams) Serve(w http.ResponseWriter, r *http.Request, every time.Duration, next func(context.Context) any) {
	ctx, done, err := s.begin(r.Context())
	if err != nil {
		w.Header().Set("Retry-After", "5")
		Fail(w, http.StatusServiceUnavailable, err)
		return
	}
	defer done()
	e := events{w: w, to: http.NewResponseController(w), timeout: cmp.Or(s.timeout, writeTimeout)}
	if e.deadline() != nil {
		Fail(w, http.StatusNotImplemented, errWrapped)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	// The last bytes of the answer are written after Serve has returned.
	defer e.deadline() //nolint:errcheck // it was possible above
	for ctx.Err() == nil && e.write(next(ctx)) == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// begin counts a stream. Its context ends when done is called.
func (s *Streams) begin(parent context.Context) (ctx context.Context, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, ErrClosed
	case len(s.open) >= MaxStreams && !s.makeRoom():
		return nil, nil, ErrStreams
	}
	ctx, cancel := context.WithCancel(parent)
	st := &stream{cancel, time.Now()}
	if s.open == nil {
		s.open = map[*stream]struct{}{}
	}
	s.open[st] = struct{}{}
	s.all.Add(1)
	return ctx, func() { s.end(st) }, nil
}

// makeRoom ends the oldest stream, unless it is young. It needs the mutex.
func (s *Streams) makeRoom() bool {
	var oldest *stream
	for st := range s.open {
		if oldest == nil || st.begun.Before(oldest.begun) {
			oldest = st
		}
	}
	if time.Since(oldest.begun) < shortest {
		return false
	}
	oldest.cancel()
	delete(s.open, oldest)
	return true
}

func (s *Streams) end(st *stream) {
	st.cancel()
	s.mu.Lock()
	delete(s.open, st)
	s.mu.Unlock()
	s.all.Done()
}

// Open returns the number of open streams.
func (s *Streams) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Close ends all streams, and waits for their ends: for some seconds at most, if a client
// takes nothing. Later ones are refused.
func (s *Streams) Close() {
	s.mu.Lock()
	s.closed = true
	for st := range s.open {
		st.cancel()
	}
	s.mu.Unlock()
	s.all.Wait()
}

// events writes the events of one stream.
type events struct {
	w       http.ResponseWriter
	to      *http.ResponseController
	timeout time.Duration
}

func (e *events) deadline() error { return e.to.SetWriteDeadline(time.Now().Add(e.timeout)) }

// write writes one event. The deadline ends with the event: over HTTP/2, a deadline that
// runs out while nothing is written would end the stream.
func (e *events) write(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := e.deadline(); err != nil {
		return err
	}
	if _, err := e.w.Write(append(append([]byte("data: "), body...), "\n\n"...)); err != nil {
		return err
	}
	if err := e.to.Flush(); err != nil {
		return err
	}
	return e.to.SetWriteDeadline(time.Time{})
}
