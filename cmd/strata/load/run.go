package load

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/strata-cache/strata/internal/wire"
)

// pause is the pause of a worker without a schedule after an error. It bounds
// the load on a dead target.
const pause = 10 * time.Millisecond

// lateness is how late a timer may wake a worker at the end of a run. A request that is late by no
// more is still sent, and does not count as unsent.
const lateness = 5 * time.Millisecond

// Run sends requests until o.Duration is over and the running requests have
// ended, or until ctx is done. In the second case it cancels the running
// requests, does not count them, and returns the measurements so far. An error
// is caused by o; then no request was sent.
func Run(ctx context.Context, o Options) (*Result, error) {
	r, err := Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.Wait(), nil
}

// newTransport returns a transport that keeps one connection per running request.
func newTransport(o Options) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: o.Insecure}, //nolint:gosec // as the options say
		DialContext:         (&net.Dialer{Timeout: DefaultTimeout}).DialContext,
		MaxIdleConns:        MaxConcurrency,
		MaxIdleConnsPerHost: MaxConcurrency,
		DisableCompression:  true,
	}
}

// following is a transport that follows redirects.
type following struct{ client http.Client }

// RoundTrip returns the last answer. Errors name no address.
func (f *following) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f.client.Do(r)
	return resp, wire.CleanError(err)
}

// key returns the key of request n.
func (r *Running) key(n int64) int {
	return int(n / int64(r.o.Group) % int64(r.o.Cardinality))
}

// work sends requests of the schedule one after the other.
func (r *Running) work(ctx context.Context) {
	// One buffer for all answers of a worker: bodies are counted, and kept nowhere.
	buf := make([]byte, 16<<10)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, ok := r.await(ctx, timer)
		if !ok {
			return
		}
		o := outcome{sent: next.now, intended: next.intended}
		// A request belongs to the step in which it was due, so that a stall shows where it began.
		o.step = int(o.intended.Sub(r.start) * time.Duration(r.o.Steps) / r.o.Duration)
		// The requests of a group have the same key, and follow each other in the schedule.
		r.send(ctx, r.key(next.n), buf, &o)
		if ctx.Err() != nil {
			r.leave()
			return
		}
		r.rec.add(o)
		// A dead target answers at once, and would be asked without a pause. A schedule needs none:
		// it has its own pace.
		if o.err != nil && next.mode == unlimited && !sleepUntil(ctx, timer, time.Now().Add(pause)) {
			r.leave()
			return
		}
	}
}

// sleepUntil waits until t, and reports false if ctx ends before.
func sleepUntil(ctx context.Context, timer *time.Timer, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer.Reset(d)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// send sends one request and reads its answer to the end.
func (r *Running) send(ctx context.Context, key int, buf []byte, o *outcome) {
	defer func() { o.end = time.Now() }()
	// The time-out counts from the sending: a request that was sent late has its whole time.
	ctx, cancel := context.WithDeadline(ctx, o.sent.Add(r.o.Timeout))
	defer cancel()
	req, err := r.template.request(ctx, key)
	if err != nil {
		o.err = err
		return
	}
	resp, err := r.o.Transport.RoundTrip(req) //nolint:bodyclose // drain closes it
	if err != nil {
		o.err = err
		return
	}
	o.status = resp.StatusCode
	o.bytes, o.err = drain(resp.Body, buf)
}

// drain reads a body to its end and closes it.
func drain(body io.ReadCloser, buf []byte) (int64, error) {
	defer body.Close()
	var total int64
	for {
		n, err := body.Read(buf)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
