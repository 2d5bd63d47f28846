package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

func TestAddAndTakeReturnAtTheirOwnDeadline(t *testing.T) {
	for _, op := range []string{"Acquire", "Put", "Release", "Get"} {
		for _, take := range []bool{false, true} {
			t.Run(fmt.Sprint(op, take), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := lab.NewShared()
					var slow atomic.Bool
					c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
						o.Remote.Timeout = 3 * time.Second
						o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(o, _ string) (time.Duration, error) {
							if slow.Load() && o == op {
								return 2 * time.Second, nil
							}
							return 0, nil
						})
					})
					if take {
						lab.Must(t, c.Set(t.Context(), "k", 1))
					}
					slow.Store(true)
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					begun := time.Now()
					var err error
					if take {
						_, _, err = c.Take(ctx, "k")
					} else {
						_, err = c.Add(ctx, "k", 1)
					}
					if took := time.Since(begun); took > 250*time.Millisecond {
						t.Errorf("%v after %v, want 100ms", err, took)
					}
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				})
			})
		}
	}
}

func TestAddOverATierThatExitsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var exits atomic.Bool
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (time.Duration, error) {
				if exits.Load() && op == "Acquire" {
					lab.ExitGoroutine()
				}
				return 0, nil
			})
		})
		exits.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if added, err := c.Add(ctx, "k", 1); added || err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v; want the error of the tier", added, err)
		}
	})
}

// TestQuestionOfAnAddThatHasLeftGivesItsLeaseBack: the answer comes after the caller has left. Close waits for it.
func TestQuestionOfAnAddThatHasLeftGivesItsLeaseBack(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
				o.Remote.Timeout, o.Limits.Lease = 3*time.Second, time.Minute
				o.Remote.Tier = leaseAnsweredLate{s.Tier}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := a.Add(ctx, "k", 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if begun := time.Now(); closes {
				lab.Must(t, a.Close(t.Context()))
				if took := time.Since(begun); took != 1900*time.Millisecond {
					t.Errorf("Close took %v, want 1.9s", took)
				}
			} else {
				time.Sleep(2 * time.Second)
			}
			begun := time.Now()
			lab.MustGet(t, lab.Instance[string, int64](t, s), "k", (&lab.Origin{}).Load)
			if took := time.Since(begun); took != 0 {
				t.Errorf("another instance waited %v for the lease", took)
			}
		})
	}
}

// leaseAnsweredLate grants leases at once, and answers two seconds later.
type leaseAnsweredLate struct{ remote.Tier }

func (l leaseAnsweredLate) Bind(s remote.Space) remote.Tier {
	view, _ := remote.Bind(l.Tier, s)
	return leaseAnsweredLate{view}
}

func (l leaseAnsweredLate) Acquire(ctx context.Context, rs []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	defer time.Sleep(2 * time.Second) // in a bubble
	return l.Tier.Acquire(ctx, rs, d)
}
