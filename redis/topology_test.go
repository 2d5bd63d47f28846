package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

func TestSeedThatKeepsSilentIsNotWaitedFor(t *testing.T) {
	cluster(t, 0, func(k *fakes.RedisCluster, o *redis.Options) {
		k.Servers[0].OnDial = func(_ int, client *netsim.Conn) { client.StallAfter(0) }
		o.Addrs = []string{"10.0.0.9:1", k.Addr(1)} // no server is at the first
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		start := time.Now()
		mustSet(t, c, keysOf(k)[1], "v")
		if took := time.Since(start); took > 500*time.Millisecond {
			t.Errorf("the first call took %v", took)
		}
	})
}

func TestClusterWithoutATopologyIsAnErrorInTime(t *testing.T) {
	cluster(t, 0, func(k *fakes.RedisCluster, o *redis.Options) {
		for _, s := range k.Servers {
			s.Stop()
		}
		o.Addrs = []string{k.Addr(1), k.Addr(2)}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		for _, d := range []time.Duration{0, 100 * time.Millisecond, 3 * time.Second} {
			ctx, most := t.Context(), 1200*time.Millisecond
			if d > 0 {
				ctx, most = kit.Within(t, d), d
			}
			start := time.Now()
			err := c.Do(ctx, "GET", "k").Err()
			if !errors.Is(err, fakes.ErrRefused) || !redis.SafeToRetry(err) || time.Since(start) > most {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
		start := time.Now()
		time.AfterFunc(2*time.Second, k.Servers[2].Start)
		time.AfterFunc(2*time.Second, k.Servers[0].Start)
		if err := c.Do(kit.Within(t, 10*time.Second), "SET", keysOf(k)[0], "v").Ok(); err != nil || time.Since(start) > 4*time.Second {
			t.Errorf("back after %v: %v", time.Since(start), err)
		}
	})
}

func TestServerThatIsNoClusterSaysSoAtOnce(t *testing.T) {
	cluster(t, 0, func(k *fakes.RedisCluster, _ *redis.Options) {
		k.Servers[0].Handle("CLUSTER", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Error("ERR This instance has cluster support disabled")
		})
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		for range 2 {
			start := time.Now()
			err := c.Ping(kit.Within(t, 10*time.Second))
			var refused *redis.Error
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "cluster support disabled") || time.Since(start) > 200*time.Millisecond {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
	})
}

func TestHostileTopologyIsOneErrorAndBoundedInMemory(t *testing.T) {
	for name, raw := range map[string]string{
		"text": "+OK\r\n", "null": "_\r\n", "rubbish": "?\r\n", "claim": "$16777217\r\n",
		"crowd": "*1000000000\r\n", "nested": strings.Repeat("*1\r\n", 1000), "negative": "*1\r\n*3\r\n:-5\r\n:7\r\n*2\r\n$1\r\nh\r\n:1\r\n",
		"shards of strings": "*1\r\n%2\r\n+slots\r\n+a\r\n+nodes\r\n+b\r\n", "end": "*3\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			cluster(t, 0, func(k *fakes.RedisCluster, o *redis.Options) {
				k.Servers[0].Handle("CLUSTER", func(ss *fakes.RedisSession, _ [][]byte) {
					ss.Out = append(ss.Out, raw...)
					ss.Hangup()
				})
				k.Servers[1].Stop()
				o.Addr, o.Addrs = k.Addr(1), []string{k.Addr(0)}
			}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
				// The seeds are asked in any order, of which one refuses every connection.
				for range 8 {
					err := c.Ping(kit.Within(t, 500*time.Millisecond))
					var broken *redis.ConnError
					if !errors.As(err, &broken) || name != "end" && !errors.Is(err, redis.ErrProtocol) {
						t.Errorf("error %v", err)
					}
				}
				k.Servers[1].Start()
				time.Sleep(time.Second)
				if err := c.Ping(kit.Within(t, 500*time.Millisecond)); err != nil {
					if err = c.Ping(kit.Within(t, 500*time.Millisecond)); err != nil {
						t.Errorf("another seed is well by now: %v", err)
					}
				}
			})
		})
	}
}

