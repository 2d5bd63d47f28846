package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"strings"
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

// watched runs f in a bubble with two servers, three sentinels that watch them, and
// a client. change, if not nil, alters them before the client is made.
func watched(t *testing.T, change func(*fakes.WatchedRedis, *redis.Options), f func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := fakes.NewWatchedRedis(2, 3)
		defer w.Close()
		o := redis.Options{
			Sentinel: redis.Sentinel{Primary: "mymaster"}, Addr: w.SentinelAddr(0),
			Addrs: []string{w.SentinelAddr(1), w.SentinelAddr(2)}, DialContext: w.Dial,
		}
		if change != nil {
			change(w, &o)
		}
		c, err := redis.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(t, w, c)
	})
}

// setAt sets a key at one server, past its client.
func setAt(t *testing.T, s *fakes.Redis, key, value string) {
	t.Helper()
	defer s.SetGate(s.Gate)
	s.SetGate(nil)
	c, err := redis.New(redis.Options{DialContext: s.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mustSet(t, c, key, value)
}

// read gets a key within d, repeating calls that fail. It is called in a bubble.
func read(t *testing.T, c *redis.Client, key string, d time.Duration) string {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		v, err := get(t.Context(), c, key)
		if err == nil {
			return v
		}
		if time.Since(begun) > d {
			t.Fatalf("%v after %v", err, time.Since(begun))
		}
	}
}

func TestSentinelsNameThePrimary(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		if w.Servers[1].Dials() != 0 {
			t.Error("the replica was dialled")
		}
		for range 50 { // connections share one answer
			mustSet(t, c, "k", "v")
		}
		if n := w.Sentinels[0].Calls("SENTINEL"); n > 4 {
			t.Errorf("a sentinel was asked %d times", n)
		}
	})
}

func TestClientOpensNothingBeforeTheFirstCall(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		synctest.Wait()
		if n := w.Sentinels[0].Dials() + w.Servers[0].Dials(); n != 0 {
			t.Errorf("%d connections", n)
		}
	})
}

// TestFailoverClosesConnectionsToTheOldPrimary: at once, also those in use, although
// the old primary lives on and takes itself for the primary.
func TestFailoverClosesConnectionsToTheOldPrimary(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "old")
		setAt(t, w.Servers[1], "k", "new")
		sub, err := c.Subscribe(t.Context(), "news")
		if err != nil {
			t.Fatal(err)
		}
		expect(t, sub, redis.Subscribed)
		held := make(chan struct{})
		w.Servers[0].Handle("INCR", func(*fakes.RedisSession, [][]byte) { <-held })
		errs := make(chan error, 1)
		go func() { errs <- c.Do(kit.Within(t, time.Hour), "INCR", "x").Err() }()
		time.Sleep(10 * time.Second)
		w.Role(1, "master") // and the old one is one, too
		begun := time.Now()
		w.Tell(1, 1, 2)
		if err := <-errs; redis.SafeToRetry(err) || err == nil || !strings.Contains(err.Error(), "another primary") {
			t.Errorf("call that was running: %v", err)
		}
		if took := time.Since(begun); took > 300*time.Millisecond {
			t.Errorf("old connections were closed after %v", took)
		}
		close(held)
		if v := read(t, c, "k", time.Second); v != "new" {
			t.Errorf("after the failover: %q", v)
		}
		expect(t, sub, redis.Gap)
		expect(t, sub, redis.Subscribed)
		if n := w.Servers[1].Publish("news", "x"); n != 1 {
			t.Errorf("%d subscriptions at the new primary", n)
		}
		synctest.Wait()
		if n := w.Servers[0].Open(); n != 0 {
			t.Errorf("%d connections to the old primary", n)
		}
	})
}

// expect takes one event of a subscription.
func expect(t *testing.T, sub *redis.Subscription, kind redis.EventKind) {
	t.Helper()
	if e, err := sub.Next(kit.Within(t, time.Minute)); e.Kind != kind || err != nil {
		t.Fatalf("event %+v, %v; want %v", e, err, kind)
	}
}

