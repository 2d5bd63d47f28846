package redis_test

import (
	"context"
	"errors"
	"net"
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
	"github.com/strata-cache/strata/remote"
)

// drops makes a server carry out each script, as a drop, and returns their number.
func drops(s *fakes.Redis) *atomic.Int64 {
	n := new(atomic.Int64)
	for _, name := range []string{"EVAL", "EVALSHA"} {
		s.Handle(name, func(ss *fakes.RedisSession, args [][]byte) {
			if strings.Contains(string(args[1]), "run_id") {
				ss.Null()
				return
			}
			n.Add(1)
			ss.Int(1)
		})
	}
	return n
}

// dropAt drops a key by a tier of the client.
func dropAt(t *testing.T, tier *redis.Tier) error {
	t.Helper()
	_, err := tier.Drop(kit.Within(t, 2*time.Second), []remote.Drop{{Key: "k"}})
	return err
}

// dropsAt makes the servers carry out drops, and returns a tier and the number of drops
// at each.
func dropsAt(w *fakes.WatchedRedis, c *redis.Client) (tier *redis.Tier, at []*atomic.Int64) {
	for _, s := range w.Servers {
		at = append(at, drops(s))
	}
	return redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier), at
}

// TestDropIsConfirmedOnlyByThePrimaryThatMostSentinelsName: the old one lives on, and
// the messages of the sentinels are lost.
func TestDropIsConfirmedOnlyByThePrimaryThatMostSentinelsName(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		tier, at := dropsAt(w, c)
		if err := dropAt(t, tier); err != nil || at[0].Load() == 0 {
			t.Fatalf("%v, %d drops", err, at[0].Load())
		}
		time.Sleep(time.Second)
		w.Role(1, "master")
		for i := range 3 {
			w.Name(i, 1, 2)
		}
		if err := dropAt(t, tier); err == nil && at[1].Load() == 0 || err != nil && !errors.Is(err, remote.ErrMoved) {
			t.Errorf("drop after the failover: %v, %d drops at the new primary", err, at[1].Load())
		}
		if err := dropAt(t, tier); err != nil || at[1].Load() == 0 {
			t.Errorf("the next drop: %v, %d drops at the new primary", err, at[1].Load())
		}
	})
}

// TestNewerAnswerIsHeededAtOnce although other sentinels are slow or behind.
func TestNewerAnswerIsHeededAtOnce(t *testing.T) {
	var slow atomic.Bool
	watched(t, func(w *fakes.WatchedRedis, _ *redis.Options) {
		w.Answer = func(i int, _ *fakes.RedisSession, _ [][]byte) bool {
			if slow.Load() && i > 0 {
				time.Sleep(time.Hour) // in the bubble
			}
			return false
		}
	}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		tier, at := dropsAt(w, c)
		if err := dropAt(t, tier); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // the sentinels are subscribed to
		slow.Store(true)
		w.Role(1, "master")
		w.Tell(0, 1, 2)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		_ = dropAt(t, tier) // which is not proven
		if at[0].Load() != 1 || at[1].Load() != 1 {
			t.Errorf("%d drops at the old primary and %d at the new one; want 1, 1", at[0].Load(), at[1].Load())
		}
	})
}

// TestDropIsNotConfirmedWhileMostSentinelsAreSilent: they may have named another
// primary long ago. Reads go on.
func TestDropIsNotConfirmedWhileMostSentinelsAreSilent(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		tier, _ := dropsAt(w, c)
		if err := dropAt(t, tier); err != nil {
			t.Fatal(err)
		}
		w.Sentinels[0].Stop()
		time.Sleep(time.Second)
		if err := dropAt(t, tier); err != nil {
			t.Errorf("with one sentinel of three down: %v", err)
		}
		w.Sentinels[1].Stop()
		time.Sleep(time.Second)
		for range 3 {
			err := dropAt(t, tier)
			if !errors.Is(err, remote.ErrMoved) || !errors.Is(err, remote.ErrRefused) || redis.SafeToRetry(err) {
				t.Errorf("with two of three down: %v", err)
			}
		}
		mustSet(t, c, "k", "v")
		if v, err := get(t.Context(), c, "k"); v != "v" || err != nil {
			t.Errorf("a plain call: %q, %v", v, err)
		}
		w.Sentinels[1].Start()
		if err := dropAt(t, tier); err != nil {
			t.Errorf("when two are up again: %v", err)
		}
	})
}

