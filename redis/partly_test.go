package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/redis"
)

// Calls about several nodes of a cluster, some of which are dead or hang.

func TestEachGetsTheRepliesOfLivingNodesAndThenReturnsTheErrorOfADeadOne(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		for _, key := range keys {
			mustSet(t, c, key, "v")
		}
		k.Servers[1].Stop()
		p := c.Pipeline()
		queue := func() {
			for _, key := range keys {
				p.Get(key)
			}
		}
		queue()
		got := ""
		var dead error
		err := p.Each(kit.Within(t, time.Second), func(i int, r redis.Reply) error {
			v, err := r.String()
			if got += v + ";"; i == 1 {
				dead = err
			} else if err != nil {
				t.Errorf("reply %d of a living node: %v", i, err)
			}
			return nil
		})
		if got != "v;;v;" || dead == nil || !errors.Is(err, dead) {
			t.Errorf("replies %s with the error %v, and then %v", got, dead, err)
		}
		queue()
		own, calls := errors.New("own"), 0
		if err := p.Each(kit.Within(t, time.Second), func(int, redis.Reply) error { calls++; return own }); err != own || calls != 1 {
			t.Errorf("%v after %d calls; want the error of the function", err, calls)
		}
	})
}

// hanging makes node 1 hang, once its connections are open, and has the client not know yet
// that the slot of the key of node 0 is served by node 2.
func hanging(t *testing.T, k *fakes.RedisCluster, c *redis.Client, keys [3]string) {
	t.Helper()
	for _, key := range keys {
		mustSet(t, c, key, "v")
	}
	hung := func(*fakes.RedisSession, [][]byte) { time.Sleep(time.Minute) }
	k.Servers[1].Handle("GET", hung)
	k.Servers[1].Handle("INCR", hung)
	k.Change(map[int]int{slots.Of(keys[0]): 2})
}

func TestRedirectedCommandDoesNotWaitForANodeThatHangs(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		hanging(t, k, c, keys)
		p := c.Pipeline()
		for _, key := range keys {
			p.Get(key)
			p.Add("INCR", "n{"+key+"}")
			p.Get("n{" + key + "}")
		}
		replies, err := p.Do(kit.Within(t, 600*time.Millisecond))
		if err == nil || len(replies) != 9 {
			t.Fatalf("%d replies, %v; want the error of the node that hangs", len(replies), err)
		}
		for i, r := range replies {
			want := []string{"v", "1", "1"}[i%3]
			if got, err := r.String(); i/3 != 1 && (got != want || err != nil) || i/3 == 1 && err == nil {
				t.Errorf("reply %d: %q, %v", i, got, err)
			}
		}
	})
}

func TestErrorOfACommandOnItsWayHasAReason(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		hanging(t, k, c, keys)
		// Of the other commands to node 0 one has to wait, and one goes on to the node that hangs.
		var others []string
		for i := 0; len(others) < 2; i++ {
			if key := fmt.Sprint("other", i); k.Owner(key) == 0 {
				others = append(others, key)
			}
		}
		k.Migrate(others[0], 1)
		k.Servers[0].Handle("STRLEN", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("TRYAGAIN for the test") })
		k.Servers[1].Handle("STRLEN", func(*fakes.RedisSession, [][]byte) { time.Sleep(time.Minute) })
		p := c.Pipeline()
		p.Add("STRLEN", others[0])
		p.Add("STRLEN", others[1])
		p.Get(keys[0])
		p.Get(keys[1])
		replies, err := p.Do(kit.Within(t, 600*time.Millisecond))
		if err == nil || len(replies) != 4 {
			t.Fatalf("%d replies, %v", len(replies), err)
		}
		for i, r := range replies {
			if err := r.Err(); (err == nil) != (i == 2) || err != nil && strings.Contains(err.Error(), "nil") {
				t.Errorf("reply %d: %v", i, err)
			}
		}
	})
}

// TestCommandsAboutOneKeyStayInOrderBesideAPause has the first of two commands wait, while the second one is redirected.
func TestCommandsAboutOneKeyStayInOrderBesideAPause(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		mustSet(t, c, keys[0], "v")
		var order []string
		again := true
		k.Servers[0].Handle("APPEND", func(ss *fakes.RedisSession, _ [][]byte) {
			if again {
				again = false
				ss.Error("TRYAGAIN for the test")
				return
			}
			order = append(order, "first")
			ss.Bulk("1")
		})
		k.Servers[0].Handle("GETEX", func(ss *fakes.RedisSession, _ [][]byte) {
			if again || len(order) == 0 {
				ss.Error(fmt.Sprint("ASK ", slots.Of(keys[0]), " ", k.Addr(2)))
				return
			}
			order = append(order, "second")
			ss.Bulk("2")
		})
		k.Servers[2].Handle("GETEX", func(ss *fakes.RedisSession, _ [][]byte) {
			order = append(order, "second")
			ss.Bulk("2")
		})
		p := c.Pipeline()
		p.Add("APPEND", keys[0], "x")
		p.Add("GETEX", keys[0])
		if replies, err := p.Do(kit.Within(t, time.Second)); err != nil || replies[0].Err() != nil || replies[1].Err() != nil {
			t.Errorf("%v, %v", replies, err)
		}
		if fmt.Sprint(order) != "[first second]" {
			t.Errorf("carried out: %v", order)
		}
	})
}

