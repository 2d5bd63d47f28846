package admin

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin/api"
)

// look returns the page's answer about a cache.
func look(t *testing.T, p *Page) api.Detail {
	t.Helper()
	return answer[api.Detail](t, p, local("GET", "/api/cache?name=users", ""))
}

// TestHistoryBeginsBeforeThePageIsOpened looks at a page for the first time after an hour.
func TestHistoryBeginsBeforeThePageIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "users"}
		p := New(Options{Token: testToken}, f)
		defer p.Close()
		if d := look(t, p); len(d.Samples) != 0 {
			t.Errorf("%d samples at the begin", len(d.Samples))
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if d := look(t, p); len(d.Samples) != 5 {
			t.Errorf("%d samples after 10 s", len(d.Samples))
		}
		time.Sleep(time.Hour - 10*time.Second - 20*api.Interval)
		f.with(func(f *fake) { f.stats.L1.Hits = 1000 })
		time.Sleep(20 * api.Interval)
		synctest.Wait()
		f.with(func(f *fake) {
			if want := int(time.Hour / api.Interval); f.asked < want || f.asked > want+5 {
				t.Errorf("%d looks at the cache in an hour", f.asked)
			}
		})
		if n := f.watched.Load(); n < int64(time.Hour/api.Interval) {
			t.Errorf("its hottest keys were watched %d times in an hour", n)
		}
		d := look(t, p)
		if n := len(d.Samples); n != api.MaxSamples {
			t.Fatalf("%d samples after an hour without requests", n)
		}
		if s := d.Samples[api.MaxSamples-20]; s.Answers.L1 != 500 {
			t.Errorf("the reads of 40 s ago are %+v", s)
		}
		if o := answer[api.Overview](t, p, local("GET", "/api/caches", "")).Caches[0]; o.Spark[0] == nil || o.Latest == nil {
			t.Errorf("ten minutes ago there is nothing: %s", sparkText(o.Spark, len(o.Spark)))
		}
	})
}

// TestDurationsAreThoseOfTheLastMinutes has a million slow loads, reads of L2 and heartbeats, and a
// few quick ones minutes later: the percentiles are about the quick ones.
func TestDurationsAreThoseOfTheLastMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "users"}
		add := func(bucket int, n uint64) {
			f.with(func(f *fake) {
				f.stats.Loads.Latency.Buckets[bucket] += n
				f.stats.BusEcho.Buckets[bucket] += n
				if f.stats.Operations == nil {
					f.stats.Operations = make([]strata.OperationStats, 1)
				}
				o := f.stats.Operations[0]
				o.Operation, o.Result = "get", "ok"
				o.Latency.Buckets[bucket] += n
				f.stats.Operations = []strata.OperationStats{o} // a Stats is not changed later
			})
		}
		add(25, 1e6)
		p := New(Options{Token: testToken}, f)
		defer p.Close()
		want := func(when string, want time.Duration) {
			t.Helper()
			n := look(t, p).Numbers
			if n.Loads.P50 != want || n.Loads.P99 != want || n.Remote.P99 != want || n.Bus.EchoP99 != want {
				t.Errorf("%s: loads %v and %v, reads of L2 %v, heartbeats %v, want %v", when, n.Loads.P50, n.Loads.P99, n.Remote.P99, n.Bus.EchoP99, want)
			}
		}
		want("at the begin", 0)
		time.Sleep(time.Minute)
		add(20, 10)
		want("at once", time.Second)
		time.Sleep(api.Recent - time.Second)
		want("within five minutes", time.Second)
		add(10, 10_000)
		time.Sleep(time.Second + 2*markEvery*api.Interval)
		want("later", time.Second>>10)
		time.Sleep(api.Recent + 2*markEvery*api.Interval)
		want("after five quiet minutes", 0)
		f.with(func(f *fake) { f.stats = strata.Stats{} }) // another cache
		add(5, 3)
		want("in another cache", time.Second>>15)
		time.Sleep(time.Minute)
		want("a minute later", time.Second>>15)
	})
}