func TestReadThatWaitsAtTheOldPrimaryIsRepeatedAtTheNewOne(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "old")
		setAt(t, w.Servers[1], "k", "new")
		held := make(chan struct{})
		w.Servers[0].Handle("GET", func(*fakes.RedisSession, [][]byte) { <-held })
		time.AfterFunc(100*time.Millisecond, func() {
			w.Role(1, "master")
			w.Tell(0, 1, 2)
		})
		v, err := get(kit.Within(t, 10*time.Second), c, "k")
		if v != "new" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		close(held)
	})
}

func TestKilledPrimaryIsReplacedWithoutAMessage(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "old")
		setAt(t, w.Servers[1], "k", "new")
		w.Servers[0].Stop()
		time.AfterFunc(2*time.Second, func() {
			w.Role(1, "master")
			for i := range 3 {
				w.Name(i, 1, 2) // their messages are lost
			}
		})
		begun := time.Now()
		if v := read(t, c, "k", 5*time.Second); v != "new" {
			t.Errorf("%q", v)
		}
		t.Log(time.Since(begun))
	})
}

func TestSilentAndDeadSentinelsAreNotWaitedFor(t *testing.T) {
	change := func(w *fakes.WatchedRedis, o *redis.Options) {
		w.Sentinels[0].OnDial = func(_ int, client *netsim.Conn) { client.StallAfter(0) }
		w.Sentinels[2].Stop()
	}
	watched(t, change, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		begun := time.Now()
		mustSet(t, c, "k", "v")
		if took := time.Since(begun); took > 500*time.Millisecond {
			t.Errorf("the first call took %v", took)
		}
	})
}

// TestPrimaryIsUsedWithoutSentinels: the sentinels named the primary once and are
// gone.
func TestPrimaryIsUsedWithoutSentinels(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		for _, s := range w.Sentinels {
			s.Stop()
		}
		w.Servers[0].Drop()
		if v := read(t, c, "k", 3*time.Second); v != "v" {
			t.Errorf("%q", v)
		}
		time.Sleep(10 * time.Minute)
		if v := read(t, c, "k", 3*time.Second); v != "v" {
			t.Errorf("%q", v)
		}
	})
}

func TestAnswerOfAnOldConfigurationIsNotHeeded(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		setAt(t, w.Servers[1], "k", "new")
		w.Role(1, "master")
		w.Name(1, 1, 2)
		w.Name(2, 1, 2)
		if v := read(t, c, "k", time.Second); v != "new" {
			t.Fatalf("%q: the older answer was heeded", v)
		}
		if n := w.Servers[0].Dials(); n != 0 {
			t.Errorf("%d connections to the server of the older answer", n)
		}
		w.Sentinels[1].Stop()
		w.Sentinels[2].Stop()
		w.Tell(0, 0, 1) // it was cut off, and tells of the past
		for range 100 {
			time.Sleep(time.Second)
			if v, err := get(t.Context(), c, "k"); v != "new" || err != nil {
				t.Fatalf("%q, %v", v, err)
			}
		}
		for i := range 3 { // set up anew, they count from zero
			w.Sentinels[i].Start()
			w.Name(i, 0, 0)
		}
		time.Sleep(time.Minute)
		if _, err := get(t.Context(), c, "k"); !errors.Is(err, redis.ErrNil) {
			t.Errorf("sentinels that were set up anew are not heeded: %v", err)
		}
	})
}

