package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// ear is a follower of a bus, in a bubble.
type ear struct {
	t    *testing.T
	stop func()

	mu    sync.Mutex
	told  []string
	why   error // of the last gap
	signs int   // that the bus is in order
}

func listen(t *testing.T, b *redis.Bus, name string) *ear {
	t.Helper()
	e := &ear{t: t}
	e.stop = b.Follow(name, func(ev remote.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch ev.State {
		case remote.Connected:
			e.told = append(e.told, "connected")
		case remote.Gap:
			e.told, e.why = append(e.told, "gap"), ev.Err
		case remote.Delivered:
			for _, m := range ev.Messages {
				if m.Kind == 0 {
					m.Key = "unreadable " + m.Key
				}
				e.told = append(e.told, m.Name+":"+m.Key)
			}
			if len(ev.Messages) == 0 {
				e.signs++
			}
		}
	})
	t.Cleanup(e.stop)
	return e
}

// hears fails unless the follower has received exactly want since the last hears.
func (e *ear) hears(when string, want ...string) {
	e.t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.told, want) {
		e.t.Errorf("%s: told %q; want %q", when, e.told, want)
	}
	e.told = nil
}

func drop(s *fakes.Redis, name, key string) {
	s.Publish(layout.Channel(name, 0), layout.Message(&remote.Message{Name: name, Kind: remote.Dropped, Key: key}))
}

// TestBusIsConnectedWhileItHearsItself has a server with sound connections that
// takes no writes, or does not pass messages on.
func TestBusIsConnectedWhileItHearsItself(t *testing.T) {
	for name, refused := range map[string]string{
		"a replica":         "READONLY You can't write against a read only replica.",
		"without replicas":  "NOREPLICAS Not enough good replicas to write.",
		"passes nothing on": "",
	} {
		var deaf atomic.Bool
		fake(t, func(s *fakes.Redis, _ *redis.Options) {
			gate(s, func() string { return map[bool]string{true: refused}[deaf.Load()] })
			var publish fakes.RedisHandler
			publish = s.Handle("PUBLISH", func(ss *fakes.RedisSession, args [][]byte) {
				if deaf.Load() && refused == "" {
					ss.Int(0)
					return
				}
				publish(ss, args)
			})
		}, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			deaf.Store(true)
			e := listen(t, redis.NewBus(c), "n")
			time.Sleep(time.Minute)
			e.hears(name + ", at first")
			deaf.Store(false)
			time.Sleep(5 * time.Second)
			e.hears(name+", when it is well", "connected")
			time.Sleep(time.Minute)
			e.hears(name + ", a minute later")
			if e.signs < 60 || e.signs > 80 {
				t.Errorf("%s: %d signs that the bus is in order in 65 s", name, e.signs)
			}
			deaf.Store(true)
			time.Sleep(3 * time.Second)
			e.hears(name+", after 3 s", "gap")
			deaf.Store(false)
			time.Sleep(5 * time.Second)
			e.hears(name+", when it is well again", "connected")
		})
	}
}

// gate makes a server refuse writes with the result of text, unless the result is
// empty.
func gate(s *fakes.Redis, text func() string) {
	s.Gate = func(ss *fakes.RedisSession, name string, _ [][]byte) bool {
		refused := text()
		if name != "PERSIST" || refused == "" {
			return false
		}
		ss.Error(refused)
		return true
	}
}

// TestServerWithAFullDiskIsNotDeaf, nor one that permits no PERSIST.
func TestServerWithAFullDiskIsNotDeaf(t *testing.T) {
	for _, text := range []string{"MISCONF Redis is configured to save RDB snapshots", "NOPERM User x has no permissions to run the 'persist' command"} {
		fake(t, func(s *fakes.Redis, _ *redis.Options) { gate(s, func() string { return text }) }, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
			e := listen(t, redis.NewBus(c), "n")
			time.Sleep(time.Minute)
			e.hears(text, "connected")
		})
	}
}

// TestCachesOfABusShareOneConnection and get their own messages, and no others.
func TestCachesOfABusShareOneConnection(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		b := redis.NewBus(c)
		var ears []*ear
		name := func(i int) string { return fmt.Sprint("n", i) }
		for i := range 50 {
			ears = append(ears, listen(t, b, name(i)))
			if i%10 == 0 {
				time.Sleep(1500 * time.Millisecond)
			}
		}
		second := listen(t, b, "n0")
		for i, e := range append(ears, second) {
			e.hears(fmt.Sprint(i, " at first"), "connected")
		}
		time.Sleep(time.Minute)
		if n := s.Open(); n != 2 { // and the one that writes go over
			t.Errorf("%d connections", n)
		}
		ears[7].stop()
		for i := range ears {
			drop(s, name(i), "k")
		}
		for i, e := range ears {
			if i != 7 {
				e.hears(name(i), name(i)+":k")
			}
		}
		second.hears("the second of a name", "n0:k")
		ears[7].hears("the one that has stopped")
		if n := s.Calls("UNSUBSCRIBE"); n != 1 {
			t.Errorf("%d channels were left", n)
		}
		s.Drop()
		time.Sleep(10 * time.Second)
		ears[0].hears("when the connection was lost", "gap", "connected")
		for _, e := range append(ears, second) {
			e.stop()
		}
		again := listen(t, b, "n0")
		again.hears("after all had stopped", "connected")
	})
}

