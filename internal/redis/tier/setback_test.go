package tier_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// TestNoMoreIsLeftThanWasRequested has a server whose clock was an hour ahead when it granted a
// hold and a lease. Now the clock shows 1 s.
func TestNoMoreIsLeftThanWasRequested(t *testing.T) {
	null, ahead := "$-1\r\n", "3611000"
	for _, c := range []struct {
		name, lease, hold string
		grant             remote.Grant
		wait              time.Duration
		writes            string
	}{
		{"a hold", null, bulk("11000 10000"), remote.OnHold, 10 * time.Second, ""},
		{"a hold from a clock that was ahead", null, bulk(ahead + " 10000"), remote.OnHold, 10 * time.Second, "h 11000 10000"},
		{"a lease", bulk("a 11000 10000"), null, remote.Busy, 10 * time.Second, "w1 1"},
		{"a lease from a clock a little ahead", bulk("a 11900 10000"), null, remote.Busy, 10900 * time.Millisecond, "w1 1"},
		{"a lease from a clock that was ahead", bulk("a " + ahead + " 10000"), null, remote.Granted, 0, "61000 60000"},
	} {
		s := withoutEngine("ERR unknown command 'EVAL'")
		answer := s.answer
		var wrote []string
		s.answer = func(command string) string {
			if strings.HasPrefix(command, "HSET") {
				wrote = append(wrote, command)
			}
			if strings.HasPrefix(command, "HMGET") && strings.Contains(command, "l1 h w1") {
				return fmt.Sprintf("*5\r\n%s%s%s%s%s", null, c.lease, c.hold, null, null)
			}
			return answer(command)
		}
		tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
		_, l, err := kit.Acquire(t.Context(), tr, "k", time.Minute)
		if err != nil || l.Grant != c.grant || l.Wait != c.wait {
			t.Errorf("%s: %+v, %v; want grant %d, wait %v", c.name, l, err, c.grant, c.wait)
		}
		if got := strings.Join(wrote, "\n"); !strings.HasSuffix(got, c.writes) || c.writes == "" && got != "" {
			t.Errorf("%s: wrote %q, want %q", c.name, got, c.writes)
		}
	}
}
