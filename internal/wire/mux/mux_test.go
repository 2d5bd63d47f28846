package mux_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/internal/wire/mux"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// wire is a line of a protocol in which commands and replies are lines of text.
type wire struct {
	pool.Slot
	*netsim.Conn
	buf   []byte
	taken int
	// used is set while a caller reads: there must be one at a time. nap is how
	// long it takes to look for a reply.
	used  atomic.Bool
	nap   time.Duration
	write func(nc *netsim.Conn, p []byte) (int, error)
}

// Write is the Write of netsim.Conn, or the one that the test has set.
func (w *wire) Write(p []byte) (int, error) {
	if w.write != nil {
		return w.write(w.Conn, p)
	}
	return w.Conn.Write(p)
}

// use panics if another goroutine reads.
func (w *wire) use() (done func()) {
	if !w.used.CompareAndSwap(false, true) {
		panic("two readers at once")
	}
	return func() { w.used.Store(false) }
}

func (w *wire) Fill() error {
	defer w.use()()
	w.buf, w.taken = w.buf[w.taken:], 0
	p := make([]byte, 4096)
	n, err := w.Read(p)
	w.buf = append(w.buf, p[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

func (w *wire) Next() ([]byte, error) {
	defer w.use()()
	time.Sleep(w.nap) // in the bubble
	rest := w.buf[w.taken:]
	if bytes.HasPrefix(rest, []byte("!")) {
		return nil, errBroken
	}
	i := bytes.IndexByte(rest, '\n')
	if i < 0 {
		return nil, nil
	}
	w.taken += i + 1
	return rest[:i], nil
}

func (w *wire) Buffered() int { return len(w.buf) - w.taken }

func (w *wire) Quiet() bool {
	defer w.use()()
	return w.Buffered() == 0
}

func (w *wire) Look(reads bool) error {
	if reads && !w.Quiet() {
		return pool.ErrUnasked
	}
	return pool.NewPeeker(w.Conn).Socket()
}

var (
	errBroken = errors.New("broken protocol")
	errDial   = errors.New("no answer")
)

func TestCallerIsToldWhyADialFailed(t *testing.T) {
	s := &server{deaf: true}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		start := time.Now()
		if _, _, err := do(ctx, "x"); !errors.Is(err, errDial) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// failure is the error of a call.
type failure struct {
	op   string
	sent bool
	err  error
}

func (f *failure) Error() string { return fmt.Sprintf("%s (sent: %t): %v", f.op, f.sent, f.err) }
func (f *failure) Unwrap() error { return f.err }

// server is the other end of all connections.
type server struct {
	t      *testing.T
	serve  func(n int, nc *netsim.Conn) // for each connection
	window int
	change func(n int, client *netsim.Conn)
	nap    time.Duration
	write  func(nc *netsim.Conn, p []byte) (int, error) // of the client's end
	deaf   bool                                         // no dial is answered
	dials  atomic.Int32
	wg     sync.WaitGroup
}

func (s *server) dial(ctx context.Context) (*wire, error) {
	n := int(s.dials.Add(1)) - 1
	if s.deaf {
		<-ctx.Done()
		return nil, errDial
	}
	a, b := netsim.Pair(s.window)
	if s.change != nil {
		s.change(n, a)
	}
	s.wg.Go(func() {
		defer b.Close()
		s.serve(n, b)
	})
	return &wire{Conn: a, nap: s.nap, write: s.write}, nil
}

// echo answers each line with itself after f has returned.
func echo(f func(line string)) func(int, *netsim.Conn) {
	return func(_ int, nc *netsim.Conn) {
		for r := bufio.NewReader(nc); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			f(strings.TrimSuffix(line, "\n"))
			if _, err := nc.Write([]byte("re " + line)); err != nil {
				return
			}
		}
	}
}

// reply is the ticket of a caller with its answer.
type reply struct {
	mux.Ticket
	text string
	late atomic.Bool // Do has returned
	t    *testing.T
}

func (r *reply) Answer(p []byte) bool {
	if r.late.Load() {
		r.t.Error("an answer after Do has returned")
	}
	if string(p) == "re misfit" {
		return false
	}
	r.text = string(p)
	return true
}

// config is for the connections to s.
func config(s *server) pool.Config[*wire] {
	o := pool.Config[*wire]{
		Dial: s.dial,
		Errors: &pool.Errors{
			Fail:     func(f pool.Failure) error { return &failure{f.Op, f.Sent, f.Err} },
			Inside:   func(error) (f pool.Failure, ok bool) { return f, false },
			Protocol: errBroken, Closed: errors.New("closed"),
		},
	}
	o.DialTimeout, o.Timeout, o.IdleTimeout, o.MaxConns, o.MaxIdle = time.Second, time.Second, time.Minute, 10, 10
	return o
}

// muxed runs f in a bubble with a Mux on s.
func muxed(t *testing.T, s *server, f func(ctx context.Context, do func(ctx context.Context, command string) (string, mux.Outcome, error), p *pool.Pool[*wire], m *mux.Mux[*wire])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		p := pool.New(config(s))
		m := mux.New(p, nil)
		f(t.Context(), func(ctx context.Context, command string) (string, mux.Outcome, error) {
			r := &reply{t: t}
			out, err := m.Do(ctx, time.Now(), &r.Ticket, []byte(command+"\n"), r)
			r.late.Store(true)
			return r.text, out, err
		}, p, m)
		m.Close()
		p.Close()
		s.wg.Wait()
		if st := p.Stats(); st.Open != 0 {
			t.Errorf("left open: %+v", st)
		}
	})
}

type doer = func(ctx context.Context, command string) (string, mux.Outcome, error)

func TestCallersShareAConnectionAndGetTheirOwnReplies(t *testing.T) {
	s := &server{serve: echo(func(string) { time.Sleep(time.Microsecond) })} // in the bubble
	muxed(t, s, func(ctx context.Context, do doer, p *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				for i := range 50 {
					c := fmt.Sprint(g, "-", i)
					if got, _, err := do(ctx, c); got != "re "+c || err != nil {
						t.Errorf("%s: %q, %v", c, got, err)
					}
				}
			})
		}
		wg.Wait()
		if n := s.dials.Load(); n != 1 || p.Stats().Open != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestExtraReplyReachesNoCaller: neither a call that enters while the reply in front
// of it is handed out, nor a later call.
func TestExtraReplyReachesNoCaller(t *testing.T) {
	for _, pause := range []time.Duration{-500 * time.Microsecond, 500 * time.Microsecond, 5 * time.Millisecond} {
		s := &server{nap: time.Millisecond, serve: func(n int, nc *netsim.Conn) {
			more := "foreign\n"
			for r := bufio.NewReader(nc); ; more = "" {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if n > 0 {
					more = ""
				}
				nc.Write([]byte("re " + line + more))
			}
		}}
		muxed(t, s, func(ctx context.Context, do doer, p *pool.Pool[*wire], _ *mux.Mux[*wire]) {
			var wg sync.WaitGroup
			wg.Go(func() {
				if got, _, err := do(ctx, "a"); got != "re a" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
			synctest.Wait()
			time.Sleep(2*time.Millisecond + pause) // an empty look, and one that finds the reply, take a millisecond each
			for range 3 {
				got, out, err := do(ctx, "b")
				var failed *failure
				if pause < 0 && errors.Is(err, errBroken) || errors.As(err, &failed) && out.Lost && !failed.sent {
					got, _, err = do(ctx, "b")
				}
				if got != "re b" || err != nil {
					t.Errorf("%v: %q, %v", pause, got, err)
				}
			}
			wg.Wait()
			if n := s.dials.Load(); n != 2 || p.Stats().Broken != 1 {
				t.Errorf("%d connections, %+v", n, p.Stats())
			}
		})
	}
}

func TestOneWriteCarriesTheCommandsOfManyCallers(t *testing.T) {
	var reads int
	s := &server{window: 1 << 20, serve: func(_ int, nc *netsim.Conn) {
		p := make([]byte, 1<<20)
		for {
			n, err := nc.Read(p)
			if err != nil {
				return
			}
			reads++
			time.Sleep(time.Millisecond) // in the bubble
			nc.Write(p[:n])
		}
	}}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		do(ctx, "first")
		reads = 0
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { do(ctx, fmt.Sprint(i)) })
		}
		wg.Wait()
		if reads > 3 {
			t.Errorf("100 commands came in %d pieces", reads)
		}
	})
}

