package load

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// pause is the pause of a worker without a schedule after an error. It bounds
// the load on a dead target.
const pause = 10 * time.Millisecond

// lateness is the delay of a timer at the end of a run up to which a request
// does not count as unsent.
const lateness = 5 * time.Millisecond

// Run sends requests until o.Duration is over and the running requests have
// ended, or until ctx is done. In the second case it cancels the running
// requests, does not count them, and returns the measurements so far. An error
// is caused by o; then no request was sent.
func Run(ctx context.Context, o Options) (*Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t, err := newTemplate(o)
	if err != nil {
		return nil, err
	}
	if o.Transport == nil {
		own := newTransport(o.Concurrency)
		defer own.CloseIdleConnections()
		o.Transport = own
	}
	r := &run{o: o, template: t, rec: newRecorder(o.Steps), start: time.Now()}
	stopWatch := r.watch()
	var workers sync.WaitGroup
	for range o.Concurrency {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	stopWatch()
	return r.result(ctx), nil
}

// newTransport returns a transport that keeps one connection per worker.
func newTransport(concurrency int) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: DefaultTimeout}).DialContext,
		MaxIdleConns:        concurrency,
		MaxIdleConnsPerHost: concurrency,
		DisableCompression:  true,
	}
}

// run is one call of Run.
type run struct {
	o        Options
	template *template
	rec      *recorder
	start    time.Time
	next     atomic.Int64 // number of the next request
	sent     atomic.Int64
}

// offset returns the intended start of request n, from the start of the run. It
// is the same for all requests of a group.
func (r *run) offset(n int64) time.Duration {
	if r.o.Rate == 0 {
		return 0
	}
	first := n - n%int64(r.o.Group)
	return time.Duration(float64(first) / r.o.Rate * float64(time.Second))
}

// key returns the key of request n.
func (r *run) key(n int64) int {
	return int(n / int64(r.o.Group) % int64(r.o.Cardinality))
}

// work sends requests of the schedule one after the other.
func (r *run) work(ctx context.Context) {
	buf := make([]byte, 16<<10)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		n := r.next.Add(1) - 1
		offset := r.offset(n)
		if offset >= r.o.Duration || !sleepUntil(ctx, timer, r.start.Add(offset)) {
			return
		}
		now := time.Now()
		o := outcome{sent: now, intended: now}
		if r.o.Rate > 0 {
			o.intended = r.start.Add(offset)
		}
		if now.Sub(r.start) >= r.o.Duration && (r.o.Rate == 0 || now.Sub(o.intended) > lateness) {
			return
		}
		o.step = int(o.intended.Sub(r.start) * time.Duration(r.o.Steps) / r.o.Duration)
		r.sent.Add(1)
		r.send(ctx, r.key(n), buf, &o)
		if ctx.Err() != nil {
			return
		}
		r.rec.add(o)
		if o.err != nil && r.o.Rate == 0 && !sleepUntil(ctx, timer, time.Now().Add(pause)) {
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
func (r *run) send(ctx context.Context, key int, buf []byte, o *outcome) {
	defer func() { o.end = time.Now() }()
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

// watch calls Progress until stop is called. stop waits for the last call to
// return.
func (r *run) watch() (stop func()) {
	if r.o.Progress == nil {
		return func() {}
	}
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(r.o.Every)
		defer tick.Stop()
		var p Progress
		for {
			select {
			case <-tick.C:
				p = r.rec.progress(time.Since(r.start), p)
				r.o.Progress(p)
			case <-done:
				return
			}
		}
	})
	return func() { close(done); watcher.Wait() }
}

// result returns the counts of the recorder with the fields of the run.
func (r *run) result(ctx context.Context) *Result {
	res := r.rec.result()
	res.Interrupted = ctx.Err() != nil
	until := min(time.Since(r.start), r.o.Duration)
	res.Elapsed = r.rec.last.Sub(r.start)
	if !res.Interrupted {
		res.Elapsed = max(res.Elapsed, r.o.Duration)
	} else {
		res.Elapsed = time.Since(r.start)
	}
	if r.o.Rate > 0 {
		res.Unsent = max(0, r.due(until)-r.sent.Load())
	}
	return res
}

// due returns the number of requests with an intended start before elapsed.
func (r *run) due(elapsed time.Duration) int64 {
	group := int64(r.o.Group)
	n := int64(elapsed.Seconds()*r.o.Rate)/group*group + 2*group
	for n > 0 && r.offset(n-1) >= elapsed {
		n -= group
	}
	return n
}
