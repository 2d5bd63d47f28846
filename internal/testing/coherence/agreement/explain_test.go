package agreement_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// explained has two caches of one name. Tests ask b to explain a key, and read from b.
type explained struct {
	t          *testing.T
	a, b       *strata.Cache[string, int64]
	down, deaf atomic.Bool     // L2 takes no drops of b, or answers no reads
	ear        *stratatest.Bus // the bus of b
}

func (p *explained) set(c *strata.Cache[string, int64], o ...strata.CallOption) {
	lab.Must(p.t, c.Set(p.t.Context(), "k", 5, o...))
}

func (p *explained) sleep(d time.Duration) { time.Sleep(d) } // in a bubble

// verdictCase is a state of a key, with the expected verdict of Explain and the
// expected next read.
type verdictCase struct {
	prepare func(p *explained)
	want    string // in the verdict
	loads   bool   // whether the next read loads
	err     error  // of that
	check   func(r strata.Report) bool
}

// wantVerdicts compares the verdict in each case with the next read.
func wantVerdicts(t *testing.T, cases map[string]verdictCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tc.run(t) })
		})
	}
}

func (tc *verdictCase) run(t *testing.T) {
	s := lab.NewShared()
	p := &explained{t: t, ear: s.Bus.Connect()}
	p.a = lab.Instance(t, s, lab.Negatives, lab.Windows(10*time.Second, time.Hour))
	p.b = lab.Instance(t, s, lab.Negatives, lab.Windows(10*time.Second, time.Hour), func(o *strata.Options[string, int64]) {
		o.ErrorTTL = 20 * time.Second
		o.Remote.Tier = lab.Failing(lab.Failing(s.Tier, "Drop", &p.down), "Get", &p.deaf)
		o.Remote.Bus = p.ear
	})
	tc.prepare(p)
	synctest.Wait()
	r := p.b.Explain(t.Context(), "k")
	if !strings.Contains(r.Verdict, tc.want) || r.String() != r.Verdict {
		t.Errorf("verdict %q, want %q", r.Verdict, tc.want)
	}
	if tc.check != nil && !tc.check(r) {
		t.Errorf("%+v", r)
	}
	var loads atomic.Int64
	_, err := p.b.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { loads.Add(1); return 1, nil })
	synctest.Wait()
	if !errors.Is(err, tc.err) || (loads.Load() > 0) != tc.loads {
		t.Errorf("%d loads, %v; the verdict was %q", loads.Load(), err, r.Verdict)
	}
	time.Sleep(time.Minute)
}

func TestVerdictPredictsTheNextRead(t *testing.T) {
	absent := func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }
	wantVerdicts(t, map[string]verdictCase{
		"nothing": {func(*explained) {}, "The Loader runs, unless another instance is loading the key.", true, nil, func(r strata.Report) bool {
			return r.Name == "k" && !r.L1.Present && !r.L2.Present
		}},
		"fresh in L1": {func(p *explained) { p.set(p.b) }, "L1 answers: its value is fresh for another 1m0s.", false, nil, nil},
		"fresh in L2": {func(p *explained) { p.set(p.a) }, "L2 answers: its value is fresh", false, nil, nil},
		"stale in L1": {func(p *explained) { p.set(p.b); p.sleep(61 * time.Second) }, "L1 answers with a stale value, which is refreshed", true, nil, nil},
		"stale in L2": {func(p *explained) { p.set(p.a); p.sleep(61 * time.Second) }, "L2 answers with a stale value, which is refreshed", true, nil, nil},
		"expired": {func(p *explained) { p.set(p.a); lab.Must(p.t, p.a.Expire(p.t.Context(), "k")) }, "L2 has a stale value, in case the load fails. The Loader runs, ", true, nil, func(r strata.Report) bool {
			return r.L2.Expired && r.L2.Present
		}},
		"expired with everything": {func(p *explained) { p.set(p.b); lab.Must(p.t, p.a.ExpireAll(p.t.Context())) }, "L1 answers with a stale value, which is refreshed", true, nil, func(r strata.Report) bool {
			return r.L1.Present && !r.L1.Expired && r.L1.Fresh <= 0 && !r.L2.Expired
		}},
		"expired with everything, in L2": {func(p *explained) { p.set(p.a); lab.Must(p.t, p.a.ExpireAll(p.t.Context())) }, "L2 answers with a stale value, which is refreshed", true, nil, nil},
		"expired with everything long ago": {func(p *explained) {
			p.set(p.b)
			lab.Must(p.t, p.a.ExpireAll(p.t.Context()))
			p.sleep(11 * time.Second)
		}, "L2 has a stale value, in case the load fails. The Loader runs, ", true, nil, nil},
		"not found in L1": {func(p *explained) { _, _ = p.b.GetOrLoad(p.t.Context(), "k", absent) }, "L1 answers that the origin does not have the key for another", false, strata.ErrNotFound, func(r strata.Report) bool {
			return r.L1.NotFound && r.L2.NotFound && !r.L1.Present && !r.L2.Present
		}},
		"not found in L2": {func(p *explained) { _, _ = p.a.GetOrLoad(p.t.Context(), "k", absent) }, "L2 answers that the origin does not have the key", false, strata.ErrNotFound, nil},
		"dropped by a tag": {func(p *explained) {
			p.set(p.b, strata.WithTags("t"))
			lab.Must(p.t, p.a.InvalidateTags(p.t.Context(), "t"))
		}, "The entry of L2 was dropped by one of its tags. The Loader runs, ", true, nil, func(r strata.Report) bool {
			return r.L1.DroppedByTag && r.L2.DroppedByTag && !r.L1.Present && !r.L2.Present && r.L2.Fresh == 0 && r.L2.Tags[0] == "t"
		}},
		"expired by a tag": {func(p *explained) {
			p.set(p.b, strata.WithTags("t"))
			lab.Must(p.t, p.a.ExpireTags(p.t.Context(), "t"))
		}, "L2 has a stale value", true, nil, func(r strata.Report) bool {
			return r.L1.Present && r.L1.Expired && r.L1.Fresh == 0 && r.L2.Present && r.L2.Expired && r.L2.Fresh <= 0
		}},
	})
}

