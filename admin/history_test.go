package admin

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/adminapi"
)

// look returns the page's answer about a cache.
func look(t *testing.T, p *Page) adminapi.Detail {
	t.Helper()
	return answer[adminapi.Detail](t, p, local("GET", "/api/cache?name=users", ""))
}

// TestSamplesAreTakenWhileSomebodyLooks runs in a bubble.
func TestSamplesAreTakenWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "users"}
		p := New(Options{Token: testToken}, f)
		defer p.Close()
		time.Sleep(time.Hour)
		if f.asked != 0 {
			t.Errorf("%d looks at the cache before the first request", f.asked)
		}
		if d := look(t, p); len(d.Samples) != 0 {
			t.Errorf("%d samples at the first request", len(d.Samples))
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if d := look(t, p); len(d.Samples) != 5 {
			t.Errorf("%d samples after 10 s", len(d.Samples))
		}
		time.Sleep(time.Hour)
		f.with(func(f *fake) {
			if f.asked > 50 {
				t.Errorf("%d looks in an hour without requests", f.asked)
			}
		})
		look(t, p)
		time.Sleep(4*time.Second + time.Millisecond)
		d := look(t, p)
		if n := len(d.Samples); n != 2 {
			t.Errorf("%d samples after a pause of an hour and 4 s", n)
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
		if n := len(d.Samples); n < adminapi.MaxSamples-1 || n > adminapi.MaxSamples {
			t.Errorf("%d samples", n)
		}
		p.history.mu.Lock()
		if n := len(p.history.caches[0].samples); n > adminapi.MaxSamples {
			t.Errorf("%d samples are kept", n)
		}
		p.history.mu.Unlock()
		few := answer[adminapi.Detail](t, p, local("GET", "/api/cache?name=users&samples=3", ""))
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
		look(t, p)
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
		})
		time.Sleep(time.Second + time.Millisecond)
		o := answer[adminapi.Overview](t, p, local("GET", "/api/caches", "")).Caches[0]
		want := adminapi.Sample{
			At: o.Latest.At, Answers: adminapi.Answers{L1: 100, Loaded: 3}, LoadP99: time.Second, EchoP99: o.Latest.EchoP99, Saved: 3 * time.Second,
			Errors: 1, L2Errors: 4, Running: 1, Entries: 5, Weight: 50, Pending: 2, Silence: time.Minute, BreakerOpen: true, Connected: true,
		}
		if *o.Latest != want || o.Latest.EchoP99 <= 0 {
			t.Errorf("%+v, want %+v", *o.Latest, want)
		}
		if got := sparkText(o.Spark, 2); len(o.Spark) != adminapi.SparkPoints || got != "- 103" {
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
		at := func(ago time.Duration, reads float64) adminapi.Sample {
			return adminapi.Sample{At: now.Add(-ago).UnixMilli(), Answers: adminapi.Answers{L1: reads}}
		}
		for want, samples := range map[string][]adminapi.Sample{
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

// TestCloseEndsSampling runs in a bubble, which ends only if no goroutine is left.
func TestCloseEndsSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "users"}
		p := New(Options{Token: testToken}, f)
		look(t, p)
		synctest.Wait()
		p.Close()
		p.Close()
		asked := f.asked
		look(t, p)
		time.Sleep(time.Hour)
		if f.asked != asked+1 {
			t.Errorf("%d looks after Close and one request", f.asked-asked)
		}
		f = &fake{name: "users"}
		p = New(Options{Token: testToken}, f)
		p.Close()
		look(t, p)
		synctest.Wait()
		if f.asked != 1 {
			t.Errorf("%d looks at a page that was closed before its first request", f.asked)
		}
	})
}
