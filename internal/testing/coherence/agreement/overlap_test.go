package agreement_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/stratatest"
)

// slowPuts makes the tier of s slow for one instance: its n-th Put lasts for the n-th of
// the durations in next.
func slowPuts(s *lab.Shared, next ...time.Duration) func(*strata.Options[string, int64]) {
	return func(o *strata.Options[string, int64]) {
		o.Remote.Timeout = time.Minute
		o.Remote.Tier = stratatest.FaultyTier(s.Tier, func(op, _ string) (d time.Duration, _ error) {
			if op == "Put" && len(next) > 0 {
				d, next = next[0], next[1:]
			}
			return d, nil
		})
	}
}

func TestSetThatReturnedWhileAnotherRunsLeavesNothingOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, slowPuts(s, 0, 2*time.Second, 9*time.Second))
		if err := c.Set(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
		second := make(chan error)
		go func() { second <- c.Set(t.Context(), "k", 2) }() // 0s to 2s
		synctest.Wait()
		time.Sleep(time.Second)
		go c.Set(t.Context(), "k", 3) // 1s to 10s
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		if v, ok := c.Get(t.Context(), "k"); ok && v == 1 {
			t.Error("got 1, which Set(2), returned by now, was to replace")
		}
		time.Sleep(time.Minute)
	})
}

// TestSetOvertakenByOneThatDiesLeavesNothingOlder is about a Set that another one overtakes, and
// which returns without an error. The other one gets no further than its token.
func TestSetOvertakenByOneThatDiesLeavesNothingOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		reader := lab.Instance[string, int64](t, s)
		setter, dies := lab.Instance(t, s, slowPuts(s, 2*time.Second)), lab.Instance(t, s, slowPuts(s, 50*time.Second))
		lab.Must(t, reader.Set(t.Context(), "k", 1))
		first := make(chan error)
		go func() { first <- setter.Set(t.Context(), "k", 2) }() // 0s to 2s
		synctest.Wait()
		go dies.Set(t.Context(), "k", 3)
		lab.Must(t, <-first)
		synctest.Wait() // for the message
		lab.WantAbsent(t, "an instance with the value from before", reader)
		lab.WantAbsent(t, "an instance without L1", lab.Instance[string, int64](t, s))
		time.Sleep(time.Minute)
	})
}

func TestSetDuringWhichTheKeyExpiresLeavesNothingOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		c := lab.Instance(t, s, slowPuts(s, 0, 2*time.Second))
		if err := c.Set(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
		second := make(chan error)
		go func() { second <- c.Set(t.Context(), "k", 2) }()
		synctest.Wait()
		if err := c.Expire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		v, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { return 0, errors.New("down") })
		if err == nil && v == 1 {
			t.Error("got 1, which Set(2), returned by now, was to replace")
		}
	})
}