func TestVerdictDuringALoadPredictsTheNextRead(t *testing.T) {
	fails := func(context.Context, string) (int64, error) { return 0, lab.ErrDown }
	slow := &lab.Origin{Takes: 10 * time.Second}
	off := func(p *explained) { lab.Tune(p.t, p.b, strata.Tuning{Off: new(true)}) }
	wantVerdicts(t, map[string]verdictCase{
		"suspect in L1 while L2 does not answer": {func(p *explained) {
			p.set(p.b)
			p.ear.Cut()
			synctest.Wait()
			lab.Must(p.t, p.a.Invalidate(p.t.Context(), "k"))
			p.deaf.Store(true)
			p.ear.Join()
		}, "L1 answers, though L2 does not confirm its value", false, nil, func(r strata.Report) bool {
			return r.L1.Suspect && r.L2.Err != nil
		}},
		"a failure": {func(p *explained) { _, _ = p.b.GetOrLoad(p.t.Context(), "k", fails) }, "The read fails with the error of the last load", false, lab.ErrDown, func(r strata.Report) bool {
			return r.Failures == 1 && r.RetryIn > 0 && errors.Is(r.Err, lab.ErrDown)
		}},
		"a failure with a stale value": {func(p *explained) {
			p.set(p.b)
			p.sleep(80 * time.Second)
			_, _ = p.b.GetOrLoad(p.t.Context(), "k", fails)
		}, "L1 answers with a stale value: a load has failed", false, nil, nil},
		"a failure with a stale value in L2": {func(p *explained) {
			_, _ = p.b.GetOrLoad(p.t.Context(), "k", fails)
			_, _ = p.a.GetOrLoad(p.t.Context(), "k", lab.PlainLoad, strata.WithTTL(time.Second))
			p.sleep(12 * time.Second)
		}, "L2 answers with a stale value: a load has failed", false, nil, nil},
		"a load": {func(p *explained) {
			go p.b.GetOrLoad(p.t.Context(), "k", slow.Load)
			synctest.Wait()
		}, "The read joins the load that is running, for which 1 callers wait.", false, nil, nil},
		"a load elsewhere": {func(p *explained) {
			go p.a.GetOrLoad(p.t.Context(), "k", slow.Load)
			synctest.Wait()
		}, "The Loader runs, unless another instance is loading the key.", false, nil, nil},
		"a SkipRead": {func(p *explained) {
			go p.b.GetOrLoad(p.t.Context(), "k", slow.Load, strata.SkipRead())
			synctest.Wait()
		}, "The read joins the load that is running, for which 1 callers wait.", false, nil, nil},
		"a SkipRead of a value in L2": {func(p *explained) {
			p.set(p.a)
			synctest.Wait() // its message would fence the SkipRead
			go p.b.GetOrLoad(p.t.Context(), "k", slow.Load, strata.SkipRead())
			synctest.Wait()
		}, "L2 answers: its value is fresh for another 1m0s.", false, nil, func(r strata.Report) bool {
			return r.Loading && r.Waiters == 1
		}},
		"a SkipRead of a stale value in L2": {func(p *explained) {
			p.set(p.a)
			p.sleep(61 * time.Second)
			go p.b.GetOrLoad(p.t.Context(), "k", slow.Load, strata.SkipRead())
			synctest.Wait()
		}, "The read joins the load that is running, for which 1 callers wait.", false, nil, nil},
		"off": {func(p *explained) {
			p.set(p.b)
			off(p)
		}, "The Loader runs: the cache is turned off on this instance.", true, nil, nil},
		"off, and a failure": {func(p *explained) {
			off(p)
			_, _ = p.b.GetOrLoad(p.t.Context(), "k", fails)
		}, "The read fails with the error of the last load", false, lab.ErrDown, nil},
		"off, and a load": {func(p *explained) {
			off(p)
			go p.b.GetOrLoad(p.t.Context(), "k", slow.Load)
			synctest.Wait()
		}, "The read joins the load that is running, for which 1 callers wait.", false, nil, nil},
		"a hold": {func(p *explained) { lab.Must(p.t, p.a.InvalidateHold(p.t.Context(), time.Minute, "k")) }, "The Loader runs; its value is stored nowhere, because the key is on hold for another 1m0s.", true, nil, func(r strata.Report) bool {
			return r.Hold == time.Minute
		}},
		"a pending drop": {func(p *explained) {
			p.set(p.a)
			p.down.Store(true)
			_ = p.b.Invalidate(p.t.Context(), "k")
		}, "L2 is read past until it confirms a drop that is pending. The Loader runs.", true, nil, func(r strata.Report) bool {
			return r.Pending && r.L2.Present
		}},
	})
}
