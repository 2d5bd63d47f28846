//go:build unix

package test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

var soakFor = flag.Duration("soak", 0, "for how long the client is kept busy; TestSoak is skipped if it is zero")

// soak keeps a client busy in all ways while its connections are cut now and
// then. It counts as wrong any value of another key.
type soak struct {
	c     *redis.Client
	line  servers.Line
	stop  atomic.Bool
	calls atomic.Int64
	lost  atomic.Int64 // calls that the cuts and deadlines have cost
	wrong atomic.Int64
	t     *testing.T
}

const soakKeys = 400

// soakKey returns a key and its value: the name of the key, again and again. A
// few values are large.
func soakKey(i int) (key, value string) {
	key = fmt.Sprintf("soak:%d", i)
	size := i * i % 3000
	switch i % 40 {
	case 0:
		size = 100_000 + i
	case 1:
		size = 1 << 20
	case 2:
		size = 20_000
	}
	return key, strings.Repeat(key+",", size/len(key)+1)
}

// is counts a value of another key as wrong.
func (s *soak) is(i int, got []byte) error {
	if _, want := soakKey(i); string(got) != want {
		s.wrong.Add(1)
		s.t.Errorf("key %d holds %.60q", i, got)
	}
	return nil
}

// ways are the ways of calling. Each gets a random key.
func (s *soak) ways() []func(ctx context.Context, i int) error {
	c := s.c
	script := redis.NewScript("return redis.call('GET', KEYS[1])")
	check := func(i int) func([]byte, error) error {
		return func(b []byte, err error) error {
			if err != nil {
				return err
			}
			return s.is(i, b)
		}
	}
	return []func(ctx context.Context, i int) error{
		func(ctx context.Context, i int) error {
			key, _ := soakKey(i)
			return check(i)(c.AppendGet(ctx, nil, key))
		},
		func(ctx context.Context, i int) error {
			key, _ := soakKey(i)
			return check(i)(c.Do(ctx, "GET", key).Bytes())
		},
		func(ctx context.Context, i int) error {
			key, _ := soakKey(i)
			var b bytes.Buffer
			_, err := c.GetTo(ctx, key, &b)
			return check(i)(b.Bytes(), err)
		},
		func(ctx context.Context, i int) error {
			key, _ := soakKey(i)
			st, err := c.Stream(ctx, "GET", key)
			if err != nil {
				return err
			}
			defer st.Close()
			if i%3 == 0 { // the caller leaves in the middle
				_, err = st.Read(make([]byte, 10))
				return err
			}
			return check(i)(io.ReadAll(st))
		},
		func(ctx context.Context, i int) error {
			key, value := soakKey(i)
			return c.Set(ctx, key, []byte(value), 0)
		},
		func(ctx context.Context, i int) error {
			key, value := soakKey(i)
			return c.SetFrom(ctx, key, io.MultiReader(strings.NewReader(value)), int64(len(value))-int64(i%2)*int64(len(value)+1), 0)
		},
		func(ctx context.Context, i int) error {
			key, value := soakKey(i)
			p := c.Pipeline()
			for range 1 + i%20 {
				p.Get(key)
				p.Set(key, []byte(value), 0)
				p.Add("ECHO", i)
			}
			return p.Each(ctx, func(n int, r redis.Reply) error {
				b, err := r.Bytes()
				if n%3 == 0 {
					return check(i)(b, err)
				}
				return err
			})
		},
		func(ctx context.Context, i int) error {
			var keys []string
			for n := range 30 {
				key, _ := soakKey((i + n) % soakKeys)
				keys = append(keys, key)
			}
			return c.MGet(ctx, keys, func(n int, v []byte, _ bool) error { return s.is((i+n)%soakKeys, v) })
		},
		func(ctx context.Context, i int) error {
			key, value := soakKey(i)
			tx := c.Multi()
			tx.Set(key, []byte(value), 0)
			tx.Get(key)
			replies, err := tx.Do(ctx)
			if err != nil {
				return err
			}
			return check(i)(replies[1].Bytes())
		},
		func(ctx context.Context, i int) error {
			key, value := soakKey(i)
			_, err := c.Watch(ctx, []string{key}, func(tx *redis.Tx) error {
				err := check(i)(tx.Do("GET", key).Bytes())
				tx.Queue().Set(key, []byte(value), 0)
				return err
			})
			if errors.Is(err, redis.ErrChanged) {
				return nil
			}
			return err
		},
		func(ctx context.Context, i int) error {
			key, _ := soakKey(i)
			return check(i)(c.Eval(ctx, script, []string{key}).Bytes())
		},
	}
}

