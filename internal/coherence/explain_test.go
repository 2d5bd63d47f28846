package coherence_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
)

// TestVerdictIsWhatAReadThenGets compares the verdict of Explain, in each state
// that a key can be in, with what a read does next.
func TestVerdictIsWhatAReadThenGets(t *testing.T) {
	type cache = *strata.Cache[string, int64]
	var down atomic.Bool
	fails := func(context.Context, string) (int64, error) { return 0, errDown }
	absent := func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound }
	hangs := func(ctx context.Context, _ string) (int64, error) { time.Sleep(10 * time.Second); return 9, nil }
	set := func(t *testing.T, c cache, o ...strata.CallOption) { must(t, c.Set(t.Context(), "k", 5, o...)) }
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, a, b cache) // b is asked
		want    string                         // in the verdict
		loads   bool                           // whether the next read of b loads
		err     error
		check   func(r strata.Report) bool
	}{
		"nothing": {func(*testing.T, cache, cache) {}, "The Loader runs.", true, nil, func(r strata.Report) bool {
			return r.Name == "k" && !r.L1.Present && !r.L2.Present
		}},
		"fresh in L1": {func(t *testing.T, a, b cache) { set(t, b) }, "L1 answers: its value is fresh for another 1m0s.", false, nil, nil},
		"fresh in L2": {func(t *testing.T, a, b cache) { set(t, a) }, "L2 answers: its value is fresh", false, nil, nil},
		"stale in L1": {func(t *testing.T, a, b cache) { set(t, b); time.Sleep(61 * time.Second) }, "L1 answers with a stale value, which is refreshed", true, nil, nil},
		"stale in L2": {func(t *testing.T, a, b cache) { set(t, a); time.Sleep(61 * time.Second) }, "L2 answers with a stale value, which is refreshed", true, nil, nil},
		"expired": {func(t *testing.T, a, b cache) { set(t, a); must(t, a.Expire(t.Context(), "k")) }, "L2 has a stale value, in case the load fails. The Loader runs.", true, nil, func(r strata.Report) bool {
			return r.L2.Expired && r.L2.Present
		}},
		"not found in L1": {func(t *testing.T, a, b cache) { _, _ = b.GetOrLoad(t.Context(), "k", absent) }, "L1 answers that the origin does not have the key for another", false, strata.ErrNotFound, func(r strata.Report) bool {
			return r.L1.NotFound && r.L2.NotFound && !r.L1.Present && !r.L2.Present
		}},
		"not found in L2": {func(t *testing.T, a, b cache) { _, _ = a.GetOrLoad(t.Context(), "k", absent) }, "L2 answers that the origin does not have the key", false, strata.ErrNotFound, nil},
		"a failure": {func(t *testing.T, a, b cache) { _, _ = b.GetOrLoad(t.Context(), "k", fails) }, "The read fails with the error of the last load", false, errDown, func(r strata.Report) bool {
			return r.Failures == 1 && r.RetryIn > 0 && errors.Is(r.Err, errDown)
		}},
		"a failure with a stale value": {func(t *testing.T, a, b cache) {
			set(t, b)
			time.Sleep(80 * time.Second)
			_, _ = b.GetOrLoad(t.Context(), "k", fails)
		}, "L1 answers with a stale value: a load has failed", false, nil, nil},
		"dropped by a tag": {func(t *testing.T, a, b cache) {
			set(t, b, strata.WithTags("t"))
			must(t, a.InvalidateTags(t.Context(), "t"))
		}, "What L2 has was dropped by one of its tags. The Loader runs.", true, nil, func(r strata.Report) bool {
			return r.L1.DroppedByTag && r.L2.DroppedByTag && !r.L1.Present && !r.L2.Present && r.L2.Fresh == 0 && r.L2.Tags[0] == "t"
		}},
		"expired by a tag": {func(t *testing.T, a, b cache) {
			set(t, b, strata.WithTags("t"))
			must(t, a.ExpireTags(t.Context(), "t"))
		}, "L2 has a stale value", true, nil, func(r strata.Report) bool {
			return r.L1.Present && r.L1.Expired && r.L1.Fresh == 0 && r.L2.Present && r.L2.Expired && r.L2.Fresh <= 0
		}},
		"a load": {func(t *testing.T, a, b cache) {
			go b.GetOrLoad(t.Context(), "k", hangs)
			synctest.Wait()
		}, "The read joins the load that is running, for which 1 callers wait.", false, nil, nil},
		"a hold": {func(t *testing.T, a, b cache) { must(t, a.InvalidateHold(t.Context(), time.Minute, "k")) }, "The Loader runs; what it brings is kept nowhere, because the key is on hold for another 1m0s.", true, nil, func(r strata.Report) bool {
			return r.Hold == time.Minute
		}},
		"a pending drop": {func(t *testing.T, a, b cache) {
			set(t, a)
			down.Store(true)
			_ = b.Invalidate(t.Context(), "k")
		}, "L2 is read past until it confirms a drop that is pending. The Loader runs.", true, nil, func(r strata.Report) bool {
			return r.Pending && r.L2.Present
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				down.Store(false)
				s := newShared()
				a := instance(t, s, negatives, windows(10*time.Second, time.Hour))
				b := instance(t, s, negatives, windows(10*time.Second, time.Hour), func(o *strata.Options[string, int64]) {
					o.ErrorTTL = 5 * time.Second
					o.Remote.Tier = failing(s.tier, "Drop", &down)
				})
				tc.prepare(t, a, b)
				synctest.Wait()
				r := b.Explain(t.Context(), "k")
				if !strings.Contains(r.Verdict, tc.want) || r.String() != r.Verdict {
					t.Errorf("verdict %q, want %q", r.Verdict, tc.want)
				}
				if tc.check != nil && !tc.check(r) {
					t.Errorf("%+v", r)
				}
				var loads atomic.Int64
				_, err := b.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { loads.Add(1); return 1, nil })
				synctest.Wait()
				if !errors.Is(err, tc.err) || (loads.Load() > 0) != tc.loads {
					t.Errorf("%d loads, %v; the verdict was %q", loads.Load(), err, r.Verdict)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}