// TestHistoryTakesTheMemoryThatTheGuideSays measures the memory of a page for one
// cache.
func TestHistoryTakesTheMemoryThatTheGuideSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Token: testToken}, &fake{name: "users"})
		defer p.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		p.history.mu.Lock()
		defer p.history.mu.Unlock()
		r := p.history.caches[0]
		bytes := unsafe.Sizeof(*r) + uintptr(cap(r.samples))*unsafe.Sizeof(api.Sample{}) + uintptr(cap(r.marks))*unsafe.Sizeof(durations{})
		if bytes > 70<<10 || len(r.samples) != api.MaxSamples || len(r.marks) != maxMarks {
			t.Errorf("the history of a cache takes %d bytes: %d samples, %d marks", bytes, cap(r.samples), cap(r.marks))
		}
	})
}

// TestLateSampleHasTheNumbersOfAnInterval has a program that was halted for some intervals.
func TestLateSampleHasTheNumbersOfAnInterval(t *testing.T) {
	from, to := strata.Stats{Saved: time.Hour}, strata.Stats{Saved: time.Hour + 30*time.Second}
	to.L1.Hits, to.Loads.Errors = 300, 30
	for intervals, want := range map[time.Duration]api.Sample{
		1: {Saved: 30 * time.Second, Answers: api.Answers{L1: 150}, Errors: 15},
		3: {Saved: 10 * time.Second, Answers: api.Answers{L1: 50}, Errors: 5},
	} {
		got := sampleOf(&from, &to, time.Now(), intervals*api.Interval)
		if got.Saved != want.Saved || got.Answers.L1 != want.Answers.L1 || got.Errors != want.Errors {
			t.Errorf("after %d intervals: %+v", intervals, got)
		}
	}
}

// TestForgottenPageTakesNoSamples has a page without a Close.
func TestForgottenPageTakesNoSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "users"}
		look(t, New(Options{Token: testToken}, f))
		runtime.GC()
		asked := f.asked
		time.Sleep(time.Hour)
		if f.asked != asked {
			t.Errorf("%d looks at the cache of a page that is gone", f.asked-asked)
		}
	})
}

// TestSamplesAreBounded runs in a bubble.
func TestSamplesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Token: testToken}, &fake{name: "users"})
		defer p.Close()
		for range 100 {
			look(t, p)
			time.Sleep(30*time.Second + time.Millisecond)
		}
		d := look(t, p)
		if n := len(d.Samples); n < api.MaxSamples-1 || n > api.MaxSamples {
			t.Errorf("%d samples", n)
		}
		few := answer[api.Detail](t, p, local("GET", "/api/cache?name=users&samples=3", ""))
		if len(few.Samples) != 3 || few.Samples[2].At != d.Samples[len(d.Samples)-1].At {
			t.Errorf("the last 3: %+v", few.Samples)
		}
	})
}

// TestSamplesSayWhatHappened runs in a bubble.
func TestSamplesSayWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "users"}
		f.stats.L1.Hits, f.stats.Loads.Latency.Buckets[30] = 1e6, 1e6
		p := New(Options{Token: testToken}, f)
		defer p.Close()
		time.Sleep(time.Second)
		f.with(func(f *fake) {
			s := &f.stats
			s.L1.Hits += 200
			s.Loads.OK += 4
			s.Loads.Errors += 2
			s.Loads.Latency.Buckets[20] += 6
			s.BusEcho.Buckets[10]++
			s.L2.Errors += 8
			s.Saved += 3 * time.Second
			s.Entries, s.Weight, s.Pending, s.Loads.Running, s.BreakerOpen, s.Connected, s.BusSilence = 5, 50, 2, 1, true, true, time.Minute
			s.Guard.Heap = 77
		})
		time.Sleep(time.Second + time.Millisecond)
		o := answer[api.Overview](t, p, local("GET", "/api/caches", "")).Caches[0]
		want := api.Sample{
			At: o.Latest.At, Answers: api.Answers{L1: 100, Loaded: 3}, LoadP99: time.Second, EchoP99: o.Latest.EchoP99, Saved: 3 * time.Second,
			Errors: 1, L2Errors: 4, Running: 1, Entries: 5, Weight: 50, Heap: 77, Pending: 2, Silence: time.Minute, BreakerOpen: true, Connected: true,
		}
		if *o.Latest != want || o.Latest.EchoP99 <= 0 {
			t.Errorf("%+v, want %+v", *o.Latest, want)
		}
		if got := sparkText(o.Spark, 2); len(o.Spark) != api.SparkPoints || got != "- 103" {
			t.Errorf("spark %s of %d", got, len(o.Spark))
		}
		time.Sleep(2 * time.Second)
		if d := look(t, p); len(d.Samples) != 2 || d.Samples[1].LoadP99 != 0 || d.Samples[1].Answers.Total() != 0 {
			t.Errorf("a quiet interval: %+v", d.Samples)
		}
	})
}

