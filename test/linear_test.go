package test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
)

var linearHistories = flag.Int("linear.histories", 300, "how many histories of an instance are recorded and judged")

const (
	linearKeys    = 4
	linearWorkers = 8
	linearCalls   = 90  // of each key; a call is one operation of a history, or two
	linearAlls    = 5   // calls that concern all keys
	linearMost    = 200 // operations of a key in a history
)

// subject is a cache under test: its histories are judged.
type subject interface {
	Get(ctx context.Context, key string, opts ...strata.CallOption) (int64, bool)
	GetOrLoad(ctx context.Context, key string, load strata.Loader[string, int64], opts ...strata.CallOption) (int64, error)
	Set(ctx context.Context, key string, v int64, opts ...strata.CallOption) error
	Update(ctx context.Context, key string, write func(context.Context) (int64, error), opts ...strata.CallOption) error
	Invalidate(ctx context.Context, keys ...string) error
	Expire(ctx context.Context, keys ...string) error
	InvalidateAll(ctx context.Context) error
}

// setting decides how histories are made and judged.
type setting struct {
	rules rules
	// all has calls that concern all keys.
	all bool
	// steps says that a write takes several steps.
	steps bool
}

// plainly switches off all answers but values in the cache and loaded ones.
func plainly(o *strata.Options[string, int64]) {
	o.TTL, o.RefreshAt, o.Stale = strata.NoExpiry, -1, strata.Stale{WhileRevalidate: -1, OnError: -1}
	o.ErrorTTL, o.NotFoundTTL = -1, -1
}

// bounded is a cache that holds a number of entries in L1 and has no L2.
func bounded(t *testing.T, entries int64) *strata.Cache[string, int64] {
	t.Helper()
	var o strata.Options[string, int64]
	plainly(&o)
	o.Memory.MaxEntries = entries
	c, err := strata.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// TestInstanceIsLinearizable records the answers to callers of one cache that
// read, load, write and drop a few keys at once. It looks for an order in which
// a register would have given the same answers.
func TestInstanceIsLinearizable(t *testing.T) {
	c := bounded(t, 100)
	linear(t, c, setting{rules: rules{keeps: true, one: true}}, *linearHistories)
	if st := c.Stats(); st.Refused == 0 || st.Joins == 0 || st.L1.Hits == 0 {
		t.Errorf("%d loads were overtaken, %d callers joined one, %d hits: the test proves too little", st.Refused, st.Joins, st.L1.Hits)
	}
}

// TestInstanceThatEvictsIsLinearizable has more keys than L1 has room for, and
// drops of everything.
func TestInstanceThatEvictsIsLinearizable(t *testing.T) {
	c := bounded(t, linearKeys/2)
	linear(t, c, setting{all: true}, *linearHistories)
	if st := c.Stats(); st.Refused == 0 || st.Evicted == 0 {
		t.Errorf("%d loads were overtaken, %d entries evicted: the test proves too little", st.Refused, st.Evicted)
	}
}

// TestInstanceOnRedisIsARegularRegister does the same with Redis beneath an L1
// that is too small. A write takes several steps then: while it runs, and only
// then, some callers may see its value and others still the former one.
func TestInstanceOnRedisIsARegularRegister(t *testing.T) {
	c, _ := instance(t, servers.StartRedis(t), func(o *strata.Options[string, int64]) {
		plainly(o)
		o.Memory.MaxEntries = linearKeys / 2
	})
	eventually(t, "the instance is connected", func() bool { return c.Stats().Connected })
	linear(t, c, setting{all: true, steps: true}, *linearHistories/5)
	st := c.Stats()
	if st.L2.Hits == 0 || st.RemoteRefused == 0 || st.L2.Errors > 0 {
		t.Errorf("%d hits in L2, %d values refused by it, %d errors: the test proves too little", st.L2.Hits, st.RemoteRefused, st.L2.Errors)
	}
	t.Logf("%d hits in L1 and %d in L2, %d refused by L1 and %d by L2", st.L1.Hits, st.L2.Hits, st.Refused, st.RemoteRefused)
}

// TestHitsAreTheRuleOnceTheCacheIsWarm: a cache that never has anything would
// have good histories too.
func TestHitsAreTheRuleOnceTheCacheIsWarm(t *testing.T) {
	onRedis, _ := instance(t, servers.StartRedis(t), plainly)
	for name, c := range map[string]*strata.Cache[string, int64]{"L1": bounded(t, 100), "L1 and Redis": onRedis} {
		t.Run(name, func(t *testing.T) { hitsAreTheRule(t, c) })
	}
}

func hitsAreTheRule(t *testing.T, c *strata.Cache[string, int64]) {
	const keys, callers, each = 100, 8, 2000
	key := func(n int) string { return fmt.Sprint("k", n%keys) }
	load := func(context.Context, string) (int64, error) { return 1, nil }
	for i := range keys {
		mustGet(t, c, key(i), load)
	}
	before := c.Stats()
	var wg sync.WaitGroup
	for w := range callers {
		wg.Go(func() {
			for i := range each {
				mustGet(t, c, key(w*37+i), load)
				if i%500 != w {
					continue
				}
				if err := c.Set(t.Context(), key(i), 2); err != nil {
					t.Errorf("Set: %v", err)
				}
			}
		})
	}
	wg.Wait()
	st := c.Stats()
	hits, reads := st.L1.Hits-before.L1.Hits, st.Reads-before.Reads
	if reads < callers*each || hits*100 < reads*99 {
		t.Errorf("%d hits in %d reads of a cache that has room for all; want 99%%", hits, reads)
	}
}

// linear records histories of c and judges them.
func linear(t *testing.T, c subject, s setting, histories int) {
	t.Helper()
	if testing.Short() {
		histories = min(histories, 20)
	}
	var ids atomic.Int64
	for n := range histories {
		h := record(t, c, s, uint64(n), &ids)
		if key := h.wrong(t, s.rules); key != "" {
			h.explain(t, s.rules, key)
			t.Fatalf("history %d: no order of these calls explains what was seen of %q", n, key)
		}
	}
}

// history is the operations that callers noted, by key.
type history map[string][]porcupine.Operation

// wrong returns a key for which no order of the calls explains the answers.
func (h history) wrong(t *testing.T, u rules) (key string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(h)) {
		if n := len(h[key]); n > linearMost {
			t.Fatalf("%d operations of a key; want at most %d", n, linearMost)
		}
		switch porcupine.CheckOperationsTimeout(u.model(), h[key], 10*time.Second) {
		case porcupine.Illegal:
			return key
		case porcupine.Unknown:
			t.Fatalf("no verdict on %d operations of a key within 10s", len(h[key]))
		}
	}
	return ""
}