// TestSilentSentinelDelaysNoDrop: two others are most.
func TestSilentSentinelDelaysNoDrop(t *testing.T) {
	var mu sync.Mutex // guards conns
	var conns []*netsim.Conn
	watched(t, func(w *fakes.WatchedRedis, _ *redis.Options) {
		w.Sentinels[0].OnDial = func(_ int, c *netsim.Conn) {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c)
		}
	}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		tier, _ := dropsAt(w, c)
		if err := dropAt(t, tier); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		for _, c := range conns { // it is paused
			c.StallAfter(c.Received())
		}
		mu.Unlock()
		for range 20 {
			time.Sleep(700 * time.Millisecond)
			begun := time.Now()
			if err := dropAt(t, tier); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begun); d > time.Millisecond {
				t.Errorf("a drop took %v", d)
			}
		}
	})
}

// TestDropsShareTheQuestionsToSentinels: many drops, one in each millisecond, share a few rounds of
// questions.
func TestDropsShareTheQuestionsToSentinels(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		tier, _ := dropsAt(w, c)
		for range 3000 {
			if err := dropAt(t, tier); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := w.Sentinels[0].Calls("SENTINEL"); n < 10 || n > 40 {
			t.Errorf("a sentinel was asked %d times in 3 s", n)
		}
		if n := w.Sentinels[0].Dials(); n != 2 {
			t.Errorf("%d connections to a sentinel; want one for questions and one for messages", n)
		}
		before := w.Sentinels[0].Calls("SENTINEL")
		time.Sleep(10 * time.Minute)
		if n := w.Sentinels[0].Calls("SENTINEL") - before; n > 25 {
			t.Errorf("a sentinel was asked %d times in ten idle minutes", n)
		}
	})
}

// TestSentinelThatLiesConfirmsNothing: it insists on a primary that the others have
// replaced, by a number that they do not know.
func TestSentinelThatLiesConfirmsNothing(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		tier, _ := dropsAt(w, c)
		if err := dropAt(t, tier); err != nil {
			t.Fatal(err)
		}
		w.Role(1, "master")
		w.Name(0, 0, 1000)
		w.Name(1, 1, 2)
		w.Name(2, 1, 2)
		time.Sleep(time.Minute)
		for range 5 {
			at := w.Servers[1].Calls("EVALSHA") + w.Servers[1].Calls("EVAL")
			err := dropAt(t, tier)
			if err == nil && w.Servers[1].Calls("EVALSHA")+w.Servers[1].Calls("EVAL") == at {
				t.Error("confirmed at the primary that only a liar names")
			}
			time.Sleep(time.Second)
		}
	})
}

// TestSentinelNamedTwiceHasOneVote: an Addr that is also in Addrs, or is taken from them.
func TestSentinelNamedTwiceHasOneVote(t *testing.T) {
	for _, addr := range []string{"", "first"} {
		for _, n := range []int{2, 3} {
			watched(t, func(w *fakes.WatchedRedis, o *redis.Options) {
				o.Addr, o.Addrs = "", nil
				if addr != "" {
					o.Addr = w.SentinelAddr(0)
				}
				for i := range n {
					o.Addrs = append(o.Addrs, w.SentinelAddr(i))
				}
			}, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
				tier, _ := dropsAt(w, c)
				if err := dropAt(t, tier); err != nil {
					t.Fatal(err)
				}
				dies := 0 // of three one may be dead, of two none
				if n == 2 {
					dies = 1
				}
				w.Sentinels[dies].Stop()
				time.Sleep(5 * time.Second) // in the bubble
				if err := dropAt(t, tier); (err == nil) != (n == 3) {
					t.Errorf("Addr %q, one of %d sentinels is dead: %v", addr, n, err)
				}
			})
		}
	}
}

