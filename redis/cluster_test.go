package redis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// cluster runs f in a bubble with a model cluster of three primaries, as many
// replicas as are wanted, and a client for it.
func cluster(t *testing.T, replicas int, change func(*fakes.RedisCluster, *redis.Options), f func(t *testing.T, k *fakes.RedisCluster, c *redis.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := fakes.NewRedisCluster(3, replicas)
		defer k.Close()
		o := redis.Options{Cluster: true, Addr: k.Addr(0), DialContext: k.Dial}
		if change != nil {
			change(k, &o)
		}
		c, err := redis.New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(t, k, c)
	})
}

// keysOf returns a key for each of the three primaries.
func keysOf(k *fakes.RedisCluster) (keys [3]string) {
	for i := 0; keys[0] == "" || keys[1] == "" || keys[2] == ""; i++ {
		key := fmt.Sprint("key", i)
		keys[k.Owner(key)] = key
	}
	return keys
}

func mustGet(t *testing.T, c *redis.Client, key, want string) {
	t.Helper()
	if got, err := get(t.Context(), c, key); err != nil || got != want {
		t.Errorf("GET %s = %q, %v; want %q", key, got, err, want)
	}
}

// calls is how often any node was called by this name.
func calls(k *fakes.RedisCluster, name string) (n int) {
	for _, s := range k.Servers {
		n += s.Calls(name)
	}
	return n
}

func TestClusterCallsReachTheNodeOfTheirKey(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		big := strings.Repeat("b", 100<<10)
		for i, key := range keysOf(k) {
			mustSet(t, c, key, "v")
			mustGet(t, c, key, "v")
			if err := c.SetFrom(t.Context(), key+"x{"+key+"}", strings.NewReader(big), int64(len(big)), 0); err != nil {
				t.Error(err)
			}
			var b bytes.Buffer
			if n, err := c.GetTo(t.Context(), key+"x{"+key+"}", &b); err != nil || n != int64(len(big)) || b.String() != big {
				t.Errorf("GetTo: %d bytes, %v", n, err)
			}
			if n, err := c.Do(t.Context(), "INCR", key+"n{"+key+"}").Int(); n != 1 || err != nil {
				t.Errorf("INCR = %d, %v", n, err)
			}
			if n := k.Servers[i].Calls("SET"); n != 2 {
				t.Errorf("node %d was sent %d of its own 2 SETs", i, n)
			}
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if n := k.Asked(); n != 1 {
			t.Errorf("the topology was asked for %d times", n)
		}
		if s := c.Stats(); s.Open < 3 || s.Dials < 3 {
			t.Errorf("%+v", s)
		}
	})
}

func TestMovedSlotIsFollowedAtOnceAndTheTopologyAskedForOnce(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		key := keysOf(k)[0]
		mustSet(t, c, key, "v")
		k.Change(map[int]int{slots.Of(key): 2})
		time.Sleep(time.Second)
		asked, start := k.Asked(), time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { mustGet(t, c, key, "v") })
		}
		wg.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("following took %v: nothing has to be waited for", took)
		}
		synctest.Wait()
		if n := k.Asked() - asked; n != 1 {
			t.Errorf("the topology was asked for %d times", n)
		}
		before := calls(k, "GET")
		mustGet(t, c, key, "v")
		if n := calls(k, "GET") - before; n != 1 {
			t.Errorf("%d GETs: the new topology is not used", n)
		}
	})
}

func TestKeyThatIsAskedForElsewhereChangesNoTopology(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		key := keysOf(k)[0]
		other := "other{" + key + "}"
		big := strings.Repeat("b", 100<<10)
		mustSet(t, c, key, "v")
		mustSet(t, c, other, "w")
		asked := k.Asked()
		k.Migrate(key, 1)
		k.Carry(key)
		mustGet(t, c, key, "v")   // by ASK
		mustGet(t, c, other, "w") // where it was
		for _, new := range []string{"n1{" + key + "}", "n2{" + key + "}"} {
			if err := c.SetFrom(t.Context(), new, strings.NewReader(big), int64(len(big)), 0); err != nil {
				t.Error(err)
			}
			var b bytes.Buffer
			if _, err := c.GetTo(t.Context(), new, &b); err != nil || b.String() != big {
				t.Errorf("GetTo: %v", err)
			}
		}
		p := c.Pipeline()
		p.Add("GET", key)
		p.Add("GET", other)
		p.Add("INCR", "count{"+key+"}")
		replies, err := p.Do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"v", "w", "1"} {
			if got, err := replies[i].String(); got != want || err != nil {
				t.Errorf("reply %d: %q, %v", i, got, err)
			}
		}
		if n := k.Asked() - asked; n != 0 {
			t.Errorf("the topology was asked for %d times", n)
		}
		if k.Servers[1].Calls("ASKING") == 0 {
			t.Error("no ASKING was sent")
		}
	})
}