// work calls until it is told to stop. Many calls have little time.
func (s *soak) work(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	ways := s.ways()
	for !s.stop.Load() {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		switch rng.IntN(20) {
		case 0:
			time.AfterFunc(time.Duration(rng.IntN(2000))*time.Microsecond, cancel)
		case 1:
			cancel()
			ctx, cancel = context.WithTimeout(s.t.Context(), time.Duration(rng.IntN(2000))*time.Microsecond)
		}
		way, key := rng.IntN(len(ways)), rng.IntN(soakKeys)
		err := ways[way](ctx, key)
		cancel()
		s.calls.Add(1)
		var broken *redis.ConnError
		switch {
		case errors.As(err, &broken) && !errors.Is(err, redis.ErrProtocol):
			s.lost.Add(1)
			<-time.After(time.Millisecond) // or an outage would only count calls
		case err != nil:
			s.wrong.Add(1)
			s.t.Errorf("way %d, key %d: %v", way, key, err)
		}
	}
}

// listen publishes numbers and checks that none is missing without a gap.
func (s *soak) listen() {
	sub, err := s.c.Subscribe(s.t.Context(), "soak")
	if err != nil {
		s.t.Error(err)
		return
	}
	defer sub.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for n := 0; !s.stop.Load(); n++ {
			s.c.Do(s.t.Context(), "PUBLISH", "soak", n)
			<-time.After(10 * time.Millisecond)
		}
	})
	last := -1
	for !s.stop.Load() {
		ctx, cancel := context.WithTimeout(s.t.Context(), 100*time.Millisecond)
		e, err := sub.Next(ctx)
		cancel()
		switch {
		case err != nil:
		case e.Kind == redis.Received:
			var n int
			fmt.Sscan(string(e.Payload), &n)
			// Messages of failed calls may not have been published, so gaps are no losses.
			if last >= 0 && n <= last {
				s.wrong.Add(1)
				s.t.Errorf("%d came behind %d", n, last)
			}
			last = n
		default:
			last = -1
		}
	}
}

// cut cuts all connections every few seconds.
func (s *soak) cut() {
	for n := 0; !s.stop.Load(); n++ {
		<-time.After(time.Duration(500+rand.IntN(2000)) * time.Millisecond)
		s.line.Cut()
		if n%3 == 0 { // an outage
			<-time.After(300 * time.Millisecond)
		}
		s.line.Join()
	}
}

// state is the resources of the process that must not grow.
type state struct {
	heap       uint64
	goroutines int
}

func look() state {
	runtime.GC()
	runtime.GC() // memory of pools is freed by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return state{m.HeapAlloc, runtime.NumGoroutine()}
}

// TestSoak is clean if no call gets a foreign value, and memory and goroutines
// are in the end the same as after a fifth of the time, or nearly so.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("-soak=10m")
	}
	server := servers.StartRedis(t)
	s := &soak{t: t}
	before := look()
	s.c = server.Client(t, func(o *redis.Options) { o.DialContext = s.line.DialContext })
	for i := range soakKeys {
		key, value := soakKey(i)
		if err := s.c.Set(t.Context(), key, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() { s.work(g) })
	}
	wg.Go(s.listen)
	wg.Go(s.cut)
	start := time.Now()
	var warm state
	line := time.NewTicker(min(time.Minute, *soakFor/5))
	defer line.Stop()
	for time.Since(start) < *soakFor && s.wrong.Load() == 0 {
		<-line.C
		now := look()
		if warm.heap == 0 {
			warm = now
		}
		fmt.Fprintf(os.Stdout, "%6s: %9d calls, %6d lost, %d wrong; %5.1f MiB heap, %3d goroutines; %+v\n",
			time.Since(start).Round(time.Second), s.calls.Load(), s.lost.Load(), s.wrong.Load(), float64(now.heap)/(1<<20), now.goroutines, s.c.Stats())
	}
	s.stop.Store(true)
	wg.Wait()
	end := look()
	if end.heap > warm.heap+warm.heap/5+8<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", warm.heap, end.heap)
	}
	s.c.Close()
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before.goroutines })
	if s.calls.Load() < 1000 || s.lost.Load()*2 > s.calls.Load() {
		t.Errorf("%d of %d calls were lost: the run proves little", s.lost.Load(), s.calls.Load())
	}
}
