package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

// TestCallsOfTheirOwnGoOnAfterASharedConnectionWasStuck: one read finds the shared connection stuck, and
// no read follows it over a shared connection. Of two connections both are shared meanwhile.
func TestCallsOfTheirOwnGoOnAfterASharedConnectionWasStuck(t *testing.T) {
	var pause atomic.Bool
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxConns = 2
		s.Gate = func(_ *fakes.RedisSession, name string, _ [][]byte) bool {
			if name == "GET" && pause.CompareAndSwap(true, false) {
				time.Sleep(400 * time.Millisecond)
			}
			return false
		}
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		synctest.Wait()
		pause.Store(true)
		if v, err := get(t.Context(), c, "k"); err != nil || v != "v" {
			t.Fatal(v, err)
		}
		time.Sleep(10 * time.Second) // the server is well again, all connections are without calls
		for range 5 {
			err := c.MGet(kit.Within(t, time.Minute), []string{"k"}, func(int, []byte, bool) error { return nil })
			if err != nil {
				t.Errorf("MGET: %v; %+v", err, c.Stats())
			}
			mustSet(t, c, "k", "v") // the shared connection works
		}
	})
}

// behindAPause runs f, in a bubble, when a SET waits at the server for 400 ms, and the dial of a second connection takes 300 ms.
func behindAPause(t *testing.T, f func(t *testing.T, c *redis.Client, wg *sync.WaitGroup)) {
	var pause, slow atomic.Bool
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxConns, o.MaxLifetime = 2, time.Hour
		s.Gate = func(_ *fakes.RedisSession, name string, _ [][]byte) bool {
			if name == "SET" && pause.CompareAndSwap(true, false) {
				time.Sleep(400 * time.Millisecond)
			}
			return false
		}
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if slow.Load() {
				time.Sleep(300 * time.Millisecond)
			}
			return s.Dial(ctx, network, addr)
		}
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		pause.Store(true)
		slow.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() { mustSet(t, c, "k", "v") })
		synctest.Wait()
		f(t, c, &wg)
	})
}

// TestSecondSharedConnectionThatNoCallWaitsForIsGivenBack: the read for which it is opened has left before it is open.
func TestSecondSharedConnectionThatNoCallWaitsForIsGivenBack(t *testing.T) {
	behindAPause(t, func(t *testing.T, c *redis.Client, wg *sync.WaitGroup) {
		if v, err := get(kit.Within(t, 300*time.Millisecond), c, "k"); err == nil {
			t.Fatalf("a read behind a pause has %q", v)
		}
		wg.Wait()
		time.Sleep(time.Second) // the second connection is open by now (in the bubble)
		err := c.MGet(kit.Within(t, time.Minute), []string{"k"}, func(int, []byte, bool) error { return nil })
		if err != nil {
			t.Errorf("MGET: %v; %+v", err, c.Stats())
		}
	})
}

// TestSecondSharedConnectionIsGivenBackThoughItsDialTookLonger: the first connection answers while the
// second one is still being opened, and reads go on all the time.
func TestSecondSharedConnectionIsGivenBackThoughItsDialTookLonger(t *testing.T) {
	behindAPause(t, func(t *testing.T, c *redis.Client, wg *sync.WaitGroup) {
		wg.Go(func() { // at 250 ms it is sent over another connection, which is open at 550 ms
			if v, err := get(t.Context(), c, "k"); err != nil || v != "v" {
				t.Error(v, err)
			}
		})
		time.Sleep(450 * time.Millisecond) // the first connection has answered (in the bubble)
		for range 20 {
			if v, err := get(t.Context(), c, "k"); err != nil || v != "v" {
				t.Error(v, err)
			}
			time.Sleep(50 * time.Millisecond) // in the bubble
		}
		wg.Wait()
		for range 5 {
			err := c.MGet(kit.Within(t, time.Minute), []string{"k"}, func(int, []byte, bool) error { return nil })
			if err != nil {
				t.Errorf("MGET: %v; %+v", err, c.Stats())
			}
			if v, err := get(t.Context(), c, "k"); err != nil || v != "v" {
				t.Error(v, err)
			}
		}
	})
}

// momentContext calls f at the n-th use of the context.
type momentContext struct {
	context.Context
	uses, n int
	f       func()
}

func (c *momentContext) use() {
	if c.uses++; c.uses == c.n {
		c.f()
	}
}

