//go:build unix

package memcached

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/strata-cache/strata/internal/servers"
	"github.com/strata-cache/strata/memcached"
)

// worker does one operation. Each goroutine has one of its own.
type worker func(i int) error

// subject is a client with what it does.
type subject struct {
	name                             string
	get, set, both, getMany, setMany func() worker
}

const keys = 1000

// names are the keys of all subjects.
var names = func() (all []string) { // read-only
	for i := range keys {
		all = append(all, fmt.Sprintf("bench:%d", i))
	}
	return all
}()

// hundred returns a hundred keys.
func hundred(i int) []string {
	at := i * 100 % keys
	return names[at : at+100]
}

func strata(tb testing.TB, addr string, size int) subject {
	c, err := memcached.New(memcached.Options{Servers: []string{addr}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	ctx, value := context.Background(), make([]byte, size)
	get := func() worker {
		var buf []byte
		return func(i int) (err error) {
			buf, err = c.AppendGet(ctx, buf[:0], names[i%keys])
			return check(len(buf), size, err)
		}
	}
	set := func() worker {
		return func(i int) error {
			return c.Set(ctx, memcached.Item{Key: names[i%keys], Value: value})
		}
	}
	return subject{
		name: "strata", get: get, set: set, both: both(set, get),
		getMany: func() worker {
			return func(i int) error {
				items, err := c.GetMany(ctx, hundred(i))
				return check(len(items), 100, err)
			}
		},
		setMany: func() worker {
			items := make([]memcached.Item, 100)
			return func(i int) error {
				for n, key := range hundred(i) {
					items[n] = memcached.Item{Key: key, Value: value}
				}
				return c.SetMany(ctx, items)
			}
		},
	}
}

// both sets an item and gets it.
func both(set, get func() worker) func() worker {
	return func() worker {
		set, get := set(), get()
		return func(i int) error {
			if err := set(i); err != nil {
				return err
			}
			return get(i)
		}
	}
}

// check reports a result of another size.
func check(got, want int, err error) error {
	if err == nil && got != want {
		return fmt.Errorf("%d instead of %d", got, want)
	}
	return err
}

func gomemcache(tb testing.TB, name, addr string, size, idle int) subject {
	c := memcache.New(addr)
	c.MaxIdleConns = idle
	c.Timeout = time.Second
	tb.Cleanup(func() { c.Close() })
	value := make([]byte, size)
	get := func() worker {
		return func(i int) error {
			item, err := c.Get(names[i%keys])
			if err != nil {
				return err
			}
			return check(len(item.Value), size, nil)
		}
	}
	set := func() worker {
		return func(i int) error { return c.Set(&memcache.Item{Key: names[i%keys], Value: value}) }
	}
	return subject{
		name: name, get: get, set: set, both: both(set, get),
		getMany: func() worker {
			return func(i int) error {
				items, err := c.GetMulti(hundred(i))
				return check(len(items), 100, err)
			}
		},
		setMany: func() worker {
			return func(i int) error {
				for _, key := range hundred(i) {
					if err := c.Set(&memcache.Item{Key: key, Value: value}); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}

// floor writes prepared commands on a connection of each goroutine, and reads replies
// of known size.
func floor(tb testing.TB, addr string, size int) subject {
	var mu sync.Mutex
	raw := func(command func(i int) []byte, reply int) func() worker {
		return func() worker {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				return func(int) error { return err }
			}
			mu.Lock()
			tb.Cleanup(func() { nc.Close() })
			mu.Unlock()
			r, buf := bufio.NewReaderSize(nc, 64<<10), make([]byte, reply)
			return func(i int) error {
				if _, err := nc.Write(command(i)); err != nil {
					return err
				}
				_, err := io.ReadFull(r, buf)
				return err
			}
		}
	}
	var gets, sets [][]byte
	for range keys {
		// One key, so that each reply has the same length.
		gets = append(gets, []byte("get bench:500\r\n"))
		sets = append(sets, fmt.Appendf(nil, "set bench:500 0 0 %d\r\n%s\r\n", size, make([]byte, size)))
	}
	value := len(fmt.Sprintf("VALUE bench:500 0 %d\r\n\r\nEND\r\n", size)) + size
	get := raw(func(i int) []byte { return gets[i%keys] }, value)
	set := raw(func(i int) []byte { return sets[i%keys] }, len("STORED\r\n"))
	return subject{name: "floor", get: get, set: set, both: both(set, get)}
}

// run lets goroutines share b.N operations.
func run(b *testing.B, goroutines int, w func() worker) {
	if w == nil {
		b.Skip("the subject does not do that")
	}
	workers := make([]worker, goroutines)
	for g := range workers {
		workers[g] = w()
		if err := workers[g](g); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for g, work := range workers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := work(int(i)); err != nil {
					b.Errorf("goroutine %d: %v", g, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// subjects returns all clients of a server that has all keys.
func subjects(tb testing.TB, addr string, size int) []subject {
	all := []subject{
		floor(tb, addr, size), strata(tb, addr, size),
		gomemcache(tb, "gomemcache", addr, size, memcache.DefaultMaxIdleConns),
		gomemcache(tb, "gomemcache-tuned", addr, size, 64),
	}
	set := all[1].set()
	for i := range keys {
		if err := set(i); err != nil {
			tb.Fatal(err)
		}
	}
	return all
}

func BenchmarkClients(b *testing.B) {
	m, err := servers.RunMemcached("-t", "1", "-c", "20000") // the floor opens many connections
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(m.Close)
	for _, size := range []int{64, 1024} {
		for _, goroutines := range []int{64, 8, 1} {
			for _, s := range subjects(b, m.Addr, size) {
				at := fmt.Sprintf("B=%d/g=%d/%s", size, goroutines, s.name)
				b.Run("Get/"+at, func(b *testing.B) { run(b, goroutines, s.get) })
				b.Run("Set/"+at, func(b *testing.B) { run(b, goroutines, s.set) })
			}
		}
	}
	for _, s := range subjects(b, m.Addr, 64) {
		b.Run("GetMany/100x64/g=1/"+s.name, func(b *testing.B) { run(b, 1, s.getMany) })
		b.Run("SetMany/100x64/g=1/"+s.name, func(b *testing.B) { run(b, 1, s.setMany) })
	}
	for _, s := range subjects(b, m.Addr, 4) {
		b.Run("SetGet/4/g=1/"+s.name, func(b *testing.B) { run(b, 1, s.both) })
	}
}

// TestSubjectsDoTheirWork makes each call once.
func TestSubjectsDoTheirWork(t *testing.T) {
	m, err := servers.RunMemcached()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	for _, s := range subjects(t, m.Addr, 100) {
		for i, w := range []func() worker{s.get, s.set, s.both, s.getMany, s.setMany} {
			if w == nil {
				continue
			}
			if err := w()(i); err != nil {
				t.Errorf("%s, call %d: %v", s.name, i, err)
			}
		}
	}
}
