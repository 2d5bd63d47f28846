package stage

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/stratatest"
)

// echo is an origin that answers at once. It may fail for names with an even number.
type echo struct{ half atomic.Bool }

func (e *echo) Greet(_ context.Context, name, locale string) (origin.Greeting, error) {
	if e.half.Load() && strings.ContainsAny(name[len(name)-1:], "02468") {
		return origin.Greeting{}, origin.ErrUnavailable
	}
	return origin.Greeting{Name: name, Locale: locale}, nil
}
func (*echo) Clear(context.Context) (int64, error) { return 0, nil }
func (*echo) Queries() int64                       { return 0 }
func (*echo) Failures() int64                      { return 0 }

// inMemory is a stage of which L2 and the bus are in this process, for the time of a bubble. Its load is small.
func inMemory(t *testing.T) *Stage {
	s := &Stage{o: Options{TTL: DefaultTTL}, origin: &moody{Origin: &echo{}}, load: newGenerator(1)}
	s.origin.latency.Store(int64(DefaultLatency))
	tier, bus := stratatest.NewTier(), stratatest.NewBus()
	for range instanceNames {
		i, err := hello.New(hello.Options{Origin: s.origin, TTL: s.o.TTL, Tier: tier, Bus: bus, Token: testToken})
		if err != nil {
			t.Fatal(err)
		}
		s.instances = append(s.instances, i)
	}
	ctx, end := context.WithCancel(t.Context())
	s.runs.Go(func() { s.load.run(ctx, s.instances) })
	t.Cleanup(func() {
		end()
		s.runs.Wait()
		for _, i := range s.instances {
			if err := i.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// worst loads everything, and returns the largest number of queries of the origin in a second of the next two TTLs,
// and the second in which they came.
func worst(t *testing.T, s *Stage) (queries int64, second int) {
	said, err := s.Do(t.Context(), "load")
	if err != nil || !strings.HasPrefix(said, "500 greetings were loaded at once, and each is asked for 4 times a second, for 2m0s. ") {
		t.Fatalf("%s, %v", said, err)
	}
	last := s.origin.queries.Load()
	for i := range int(2 * s.o.TTL / time.Second) {
		time.Sleep(time.Second) // of the bubble
		now := s.origin.queries.Load()
		if now-last > queries {
			queries, second = now-last, i
		}
		last = now
	}
	return queries, second
}

// Without jitter all greetings loaded at once are loaded again in one second, or in two if the
// moment is at the turn of a second. With jitter they spread over three seconds. In the mode naive
// both instances ask for all.
func TestGreetingsThatWereLoadedAtOnceAreDueAtOnceWithoutJitter(t *testing.T) {
	for _, tt := range []struct {
		name        string
		mode        hello.Mode
		jitter      float64
		least, most int64
		second      int // the first and the last in which they may come
		last        int
	}{
		{"without jitter", hello.Strata, -1, 400, 510, 23, 25},
		{"with jitter", hello.Strata, 0, 150, 300, 20, 24},
		{"naive", hello.Naive, 0, 600, 1020, 29, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inMemory(t)
				for _, i := range s.instances {
					if err := i.SetMode(tt.mode); err != nil {
						t.Fatal(err)
					}
					if _, err := i.RestartWith(t.Context(), hello.Cold, tt.jitter); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(5 * time.Second) // until the bus is heard
				if n, second := worst(t, s); n < tt.least || n > tt.most || second < tt.second || second > tt.last {
					t.Errorf("%d queries in second %d", n, second)
				}
			})
		})
	}
}

func TestCrowdLeavesWithItsModeAndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		requests := func() int64 {
			before := s.instances[0].Stats().Requests + s.instances[1].Stats().Requests
			time.Sleep(time.Second)
			return s.instances[0].Stats().Requests + s.instances[1].Stats().Requests - before
		}
		time.Sleep(5 * time.Second)
		worst(t, s)
		if n := requests(); n < 1900 || n > 2100 {
			t.Errorf("%d requests in a second of the crowd", n)
		}
		time.Sleep(2 * s.o.TTL)
		if n := requests(); n > 50 {
			t.Errorf("%d requests in a second after it", n)
		}
		if _, err := s.loadAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.changeMode(t.Context(), []string{"none"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := requests(); n > 50 {
			t.Errorf("%d requests in a second after a change of the mode", n)
		}
		if said, err := s.loadAll(t.Context(), nil); err != nil || !strings.Contains(said, "no cache") || requests() > 50 {
			t.Errorf("without a cache: %s, %v", said, err)
		}
		s.changeMode(t.Context(), []string{"strata"})
		s.origin.broken.Store(true)
		if said, err := s.loadAll(t.Context(), nil); err == nil || err.Error() != "all loads failed" {
			t.Errorf("with a broken origin: %s, %v", said, err)
		}
		s.origin.broken.Store(false)
		s.origin.Origin.(*echo).half.Store(true)
		time.Sleep(time.Minute)
		if said, err := s.loadAll(t.Context(), nil); err != nil || !strings.HasSuffix(said, " But 250 of 500 loads failed.") {
			t.Errorf("with an origin that has half of them: %s, %v", said, err)
		}
	})
}

func TestActionsTellWhenEverythingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inMemory(t)
		for _, tt := range []struct {
			jitter float64
			mode   hello.Mode
			want   string
			share  float64
		}{
			{-1, hello.Strata, "All are due for a refresh in 24s, at once.", 0},
			{0, hello.Strata, "They are due for a refresh in 21.6s to 24s.", 0.1},
			{0.1, hello.Naive, "The maps lose all of them in 30s, and the origin is asked for all at once.", 0.1},
		} {
			for _, i := range s.instances {
				if _, err := i.RestartWith(t.Context(), hello.Cold, tt.jitter); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.due(tt.mode); got != tt.want || s.jitter() != tt.share {
				t.Errorf("%s, jitter %v; want %s, %v", got, s.jitter(), tt.want, tt.share)
			}
		}
	})
}