// explain writes down the operations of a key, and draws a picture of them.
func (h history) explain(t *testing.T, u rules, key string) {
	t.Helper()
	ops := slices.Clone(h[key])
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var text strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&text, "\n[%d, %d] caller %d: %v", op.Call, op.Return, op.ClientId, op.Input)
	}
	t.Logf("%s", text.String())
	_, info := porcupine.CheckOperationsVerbose(u.model(), ops, 10*time.Second)
	page := filepath.Join(t.ArtifactDir(), "history.html")
	if err := porcupine.VisualizePath(u.model(), info, page); err != nil {
		t.Errorf("no picture: %v", err)
		return
	}
	t.Logf("a picture, if the test keeps its files: %s", page)
}

// record empties c, lets callers use it at once, and returns the history of their calls.
func record(t *testing.T, c subject, s setting, seed uint64, ids *atomic.Int64) history {
	t.Helper()
	if err := c.InvalidateAll(t.Context()); err != nil {
		t.Fatalf("InvalidateAll: %v", err)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var keys, plan []string
	for i := range linearKeys {
		keys = append(keys, fmt.Sprint("k", i))
		plan = append(plan, slices.Repeat(keys[i:], linearCalls)...)
	}
	if s.all {
		plan = append(plan, make([]string, linearAlls)...) // "" is all of them
	}
	r.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	var clock atomic.Int64
	callers := make([]*caller, linearWorkers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		w := &caller{
			TB: t, c: c, steps: s.steps, id: i, clock: &clock, ids: ids, keys: keys, seen: history{},
			rand: rand.New(rand.NewPCG(seed, uint64(i)+1)),
		}
		callers[i] = w
		mine := plan[i*len(plan)/linearWorkers : (i+1)*len(plan)/linearWorkers]
		wg.Go(func() {
			<-start
			for _, key := range mine {
				w.call(key)
				runtime.Gosched()
			}
		})
	}
	close(start)
	wg.Wait()
	all := history{}
	for _, w := range callers {
		for key, ops := range w.seen {
			all[key] = append(all[key], ops...)
		}
	}
	return all
}

// caller uses a cache and notes its operations. Its times are ticks of a
// counter that all callers share.
type caller struct {
	testing.TB
	c     subject
	steps bool
	id    int
	clock *atomic.Int64
	ids   *atomic.Int64
	keys  []string
	seen  history
	rand  *rand.Rand
}

func (w *caller) now() int64 { return w.clock.Add(1) }

func (w *caller) note(key string, from, to int64, a act, n int64) {
	w.seen[key] = append(w.seen[key], porcupine.Operation{ClientId: w.id, Call: from, Return: to, Input: event{a, n}})
}

// call calls something about key, or about all keys if it is empty.
func (w *caller) call(key string) {
	ctx := w.Context()
	switch n := w.rand.IntN(100); {
	case key == "":
		w.drop(func() error { return w.c.InvalidateAll(ctx) }, w.keys...)
	case n < 30:
		from := w.now()
		v, ok := w.c.Get(ctx, key)
		if !ok {
			w.note(key, from, w.now(), missed, 0)
			return
		}
		w.note(key, from, w.now(), read, v)
	case n < 65:
		w.getOrLoad(ctx, key)
	case n < 76:
		v := w.ids.Add(1)
		w.write(wrote, key, v, func() error { return w.c.Set(ctx, key, v) })
	case n < 86:
		w.drop(func() error { return w.c.Invalidate(ctx, key) }, key)
	case n < 92:
		w.drop(func() error { return w.c.Expire(ctx, key) }, key)
	default:
		w.update(ctx, key)
	}
}

// errLoad is the error of a load, with the number of the load.
type errLoad struct {
	n       int64
	unfound bool
}

func (e errLoad) Error() string { return fmt.Sprint("load ", e.n) }

func (e errLoad) Is(target error) bool { return e.unfound && target == strata.ErrNotFound }

// getOrLoad is one operation if it gets a value from the cache or from a load
// of another caller, two if it has loaded itself.
func (w *caller) getOrLoad(ctx context.Context, key string) {
	var n, begin, end int64
	takes, fate := time.Duration(w.rand.IntN(200))*time.Microsecond, w.rand.IntN(20)
	from := w.now()
	v, err := w.c.GetOrLoad(ctx, key, func(context.Context, string) (int64, error) {
		n, begin = w.ids.Add(1), w.now()
		<-time.After(takes)
		end = w.now()
		if fate < 2 {
			return 0, errLoad{n, fate == 0}
		}
		return n, nil
	})
	to := w.now()
	var lost errLoad
	if errors.As(err, &lost) {
		v = lost.n
	} else if err != nil {
		w.Errorf("GetOrLoad: %v", err)
		return
	}
	if n == 0 || v != n {
		w.note(key, from, to, read, v)
		if n == 0 {
			return
		}
		w.Errorf("a caller whose Loader brought %d got %d", n, v)
	}
	w.note(key, from, begin, begun, n)
	switch {
	case err == nil:
		w.note(key, end, to, brought, n)
	case lost.unfound:
		w.note(key, end, to, unfound, n)
	default:
		w.note(key, end, to, failed, n)
	}
}

// write is a call that stores n at once, if writes take one step.
func (w *caller) write(a act, key string, n int64, call func() error) {
	from := w.now()
	err := call()
	to := w.now()
	if err != nil {
		w.Errorf("Set: %v", err)
	}
	if !w.steps {
		w.note(key, from, to, a, n)
		return
	}
	w.note(key, from, from, opened, n)
	w.note(key, to, to, closed, n)
}

func (w *caller) drop(call func() error, keys ...string) {
	n := -w.ids.Add(1)
	from := w.now()
	err := call()
	to := w.now()
	if err != nil {
		w.Errorf("a drop of %q: %v", keys, err)
	}
	for _, key := range keys {
		if !w.steps {
			w.note(key, from, to, dropped, n)
			continue
		}
		w.note(key, from, from, opened, n)
		w.note(key, to, to, closed, n)
	}
}

func (w *caller) update(ctx context.Context, key string) {
	var begin, end int64
	n := w.ids.Add(1)
	from := w.now()
	err := w.c.Update(ctx, key, func(context.Context) (int64, error) {
		begin = w.now()
		runtime.Gosched()
		end = w.now()
		return n, nil
	})
	to := w.now()
	if err != nil {
		w.Errorf("Update: %v", err)
	}
	if w.steps {
		w.note(key, from, from, opened, n)
		w.note(key, to, to, closed, n)
		return
	}
	w.note(key, from, begin, updating, n)
	w.note(key, end, to, updated, n)
}