// TestCallersWithRepliesThatCameTogetherWriteTogether answers all callers at once.
// One processor makes the order of the callers certain.
func TestCallersWithRepliesThatCameTogetherWriteTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers, rounds = 8, 20
	var reads int
	s := &server{window: 1 << 20, serve: func(_ int, nc *netsim.Conn) {
		p := make([]byte, 1<<20)
		for have := 0; ; {
			n, err := nc.Read(p[have:])
			if err != nil {
				return
			}
			reads++
			if have += n; bytes.Count(p[:have], []byte("\n")) == callers {
				nc.Write(p[:have])
				have = 0
			}
		}
	}}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range rounds {
					do(ctx, "x")
				}
			})
		}
		wg.Wait()
		if reads > rounds*3/2 { // else each round has the first command come alone
			t.Errorf("%d rounds of commands came in %d pieces", rounds, reads)
		}
	})
}

// TestCallerThatLeavesAfterItsWriteCostsNoOtherOverTLS: a connection of TLS
// does not outlive an interrupted write.
func TestCallerThatLeavesAfterItsWriteCostsNoOtherOverTLS(t *testing.T) {
	leaving, leave := context.WithCancel(t.Context())
	var dead error
	s := &server{serve: echo(func(string) { time.Sleep(time.Millisecond) })} // in the bubble
	s.write = func(nc *netsim.Conn, p []byte) (n int, err error) {
		if dead != nil {
			return 0, dead
		}
		if n, dead = nc.Write(p); bytes.HasPrefix(p, []byte("leaves")) {
			leave()
			time.Sleep(time.Microsecond) // in the bubble
		}
		return n, dead
	}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		if _, _, err := do(leaving, "leaves"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got, _, err := do(ctx, "x"); got != "re x" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if n := s.dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}

func TestStalledReplyEndsAtTheDeadlineAndCostsNoOther(t *testing.T) {
	s := &server{serve: echo(func(line string) {
		if strings.HasPrefix(line, "slow") {
			time.Sleep(500 * time.Millisecond) // in the bubble
		}
	})}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			_, out, err := do(ctx, "slow by deadline")
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 200*time.Millisecond || !out.Kept {
				t.Errorf("deadline: %v, %+v after %v", err, out, took)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(300*time.Millisecond, cancel)
			_, _, err := do(ctx, "cancelled")
			if took := time.Since(start); !errors.Is(err, context.Canceled) || took != 300*time.Millisecond {
				t.Errorf("cancel: %v after %v", err, took)
			}
		})
		wg.Go(func() {
			got, _, err := do(ctx, "patient")
			if took := time.Since(start); got != "re patient" || err != nil || took != 500*time.Millisecond {
				t.Errorf("%q, %v after %v", got, err, took)
			}
		})
		wg.Wait()
		if got, _, err := do(ctx, "next"); got != "re next" || err != nil || s.dials.Load() != 1 {
			t.Errorf("%q, %v over %d connections", got, err, s.dials.Load())
		}
	})
}