func TestCallIsSentOnFiveTimesAtMost(t *testing.T) {
	cluster(t, 0, func(k *fakes.RedisCluster, _ *redis.Options) {
		for i, s := range k.Servers { // each points to the next
			s.Handle("ECHO", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("MOVED 0 " + k.Addr((i+1)%3)) })
			s.Handle("TIME", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("MOVED 99999 " + k.Addr(1)) })
			s.Handle("ROLE", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("ASK 0 not an address") })
		}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		var refused *redis.Error
		if err := c.Do(t.Context(), "ECHO", "x").Err(); !errors.As(err, &refused) || refused.Code != "MOVED" {
			t.Errorf("error %v", err)
		}
		if n := calls(k, "ECHO"); n != 6 {
			t.Errorf("sent %d times", n)
		}
		p := c.Pipeline()
		p.Add("ECHO", "x")
		p.Add("PING")
		replies, err := p.Do(t.Context())
		if err != nil || !errors.As(replies[0].Err(), &refused) || refused.Code != "MOVED" || replies[1].Err() != nil {
			t.Errorf("pipeline: %v, %v", replies, err)
		}
		if n := calls(k, "ECHO"); n != 12 {
			t.Errorf("sent %d times", n)
		}
		for _, name := range []string{"TIME", "ROLE"} { // where to is not said
			if err := c.Do(t.Context(), name).Err(); !errors.As(err, &refused) {
				t.Errorf("%s: error %v", name, err)
			}
			if n := calls(k, name); n != 1 {
				t.Errorf("%s was sent %d times", name, n)
			}
		}
	})
}

func TestStatesThatPassAreWaitedFor(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		key := keysOf(k)[0]
		mustSet(t, c, key, "v")
		k.Down(0, true)
		time.AfterFunc(300*time.Millisecond, func() { k.Down(0, false) })
		start := time.Now()
		mustGet(t, c, key, "v")
		if took := time.Since(start); took < 300*time.Millisecond || took > 600*time.Millisecond {
			t.Errorf("answered after %v", took)
		}

		k.Migrate(key, 1) // one of the keys is there, the other is not
		time.AfterFunc(300*time.Millisecond, func() { k.Change(map[int]int{slots.Of(key): 1}) })
		if n, err := c.Do(t.Context(), "DEL", key, "other{"+key+"}").Int(); n != 1 || err != nil {
			t.Errorf("DEL = %d, %v", n, err)
		}

		k.Down(1, true)
		start = time.Now()
		err := c.Do(kit.Within(t, 2*time.Second), "GET", key).Err()
		var refused *redis.Error
		if !errors.As(err, &refused) || refused.Code != "CLUSTERDOWN" || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		start = time.Now()
		err = c.Do(t.Context(), "GET", key).Err() // Options.Timeout holds
		if !errors.As(err, &refused) || !redis.SafeToRetry(err) || time.Since(start) > 1200*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

func TestKilledPrimaryIsSurvived(t *testing.T) {
	cluster(t, 3, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		key := keys[0]
		mustSet(t, c, key, "v")
		mustSet(t, c, keys[1], "w")
		k.Servers[3].Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("v") })
		k.Servers[0].Stop()
		time.AfterFunc(3*time.Second, func() { k.Promote(3) })
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Millisecond)
				if got, err := get(kit.Within(t, 10*time.Second), c, key); got != "v" || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
			})
			wg.Go(func() { // no node can be reached: nothing is sent
				time.Sleep(10*time.Millisecond + time.Duration(i)*300*time.Millisecond)
				if err := c.Do(kit.Within(t, 10*time.Second), "SET", key+"x{"+key+"}", i).Ok(); err != nil {
					t.Errorf("write: %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("back after %v", took)
		}
		mustGet(t, c, keys[1], "w")
		if n := k.Asked(); n > 12 {
			t.Errorf("the topology was asked for %d times", n)
		}
	})
}

func TestCallsAtAPrimaryThatWentSilentAreFreedByItsSuccessor(t *testing.T) {
	t.Run("a read was sent", func(t *testing.T) { silentPrimary(t, "GET") })
	t.Run("a write was sent", func(t *testing.T) { silentPrimary(t, "INCR") })
	t.Run("nothing was sent", func(t *testing.T) { silentPrimary(t, "") })
}