// TestBusWithoutMostSentinelsIsSilent within three seconds, and connected when they are
// back.
func TestBusWithoutMostSentinelsIsSilent(t *testing.T) {
	watched(t, nil, func(t *testing.T, w *fakes.WatchedRedis, c *redis.Client) {
		e := listen(t, redis.NewBus(c), "n")
		time.Sleep(time.Minute)
		e.hears("at first", "connected")
		w.Sentinels[1].Stop()
		w.Sentinels[2].Stop()
		time.Sleep(3*time.Second + 100*time.Millisecond)
		e.hears("without most sentinels", "gap")
		if why := e.why; why == nil || !strings.Contains(why.Error(), "most sentinels") {
			t.Errorf("the gap says %v", why)
		}
		time.Sleep(time.Minute)
		e.hears("a minute later")
		w.Sentinels[1].Start()
		time.Sleep(5 * time.Second)
		e.hears("when they are back", "connected")
	})
}

// address is an address behind which the server changes. run has a run id for each, or
// an empty one if it is not told.
type address struct {
	servers [2]*fakes.Redis
	at      atomic.Int64
}

// repointed runs f with a client of an address. keep says that servers tell their run.
func repointed(t *testing.T, tells bool, f func(t *testing.T, a *address, c *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &address{}
		for i := range a.servers {
			s := fakes.NewRedis()
			defer s.Close()
			s.Handle("EVAL", func(ss *fakes.RedisSession, args [][]byte) {
				if !tells || !strings.Contains(string(args[1]), "run_id") {
					ss.Error("NOPERM this user has no permissions to run the 'eval' command")
					return
				}
				ss.Bulk([]string{"aaaa", "bbbb"}[i])
			})
			a.servers[i] = s
		}
		c, err := redis.New(redis.Options{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return a.servers[a.at.Load()].Dial(ctx, network, addr)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(t, a, c)
	})
}

// TestConnectionsOfOneAddressLeadToOneServer: connections to the earlier server are
// closed, also the bus's, though they would last.
func TestConnectionsOfOneAddressLeadToOneServer(t *testing.T) {
	for _, tells := range []bool{true, false} {
		repointed(t, tells, func(t *testing.T, a *address, c *redis.Client) {
			e := listen(t, redis.NewBus(c), "n")
			mustSet(t, c, "k", "old")
			setAt(t, a.servers[1], "k", "new")
			time.Sleep(10 * time.Second)
			e.hears("at first", "connected")
			a.at.Store(1)
			bound := 3200 * time.Millisecond
			if !tells { // a message has to be missed
				bound = 7 * time.Second
			}
			time.Sleep(bound)
			synctest.Wait()
			if n := a.servers[0].Open(); n != 0 {
				t.Errorf("tells %t: %d connections to the old server after %v", tells, n, bound)
			}
			if v, err := get(t.Context(), c, "k"); v != "new" || err != nil {
				t.Errorf("tells %t: %q, %v", tells, v, err)
			}
			time.Sleep(5 * time.Second)
			e.hears("after the change", "gap", "connected")
		})
	}
}

// TestNewConnectionToAnotherServerEndsTheOthers: calls that wait there fail, and the
// next ones go to the new server.
func TestNewConnectionToAnotherServerEndsTheOthers(t *testing.T) {
	repointed(t, true, func(t *testing.T, a *address, c *redis.Client) {
		tier := redis.NewTier(c)
		_ = tier
		mustSet(t, c, "k", "old")
		setAt(t, a.servers[1], "k", "new")
		held := make(chan struct{})
		a.servers[0].Handle("INCR", func(*fakes.RedisSession, [][]byte) { <-held })
		errs := make(chan error, 1)
		go func() { errs <- c.Do(kit.Within(t, time.Hour), "INCR", "x").Err() }()
		synctest.Wait()
		a.at.Store(1)
		sub, err := c.Subscribe(t.Context(), "news") // which needs another connection
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		if err := <-errs; err == nil || redis.SafeToRetry(err) || !strings.Contains(err.Error(), "another primary") {
			t.Errorf("the call at the old server: %v", err)
		}
		close(held)
		if v, err := get(t.Context(), c, "k"); v != "new" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// TestPlainClientAsksNoServerForItsRun: a proxy may end the connection for that.
func TestPlainClientAsksNoServerForItsRun(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "v")
		if n := s.Calls("EVAL") + s.Calls("INFO"); n != 0 {
			t.Errorf("%d commands", n)
		}
	})
}

// TestConnectionOfOneAddressIsReplacedWithinMinutes: without a bus only a new one shows
// that the address leads elsewhere.
func TestConnectionOfOneAddressIsReplacedWithinMinutes(t *testing.T) {
	repointed(t, true, func(t *testing.T, a *address, c *redis.Client) {
		mustSet(t, c, "k", "old")
		setAt(t, a.servers[1], "k", "new")
		a.at.Store(1)
		for begun := time.Now(); ; time.Sleep(time.Second) {
			if v, err := get(t.Context(), c, "k"); err == nil && v == "new" {
				break
			}
			if time.Since(begun) > 2*time.Minute {
				t.Fatal("the old server is read for two minutes")
			}
		}
	})
}

// TestTierWithoutABusFindsThatItsAddressLeadsElsewhere: while it is used, within three
// seconds and a call; an idle one opens nothing.
func TestTierWithoutABusFindsThatItsAddressLeadsElsewhere(t *testing.T) {
	repointed(t, true, func(t *testing.T, a *address, c *redis.Client) {
		var at [2]*atomic.Int64
		for i, s := range a.servers {
			before := s.Handle("EVAL", nil)
			at[i] = drops(s)
			counted := s.Handle("EVAL", nil)
			s.Handle("EVAL", func(ss *fakes.RedisSession, args [][]byte) {
				if strings.Contains(string(args[1]), "run_id") {
					before(ss, args)
					return
				}
				counted(ss, args)
			})
		}
		tier := redis.NewTier(c).Bind(remote.Space{Name: "n"}).(*redis.Tier)
		if err := dropAt(t, tier); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a.at.Store(1)
		opened := a.servers[1].Dials()
		time.Sleep(20 * time.Second)
		if n := a.servers[1].Dials() - opened; n != 0 {
			t.Errorf("an idle tier has opened %d connections", n)
		}
		for range 2 {
			_ = dropAt(t, tier)
			time.Sleep(100 * time.Millisecond)
		}
		before := at[1].Load()
		if err := dropAt(t, tier); err != nil || at[1].Load() == before {
			t.Errorf("%v, the drop has not reached the new server", err)
		}
		if n := a.servers[0].Open(); n != 0 {
			t.Errorf("%d connections to the old server", n)
		}
	})
}

// TestServerThatEndsConnectionsUponTheQuestionForItsRunIsUsed: some proxies do. Such a
// server is not asked any more. A server that has told its run is asked always.
func TestServerThatEndsConnectionsUponTheQuestionForItsRunIsUsed(t *testing.T) {
	for _, ends := range []string{"EVAL", "INFO"} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			redis.NewTier(c)
			asked := 0
			s.Handle("EVAL", func(ss *fakes.RedisSession, _ [][]byte) {
				asked++
				ss.Error("ERR unknown command 'EVAL'")
				if ends == "EVAL" {
					ss.Out = nil
					ss.Hangup()
				}
			})
			s.Handle("INFO", func(ss *fakes.RedisSession, _ [][]byte) { ss.Hangup() })
			for i := range 3 {
				if err := c.Do(kit.Within(t, time.Second), "SET", "k", "v").Err(); err != nil {
					t.Errorf("%s ends connections, call %d: %v", ends, i, err)
				}
				time.Sleep(2 * time.Minute) // the connection is replaced
			}
			if asked > 5 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
	repointed(t, true, func(t *testing.T, a *address, c *redis.Client) {
		redis.NewTier(c)
		mustSet(t, c, "k", "v")
		a.servers[1].Handle("EVAL", func(ss *fakes.RedisSession, _ [][]byte) { ss.Hangup() })
		a.at.Store(1)
		time.Sleep(2 * time.Minute)
		if err := c.Do(kit.Within(t, time.Minute), "SET", "k", "v").Err(); err == nil {
			t.Error("a server is used that does not tell its run, after one that does")
		}
	})
}