// gated is a server that does not read until open is called.
func gated(window int, f func(line string)) (s *server, open func()) {
	var gate chan struct{} // of the bubble
	s = &server{window: window}
	s.change = func(int, *netsim.Conn) { gate = make(chan struct{}) }
	s.serve = func(n int, nc *netsim.Conn) {
		<-gate
		echo(f)(n, nc)
	}
	return s, func() { close(gate) }
}

func TestCallerThatLeavesWhileItWritesHandsItOn(t *testing.T) {
	for others := 1; others <= 3; others++ { // one has to read and to write
		s, open := gated(16, func(string) {})
		muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
			var wg sync.WaitGroup
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				if _, _, err := do(ctx, strings.Repeat("x", 100)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the writer: %v", err)
				}
			})
			synctest.Wait() // it is blocked in the middle of its command
			for i := range others {
				wg.Go(func() {
					c := fmt.Sprint("other ", i)
					if got, _, err := do(ctx, c); got != "re "+c || err != nil {
						t.Errorf("%d others: %q, %v", others, got, err)
					}
				})
			}
			time.Sleep(200 * time.Millisecond)
			open()
			wg.Wait()
			if n := s.dials.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

func TestReaderThatStopsReadsNoMore(t *testing.T) {
	s, open := gated(16, func(string) {})
	s.nap = time.Microsecond
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			do(ctx, strings.Repeat("x", 100))
		})
		synctest.Wait() // it is blocked in the middle of its command
		for i := range 2 {
			wg.Go(func() {
				c := fmt.Sprint("other ", i)
				if got, _, err := do(ctx, c); got != "re "+c || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
			// The first reads, and has to write when the writer has left; the
			// second comes just then, and reads.
			time.Sleep(100*time.Millisecond + 500*time.Nanosecond)
		}
		open()
		wg.Wait()
	})
}

