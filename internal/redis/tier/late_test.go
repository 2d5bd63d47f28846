package tier_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// clocked returns an empty server with a clock ahead of the bubble by shift. It runs
// the scripts that acquire a lease and read the namespace state, or neither.
func clocked(scripts bool, shift *time.Duration) *stub {
	plainly := withoutEngine("ERR unknown command 'EVAL'")
	now := func() int64 { return time.Now().Add(*shift).UnixMilli() }
	return &stub{answer: func(command string) string {
		switch {
		case strings.HasPrefix(command, "TIME"):
			sec, usec := strconv.FormatInt(now()/1000, 10), strconv.FormatInt(now()%1000*1000, 10)
			return "*2\r\n" + bulk(sec) + bulk(usec)
		case !scripts:
			return plainly.answer(command)
		case isNamespace(command):
			return fmt.Sprintf("*5\r\n$1\r\ne\r\n:0\r\n:0\r\n:0\r\n:%d\r\n", now())
		}
		args := strings.Fields(command)
		if latest, err := strconv.ParseInt(args[len(args)-1], 10, 64); err != nil || latest < now() {
			return "*4\r\n$4\r\nlate\r\n:0\r\n$-1\r\n$-1\r\n"
		}
		return ok
	}}
}

// TestRequestThatIsCarriedOutLateGetsNoLease has a server stand still for longer
// than the asker waits.
func TestRequestThatIsCarriedOutLateGetsNoLease(t *testing.T) {
	for _, scripts := range []bool{true, false} {
		for _, many := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var shift, stands time.Duration
				s := clocked(scripts, &shift)
				answer := s.answer
				s.answer = func(command string) string {
					if strings.HasPrefix(command, "EVALSHA") && !isNamespace(command) || strings.HasPrefix(command, "WATCH") {
						time.Sleep(stands)
					}
					return answer(command)
				}
				tr := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
				ask := func(wait time.Duration) remote.Lease {
					ctx, cancel := remote.WithTimeout(t.Context(), wait)
					defer cancel()
					if !many {
						_, l, err := kit.Acquire(ctx, tr, "k", time.Minute)
						if err != nil {
							t.Fatal(err)
						}
						return l
					}
					_, l, err := kit.AcquireMany(ctx, tr, []string{"k", "l"}, time.Minute)
					if err != nil {
						t.Fatal(err)
					}
					return l[1]
				}
				if l := ask(100 * time.Millisecond); l.Grant != remote.Granted {
					t.Errorf("scripts %t, many %t: %+v in time", scripts, many, l)
				}
				stands = 300 * time.Millisecond
				if l := ask(100 * time.Millisecond); l.Grant != remote.Busy || l.Token != 0 || l.Wait <= 0 {
					t.Errorf("scripts %t, many %t: %+v for a caller that has left", scripts, many, l)
				}
				if l := ask(time.Minute); l.Grant != remote.Granted {
					t.Errorf("scripts %t, many %t: %+v for a caller that waits", scripts, many, l)
				}
				stands = 0
				if _, l, err := kit.Acquire(context.Background(), tr, "k", time.Minute); err != nil || l.Grant != remote.Granted {
					t.Errorf("%+v, %v without a deadline", l, err)
				}
				// The clock is set: the known one is out of date.
				shift = time.Hour
				if l := ask(100 * time.Millisecond); l.Grant != remote.Granted {
					t.Errorf("scripts %t, many %t: %+v when the server's clock was set", scripts, many, l)
				}
			})
		}
	}
}