func TestNodesWithoutAHostAreReachedUnderTheSeeds(t *testing.T) {
	cluster(t, 0, func(k *fakes.RedisCluster, o *redis.Options) {
		o.Addr = "seed.example:7000"
		for i, host := range []string{"", "?", "other.example"} {
			k.Tell(i, host)
		}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		for _, key := range keysOf(k) {
			mustSet(t, c, key, "v")
		}
		for _, addr := range []string{"seed.example:7000", "seed.example:7001", "other.example:7002"} {
			if k.Dialled(addr) == 0 {
				t.Errorf("%s was not called", addr)
			}
		}
	})
}

func TestNodeWithANewAddressIsFound(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		key := keysOf(k)[2]
		mustSet(t, c, key, "v")
		k.Tell(2, "new.example")
		k.Servers[2].Drop()
		time.Sleep(time.Minute)
		mustGet(t, c, key, "v")
		if k.Dialled("new.example:7002") == 0 {
			t.Error("the new address was not called")
		}
	})
}

func TestServersThatKnowNoShardsTellTheirSlots(t *testing.T) {
	cluster(t, 1, func(k *fakes.RedisCluster, _ *redis.Options) {
		for _, s := range k.Servers {
			s.Old = true
		}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		for _, key := range keysOf(k) {
			mustSet(t, c, key, "v")
			mustGet(t, c, key, "v")
		}
		if n := calls(k, "GET"); n != 3 {
			t.Errorf("%d GETs", n)
		}
	})
}

func TestReplicasAnswerReadsIfThatIsWanted(t *testing.T) {
	cluster(t, 3, func(k *fakes.RedisCluster, o *redis.Options) {
		o.ReplicaReads = true
		for _, s := range k.Servers[3:] {
			s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("from a replica") })
		}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		for _, key := range keys {
			mustSet(t, c, key, "v")
			mustGet(t, c, key, "from a replica")
		}
		p := c.Pipeline()
		p.Add("GET", keys[0])
		p.Add("SET", keys[1], "w")
		replies, err := p.Do(t.Context())
		if got, _ := replies[0].String(); err != nil || got != "from a replica" || replies[1].Ok() != nil {
			t.Errorf("pipeline: %v, %v", replies, err)
		}
		k.Servers[3].Stop()
		mustGet(t, c, keys[0], "v") // by its primary
		if n := calls(k, "READONLY"); n < 3 {
			t.Errorf("%d connections for reads", n)
		}
	})
}

func TestSubscriptionGoesOnAtAnotherNode(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		s, err := c.Subscribe(t.Context(), "ch")
		if err != nil {
			t.Fatal(err)
		}
		gone := -1
		for range 5 {
			for e := (redis.Event{}); e.Kind != redis.Subscribed; {
				if e, err = s.Next(kit.Within(t, 20*time.Second)); err != nil {
					t.Fatal(err)
				}
			}
			if gone >= 0 {
				k.Servers[gone].Start()
			}
			at := slices.IndexFunc(k.Servers, func(s *fakes.Redis) bool { return s.Publish("ch", "m") == 1 })
			e, err := s.Next(kit.Within(t, time.Second))
			if err != nil || at < 0 || string(e.Payload) != "m" {
				t.Fatalf("node %d: %+v, %v", at, e, err)
			}
			k.Servers[at].Stop()
			if e, err := s.Next(kit.Within(t, time.Second)); err != nil || e.Kind != redis.Gap {
				t.Fatalf("%+v, %v", e, err)
			}
			gone = at
		}
	})
}