func (c *momentContext) Deadline() (time.Time, bool) { c.use(); return c.Context.Deadline() }
func (c *momentContext) Done() <-chan struct{}       { c.use(); return c.Context.Done() }
func (c *momentContext) Err() error                  { c.use(); return c.Context.Err() }
func (c *momentContext) Value(key any) any           { c.use(); return c.Context.Value(key) }

// TestSecondSharedConnectionIsGivenBackAtWhateverMomentTheFirstAnswers: at each moment of a read at which it asks its context
// the first connection answers, also between the look at that connection and the opening of the second one, and while the
// second one opens. Then the read has two reasons to go on, and takes either: so that is tried often.
func TestSecondSharedConnectionIsGivenBackAtWhateverMomentTheFirstAnswers(t *testing.T) {
	for _, opening := range []time.Duration{0, 50 * time.Millisecond} {
		for range 8 {
			for n := 1; firstAnswersAt(t, n, opening); n++ {
			}
		}
	}
}

// firstAnswersAt has the first connection answer when a read over the second one uses its context for the n-th time. The
// read goes on when the second one, which takes so long to open, is open. used is false if there are fewer uses.
func firstAnswersAt(t *testing.T, n int, opening time.Duration) (used bool) {
	t.Helper()
	var answer chan struct{} // of the bubble
	change := func(s *fakes.Redis, o *redis.Options) {
		answer = make(chan struct{})
		o.MaxConns, o.MaxLifetime = 2, time.Hour
		s.OnDial = func(i int, _ *netsim.Conn) {
			if i > 0 {
				time.Sleep(opening) // in the bubble
			}
		}
		s.Gate = func(_ *fakes.RedisSession, name string, _ [][]byte) bool {
			if name == "SET" {
				<-answer
			}
			return false
		}
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		var wg sync.WaitGroup
		wg.Go(func() { mustSet(t, c, "k", "v") })
		time.Sleep(300 * time.Millisecond) // the first connection is stuck (in the bubble)
		at := &momentContext{Context: t.Context(), n: n, f: func() {
			close(answer)
			wg.Wait()
			time.Sleep(2 * opening) // in the bubble
		}}
		_, _ = get(at, c, "k") // the key is there or not
		if used = at.uses >= n; !used {
			close(answer)
		}
		wg.Wait()
		err := c.MGet(kit.Within(t, time.Minute), []string{"k"}, func(int, []byte, bool) error { return nil })
		if err != nil {
			t.Errorf("the first connection answered at use %d of the context of a read, the second one took %v to open, MGet: %v; %+v", n, opening, err, c.Stats())
		}
	})
	return used
}

// dials are the connections to a server.
type dials struct {
	mu  sync.Mutex
	all []*netsim.Conn
}

// of makes a server note its connections in d. Nothing but death ends them.
func (d *dials) of(s *fakes.Redis, o *redis.Options) {
	o.MaxLifetime = time.Hour
	s.OnDial = func(_ int, client *netsim.Conn) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, client)
	}
}

// forget makes the last n connections dead without a word, as a firewall does that forgets them.
func (d *dials) forget(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, cn := range d.all[max(0, len(d.all)-n):] {
		cn.StallAfter(cn.Received())
	}
}

// TestReadFindsAnotherConnectionEachTimeThatTheSharedOneIsSilent: connections die without a word, one after
// the other or all at once, those without a call among them. Each time the reads are repeated on one that lives.
func TestReadFindsAnotherConnectionEachTimeThatTheSharedOneIsSilent(t *testing.T) {
	const all = 1000
	for _, most := range []int{2, 16} {
		for _, readers := range []int{1, 8} {
			for _, writes := range []bool{false, true} {
				for _, dead := range [][]int{{all}, {1}, {1, all}, {all, 1, 1}} {
					t.Run(fmt.Sprint(most, " connections, ", readers, " readers, writes ", writes, ", dead ", dead), func(t *testing.T) {
						silences(t, most, readers, writes, dead)
					})
				}
			}
		}
	}
}