// pausing is a context that holds up calls of Done, or of Err, once its
// caller has written, until resume is closed.
type pausing struct {
	context.Context
	inDone, inErr, written atomic.Bool
	resume                 chan struct{}
}

func (p *pausing) pause(here *atomic.Bool) {
	if here.Load() && p.written.Load() {
		<-p.resume
	}
}

// Done implements context.Context.
func (p *pausing) Done() <-chan struct{} {
	p.pause(&p.inDone)
	return p.Context.Done()
}

// Err implements context.Context.
func (p *pausing) Err() error {
	p.pause(&p.inErr)
	return p.Context.Err()
}

// TestNamedReaderThatLeavesNamesAnother names the next reader at two bad
// moments: while the named caller is about to sleep, and gone when it wakes;
// and while it is about to leave.
func TestNamedReaderThatLeavesNamesAnother(t *testing.T) {
	for name, leaves := range map[string]time.Duration{"before it sleeps": 75 * time.Millisecond, "as it leaves": 25 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			caller := &pausing{}
			s := &server{
				serve: echo(func(line string) {
					time.Sleep(50 * time.Millisecond) // in a bubble
					if line != "first" {
						time.Sleep(100 * time.Millisecond)
					}
				}),
				write: func(nc *netsim.Conn, p []byte) (int, error) {
					defer func() { caller.written.Store(caller.written.Load() || string(p) == "leaves\n") }()
					return nc.Write(p)
				},
			}
			muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
				caller.resume = make(chan struct{})
				caller.inDone.Store(leaves > 50*time.Millisecond)
				caller.inErr.Store(leaves < 50*time.Millisecond)
				var wg sync.WaitGroup
				wg.Go(func() { do(ctx, "first") }) // it reads until its reply comes, at 50 ms
				synctest.Wait()
				var cancel context.CancelFunc
				caller.Context, cancel = context.WithCancel(ctx)
				defer time.AfterFunc(leaves, cancel).Stop()
				wg.Go(func() { do(caller, "leaves") })
				synctest.Wait()
				wg.Go(func() {
					if got, _, err := do(ctx, "last"); got != "re last" || err != nil {
						t.Errorf("%q, %v", got, err)
					}
				})
				time.Sleep(100 * time.Millisecond)
				close(caller.resume)
				wg.Wait()
			})
		})
	}
}