// TestSlowAnswersAreWaitedForIfTheFastOneIsOld: a primary that cannot be reached for
// a moment is not left for the one before it.
func TestSlowAnswersAreWaitedForIfTheFastOneIsOld(t *testing.T) {
	var slow atomic.Bool
	watched(t, func(w *fakes.WatchedRedis, _ *redis.Options) {
		w.Answer = func(i int, _ *fakes.RedisSession, _ [][]byte) bool {
			if slow.Load() {
				time.Sleep(time.Duration(i) * 250 * time.Millisecond) // in the bubble
			}
			return false
		}
	}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		setAt(t, w.Servers[1], "k", "new")
		w.Role(1, "master")
		w.Name(1, 1, 2)
		w.Name(2, 1, 2)
		if v := read(t, c, "k", time.Second); v != "new" {
			t.Fatalf("%q", v)
		}
		slow.Store(true)
		w.Servers[1].Stop()
		time.AfterFunc(300*time.Millisecond, w.Servers[1].Start)
		for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
			if v, err := get(t.Context(), c, "k"); err == nil && v != "new" || errors.Is(err, redis.ErrNil) {
				t.Fatalf("%q, %v from the primary before", v, err)
			}
		}
	})
}

// TestReplicaIsNeverUsed: neither a replica that the sentinels name, nor a primary
// demoted by hand.
func TestReplicaIsNeverUsed(t *testing.T) {
	for _, roleless := range []bool{false, true} {
		watched(t, func(w *fakes.WatchedRedis, _ *redis.Options) {
			for i, s := range w.Servers {
				if roleless { // INFO says it too
					s.Handle("ROLE", nil)
					s.Handle("INFO", func(ss *fakes.RedisSession, _ [][]byte) {
						ss.Bulk("# Replication\r\nrole:" + map[int]string{0: "master", 1: "slave"}[i] + "\r\nconnected_slaves:0\r\n")
					})
				}
			}
		}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
			mustSet(t, c, "k", "v")
			setAt(t, w.Servers[1], "k", "stale")
			for i := range 3 {
				w.Tell(i, 1, 2)
			}
			time.Sleep(time.Second)
			begun, before := time.Now(), w.Servers[1].Dials()
			for time.Since(begun) < 10*time.Second {
				_, err := get(t.Context(), c, "k")
				if !errors.Is(err, redis.ErrNoPrimary) || !redis.SafeToRetry(err) {
					t.Fatalf("%v", err)
				}
				time.Sleep(10 * time.Millisecond)
			}
			if n := w.Servers[1].Dials() - before; n > 40 {
				t.Errorf("%d dials of a replica in 10 s", n)
			}
			if n := w.Sentinels[0].Calls("SENTINEL"); n > 150 {
				t.Errorf("a sentinel was asked %d times", n)
			}
		})
	}
}