func silences(t *testing.T, most, readers int, writes bool, dead []int) {
	var d dials
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxConns = most
		d.of(s, o)
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		reads := func(n int, when string) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					start := time.Now()
					if v, err := get(kit.Within(t, time.Second), c, "k"); err != nil || v != "v" {
						t.Errorf("%s: %q, %v after %v", when, v, err, time.Since(start))
					}
				})
			}
			wg.Wait()
		}
		mustSet(t, c, "k", "v")
		for n := range 6 {
			// Connections without a call die, too.
			for range 2 {
				if err := c.MGet(t.Context(), []string{"k"}, func(int, []byte, bool) error { return nil }); err != nil && n == 0 {
					t.Error(err)
				}
			}
			time.Sleep(5 * time.Second)
			d.forget(dead[n%len(dead)])
			reads(readers, fmt.Sprint("silence ", n))
			reads(readers, fmt.Sprint("at once after silence ", n))
			for range 3 {
				time.Sleep(time.Second)
				reads(readers, fmt.Sprint("after silence ", n))
				if writes {
					_ = c.Set(t.Context(), "k", []byte("v"), 0) // it may have a dead connection
				}
			}
		}
	})
}

// TestSilenceOfTheOnlyConnectionEndsWithOneCall: with one connection there is no other one to try.
func TestSilenceOfTheOnlyConnectionEndsWithOneCall(t *testing.T) {
	var d dials
	change := func(s *fakes.Redis, o *redis.Options) {
		o.MaxConns = 1
		d.of(s, o)
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		for range 4 {
			d.forget(1)
			if v, err := get(kit.Within(t, time.Second), c, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q, %v", v, err)
			}
			for range 3 {
				if v, err := get(kit.Within(t, time.Millisecond), c, "k"); err != nil || v != "v" {
					t.Errorf("%q, %v", v, err)
				}
			}
		}
	})
}

// TestReadsGetPastAWriteThatIsHeldBackAlsoIfTheirConnectionDies: the server holds writes back, and again and
// again the newest connection dies without a word: the connection of the reads, or the connection of the next write.
func TestReadsGetPastAWriteThatIsHeldBackAlsoIfTheirConnectionDies(t *testing.T) {
	for _, most := range []int{2, 3, 16} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			var d dials
			var held atomic.Bool
			change := func(s *fakes.Redis, o *redis.Options) {
				o.MaxConns = most
				d.of(s, o)
				s.Handle("SET", func(ss *fakes.RedisSession, _ [][]byte) {
					for held.Load() { // in the bubble
						time.Sleep(10 * time.Millisecond)
					}
					ss.Status("OK")
				})
				answer(s, "$1\r\nv\r\n")
			}
			fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
				mustSet(t, c, "k", "v")
				held.Store(true)
				end := time.Now().Add(10 * time.Second)
				time.AfterFunc(8*time.Second, func() { held.Store(false) })
				var wg sync.WaitGroup
				wg.Go(func() {
					for time.Now().Before(end) {
						if err := c.Set(t.Context(), "k", []byte("v"), 0); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
							t.Error(err)
						}
						time.Sleep(time.Millisecond) // in the bubble
					}
				})
				var slow []time.Duration
				for g := range 4 {
					wg.Go(func() {
						for time.Now().Before(end) {
							start := time.Now()
							v, err := get(t.Context(), c, "k")
							took := time.Since(start)
							if v != "v" || err != nil {
								t.Errorf("at %v: %q, %v after %v", end.Sub(start), v, err, took)
							}
							if g == 0 && took > 10*time.Millisecond {
								slow = append(slow, took)
							}
							time.Sleep(time.Millisecond) // in the bubble
						}
					})
				}
				for range 3 {
					time.Sleep(2 * time.Second)
					d.forget(1)
				}
				wg.Wait()
				if len(slow) > 4 || slices.Max(append(slow, 0)) > 600*time.Millisecond {
					t.Errorf("reads of one caller have waited for %v", slow)
				}
				if n := s.Dials(); n > 20 {
					t.Errorf("%d connections", n)
				}
			})
		})
	}
}

// TestSlowDialIsNoSilence: a call that has waited for a dial for long does not take the new connection for a
// dead one.
func TestSlowDialIsNoSilence(t *testing.T) {
	change := func(s *fakes.Redis, o *redis.Options) {
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			time.Sleep(600 * time.Millisecond) // in the bubble
			return s.Dial(ctx, network, addr)
		}
		answer := s.Handle("GET", nil)
		s.Handle("GET", func(ss *fakes.RedisSession, args [][]byte) {
			time.Sleep(50 * time.Millisecond) // in the bubble
			answer(ss, args)
		})
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		if _, err := get(t.Context(), c, "k"); !errors.Is(err, redis.ErrNil) {
			t.Error(err)
		}
		if n := s.Dials(); n != 1 {
			t.Errorf("%d connections for one read", n)
		}
	})
}