func TestCommandsOfCallersThatLeftAreNotSent(t *testing.T) {
	var seen atomic.Int32
	s, open := gated(8, func(string) { seen.Add(1) })
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		var wg sync.WaitGroup
		wg.Go(func() { do(ctx, "a long command that is blocked") })
		synctest.Wait()
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		for range 20 {
			wg.Go(func() {
				var f *failure
				if _, _, err := do(short, "unwanted"); !errors.As(err, &f) || f.sent {
					t.Errorf("%v", err)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		open()
		wg.Wait()
		do(ctx, "last")
		if n := seen.Load(); n != 2 {
			t.Errorf("the server got %d commands, want 2", n)
		}
	})
}

func TestConnectionThatOwesForTooLongIsReplaced(t *testing.T) {
	s := &server{}
	s.serve = func(n int, nc *netsim.Conn) {
		if n == 0 {
			io.Copy(io.Discard, nc) // and never a word
			return
		}
		echo(func(string) {})(n, nc)
	}
	muxed(t, s, func(ctx context.Context, do doer, p *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		start := time.Now()
		for range 5 { // none of them waits for as long as the timeout
			ctx, cancel := context.WithTimeout(ctx, 220*time.Millisecond)
			do(ctx, "short")
			cancel()
		}
		if got, _, err := do(ctx, "x"); got != "re x" || err != nil || time.Since(start) != 1100*time.Millisecond {
			t.Errorf("%q, %v after %v", got, err, time.Since(start))
		}
		if _, _, err := do(ctx, "y"); err != nil || p.Stats().Open != 1 || s.dials.Load() != 2 {
			t.Errorf("%v, %+v", err, p.Stats())
		}
	})
}

func TestCallWithoutADeadlineEndsAfterTheTimeout(t *testing.T) {
	s := &server{serve: func(_ int, nc *netsim.Conn) { io.Copy(io.Discard, nc) }}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		start := time.Now()
		if _, _, err := do(ctx, "x"); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestLostConnectionFailsItsCallersAndNoOthers(t *testing.T) {
	s := &server{}
	s.serve = func(n int, nc *netsim.Conn) {
		echo(func(line string) {
			if line == "die" {
				time.Sleep(time.Millisecond) // in the bubble
				nc.Close()
			}
		})(n, nc)
	}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		_, out, err := do(ctx, "die")
		if err == nil || out.Lost {
			t.Errorf("on a connection that never served: %+v, %v", out, err)
		}
		do(ctx, "x")
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				_, out, err := do(ctx, "die")
				var f *failure
				if !errors.As(err, &f) || !f.sent || !out.Lost {
					t.Errorf("%+v, %v", out, err)
				}
			})
		}
		wg.Wait()
		if got, _, err := do(ctx, "y"); got != "re y" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestUnaskedReplyEndsTheConnection(t *testing.T) {
	for _, what := range []string{"unasked\n", "!"} {
		s := &server{}
		s.serve = func(n int, nc *netsim.Conn) {
			if n == 0 {
				bufio.NewReader(nc).ReadString('\n')
				nc.Write([]byte("re x\n" + what))
				io.Copy(io.Discard, nc)
				return
			}
			echo(func(string) {})(n, nc)
		}
		muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], _ *mux.Mux[*wire]) {
			if got, _, err := do(ctx, "x"); got != "re x" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if got, _, err := do(ctx, "y"); err == nil && got != "re y" {
				t.Errorf("%q: another command's reply", got)
			}
			if got, _, err := do(ctx, "z"); got != "re z" || err != nil || s.dials.Load() != 2 {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestNoCallWaitsBehindALargeReply(t *testing.T) {
	const large = 1 << 20
	s := &server{}
	s.serve = func(n int, nc *netsim.Conn) {
		echo(func(line string) {
			if line == "large" { // it takes 1.6 s
				for range large / 65536 {
					nc.Write(bytes.Repeat([]byte("x"), 65536))
					time.Sleep(100 * time.Millisecond) // in the bubble
				}
			}
		})(n, nc)
	}
	muxed(t, s, func(ctx context.Context, do doer, p *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, _, err := do(ctx, "large"); len(got) != large+len("re large") || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
		time.Sleep(time.Second)
		start := time.Now()
		if got, _, err := do(ctx, "small"); got != "re small" || err != nil || time.Since(start) > time.Millisecond {
			t.Errorf("%q, %v after %v", got, err, time.Since(start))
		}
		wg.Wait()
		if st := p.Stats(); st.Open != 2 || st.Idle != 1 || st.Broken != 0 {
			t.Errorf("the connection was not kept: %+v", st)
		}
	})
}

func TestIdleConnectionIsLookedAtAndGrowsOld(t *testing.T) {
	s := &server{serve: echo(func(string) {})}
	muxed(t, s, func(ctx context.Context, do doer, p *pool.Pool[*wire], _ *mux.Mux[*wire]) {
		do(ctx, "x")
		time.Sleep(time.Minute + time.Second)
		if _, _, err := do(ctx, "y"); err != nil || s.dials.Load() != 2 || p.Stats().Broken != 0 {
			t.Errorf("%v over %d connections, %+v", err, s.dials.Load(), p.Stats())
		}
	})
}

func TestCloseFailsAllCallsThatWait(t *testing.T) {
	s := &server{serve: func(_ int, nc *netsim.Conn) { io.Copy(io.Discard, nc) }}
	muxed(t, s, func(ctx context.Context, do doer, _ *pool.Pool[*wire], m *mux.Mux[*wire]) {
		start := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, _, err := do(ctx, "x"); err == nil || err.Error() != "read (sent: true): closed" {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		m.Close()
		wg.Wait()
		if _, _, err := do(ctx, "x"); err == nil || err.Error() != "closed" || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

var _ net.Conn = (*wire)(nil)
