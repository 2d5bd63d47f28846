package test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/slots"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// ten is a context of ten seconds.
func ten(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestRealClusterIsReachedInEveryWay(t *testing.T) {
	k := servers.StartCluster(t, 3, 1)
	c := k.Client(t)
	ctx := ten(t)
	big := strings.Repeat("0123456789", 30_000)
	var mset, mget []any
	p := c.Pipeline()
	for i := range 300 {
		key := fmt.Sprint("key:", i)
		if err := c.Do(ctx, "SET", key, i).Ok(); err != nil {
			t.Fatal(err)
		}
		if v, err := c.AppendGet(ctx, nil, key); string(v) != strconv.Itoa(i) || err != nil {
			t.Fatalf("GET %s = %q, %v", key, v, err)
		}
		mset = append(mset, "m"+key, i)
		mget = append(mget, "m"+key)
		p.Add("INCR", key)
	}
	if err := c.Do(ctx, append([]any{"MSET"}, mset...)...).Ok(); err != nil {
		t.Error(err)
	}
	for i, v := range c.Do(ctx, append([]any{"MGET"}, mget...)...).All() {
		if n, err := v.Int(); n != int64(i) || err != nil {
			t.Errorf("MGET: value %d is %d, %v", i, n, err)
		}
	}
	if n, err := c.Do(ctx, append([]any{"UNLINK"}, mget...)...).Int(); n != 300 || err != nil {
		t.Errorf("UNLINK = %d, %v", n, err)
	}
	replies, err := p.Do(ctx)
	if err != nil {
		t.Error(err)
	}
	for i, r := range replies {
		if n, err := r.Int(); n != int64(i)+1 || err != nil {
			t.Errorf("INCR %d = %d, %v", i, n, err)
		}
	}
	var b bytes.Buffer
	for i := range 10 {
		key := fmt.Sprint("big:", i)
		if err := c.SetFrom(ctx, key, strings.NewReader(big), int64(len(big)), time.Minute); err != nil {
			t.Error(err)
		}
		b.Reset()
		if _, err := c.GetTo(ctx, key, &b); err != nil || b.String() != big {
			t.Errorf("%d bytes, %v", b.Len(), err)
		}
	}
	script := redis.NewScript("return redis.call('INCR', KEYS[1])")
	for i := range 20 {
		if n, err := c.Eval(ctx, script, []string{fmt.Sprint("key:", i)}).Int(); n != int64(i)+2 || err != nil {
			t.Errorf("Eval = %d, %v", n, err)
		}
	}
	if err := c.Eval(ctx, script, []string{"a", "b"}).Err(); !errors.Is(err, redis.ErrCrossSlot) {
		t.Errorf("Eval of two slots: %v", err)
	}
}

func TestReplicasOfARealClusterAnswerReads(t *testing.T) {
	k := servers.StartCluster(t, 3, 1)
	c := k.Client(t, func(o *redis.Options) { o.ReplicaReads = true })
	for i := range 30 {
		key := fmt.Sprint("key:", i)
		if err := c.Do(ten(t), "SET", key, "v").Ok(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the replica has the value", func() bool {
			v, err := c.AppendGet(t.Context(), nil, key)
			return string(v) == "v" && err == nil
		})
	}
	reads := int64(0)
	for i := 3; i < 6; i++ {
		reads += commandCalls(t, k.Raw(i), "get")
	}
	if reads < 30 {
		t.Errorf("%d of 30 reads reached replicas", reads)
	}
}

// commandCalls is how often a server has carried out a command.
func commandCalls(t testing.TB, c *redis.Client, name string) int64 {
	t.Helper()
	info, err := c.Do(t.Context(), "INFO", "commandstats").String()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+name+":calls="); ok {
			n, _, _ := strings.Cut(rest, ",")
			calls, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return calls
		}
	}
	return 0
}

// load calls step on several goroutines until stop is called. stop returns the
// number of calls.
func load(workers int, step func(worker, n int)) (stop func() int64) {
	var wg sync.WaitGroup
	var count atomic.Int64
	done := make(chan struct{})
	for w := range workers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				step(w, n)
				count.Add(1)
			}
		})
	}
	return func() int64 {
		close(done)
		wg.Wait()
		return count.Load()
	}
}