// silentPrimary sends a command over the one open connection. With an empty
// command it sends pipelines, which need connections of their own.
func silentPrimary(t *testing.T, command string) {
	var mu sync.Mutex
	var conns []*netsim.Conn
	cluster(t, 3, func(k *fakes.RedisCluster, _ *redis.Options) {
		k.Servers[0].OnDial = func(_ int, client *netsim.Conn) {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, client)
		}
	}, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		key := keysOf(k)[0]
		mustSet(t, c, key, "v")
		k.Servers[3].Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("v") })
		mu.Lock()
		for _, nc := range conns {
			nc.StallAfter(0)
		}
		mu.Unlock()
		k.Servers[0].OnDial = func(_ int, client *netsim.Conn) { client.StallAfter(0) }
		time.AfterFunc(2500*time.Millisecond, func() { k.Promote(3) })
		start := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				var err error
				if command != "" {
					err = c.Do(kit.Within(t, 10*time.Second), command, key).Err()
				} else {
					p := c.Pipeline()
					p.Add("INCR", "n{"+key+"}")
					_, err = p.Do(kit.Within(t, 10*time.Second))
				}
				if command != "INCR" && err != nil {
					t.Errorf("it could be tried again: %v", err)
				}
				if command == "INCR" && (err == nil || redis.SafeToRetry(err) || errors.Is(err, redis.ErrClosed)) {
					t.Errorf("a write that was sent: %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("freed after %v", took)
		}
	})
}

func TestNoConnectionOutlivesTheRoleOfItsServer(t *testing.T) {
	cluster(t, 3, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		mustSet(t, c, keys[0], "v")
		mustSet(t, c, keys[1], "w")
		k.Servers[3].Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("v") })
		k.Promote(3)
		mustGet(t, c, keys[0], "v") // MOVED tells
		time.Sleep(2 * time.Second)
		if n := k.Servers[0].Open(); n != 0 {
			t.Errorf("%d connections to a former primary", n)
		}
		if n := k.Servers[1].Open(); n == 0 {
			t.Error("connections to others were closed too")
		}
		dials := k.Servers[0].Dials()
		k.Promote(0) // and back: connections from in between are of no use
		k.Servers[0].Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Bulk("u") })
		mustGet(t, c, keys[0], "u")
		if k.Servers[0].Dials() == dials {
			t.Error("no connection of its own for the new role")
		}
	})
}

func TestManyKeysAreSplitBySlotAndJoined(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		var set, get, want []any
		for i := range 50 {
			get = append(get, fmt.Sprint("k", i))
			want = append(want, fmt.Sprint("v", i))
			set = append(set, get[i], want[i])
		}
		for _, s := range k.Servers {
			s.Handle("MSET", func(ss *fakes.RedisSession, args [][]byte) {
				n := len(ss.Out)
				for i := 1; i < len(args); i += 2 {
					ss.Answer("SET", args[i], args[i+1])
				}
				ss.Out = append(ss.Out[:n], "+OK\r\n"...)
			})
		}
		if err := c.Do(t.Context(), append([]any{"MSET"}, set...)...).Ok(); err != nil {
			t.Fatal(err)
		}
		get = append(get, "missing", "k3")
		r := c.Do(t.Context(), append([]any{"mget"}, get...)...)
		if r.Err() != nil || r.Len() != len(get) {
			t.Fatalf("%d values, %v", r.Len(), r.Err())
		}
		for i, v := range r.All() {
			got, err := v.String()
			switch {
			case get[i] == "missing":
				if !v.IsNull() {
					t.Errorf("missing: %q, %v", got, err)
				}
			case err != nil || got != "v"+strings.TrimPrefix(get[i].(string), "k"):
				t.Errorf("%s = %q, %v", get[i], got, err)
			}
		}
		if n, err := c.Do(t.Context(), append([]any{"DEL"}, get...)...).Int(); n != 50 || err != nil {
			t.Errorf("DEL = %d, %v", n, err)
		}
		before := calls(k, "MGET")
		if r := c.Do(t.Context(), "MGET", "{a}1", "{a}2", "{a}3"); r.Err() != nil || r.Len() != 3 || calls(k, "MGET") != before+1 {
			t.Errorf("one slot: %d values, %v, %d commands", r.Len(), r.Err(), calls(k, "MGET")-before)
		}
		if err := c.Do(t.Context(), "MSET", "a", 1, "b").Err(); err == nil {
			t.Error("MSET of half a pair")
		}
		k.Servers[1].Handle("MGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("OOM no") })
		var refused *redis.Error
		if err := c.Do(t.Context(), append([]any{"MGET"}, get...)...).Err(); !errors.As(err, &refused) || refused.Code != "OOM" {
			t.Errorf("error %v", err)
		}
		k.Servers[1].Handle("MGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Int(1) })
		if err := c.Do(t.Context(), append([]any{"MGET"}, get...)...).Err(); err == nil {
			t.Error("a part that is no array was joined")
		}
	})
}