func TestPrimaryThatTakesNoWritesIsAskedForAnew(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		w.Role(0, "slave")
		w.Role(1, "master")
		for i := range 3 {
			w.Name(i, 1, 2)
		}
		begun := time.Now()
		for c.Do(t.Context(), "SET", "k", "w").Err() != nil {
			if time.Since(begun) > 5*time.Second {
				t.Fatal("writes go to the old primary")
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func TestUnknownNameIsErrNoPrimary(t *testing.T) {
	watched(t, func(_ *fakes.WatchedRedis, o *redis.Options) { o.Sentinel.Primary = "other" }, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		for range 20 {
			if _, err := get(t.Context(), c, "k"); !errors.Is(err, redis.ErrNoPrimary) || !redis.SafeToRetry(err) {
				t.Errorf("%v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := w.Sentinels[0].Calls("SENTINEL"); n > 40 {
			t.Errorf("a sentinel was asked %d times in 2 s", n)
		}
	})
}

func TestGarbageOfSentinelsIsATypedErrorAndBounded(t *testing.T) {
	raw := map[string]string{
		"status": "+OK\r\n", "integer": ":1\r\n", "one": "*1\r\n$1\r\na\r\n", "three": "*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n1\r\n",
		"port": "*2\r\n$1\r\na\r\n$5\r\n99999\r\n", "no host": "*2\r\n$0\r\n\r\n$4\r\n6379\r\n", "line in host": "*2\r\n$3\r\na\r\n\r\n$1\r\n1\r\n",
		"nested": "*2\r\n*1\r\n+a\r\n*1\r\n+1\r\n", "huge": "*1000000000\r\n", "long": "$2000000000\r\n", "noise": "\x00\xff\x13garbage\r\n",
		"long host": "*2\r\n$300\r\n" + strings.Repeat("a", 300) + "\r\n$1\r\n1\r\n",
		"flood":     "*1000\r\n" + strings.Repeat("$100\r\n"+strings.Repeat("a", 100)+"\r\n", 1000),
	}
	for name, text := range raw {
		for _, of := range []string{"MASTER", "GET-MASTER-ADDR-BY-NAME"} {
			watched(t, func(w *fakes.WatchedRedis, _ *redis.Options) {
				w.Answer = func(_ int, s *fakes.RedisSession, args [][]byte) bool {
					if strings.EqualFold(string(args[1]), of) {
						s.Out = append(s.Out, text...)
						return true
					}
					return false
				}
			}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := get(t.Context(), c, "k")
				runtime.ReadMemStats(&after)
				if of != "MASTER" && !errors.Is(err, redis.ErrProtocol) || err != nil && !errors.Is(err, redis.ErrProtocol) && !errors.Is(err, redis.ErrNil) {
					t.Errorf("%s to %s: %v", name, of, err)
				}
				if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
					t.Errorf("%s to %s: %d bytes allocated", name, of, n)
				}
			})
		}
	}
}

func FuzzAnswersOfSentinels(f *testing.F) {
	f.Add("*4\r\n$4\r\nname\r\n$1\r\nm\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n", "*2\r\n$1\r\na\r\n$4\r\n6379\r\n")
	f.Add("-ERR No such master with that name\r\n", "*-1\r\n")
	f.Add("*1\r\n$12\r\nconfig-epoch\r\n", "*2\r\n:1\r\n_\r\n")
	f.Fuzz(func(t *testing.T, master, addr string) {
		watched(t, func(w *fakes.WatchedRedis, _ *redis.Options) {
			w.Answer = func(_ int, s *fakes.RedisSession, args [][]byte) bool {
				if strings.EqualFold(string(args[1]), "MASTER") {
					s.Out = append(s.Out, master...)
				} else {
					s.Out = append(s.Out, addr...)
				}
				return true
			}
		}, func(t *testing.T, _ *fakes.WatchedRedis, c *redis.Client) {
			begun := time.Now()
			_, err := get(t.Context(), c, "k")
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("%v after %v", err, took)
			}
		})
	})
}

// TestFloodOfMessagesIsBounded: messages and answers that change all the time.
func TestFloodOfMessagesIsBounded(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		before := w.Sentinels[0].Calls("SENTINEL") + w.Servers[0].Dials() + w.Servers[1].Dials()
		w.Role(1, "master")
		for i := range 10_000 {
			w.Tell(i%3, i%2, 2+i)
			time.Sleep(time.Millisecond)
			if i%100 == 0 {
				_, _ = get(t.Context(), c, "k")
			}
		}
		if n := w.Sentinels[0].Calls("SENTINEL") + w.Servers[0].Dials() + w.Servers[1].Dials() - before; n > 600 {
			t.Errorf("%d questions and dials in 10 s", n)
		}
		for i := range 3 {
			w.Tell(i, 1, 20_000)
		}
		time.Sleep(2 * time.Second)
		if err := c.Do(t.Context(), "SET", "k", "w").Ok(); err != nil {
			t.Error(err)
		}
		if n := runtime.NumGoroutine(); n > 200 {
			t.Errorf("%d goroutines", n)
		}
	})
}

