package observe

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// reader is the tier of a test: it gives sampled reads to the function of Watch.
type reader struct {
	f func(key string, number uint64)
}

func (r *reader) sample(f func(key string, number uint64)) { r.f = f }

// read reads a key so often that n samples are taken.
func (r *reader) read(key string, n int) {
	for i := 0; i < n && r.f != nil; i++ {
		r.f(key, 0)
	}
}

func plainKey(key string) (string, error) { return key, nil }

// watchFor watches for a time, as a page does.
func watchFor(k *HotKeys[string], r *reader, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Second) {
		k.Watch(r.sample)
	}
}

func TestHottestKeysAreThoseOfTheLastMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, r := &HotKeys[string]{}, &reader{}
		names := func() (byReads, byLoadTime []string) {
			h := k.Hot(r.sample, plainKey)
			for _, x := range h.ByReads {
				byReads = append(byReads, x.Key)
			}
			for _, x := range h.ByLoadTime {
				byLoadTime = append(byLoadTime, x.Key)
			}
			return byReads, byLoadTime
		}
		watchFor(k, r, 4*time.Minute)
		r.read("old", 100)
		k.Load("old", time.Minute)
		watchFor(k, r, 4*time.Minute)
		r.read("new", 10)
		k.Load("new", time.Second)
		if reads, loads := names(); fmt.Sprint(reads, loads) != "[old new] [old new]" {
			t.Errorf("after 8 minutes: %v, %v", reads, loads)
		}
		h := k.Hot(r.sample, plainKey)
		if h.Reads != 110*leastEvery || h.Sampled != 110 || h.LoadTime != time.Minute+time.Second || time.Since(h.Since) != 8*time.Minute {
			t.Errorf("after 8 minutes: %+v", h)
		}
		if x := h.ByReads[0]; x.Reads != 100*leastEvery || x.Over != 0 || x.Loads != 1 || x.LoadTime != time.Minute {
			t.Errorf("the hottest key: %+v", x)
		}
		watchFor(k, r, 3*time.Minute)
		if reads, loads := names(); fmt.Sprint(reads, loads) != "[new] [new]" {
			t.Errorf("after 11 minutes: %v, %v", reads, loads)
		}
		if since := time.Since(k.Hot(r.sample, plainKey).Since); since < turn || since > 2*turn {
			t.Errorf("after 11 minutes the time of the keys is %v", since)
		}
		watchFor(k, r, 12*time.Minute)
		if reads, loads := names(); len(reads)+len(loads) != 0 {
			t.Errorf("after 12 quiet minutes: %v, %v", reads, loads)
		}
	})
}

// TestCountingEndsAMinuteAfterTheLastWatch reads after that.
func TestCountingEndsAMinuteAfterTheLastWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, r := &HotKeys[string]{}, &reader{}
		k.Read("a")
		k.Load("a", time.Second)
		if r.f != nil {
			t.Error("reads are sampled before the first Watch")
		}
		k.Watch(r.sample)
		time.Sleep(countFor)
		r.read("a", 10)
		if h := k.Hot(r.sample, plainKey); h.Sampled != 10 {
			t.Errorf("%d samples within a minute", h.Sampled)
		}
		time.Sleep(countFor + time.Second)
		r.read("a", 10)
		if r.f != nil {
			t.Error("reads are sampled a minute after the last question")
		}
		k.Load("a", time.Second)
		if h := k.Hot(r.sample, plainKey); h.Sampled != 0 || h.LoadTime != 0 || time.Since(h.Since) != 0 {
			t.Errorf("counting goes on: %+v", h)
		}
	})
}

func TestMergedSumsAreNeverTooLow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	zipf := rand.NewZipf(r, 1.1, 1, 1<<16)
	a, b := NewSketch[int](60), NewSketch[int](60)
	shift := 0
	next := func() int { return int(zipf.Uint64()) + shift }
	exact, _ := streamOf(t, a, r, 20_000, next)
	shift = 20 // some keys are in one of them only
	second, _ := streamOf(t, b, r, 20_000, next)
	for key, n := range second {
		exact[key] += n
	}
	all := MergedCounters(a, b)
	seen := map[int]bool{}
	for i, c := range all {
		if c.Sum < exact[c.Key] || c.Sum-c.Over > exact[c.Key] || seen[c.Key] || i > 0 && c.Sum > all[i-1].Sum {
			t.Errorf("key %d: %d to %d, exactly %d", c.Key, c.Sum-c.Over, c.Sum, exact[c.Key])
		}
		seen[c.Key] = true
	}
	if len(all) < 61 || len(all) > 120 {
		t.Errorf("%d keys of two sketches of 60", len(all))
	}
}

// TestMemoryOfHotKeysIsBounded fills both windows with more keys than they keep.
func TestMemoryOfHotKeysIsBounded(t *testing.T) {
	const caches, most = 20, 125 << 10
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	all := make([]*Counting[string], caches)
	for i := range all {
		c := newCounting[string]()
		for n := range 8 * keptCounters {
			key := fmt.Sprintf("user:%011d", n)
			for _, w := range []*window[string]{c.earlier, c.later} {
				w.reads.Add(key, 64)
				w.loads.Add(key, 1e6)
			}
		}
		all[i] = c
	}
	if each := (heap() - before) / caches; each > most {
		t.Errorf("the hot keys of a cache take %d bytes, more than %d", each, most)
	} else {
		t.Logf("the hot keys of a cache take %d bytes", each)
	}
	runtime.KeepAlive(all)
}

func TestSampleOfAHotKeyAllocatesNothing(t *testing.T) {
	c := newCounting[string]()
	c.watch()
	if n := testing.AllocsPerRun(1000, func() { c.sampled("k", 0) }); n != 0 {
		t.Errorf("a sample makes %v allocations", n)
	}
}