func TestPipelineIsSplitByNodeAndItsRepliesKeepTheirOrder(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		script := redis.NewScript("return ARGV[1]")
		for _, s := range k.Servers {
			s.Script("return ARGV[1]", func(ss *fakes.RedisSession, args [][]byte) { ss.Bulk(string(args[len(args)-1])) })
		}
		p := c.Pipeline()
		for round := range 3 {
			var want []string
			for i := range 200 {
				key := fmt.Sprint("k", i)
				p.Add("SET", key, fmt.Sprint(round, strings.Repeat("x", i)))
				p.Add("GET", key)
				want = append(want, "OK", fmt.Sprint(round, strings.Repeat("x", i)))
			}
			p.Add("PING")
			for i := range 20 {
				p.Eval(script, []string{fmt.Sprint("k", i)}, i)
			}
			want = append(want, "PONG")
			replies, err := p.Do(t.Context())
			if err != nil || len(replies) != len(want)+20 {
				t.Fatalf("%d replies, %v", len(replies), err)
			}
			for i, r := range replies {
				got, err := r.String()
				if i < len(want) && got != want[i] || i >= len(want) && got != fmt.Sprint(i-len(want)) || err != nil {
					t.Errorf("round %d, reply %d: %.10q, %v", round, i, got, err)
				}
			}
			moves := map[int]int{}
			for i := range 50 {
				moves[slots.Of(fmt.Sprint("k", i))] = (round + i) % 3
			}
			k.Change(moves)
			time.Sleep(time.Second)
		}
	})
}

func TestPipelineGetsRepliesOfTheReachableNodes(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		for _, key := range keys {
			mustSet(t, c, key, "v")
		}
		k.Servers[1].Handle("INCR", func(ss *fakes.RedisSession, _ [][]byte) { ss.Hangup() })
		p := c.Pipeline()
		for _, key := range keys {
			p.Add("GET", key)
			p.Add("INCR", "n{"+key+"}")
		}
		replies, err := p.Do(t.Context())
		var broken *redis.ConnError
		if !errors.As(err, &broken) || !broken.Sent {
			t.Errorf("error %v", err)
		}
		for i, r := range replies {
			if got, rerr := r.String(); i != 3 && rerr != nil || i == 3 && rerr != err {
				t.Errorf("reply %d: %q, %v", i, got, rerr)
			}
		}
	})
}

func TestKeysInSeveralSlotsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		script := redis.NewScript("return 1")
		if err := c.Eval(t.Context(), script, keys[:]).Err(); !errors.Is(err, redis.ErrCrossSlot) {
			t.Errorf("Eval: %v", err)
		}
		p := c.Pipeline()
		p.Add("SET", "a", 1)
		p.Eval(script, keys[:])
		if _, err := p.Do(t.Context()); !errors.Is(err, redis.ErrCrossSlot) {
			t.Errorf("Pipeline: %v", err)
		}
		if n := calls(k, "EVALSHA") + calls(k, "EVAL") + calls(k, "SET"); n != 0 {
			t.Errorf("%d commands were sent", n)
		}
		for _, s := range k.Servers {
			s.Script("return 1", func(ss *fakes.RedisSession, _ [][]byte) { ss.Int(1) })
		}
		for _, keys := range [][]string{nil, {"{a}1", "{a}2"}} {
			if n, err := c.Eval(t.Context(), script, keys).Int(); n != 1 || err != nil {
				t.Errorf("Eval of %q: %d, %v", keys, n, err)
			}
		}
	})
}

func TestSlotWithoutANodeIsAnErrorInTime(t *testing.T) {
	cluster(t, 0, nil, func(t *testing.T, k *fakes.RedisCluster, c *redis.Client) {
		keys := keysOf(k)
		k.Lose(0, 16383/3)
		mustSet(t, c, keys[1], "v")
		start := time.Now()
		err := c.Do(kit.Within(t, 3*time.Second), "GET", keys[0]).Err()
		if !errors.Is(err, redis.ErrNoNode) || !redis.SafeToRetry(err) || time.Since(start) > 3*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		start = time.Now()
		p := c.Pipeline()
		p.Add("GET", keys[0])
		p.Add("GET", keys[1])
		replies, err := p.Do(t.Context())
		if !errors.Is(err, redis.ErrNoNode) || time.Since(start) > 1200*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if got, err := replies[1].String(); got != "v" || err != nil {
			t.Errorf("the other reply: %q, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		start = time.Now()
		if err := c.Do(ctx, "GET", keys[0]).Err(); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second/2 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}