// TestCommandsAboutOneKeyStayInOrderWhenTheirSlotHasMovedInBetween: the server names the next one to the first command for
// this key only, and to the second one for the whole slot.
func TestCommandsAboutOneKeyStayInOrderWhenTheirSlotHasMovedInBetween(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		mustSet(t, c, keys[0], "v")
		var mu sync.Mutex
		var order []string
		k.Servers[0].Handle("DEL", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Error(fmt.Sprint("ASK ", slots.Of(keys[0]), " ", k.Addr(2)))
			k.Change(map[int]int{slots.Of(keys[0]): 2})
		})
		for _, name := range []string{"DEL", "APPEND"} {
			k.Servers[2].Handle(name, func(ss *fakes.RedisSession, _ [][]byte) {
				if name == "DEL" {
					time.Sleep(10 * time.Millisecond) // in the bubble
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				ss.Bulk("1")
			})
		}
		p := c.Pipeline()
		p.Add("DEL", keys[0])
		p.Add("APPEND", keys[0], "x")
		if replies, err := p.Do(kit.Within(t, time.Second)); err != nil || replies[0].Err() != nil || replies[1].Err() != nil {
			t.Errorf("%v, %v", replies, err)
		}
		if fmt.Sprint(order) != "[DEL APPEND]" {
			t.Errorf("carried out: %v", order)
		}
	})
}

func TestCommandsAboutOneKeyStayInOrderBesideReplicas(t *testing.T) {
	cluster(t, 3, func(k *fakes.RedisCluster, o *redis.Options) {
		o.ReplicaReads = true
		for _, s := range k.Servers[3:] {
			s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("of a replica") })
		}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		mustSet(t, c, keys[0], "before")
		p := c.Pipeline()
		p.Get(keys[0])
		p.Set(keys[0], []byte("after"), 0)
		p.Get(keys[0])
		p.Get(keys[1])
		want := []string{"before", "OK", "after", "of a replica"}
		if err := p.Each(t.Context(), func(i int, r redis.Reply) error {
			if got, err := r.String(); got != want[i] || err != nil {
				t.Errorf("reply %d: %q, %v; want %q", i, got, err, want[i])
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

// TestRedirectionsBeforeAPauseDoNotCount has a slot served by an address where no server listens
// yet: each attempt is redirected there, fails, and begins again after a pause.
func TestRedirectionsBeforeAPauseDoNotCount(t *testing.T) {
	for name, get := range map[string]func(ctx context.Context, c *redis.Client, key string) error{
		"Do": func(ctx context.Context, c *redis.Client, key string) error { return c.Do(ctx, "GET", key).Err() },
		"Pipeline": func(ctx context.Context, c *redis.Client, key string) error {
			p := c.Pipeline()
			p.Get(key)
			return p.Each(ctx, func(_ int, r redis.Reply) error { return r.Err() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var k *fakes.RedisCluster
			cluster(t, 0, func(all *fakes.RedisCluster, _ *redis.Options) { k = all }, func(t *testing.T, _ *fakes.RedisCluster, c *redis.Client) {
				key := keysOf(k)[0]
				mustSet(t, c, key, "v")
				var well atomic.Bool
				var sent atomic.Int64
				k.Servers[0].Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) {
					if sent.Add(1); !well.Load() {
						ss.Error(fmt.Sprint("MOVED ", slots.Of(key), " 10.9.9.9:1"))
						return
					}
					ss.Bulk("v")
				})
				time.AfterFunc(2*time.Second, func() { well.Store(true) })
				start := time.Now()
				if err := get(kit.Within(t, 5*time.Second), c, key); err != nil {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				if took := time.Since(start); took < 2*time.Second || took > 2500*time.Millisecond || sent.Load() < 8 {
					t.Errorf("answered after %v and %d attempts", took, sent.Load())
				}
				well.Store(false)
				start = time.Now()
				err := get(kit.Within(t, time.Second), c, key)
				if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
					t.Errorf("after %v: %v; want a failure when the time is over", took, err)
				}
			})
		})
	}
}

func TestScriptRunsAtALivingNodeWhileAnotherIsDead(t *testing.T) {
	const text = "return 7"
	cluster(t, 0, func(k *fakes.RedisCluster, _ *redis.Options) {
		for _, s := range k.Servers {
			s.Script(text, func(ss *fakes.RedisSession, _ [][]byte) { ss.Int(7) })
		}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		for _, key := range keys {
			mustSet(t, c, key, "v")
		}
		k.Servers[2].Stop()
		script := redis.NewScript(text)
		for range 2 { // the node does not know the script, and then it does
			p := c.Pipeline()
			p.Get(keys[2])
			p.Eval(script, keys[:1])
			p.Get(keys[0])
			replies, err := p.Do(kit.Within(t, time.Second))
			if err == nil || err != replies[0].Err() && redis.SafeToRetry(err) {
				t.Errorf("%v; want the error of the dead node, and not that nothing was sent", err)
			}
			if n, err := replies[1].Int(); n != 7 || err != nil {
				t.Errorf("script at a living node: %d, %v", n, err)
			}
			if got, err := replies[2].String(); got != "v" || err != nil {
				t.Errorf("GET at a living node: %q, %v", got, err)
			}
		}
	})
}
