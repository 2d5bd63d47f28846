//go:build linux

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
)

// variable is the environment variable that makes a process a worker.
const variable = "STRATA_TEST_WORKER"

// Config is the settings that a worker gets when it starts.
type Config struct {
	Instance int
	Clock    Clock
	// Origin is the origin's socket, Records the file of the records, Tier and
	// Bus the addresses of Redis for either purpose. With Memcached and without
	// Bus there is no bus.
	Origin, Records, Tier, Bus string
	// Sentinels, if there are any, are asked for Redis instead. Nodes, if there are any, are
	// the nodes of a Redis Cluster in its place.
	Sentinels, Nodes []string
	// Memcached are the servers of L2 in place of Redis, if there are any, and
	// Through the addresses at which they are reached.
	Memcached, Through []string
	// Service is the service of the cache. Neighbour, if it is not empty, is another service
	// with a cache of the same name in this process.
	Service, Neighbour string
	// Snapshots, if it is not empty, is a directory of files that instances save and load.
	Snapshots string
	// Memory is Memory.TTL.
	Memory time.Duration
	// Strict is the policy for when the bus is silent.
	Strict bool
	// Break names a way in which the cache is made to break its promises;
	// empty for none.
	Break string

	// TTL is the TTL of most entries, Short the TTL of entries with [Short] keys.
	TTL, Short time.Duration
	Lease      time.Duration
	// Timeout bounds each operation on L2; zero means the cache's default.
	Timeout time.Duration

	// Clients make Rate calls a second in all, on Keys keys.
	Clients, Keys int
	Rate          float64
	Seed          uint64
}

// Key is the name of the i-th key.
func Key(i int) string { return "k" + strconv.Itoa(i) }

// Short reports whether entries of key have a short TTL: each fourth does.
func Short(key string) bool {
	i, ok := number(key)
	return ok && i%4 == 3
}

// Tag is the tag of key's entries, or empty: each fifth has one, and shares it
// with some others.
func Tag(key string) string {
	if i, ok := number(key); ok && i%5 == 2 {
		return "t" + strconv.Itoa(i/5%10)
	}
	return ""
}

func number(key string) (i int, ok bool) {
	i, err := strconv.Atoi(strings.TrimPrefix(key, "k"))
	return i, err == nil
}

// Command is an order to a worker.
type Command struct {
	// Op is start and stop (of the clients), settle (wait until nothing is
	// pending and the bus is connected), final (read all keys), read, stats or
	// close.
	Op string
	// Key is the key that Callers read at once; their load takes Takes.
	Key     string        `json:",omitempty"`
	Callers int           `json:",omitempty"`
	Takes   time.Duration `json:",omitempty"`
	// Within bounds settle.
	Within time.Duration `json:",omitempty"`
}

// Answer is the result of a Command.
type Answer struct {
	Error string `json:",omitempty"`
	// Values counts the values and errors that the callers of read got.
	Values map[string]int `json:",omitempty"`
	// Slowest is the longest wait of one of them.
	Slowest time.Duration `json:",omitempty"`
	// Stats answers stats, Goroutines close: how many are left.
	Stats      *strata.Stats `json:",omitempty"`
	Goroutines int           `json:",omitempty"`
}

// IsWorker reports whether this process was started to be a worker. A test's
// TestMain calls [Work] then and nothing else.
func IsWorker() bool { return os.Getenv(variable) != "" }

// Work is the life of a worker. It does not return: it ends the process.
func Work() {
	var c Config
	err := json.Unmarshal([]byte(os.Getenv(variable)), &c)
	if err == nil {
		var w *worker
		if w, err = newWorker(c); err == nil {
			err = w.carryOut()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worker is an instance in a process of its own.
type worker struct {
	c      Config
	rec    *recorder
	origin *originClient
	closes []func() error
	cache  *strata.Cache[string, string]
	// neighbour is the cache of another service; nil if there is none.
	neighbour *strata.Cache[string, string]
	told      atomic.Uint64 // loads and Sets of neighbour
	moved     moved

	stop    context.CancelFunc // ends the clients
	clients sync.WaitGroup
	end     context.CancelFunc // ends the rest
	others  sync.WaitGroup

	calm   atomic.Bool             // no load fails any more
	mu     sync.Mutex              // guards failed
	failed map[string]checker.Time // when a load of a key failed last
}

func newWorker(c Config) (w *worker, err error) {
	w = &worker{c: c, origin: &originClient{path: c.Origin}, stop: func() {}, failed: map[string]checker.Time{}}
	if w.rec, err = newRecorder(c.Records, c.Clock); err != nil {
		return nil, err
	}
	// Without jitter, as the judge takes the TTL for the life of an entry.
	o := strata.Options[string, string]{
		Name: "chaos", Service: c.Service, TTL: c.TTL, Jitter: -1, Loader: w.load,
		Limits: strata.Limits{Lease: c.Lease},
		Hooks: &strata.Hooks{RemoteError: func(e strata.Event) {
			w.rec.add(recRemote, w.now(), strings.ReplaceAll(e.Op, " ", "-"))
		}},
	}
	o.Memory.MaxEntries = max(1, int64(c.Keys)*3/4) // so that some reads go to L2
	if c.Instance%2 == 1 {
		o.Memory.MaxEntries *= 2 // so that there is room for entries of snapshots
	}
	if c.Instance%4 == 2 {
		o.Memory.MaxEntries, o.Memory.MaxWeight, o.Memory.Encoded = 0, 1<<20, true
	}
	o.NotFoundTTL, o.Remote.BreakFor = time.Second, time.Second // so that clients see much in a short time
	o.Remote.Timeout, o.Memory.TTL = c.Timeout, c.Memory
	// By default readers get stale values for a while after ExpireAll. The judge
	// takes it for an Expire, after which readers wait. The seeded schedules judge
	// it with the default.
	o.Stale.WhileRevalidate = -1
	o.Remote.Strict = c.Strict
	if err := w.connect(&o.Remote); err != nil {
		return nil, err
	}
	if w.cache, err = strata.New(o); err != nil {
		return nil, err
	}
	if err := w.openNeighbour(o); err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	w.others.Go(func() { w.watch(ctx) })
	return w, nil
}

func (w *worker) now() checker.Time { return w.c.Clock.Now() }

// carryOut carries out commands, one after the other.
func (w *worker) carryOut() error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var c Command
		if err := in.Decode(&c); err != nil {
			return err
		}
		if err := out.Encode(w.do(c)); err != nil {
			return err
		}
		if c.Op == "close" {
			return nil
		}
	}
}

func (w *worker) do(c Command) (a Answer) {
	switch c.Op {
	case "start":
		w.start()
	case "stop":
		w.stop()
		w.clients.Wait()
	case "settle":
		a.Error = w.settle(c.Within)
	case "final":
		a.Error = w.final()
	case "read":
		a = w.readAtOnce(c)
	case "stats":
		s := w.cache.Stats()
		a.Stats = &s
	case "close":
		a = w.close()
	default:
		a.Error = "unknown command " + c.Op
	}
	w.rec.flush()
	return a
}

// settle waits until all failed drops have succeeded. From its call on, loads do not fail.
func (w *worker) settle(within time.Duration) (problem string) {
	w.calm.Store(true)
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		s := w.cache.Stats()
		switch {
		case s.Pending == 0 && (s.Connected || w.c.alone()):
			return ""
		case time.Now().After(deadline):
			return fmt.Sprintf("after %v without faults %d drops are pending, and connected is %t", within, s.Pending, s.Connected)
		}
	}
}

