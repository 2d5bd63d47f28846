package test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// journal counts the lines of a log by their messages.
type journal struct {
	slog.Handler
	mu    sync.Mutex // guards below
	lines map[string]int
	cause map[string]string // of the last line
}

func newJournal() *journal {
	return &journal{Handler: slog.DiscardHandler, lines: map[string]int{}, cause: map[string]string{}}
}

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines[r.Message]++
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			j.cause[r.Message] = a.Value.String()
		}
		return true
	})
	return nil
}

func (j *journal) said() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.lines)
}

func (j *journal) why(line string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cause[line]
}

// TestLinesAboutTheBusOfRedisCarryTheirCause takes the right to subscribe away,
// and then the server.
func TestLinesAboutTheBusOfRedisCarryTheirCause(t *testing.T) {
	r := servers.StartRedis(t)
	admin := r.Client(t)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels").Err(); err != nil {
		t.Fatal(err)
	}
	j := newJournal()
	_, _ = instance(t, r, func(o *strata.Options[string, int64]) {
		o.Logger = slog.New(j)
		o.Remote.Bus = redis.NewBus(r.Client(t, func(o *redis.Options) { o.Username, o.Password = "deaf", "secret" }))
	})
	const never = "strata: bus has not connected: it is out of reach, or the right to SUBSCRIBE is missing"
	eventually(t, "it is said that the bus has not connected", func() bool { return j.said()[never] > 0 })
	if why := j.why(never); !strings.Contains(why, "NOPERM") {
		t.Errorf("the cause is %q, want what the server said", why)
	}
	c, _ := instance(t, r, func(o *strata.Options[string, int64]) { o.Logger = slog.New(j) })
	eventually(t, "another bus is connected", func() bool { return c.Stats().Connected })
	r.Kill()
	eventually(t, "the bus is silent", func() bool { return j.said()["strata: bus is silent"] > 0 })
	if why := j.why("strata: bus is silent"); why == "" || why == "<nil>" {
		t.Error("a bus that is silent has no cause")
	} else {
		t.Log(why)
	}
}

// TestFullRedisIsReadFromAndNotLeftAlone lets a server run out of memory under 12
// seconds of traffic: it refuses leases and values, and carries out all else.
func TestFullRedisIsReadFromAndNotLeftAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	r := servers.StartRedis(t)
	j := newJournal()
	c, _ := instance(t, r, func(o *strata.Options[string, int64]) { o.Logger = slog.New(j) })
	peer, _ := instance[string, int64](t, r)
	client := r.Client(t)
	joined(t, "warm", peer, c)
	if err := peer.Set(t.Context(), "held", 7); err != nil {
		t.Fatal(err)
	}
	if err := client.Do(t.Context(), "CONFIG", "SET", "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	var runs sync.WaitGroup
	o := &counter{}
	for w := range 4 {
		runs.Go(func() {
			for i := 0; stop.Err() == nil; i++ {
				mustGet(t, c, fmt.Sprint(w, "-", i), o.load)
				if i%10 == 0 {
					_ = c.Invalidate(t.Context(), fmt.Sprint(w, "-", i))
					_ = c.Set(t.Context(), "set", 1)
				}
				<-time.After(2 * time.Millisecond)
			}
		})
	}
	flips, gaps, open, connected := 0, 0, false, true
	for stop.Err() == nil {
		st := c.Stats()
		if st.BreakerOpen != open {
			flips++
		}
		if connected && !st.Connected {
			gaps++
		}
		open, connected = st.BreakerOpen, st.Connected
		<-time.After(200 * time.Microsecond)
	}
	runs.Wait()
	total := 0
	for _, n := range j.said() {
		total += n
	}
	t.Logf("12 s of a full Redis: the breaker changed %d times, the bus was silent %d times, %d lines in the log: %v; %d errors, %d loads",
		flips, gaps, total, j.said(), c.Stats().L2.Errors, c.Stats().Loads.Total())
	if flips > 0 || gaps > 0 || total > 12 {
		t.Error("a server that refuses to store is left alone, or fills the log")
	}
	if v, ok := c.Get(t.Context(), "held"); v != 7 || !ok {
		t.Errorf("got %d, %v, which L2 holds", v, ok)
	}
	if err := client.Do(t.Context(), "CONFIG", "SET", "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	n := 0
	eventually(t, "loads are stored in L2 again", func() bool {
		n++
		key := fmt.Sprint("later", n)
		mustGet(t, c, key, o.load)
		_, ok := peer.Get(t.Context(), key)
		return ok
	})
}

// TestWritersThatLeaveDoNotSilenceAHealthyRedis has callers with contexts that
// ended before the call, or end in the middle of it.
func TestWritersThatLeaveDoNotSilenceAHealthyRedis(t *testing.T) {
	r := servers.StartRedis(t)
	j := newJournal()
	c, _ := instance(t, r, func(o *strata.Options[string, int64]) { o.Logger = slog.New(j) })
	peer, _ := instance[string, int64](t, r)
	joined(t, "warm", peer, c)
	if err := peer.Set(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	type writer struct {
		name string
		call func(context.Context) error
	}
	for _, w := range []writer{
		// Set is not the last: its value may stay.
		{"Set", func(ctx context.Context) error { return c.Set(ctx, "k", 2) }},
		{"Invalidate", func(ctx context.Context) error { return c.Invalidate(ctx, "k") }},
		{"InvalidateTags", func(ctx context.Context) error { return c.InvalidateTags(ctx, "t") }},
		{"InvalidateAll", func(ctx context.Context) error { return c.InvalidateAll(ctx) }},
	} {
		for i := range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			if i%2 == 0 {
				cancel()
			} else {
				time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
			}
			var unconfirmed *strata.RemoteError
			if err := w.call(ctx); err != nil && (!errors.As(err, &unconfirmed) || !errors.Is(err, context.Canceled)) {
				t.Errorf("%s: %v", w.name, err)
			}
			cancel()
			if st := c.Stats(); st.BreakerOpen || !st.Connected || st.L2.Errors > 0 {
				t.Fatalf("%s: breaker open %v, connected %v, %d errors", w.name, st.BreakerOpen, st.Connected, st.L2.Errors)
			}
		}
	}
	eventually(t, "all is carried out", func() bool {
		_, ok := peer.Get(t.Context(), "k")
		return !ok && c.Stats().Pending == 0
	})
	for what := range j.said() {
		if strings.Contains(what, "L2") || strings.Contains(what, "silent") {
			t.Errorf("the log says %q", what)
		}
	}
}