// stallsOnce makes one GET take some time, and the others none.
func stallsOnce(s *fakes.Redis, took time.Duration) {
	once := true
	s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) {
		if once {
			once = false
			time.Sleep(took) // in the bubble
		}
		ss.Bulk("v")
	})
}

// download opens a stream, which takes a connection.
func download(t *testing.T, s *fakes.Redis, c *redis.Client) *redis.Stream {
	t.Helper()
	s.Handle("DUMP", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("big") })
	b, err := c.Stream(t.Context(), "DUMP", "big")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStuckConnectionIsWaitedForIfNoOtherCanBeHad: all others are in use, or the server takes no more.
func TestStuckConnectionIsWaitedForIfNoOtherCanBeHad(t *testing.T) {
	for _, c := range []struct {
		most, readers  int
		refuses, loads bool
	}{{2, 3, false, true}, {2, 1, false, true}, {2, 3, true, false}, {16, 3, true, true}} {
		refuses, late := c.refuses, 301*time.Millisecond
		if c.refuses && c.loads {
			late = 601 * time.Millisecond // the connection in use gives hope of another one
		}
		var dial dialer
		fake(t, func(s *fakes.Redis, o *redis.Options) {
			dial = s.Dial
			o.MaxConns, o.DialContext = c.most, func(ctx context.Context, network, addr string) (net.Conn, error) { return dial(ctx, network, addr) }
		}, func(t *testing.T, s *fakes.Redis, client *redis.Client) {
			mustSet(t, client, "k", "v")
			if c.loads {
				defer download(t, s, client).Close()
			}
			if refuses {
				dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("too many") }
			}
			stallsOnce(s, 300*time.Millisecond)
			begun := time.Now()
			var all sync.WaitGroup
			for range c.readers {
				all.Go(func() {
					if v, err := get(t.Context(), client, "k"); v != "v" || err != nil || time.Since(begun) > late {
						t.Errorf("%+v: %q, %v after %v", c, v, err, time.Since(begun))
					}
				})
				time.Sleep(140 * time.Millisecond) // in the bubble: before and after the connection counts as stuck
			}
			all.Wait()
			time.Sleep(2 * time.Second) // in the bubble
			mustGet(t, client, "k", "v")
			if n := client.Stats().Broken; n > 0 {
				t.Errorf("%+v: %d connections were given up", c, n)
			}
		})
	}
}

// TestReplyThatNoCallerReadsMakesNoConnectionStuck: its only caller has left a moment before.
func TestReplyThatNoCallerReadsMakesNoConnectionStuck(t *testing.T) {
	for _, pause := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 900 * time.Millisecond} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			mustSet(t, c, "k", "v")
			stallsOnce(s, 60*time.Millisecond)
			if v, err := get(kit.Within(t, 50*time.Millisecond), c, "k"); err == nil {
				t.Errorf("%q", v)
			}
			for range 2 {
				time.Sleep(pause) // in the bubble
				mustGet(t, c, "k", "v")
			}
			if st := c.Stats(); s.Dials() != 1 || st.Broken != 0 {
				t.Errorf("after %v: %d dials, %+v", pause, s.Dials(), st)
			}
		})
	}
}

// TestSharedConnectionIsReplacedThoughOthersWait: downloads wait for all connections that come free.
func TestSharedConnectionIsReplacedThoughOthersWait(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.MaxConns, o.MaxLifetime = 3, time.Second }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		open := []*redis.Stream{download(t, s, c), download(t, s, c)}
		var all sync.WaitGroup
		release := make(chan struct{})
		for range 3 {
			all.Go(func() {
				if b, err := c.Stream(kit.Within(t, time.Minute), "DUMP", "big"); err == nil {
					<-release
					b.Close()
				}
			})
		}
		synctest.Wait()
		for range 20 {
			mustSet(t, c, "k", "v")
			time.Sleep(500 * time.Millisecond) // in the bubble
		}
		close(release)
		for _, b := range open {
			b.Close()
		}
		all.Wait()
	})
}