// final reads all keys when faults have ended. Failures of loads are remembered
// for some seconds.
func (w *worker) final() (problem string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range w.c.Keys {
		for !w.read(ctx, Key(i), true, true) {
			if !wait(ctx, 100*time.Millisecond) {
				return Key(i) + " has no value a minute after faults have ended"
			}
		}
	}
	return ""
}

// takesKey is the key under which a call's context has the duration of its load.
type takesKey struct{}

// readAtOnce lets many callers read one key at once.
func (w *worker) readAtOnce(c Command) Answer {
	ctx := context.WithValue(context.Background(), takesKey{}, c.Takes)
	a := Answer{Values: map[string]int{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range c.Callers {
		wg.Go(func() {
			<-start
			begun := time.Now()
			v, err := w.cache.GetOrLoad(ctx, c.Key, nil)
			took := time.Since(begun)
			if err != nil {
				v = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			a.Values[v]++
			a.Slowest = max(a.Slowest, took)
		})
	}
	close(start)
	wg.Wait()
	return a
}

// close closes the cache and its clients, and counts the remaining goroutines
// beside this one.
func (w *worker) close() (a Answer) {
	w.stop()
	w.clients.Wait()
	w.end()
	w.others.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := errors.Join(w.cache.Close(ctx), w.closeNeighbour(ctx))
	for _, f := range w.closes {
		err = errors.Join(err, f())
	}
	if err != nil {
		a.Error = err.Error()
	}
	for range 100 { // the last ones are on their way out
		if a.Goroutines = runtime.NumGoroutine() - 1; a.Goroutines == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return a
}

// watch keeps records flowing and takes samples.
func (w *worker) watch(ctx context.Context) {
	flush := time.NewTicker(20 * time.Millisecond)
	defer flush.Stop()
	w.sample()
	hears := false
	stalls := Stalls(w.c.Clock)
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			w.sample()
			return
		case <-flush.C:
		}
		if s, yes := stalls(); yes {
			w.rec.add(recStalled, s.From, s.To)
		}
		s := w.cache.Stats()
		if s.Connected != hears || n == 1 {
			hears = s.Connected
			w.rec.add(recHears, w.now(), hears)
		}
		if n%50 == 0 {
			w.sample()
		}
		w.rec.flush()
	}
}

// Stalls returns a function to call every few milliseconds. It reports a time
// of more than 250 ms without a call: the process did not run, or was kept waiting.
func Stalls(c Clock) func() (s Span, yes bool) {
	const most = checker.Time(250 * time.Millisecond)
	last := c.Now()
	return func() (Span, bool) {
		s := Span{From: last, To: c.Now()}
		last = s.To
		return s, s.To-s.From > most
	}
}

func (w *worker) sample() {
	s := w.cache.Stats()
	text, err := json.Marshal(Sample{
		Goroutines: runtime.NumGoroutine(), RSS: resident(),
		Reads: s.Reads, L1Hits: s.L1.Hits, L2Hits: s.L2.Hits, Loads: s.Loads.Total(), Gaps: s.Gaps, Heard: s.Heard,
		Refused: s.Refused, RemoteRefused: s.RemoteRefused, RemoteErrors: s.L2.Errors, Moved: w.moved.counts(),
	})
	if err != nil {
		panic("cluster: sample: " + err.Error()) // numbers only
	}
	w.rec.add(recSample, w.now(), string(text))
}

// resident is the memory of this process, in bytes; 0 if the system does not tell.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// start starts the clients.
func (w *worker) start() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	for i := range w.c.Clients {
		r := rand.New(rand.NewPCG(w.c.Seed, uint64(w.c.Instance)<<16+uint64(i)))
		w.clients.Go(func() { w.client(ctx, r) })
	}
	if w.neighbour != nil {
		r := rand.New(rand.NewPCG(w.c.Seed, uint64(w.c.Instance)<<16+1<<15))
		w.clients.Go(func() { w.dwell(ctx, r) })
	}
}
