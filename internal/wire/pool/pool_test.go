package pool_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// conn is a connection without a peer, to be counted alone.
type conn struct {
	pool.Slot
	id   int
	shut atomic.Bool
	dead atomic.Bool // the peer has gone
	loud atomic.Bool // bytes have come that no call asked for
}

func (c *conn) Close() error {
	c.shut.Store(true)
	return nil
}

var (
	errClosed  = errors.New("closed")
	errRefused = errors.New("refused")
)

// dialler counts the connections that it opens.
type dialler struct {
	took  time.Duration
	down  atomic.Bool
	conns []*conn
	mu    sync.Mutex
}

func (d *dialler) dial(context.Context) (*conn, error) {
	time.Sleep(d.took)
	if d.down.Load() {
		return nil, errRefused
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, &conn{id: len(d.conns)})
	return d.conns[len(d.conns)-1], nil
}

func newPool(d *dialler) *pool.Pool[*conn] {
	return pool.New(pool.Config[*conn]{
		Dial:   d.dial,
		Limits: wire.Limits{DialTimeout: time.Second, Timeout: time.Second, MaxConns: 4, MaxIdle: 4, IdleTimeout: time.Minute},
		Look: func(c *conn) error {
			if c.loud.Load() {
				return pool.ErrUnasked
			}
			if c.dead.Load() {
				return io.EOF
			}
			return nil
		},
		Errors: &pool.Errors{
			Fail:   func(f pool.Failure) error { return errors.Join(errors.New(f.Op), f.Err) },
			Inside: func(error) (f pool.Failure, ok bool) { return f, false },
			Closed: errClosed,
		},
	})
}

func take(t *testing.T, p *pool.Pool[*conn]) *conn {
	t.Helper()
	c, err := p.Get(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLastUsedIsTakenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(&dialler{})
		defer p.Close()
		a, b := take(t, p), take(t, p)
		if a.Reused() {
			t.Error("a new connection is called reused")
		}
		p.Put(a, true, time.Now())
		p.Put(b, true, time.Now())
		if c := take(t, p); c != b || !c.Reused() {
			t.Errorf("connection %d, reused %v", c.id, c.Reused())
		}
	})
}

func TestDeadIdleConnectionIsNotGivenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialler{}
		p := newPool(d)
		defer p.Close()
		conns := []*conn{take(t, p), take(t, p), take(t, p)}
		inUse := conns[0]
		p.Put(conns[1], true, time.Now())
		p.Put(conns[2], true, time.Now())
		conns[2].dead.Store(true)
		c := take(t, p)
		if c.id != 3 || !conns[1].shut.Load() || !conns[2].shut.Load() || inUse.shut.Load() {
			t.Errorf("connection %d", c.id)
		}
		p.Put(inUse, true, time.Now())
		if !inUse.shut.Load() {
			t.Error("a connection of the lost generation is kept")
		}
		if st := p.Stats(); st.Stale != 2 || st.Broken != 0 || st.Open != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// TestConnectionThatSaysSomethingUnaskedIsNotGivenOut: whether it was idle, came
// back for a call that waits, or was just opened. The other connections stay.
func TestConnectionThatSaysSomethingUnaskedIsNotGivenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialler{}
		p := newPool(d)
		defer p.Close()
		conns := []*conn{take(t, p), take(t, p), take(t, p), take(t, p)}
		p.Put(conns[0], true, time.Now())
		p.Put(conns[1], true, time.Now())
		conns[1].loud.Store(true)
		if c := take(t, p); c != conns[0] || !conns[1].shut.Load() {
			t.Errorf("connection %d", c.id)
		}
		take(t, p)
		var wg sync.WaitGroup
		wg.Go(func() {
			if c := take(t, p); c.id != 5 {
				t.Errorf("connection %d", c.id)
			}
		})
		synctest.Wait()
		conns[2].loud.Store(true)
		p.Put(conns[2], true, time.Now())
		wg.Wait()
		if st := p.Stats(); st.Broken != 2 || st.Stale != 0 || st.Open != 4 || !conns[2].shut.Load() {
			t.Errorf("%+v", st)
		}
	})
}

func TestLostConnectionsDoNotCostNewOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(&dialler{})
		defer p.Close()
		a, b := take(t, p), take(t, p)
		p.Lost(a)
		p.Retry(a, time.Now())
		fresh := take(t, p)
		p.Put(fresh, true, time.Now())
		p.Lost(b) // notices later that the server has gone
		p.Put(b, true, time.Now())
		if fresh.shut.Load() || !a.shut.Load() || !b.shut.Load() {
			t.Error("the new connection was closed, or an old one kept")
		}
		if st := p.Stats(); st.Retried != 1 || st.Open != 1 || st.Stale != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestDialsFollowDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialler{took: 100 * time.Millisecond}
		p := newPool(d)
		defer p.Close()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				c, err := p.Get(t.Context(), time.Now())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				p.Put(c, true, time.Now())
			})
		}
		wg.Wait()
		if len(d.conns) != 4 {
			t.Errorf("%d connections", len(d.conns))
		}
	})
}

func TestFailedDialsLeaveThoseInUseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialler{}
		p := newPool(d)
		defer p.Close()
		a := take(t, p)
		d.down.Store(true)
		time.AfterFunc(100*time.Millisecond, func() { p.Put(a, true, time.Now()) })
		// The dial fails, but a is still there and comes back.
		if c := take(t, p); c != a {
			t.Errorf("connection %d", c.id)
		}
		// When it is gone, too, there is no hope.
		time.AfterFunc(100*time.Millisecond, func() { p.Put(a, false, time.Now()) })
		if _, err := p.Get(t.Context(), time.Now()); !errors.Is(err, errRefused) {
			t.Error(err)
		}
	})
}

func TestWaiterThatGaveUpLosesNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialler{took: time.Millisecond}
		p := newPool(d)
		defer p.Close()
		// Grants and ends of contexts fall together.
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if c, err := p.Get(ctx, time.Now()); err == nil {
						time.Sleep(time.Millisecond)
						p.Put(c, true, time.Now())
					}
				})
			}
			wg.Wait()
			cancel()
		}
		time.Sleep(time.Second)
		if st := p.Stats(); st.Open != st.Idle || st.Waiting != 0 || st.Open > 4 {
			t.Errorf("%+v", st)
		}
	})
}

func TestDialThatFailsAtTheDeadlineOfAWaiterIsNotItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialler{took: time.Second}
		d.down.Store(true)
		p := newPool(d)
		defer p.Close()
		_, err := p.Get(kit.Hasty(t.Context(), time.Second), time.Now())
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errRefused) {
			t.Error(err)
		}
		if st := p.Stats(); st.Expired != 1 || st.Waiting != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestBackoffGrowsToItsBound(t *testing.T) {
	for n, most := range map[int]time.Duration{1: 50 * time.Millisecond, 3: 200 * time.Millisecond, 6: time.Second, 1000: time.Second} {
		for range 100 {
			if d := pool.Backoff(n); d < most/2 || d > most {
				t.Errorf("after %d failures: %v", n, d)
			}
		}
	}
}

func TestDuplexReturnsTheTellingError(t *testing.T) {
	read, write := errors.New("read"), errors.New("write")
	for _, tc := range []struct{ read, write, want error }{
		{nil, nil, nil}, {read, nil, read}, {nil, write, write}, {read, write, read},
	} {
		err := pool.Duplex(func() error { return tc.write }, func() error { return tc.read }, func() {})
		if err != tc.want {
			t.Errorf("%v and %v became %v", tc.read, tc.write, err)
		}
	}
}

func TestDuplexEndsTheWriterWhenReadPanics(t *testing.T) {
	stop, written := make(chan struct{}), false
	func() {
		defer func() { _ = recover() }()
		_ = pool.Duplex(func() error { <-stop; written = true; return nil }, func() error { panic("mine") }, func() { close(stop) })
	}()
	if !written {
		t.Error("the writer goes on")
	}
}

func TestPoolSaysForHowLongItHasWaitedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(&dialler{took: 500 * time.Millisecond})
		defer p.Close()
		silent := func(want time.Duration) {
			t.Helper()
			if d := p.Silent(time.Now()); d != want {
				t.Errorf("silent for %v, want %v", d, want)
			}
		}
		time.Sleep(time.Minute)
		silent(0)
		go func() {
			time.Sleep(400 * time.Millisecond)
			silent(400 * time.Millisecond) // for a connection to be opened
		}()
		a, _ := p.Get(t.Context(), time.Now())
		time.Sleep(time.Second)
		silent(time.Second)
		p.Put(a, true, time.Now())
		time.Sleep(time.Minute)
		silent(0)
		a, _ = p.Get(t.Context(), time.Now())
		time.Sleep(time.Second)
		b, _ := p.Get(t.Context(), time.Now())
		time.Sleep(time.Second)
		silent(time.Second)
		p.Put(a, true, time.Now())
		silent(0)
		time.Sleep(time.Second)
		silent(time.Second)
		p.Put(b, true, time.Now())
		silent(0)
	})
}

// TestDialsCountWhenTheyEnd: one that runs is neither a success nor a failure yet.
func TestDialsCountWhenTheyEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dialler{took: time.Second / 2}
		d.down.Store(true)
		p := newPool(d)
		go p.Get(t.Context(), time.Now())
		synctest.Wait()
		if s := p.Stats(); s.Dials != 0 || p.Begun() != 1 {
			t.Errorf("while it runs: %d dials, %d begun", s.Dials, p.Begun())
		}
		p.Close()
		if s := p.Stats(); s.Dials != 1 || s.DialErrors != 1 {
			t.Errorf("after Close: %d dials, %d errors", s.Dials, s.DialErrors)
		}
	})
}