// TestSentinelsAndServersHaveTheirOwnCredentialsAndTLS: neither side sees the
// credentials of the other.
func TestSentinelsAndServersHaveTheirOwnCredentialsAndTLS(t *testing.T) {
	config, err := fakes.TLS()
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	change := func(w *fakes.WatchedRedis, o *redis.Options) {
		for _, s := range w.Sentinels {
			s.Username, s.Password = "watcher", "of sentinels"
		}
		for _, s := range w.Servers {
			s.Username, s.Password = "app", "of servers"
		}
		o.Username, o.Password, o.DB = "app", "of servers", 3
		o.Sentinel.Username, o.Sentinel.Password = "watcher", "of sentinels"
		o.Sentinel.TLS = &tls.Config{InsecureSkipVerify: true}
		o.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			behind, err := w.Dial(ctx, network, addr)
			if err != nil || !strings.Contains(addr, ":26") {
				return behind, err
			}
			client, server := netsim.Pair(0)
			tc := tls.Server(server, config)
			wg.Go(func() { relay(tc, behind) })
			wg.Go(func() { relay(behind, tc) })
			return client, nil
		}
	}
	watched(t, change, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		if w.Sentinels[0].Calls("SELECT") != 0 {
			t.Error("a sentinel was asked for a database")
		}
		c.Close()
		w.Close()
		wg.Wait()
	})
	watched(t, func(w *fakes.WatchedRedis, o *redis.Options) {
		change(w, o)
		o.Sentinel.Password = "wrong"
	}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		var refused *redis.Error
		if _, err := get(t.Context(), c, "k"); !errors.As(err, &refused) || refused.Code != "WRONGPASS" || strings.Contains(err.Error(), "of s") {
			t.Errorf("%v", err)
		}
		c.Close()
		w.Close()
		wg.Wait()
	})
}

// relay passes bytes on until one side ends, and ends both.
func relay(dst, src net.Conn) {
	p := make([]byte, 4<<10)
	for {
		n, err := src.Read(p)
		if _, werr := dst.Write(p[:n]); err != nil || werr != nil {
			break
		}
	}
	dst.Close()
	src.Close()
}

func TestRightsOfASentinelMayBeFew(t *testing.T) {
	watched(t, func(w *fakes.WatchedRedis, _ *redis.Options) {
		w.Answer = func(_ int, s *fakes.RedisSession, args [][]byte) bool {
			if strings.EqualFold(string(args[1]), "MASTER") {
				s.Error("NOPERM this user has no permissions to run the 'sentinel|master' command")
				return true
			}
			return false
		}
		for _, s := range w.Sentinels {
			s.Handle("SUBSCRIBE", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM no channel") })
		}
		w.Servers[0].Handle("ROLE", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM") })
		w.Servers[0].Handle("INFO", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM") })
	}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		setAt(t, w.Servers[1], "k", "new")
		w.Role(1, "master")
		for i := range 3 {
			w.Name(i, 1, 0)
		}
		time.Sleep(31 * time.Second) // nothing tells of it
		if v := read(t, c, "k", time.Second); v != "new" {
			t.Errorf("%q", v)
		}
	})
}

func TestCloseEndsAClientOfSentinels(t *testing.T) {
	watched(t, func(w *fakes.WatchedRedis, o *redis.Options) {
		for _, s := range w.Sentinels {
			s.OnDial = func(_ int, client *netsim.Conn) { client.StallAfter(0) }
		}
	}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		errs := make(chan error)
		go func() { errs <- c.Ping(kit.Within(t, time.Hour)) }()
		synctest.Wait()
		c.Close()
		if err := <-errs; !errors.Is(err, redis.ErrClosed) {
			t.Errorf("%v", err)
		}
		if err := c.Ping(t.Context()); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("%v", err)
		}
		for _, s := range w.Sentinels {
			s.Drop()
		}
	})
}

func TestEveryCallAfterAFailoverGoesToTheNewPrimary(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		mustSet(t, c, "k", "old")
		setAt(t, w.Servers[1], "k", "new")
		w.Role(1, "master")
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				seen := false
				for range 1000 {
					v, err := get(t.Context(), c, "k")
					if err == nil && seen && v != "new" {
						t.Errorf("%q after a new value", v)
					}
					seen = seen || v == "new"
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		w.Tell(2, 1, 2)
		wg.Wait()
		if v := read(t, c, "k", 0); v != "new" {
			t.Errorf("%q", v)
		}
	})
}