// TestSlotMovesUnderLoadAndNoCallFails has callers that each own some keys of
// one slot, and of others: a read must return the last value that its caller wrote.
func TestSlotMovesUnderLoadAndNoCallFails(t *testing.T) {
	k := servers.StartCluster(t, 3, 0)
	c := k.Client(t)
	slot, home := slots.Of("{moving}"), k.Owner(0, "{moving}")
	stop := load(4, func(w, n int) {
		if t.Failed() {
			<-time.After(time.Millisecond)
			return
		}
		for _, name := range []string{"{moving}", "other"} {
			key, value := fmt.Sprint(name, w, n%50), fmt.Sprint(n)
			ctx := ten(t)
			var err error
			if n%2 == 0 {
				err = c.Do(ctx, "SET", key, value).Ok()
			} else {
				p := c.Pipeline()
				p.Add("DEL", key)
				p.Add("SET", key, value)
				p.Add("INCR", fmt.Sprint(name, "count", w))
				replies, failed := p.Do(ctx)
				for _, r := range replies {
					failed = cmp.Or(failed, r.Err())
				}
				err = failed
			}
			if err != nil {
				t.Errorf("write: %v", err)
			}
			if got, err := c.AppendGet(ctx, nil, key); string(got) != value || err != nil {
				t.Errorf("%s is %q, %v; want %q", key, got, err, value)
			}
		}
	})
	<-time.After(200 * time.Millisecond)
	for range 3 {
		for range 3 {
			to := (home + 1) % 3
			k.Migrate(slot, home, to, func() { <-time.After(20 * time.Millisecond) })
			home = to
			<-time.After(100 * time.Millisecond)
		}
	}
	n := stop()
	t.Logf("%d rounds while a slot moved nine times", n)
	if n < 100 {
		t.Errorf("only %d rounds", n)
	}
	for w := range 4 {
		if _, err := c.Do(ten(t), "GET", fmt.Sprint("{moving}count", w)).Int(); err != nil {
			t.Error(err)
		}
	}
}

// TestKilledPrimaryUnderLoad: reads, and writes that had not been sent, go on
// once a replica has taken over.
func TestKilledPrimaryUnderLoad(t *testing.T) {
	k := servers.StartCluster(t, 3, 1)
	c := k.Client(t)
	const keys = 60
	for i := range keys {
		if err := c.Do(ten(t), "SET", fmt.Sprint("key", i), "v").Ok(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := c.Do(ten(t), "WAIT", 1, 5000).Int(); err != nil || n < 0 {
		t.Fatal(err)
	}
	<-time.After(100 * time.Millisecond)
	var worst, failed atomic.Int64
	stop := load(8, func(w, n int) {
		start := time.Now()
		key := fmt.Sprint("key", n%keys)
		if w%2 == 0 {
			if v, err := c.AppendGet(ten(t), nil, key); string(v) != "v" || err != nil {
				t.Errorf("read %q, %v after %v", v, err, time.Since(start))
			}
		} else if err := c.Do(ten(t), "SET", key, "v").Ok(); err != nil {
			failed.Add(1)
			if redis.SafeToRetry(err) {
				t.Errorf("a write that was not sent: %v after %v", err, time.Since(start))
			}
		}
		took := int64(time.Since(start))
		for old := worst.Load(); took > old && !worst.CompareAndSwap(old, took); old = worst.Load() {
		}
	})
	<-time.After(300 * time.Millisecond)
	k.Nodes[1].Kill()
	<-time.After(6 * time.Second)
	n := stop()
	t.Logf("%d calls; the longest took %v; %d writes had been sent when the primary died", n, time.Duration(worst.Load()), failed.Load())
	if worst.Load() > int64(5*time.Second) {
		t.Errorf("calls waited for %v", time.Duration(worst.Load()))
	}
	if worst.Load() < int64(servers.NodeTimeout/2) {
		t.Errorf("nothing was waited for: nobody has missed the primary")
	}
	if failed.Load() > 8 {
		t.Errorf("%d writes failed; want one for each caller at most", failed.Load())
	}
}

// TestPausedPrimaryUnderLoad: no error tells that a stopped server is gone.
// Only callers that wait for its replies find out.
func TestPausedPrimaryUnderLoad(t *testing.T) {
	k := servers.StartCluster(t, 3, 1)
	c := k.Client(t)
	key := "key"
	for i := 0; k.Owner(0, key) != 1; i++ {
		key = fmt.Sprint("key", i)
	}
	if err := c.Do(ten(t), "SET", key, "v").Ok(); err != nil {
		t.Fatal(err)
	}
	<-time.After(200 * time.Millisecond)
	k.Nodes[1].Stop()
	var wg sync.WaitGroup
	start := time.Now()
	for range 8 {
		wg.Go(func() {
			if v, err := c.AppendGet(ten(t), nil, key); string(v) != "v" || err != nil {
				t.Errorf("read %q, %v after %v", v, err, time.Since(start))
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	t.Logf("answered by the successor after %v", took)
	if took > 5*time.Second {
		t.Errorf("answered after %v", took)
	}
	k.Nodes[1].Continue()
	// The stopped server becomes a replica by and by, and says so.
	eventually(t, "the former primary follows its successor", func() bool {
		return k.Owner(1, key) != 1
	})
	if v, err := c.AppendGet(ten(t), nil, key); string(v) != "v" || err != nil {
		t.Errorf("read %q, %v", v, err)
	}
}