func TestSubscriptionLeavesANodeThatHasLeft(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		channel := keysOf(k)[2]
		s, err := c.Subscribe(t.Context(), channel)
		if err != nil {
			t.Fatal(err)
		}
		expect := func(want redis.EventKind) {
			t.Helper()
			if e, err := s.Next(kit.Within(t, time.Minute)); err != nil || e.Kind != want {
				t.Fatalf("%+v, %v; want %d", e, err, want)
			}
		}
		expect(redis.Subscribed)
		if n := k.Servers[2].Publish(channel, "m"); n != 1 {
			t.Fatal("not at the node of its channel")
		}
		expect(redis.Received)
		moves := map[int]int{}
		for slot := 2 * slots.Count / 3; slot < slots.Count; slot++ {
			moves[slot] = 0
		}
		k.Change(moves)
		expect(redis.Gap)
		expect(redis.Subscribed)
		if n := k.Servers[0].Publish(channel, "m"); n != 1 {
			t.Error("not at the node that has the slot now")
		}
		expect(redis.Received)
	})
}

// TestStatsDoNotFallWhileANodeLeaves: its connections are closed some time after it has left.
func TestStatsDoNotFallWhileANodeLeaves(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		for range 10 {
			for _, key := range keys {
				mustSet(t, c, key, "v")
			}
		}
		moves := map[int]int{}
		for slot := 2 * slots.Count / 3; slot < slots.Count; slot++ {
			moves[slot] = 0
		}
		k.Change(moves)
		mustSet(t, c, keys[2], "moved")
		for last, n := c.Stats(), 0; n < 6000; n++ {
			time.Sleep(10 * time.Millisecond) // in a bubble
			now := c.Stats()
			if now.Dials < last.Dials || now.Reused+now.Waited < last.Reused+last.Waited || now.Stale+now.Broken < last.Stale+last.Broken {
				t.Fatalf("after %d0 ms: %+v, and before: %+v", n, now, last)
			}
			last = now
		}
		if st := c.Stats(); st.Open != 2 {
			t.Errorf("%d connections are open, 2 nodes are left", st.Open)
		}
	})
}

func TestEachNodeIsExpectedToHaveItsOwnName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var names []string
		var wg sync.WaitGroup
		defer wg.Wait()
		c, err := redis.New(redis.Options{
			Cluster: true, Addr: "a.example:1", Addrs: []string{"b.example:2"}, TLS: &tls.Config{MinVersion: tls.VersionTLS12},
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				client, server := netsim.Pair(0)
				wg.Go(func() {
					tc := tls.Server(server, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
						mu.Lock()
						defer mu.Unlock()
						names = append(names, h.ServerName)
						return nil, errors.New("enough was heard")
					}})
					tc.Handshake()
					tc.Close()
				})
				return client, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(kit.Within(t, 50*time.Millisecond)); err == nil {
			t.Error("no error")
		}
		c.Close()
		wg.Wait()
		if got := fmt.Sprint(names); !strings.HasPrefix(got, "[a.example b.example") {
			t.Errorf("names %s", got)
		}
	})
}

