package limit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/limit"
)

// retries returns the number of retries that b allows at now.
func retries(b *limit.Budget, now time.Duration) (n int) {
	for b.Retry(int64(now)) {
		n++
	}
	return n
}

func succeed(b *limit.Budget, times int) {
	for range times {
		b.Success()
	}
}

func TestRetriesAreAFifthOfSuccessesAndTenInASecond(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		successes int
		at        []time.Duration
		want      []int
	}{
		"nothing has succeeded":               {0, []time.Duration{0}, []int{10}},
		"with any zero of the clock":          {0, []time.Duration{day}, []int{10}},
		"a fifth of a token is none":          {4, []time.Duration{0}, []int{10}},
		"five successes are one":              {5, []time.Duration{0}, []int{11}},
		"tokens are kept":                     {50, []time.Duration{day, day + time.Second}, []int{20, 10}},
		"up to a hundred":                     {500, []time.Duration{0}, []int{110}},
		"and no more":                         {5000, []time.Duration{0}, []int{110}},
		"ten in each second":                  {0, []time.Duration{day, day + 1, day + time.Second - 1, day + time.Second}, []int{10, 0, 0, 10}},
		"a second begins with the first":      {0, []time.Duration{day, day + 3*time.Second/2, day + 2*time.Second}, []int{10, 10, 0}},
		"a time from before begins no second": {0, []time.Duration{day, day - time.Second}, []int{10, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var b limit.Budget
			succeed(&b, test.successes)
			for i, at := range test.at {
				if n := retries(&b, at); n != test.want[i] {
					t.Errorf("%d retries at %v, want %d", n, at, test.want[i])
				}
			}
		})
	}
}

func TestTokensAreTakenBeforeTheRetriesOfASecond(t *testing.T) {
	var b limit.Budget
	succeed(&b, 10)
	for range 2 {
		if !b.Retry(0) {
			t.Fatal("two tokens do not last for two retries")
		}
	}
	if n := retries(&b, 1); n != 10 {
		t.Errorf("%d retries without a token, want 10", n)
	}
}

func TestBudgetLosesNoSuccessHoweverCallersInterleave(t *testing.T) {
	const callers, rounds = 4, 2000
	for range rounds {
		var b limit.Budget
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() { succeed(&b, 120) })
		}
		wg.Wait()
		if n := retries(&b, 0); n != 4*120/5+10 {
			t.Fatalf("%d retries are allowed, want 106", n)
		}
	}
}

func TestBudgetSpendsNoTokenTwiceHoweverCallersInterleave(t *testing.T) {
	const callers, rounds = 4, 2000
	for range rounds {
		var b limit.Budget
		succeed(&b, 500)
		var allowed atomic.Int64
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() { allowed.Add(int64(retries(&b, 0))) })
		}
		wg.Wait()
		if n := allowed.Load(); n != 110 {
			t.Fatalf("%d retries were allowed, want 110", n)
		}
	}
}