// TestChannelThatIsRefusedCostsNoOther and is had when it is permitted.
func TestChannelThatIsRefusedCostsNoOther(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		var subscribe fakes.RedisHandler
		var permitted atomic.Bool
		subscribe = s.Handle("SUBSCRIBE", func(ss *fakes.RedisSession, args [][]byte) {
			if !permitted.Load() && strings.HasSuffix(string(args[1]), ":secret") {
				ss.Error("NOPERM No permissions to access a channel")
				return
			}
			subscribe(ss, args)
		})
		b := redis.NewBus(c)
		secret, e := listen(t, b, "secret"), listen(t, b, "n")
		time.Sleep(time.Minute)
		secret.hears("a channel that is not permitted")
		e.hears("another one", "connected")
		permitted.Store(true)
		time.Sleep(3 * time.Second)
		secret.hears("when it is permitted", "connected")
	})
}

func TestMessageThatCannotBeReadIsDeliveredWithoutAKind(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		b := redis.NewBus(c)
		e, other := listen(t, b, "n"), listen(t, b, "other")
		e.hears("at first", "connected")
		for _, text := range []string{"hello", "3 1 0 0 0.0 0.0 0 k", "2 99 0 0 0.0 0.0 0 k"} {
			s.Publish(layout.Channel("n", 0), text)
		}
		drop(s, "n", "k")
		e.hears("of another version, or damaged", "n:unreadable ", "n:unreadable ", "n:unreadable ", "n:k")
		other.hears("the other cache", "connected")
	})
}

// TestProbeOfATierIsNoMessage, though it publishes on the channel: each instance that starts probes.
func TestProbeOfATierIsNoMessage(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		e := listen(t, redis.NewBus(c), "n")
		e.hears("at first", "connected")
		p, _ := remote.As[remote.Prober](redis.NewTier(c).Bind(remote.Space{Name: "n"}))
		_, _ = p.Probe(t.Context()) // this server knows few of its commands
		s.Publish(layout.Channel("n", 0), layout.Nothing)
		e.hears("a probe")
	})
}

// TestFollowerThatIsTooSlowHasAGap, and all others of the connection.
func TestFollowerThatIsTooSlowHasAGap(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		b := redis.NewBus(c)
		e := listen(t, b, "n")
		e.hears("at first", "connected")
		blocked := make(chan struct{})
		t.Cleanup(b.Follow("slow", func(ev remote.Event) {
			if len(ev.Messages) > 0 {
				<-blocked
			}
		}))
		synctest.Wait()
		drop(s, "slow", "k")
		synctest.Wait()
		for i := range 10_000 {
			drop(s, "n", fmt.Sprint(i))
		}
		synctest.Wait()
		e.hears("behind one that is slow")
		close(blocked)
		time.Sleep(5 * time.Second)
		e.hears("when that goes on", "gap", "connected")
	})
}

// TestBusIsConnectedToAServerThatStaysInTheTransactionOfItsProof: an old server refuses each EXEC for want of memory,
// and takes the next command for a part of the transaction.
func TestBusIsConnectedToAServerThatStaysInTheTransactionOfItsProof(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.Handle("EXEC", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Error("OOM command not allowed when used memory > 'maxmemory'.")
		})
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		e := listen(t, redis.NewBus(c), "n")
		time.Sleep(time.Minute)
		e.hears("for a minute", "connected")
	})
}

// TestMessageWithoutANumberAsItsAnswerIsNotPublished: in a transaction it is only queued.
func TestMessageWithoutANumberAsItsAnswerIsNotPublished(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.Handle("PUBLISH", func(ss *fakes.RedisSession, _ [][]byte) { ss.Status("QUEUED") })
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		if err := redis.NewBus(c).Publish(t.Context(), []remote.Message{{Name: "n", Kind: remote.Beat}}); err == nil {
			t.Error("a queued message counts as published")
		}
	})
}

// TestBusProvesItselfWhileTheSlotOfItsChannelMoves: a channel is no key, so the node that gives the slot away sends the
// proof to the other one.
func TestBusProvesItselfWhileTheSlotOfItsChannelMoves(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		e := listen(t, redis.NewBus(c), "n")
		time.Sleep(10 * time.Second) // in the bubble
		e.hears("at first", "connected")
		key := layout.Channel("n", 0)
		k.Migrate(key, (k.Owner(key)+1)%3)
		time.Sleep(30 * time.Second) // in the bubble
		e.hears("while the slot moves")
	})
}

// TestFollowerThatComesRightAfterAnotherOneMissesNothing: the server ends the subscription of the first follower after it has
// agreed to it, and before it agrees to the second one.
func TestFollowerThatComesRightAfterAnotherOneMissesNothing(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) {
		var subscribe fakes.RedisHandler
		subscribe = s.Handle("SUBSCRIBE", func(ss *fakes.RedisSession, args [][]byte) {
			if string(args[1]) == layout.Channel("n", 0) {
				time.Sleep(10 * time.Millisecond) // in the bubble
			}
			subscribe(ss, args)
			ss.Flush()
		})
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		b := redis.NewBus(c)
		other := listen(t, b, "other")
		time.Sleep(5 * time.Second) // in the bubble
		other.hears("at first", "connected")
		first := listen(t, b, "n")
		time.Sleep(time.Millisecond) // in the bubble
		first.stop()
		second := listen(t, b, "n")
		time.Sleep(14 * time.Millisecond) // in the bubble
		drop(s, "n", "lost")
		second.hears("between two subscriptions")
		time.Sleep(10 * time.Millisecond) // in the bubble
		drop(s, "n", "k")
		second.hears("when the server has agreed again", "connected", "n:k")
		first.hears("after its end")
	})
}