func TestCloseOfAClusterEndsCallsThatWait(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		mustSet(t, c, keys[1], "v")
		k.Lose(0, 16383/3)
		var wg sync.WaitGroup
		for _, key := range keys {
			wg.Go(func() {
				for {
					err := c.Do(kit.Within(t, 10*time.Second), "GET", key).Err()
					if errors.Is(err, redis.ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("%v", err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(2 * time.Second)
		k.Servers[1].Handle("GET", func(*fakes.RedisSession, [][]byte) { time.Sleep(time.Minute) })
		start := time.Now()
		c.Close()
		wg.Wait()
		if took := time.Since(start); took > time.Second {
			t.Errorf("closing took %v", took)
		}
		if err := c.Ping(t.Context()); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		p := c.Pipeline()
		p.Add("GET", "k")
		if _, err := p.Do(t.Context()); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("pipeline after Close: %v", err)
		}
	})
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) { // before anything is known
		c.Close()
		if err := c.Ping(t.Context()); !errors.Is(err, redis.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestOptionsOfAClusterAreChecked(t *testing.T) {
	for field, o := range map[string]redis.Options{
		"DB":           {Cluster: true, DB: 1},
		"Addrs":        {Cluster: true, Addrs: []string{"h"}},
		"Cluster":      {Cluster: true, Network: "unix", Addr: "/s"},
		"ReplicaReads": {ReplicaReads: true},
	} {
		if _, err := redis.New(o); err == nil || !strings.Contains(err.Error(), "Options."+field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := redis.New(redis.Options{Addrs: []string{"h:1"}}); err == nil {
		t.Error("Addrs without Cluster")
	}
	c, err := redis.New(redis.Options{Cluster: true, Addrs: []string{"h:1"}})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestCallWaitsForAClusterThatServesNoSlotYet: its nodes may have just started.
func TestCallWaitsForAClusterThatServesNoSlotYet(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		k.Lose(0, slots.Count-1)
		err := c.Do(kit.Within(t, time.Second), "SET", "k", "v").Ok()
		if !errors.Is(err, redis.ErrNoNode) || !errors.Is(err, context.DeadlineExceeded) || !redis.SafeToRetry(err) {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() { k.Change(map[int]int{slots.Of("k"): 1}) })
		start := time.Now()
		if err := c.Do(kit.Within(t, 5*time.Second), "SET", "k", "v").Ok(); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestClientIsNotClosedForCallsOnANodeThatLeaves: they hold a connection of the node when it leaves the cluster.
func TestClientIsNotClosedForCallsOnANodeThatLeaves(t *testing.T) {
	half := func(leaves func()) io.Reader {
		n := 0
		return readerFunc(func(p []byte) (int, error) {
			if n++; n == 5 { // some pieces were sent by now
				leaves()
			}
			return len(p), nil
		})
	}
	for name, call := range map[string]func(ctx context.Context, c *redis.Client, key string, leaves func()) error{
		"Stream": func(ctx context.Context, c *redis.Client, key string, leaves func()) error {
			s, err := c.Stream(ctx, "GET", key)
			if err != nil {
				return err
			}
			defer s.Close()
			leaves()
			_, err = io.Copy(io.Discard, s)
			return err
		},
		"Watch": func(ctx context.Context, c *redis.Client, key string, leaves func()) error {
			_, err := c.Watch(ctx, []string{key}, func(tx *redis.Tx) error {
				leaves()
				return tx.Do("GET", key).Err()
			})
			return err
		},
		"the transaction of a Watch": func(ctx context.Context, c *redis.Client, key string, leaves func()) error {
			_, err := c.Watch(ctx, []string{key}, func(tx *redis.Tx) error {
				leaves()
				tx.Queue().Get(key)
				return nil
			})
			return err
		},
		"SetFrom": func(ctx context.Context, c *redis.Client, key string, leaves func()) error {
			return c.SetFrom(ctx, key, half(leaves), 1<<20, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster(t, 3, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
				keys := keysOf(k)
				if err := c.Set(t.Context(), keys[0], make([]byte, 1<<20), 0); err != nil {
					t.Fatal(err)
				}
				ctx := kit.Within(t, time.Minute)
				err := call(ctx, c, keys[0], func() {
					k.Promote(3)
					_, _ = get(ctx, c, keys[0]) // MOVED tells
					time.Sleep(5 * time.Second)
				})
				if err == nil || errors.Is(err, redis.ErrClosed) {
					t.Errorf("the call has ended with %v", err)
				}
			})
		})
	}
}

// TestTopologyHasABoundOfItsOwn: replies to calls may be small.
func TestTopologyHasABoundOfItsOwn(t *testing.T) {
	cluster(t, 0, func(_ *fakes.RedisCluster, o *redis.Options) { o.MaxReply, o.MaxValue = 200, 20 }, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		mustGetNothing(t, c, keysOf(k)[0])
	})
}