// TestSparkEndsNow runs in a bubble.
func TestSparkEndsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		at := func(ago time.Duration, reads float64) api.Sample {
			return api.Sample{At: now.Add(-ago).UnixMilli(), Answers: api.Answers{L1: reads}}
		}
		for want, samples := range map[string][]api.Sample{
			"- - - -": nil,
			"- - - 4": {at(9*time.Second, 3), at(0, 5)},
			"7 - - 5": {at(31*time.Second, 7), at(0, 5)},
			"- - - 5": {at(11*time.Minute, 7), at(0, 5)},
			"- - 0 -": {at(19*time.Second, 0)},
		} {
			if got := sparkText(spark(samples, now), 4); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

// sparkText returns the last n points as text.
func sparkText(all []*float64, n int) string {
	var b []string
	for _, p := range all[len(all)-n:] {
		if p == nil {
			b = append(b, "-")
		} else {
			b = append(b, fmt.Sprint(*p))
		}
	}
	return strings.Join(b, " ")
}

// TestAnswersAddUpToReads makes numbers as a cache does, of all kinds of reads and of loads
// without one, and compares the sum of answers with the number of reads.
func TestAnswersAddUpToReads(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var from, to strata.Stats
		n := func() uint64 { return r.Uint64N(50) }
		from.L1.Hits, from.L2.Hits, from.Joins, from.Loads.OK = n(), n(), n(), n()
		to = from
		hits, rechecked, l2, joins, stale, negative, throttled, absent, turned := n(), n(), n(), n(), n(), n(), n(), n(), n()
		loads, refreshes, staleOfJoined := n(), n(), n()
		refreshFromL2 := r.Uint64N(refreshes + 1)
		to.L1.Hits += hits
		to.Rechecked += rechecked
		to.L2.Hits += l2 + refreshFromL2
		to.Joins += joins
		to.StaleRevalidating += stale
		to.StaleOnError += staleOfJoined // which are joins
		to.Remembered += stale + negative
		to.Throttled += throttled
		to.Absent += absent
		to.TurnedAway += turned
		to.Loads.OK += loads + refreshes - refreshFromL2
		to.Refreshes += refreshes
		reads := float64(hits + rechecked + l2 + joins + stale + negative + throttled + absent + turned + loads)
		a := answersOf(&from, &to, time.Second)
		if math.Abs(a.Total()-reads) > 1e-6 {
			t.Fatalf("%+v are %v, want %v", a, a.Total(), reads)
		}
		if a.L1 != float64(hits+rechecked) || a.Joined != float64(joins) || a.Stale < float64(stale) || a.Stale+a.Remembered != float64(stale+negative+throttled) {
			t.Fatalf("%+v", a)
		}
	}
}

func TestNumbersThatFallAreNoRates(t *testing.T) {
	var from, to strata.Stats
	from.L1.Hits, from.Saved, from.Loads.Latency.Buckets[3], from.Loads.Errors = 10, time.Hour, 5, 3
	s := sampleOf(&from, &to, time.Now(), time.Second)
	if s.Answers.Total() != 0 || s.Saved != 0 || s.LoadP99 != 0 || s.Errors != 0 {
		t.Errorf("%+v", s)
	}
}

// TestCloseEndsSampling runs in a bubble.
func TestCloseEndsSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "users"}
		p := New(Options{Token: testToken}, f)
		time.Sleep(time.Minute + time.Second)
		p.Close()
		p.Close()
		asked := f.asked
		if asked != 31 {
			t.Errorf("%d looks in a minute", asked)
		}
		look(t, p)
		time.Sleep(time.Hour)
		if f.asked != asked+1 {
			t.Errorf("%d looks after Close and one request", f.asked-asked)
		}
	})
}
