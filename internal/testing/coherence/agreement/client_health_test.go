package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// known is a tier, and knownBus a bus, of a client with a name.
type known struct {
	remote.Tier
	servers *observe.ServerHealth
}

func (k known) Health() any                        { return k.servers }
func (k known) Unwrap() remote.Tier                { return k.Tier }
func (k known) Wrap(inner remote.Tier) remote.Tier { return known{inner, k.servers} }

type knownBus struct {
	remote.Bus
	servers *observe.ServerHealth
}

func (k knownBus) Health() any { return k.servers }

// trio are three caches on one client, with one log.
func trio(t *testing.T, p *lab.Patient, log *lab.LogText) (caches []*strata.Cache[string, int64], hear func(bool)) {
	t.Helper()
	s := lab.NewShared()
	servers := observe.NewServerHealth("10.0.0.1:6379")
	buses := []*stratatest.Bus{}
	for _, name := range []string{"users", "orders", "prices"} {
		bus := s.Bus.Connect()
		buses = append(buses, bus)
		caches = append(caches, lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Name, o.Logger, o.Remote.Tier, o.Remote.Bus = name, lab.TextLogger(log), known{p.On(s.Tier), servers}, knownBus{bus, servers}
		}))
	}
	return caches, func(yes bool) {
		for _, b := range buses {
			if yes {
				b.Join()
			} else {
				b.Cut()
			}
		}
	}
}

func TestHealthOfAServerIsLoggedOnceForAllCachesOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		p := &lab.Patient{}
		caches, _ := trio(t, p, &log)
		time.Sleep(10 * time.Minute)
		if n := strings.Count(log.String(), "\n"); n != 1 || len(lines(&log, "bus is connected")) != 1 {
			t.Errorf("%d lines of three idle caches in ten minutes:\n%s", n, log.String())
		}
		log.Reset()
		p.Fails.Store(true)
		all := func(name string) {
			for _, c := range caches {
				misses(t, c, name, 10)
			}
		}
		all("a")
		for _, want := range []string{"level=WARN msg=\"strata: L2 does not answer\"", "level=WARN msg=\"strata: circuit breaker of L2 is open\""} {
			wantLines(t, &log, 1, want+" caches=\"orders, prices, users\" server=10.0.0.1:6379")
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines about one server:\n%s", n, log.String())
		}
		for i, c := range caches {
			if !c.Stats().BreakerOpen || c.Stats().Parts.L2Server != "10.0.0.1:6379" {
				t.Errorf("cache %d: %+v", i, c.Stats().Parts)
			}
			said := ""
			for _, e := range transfer.Parts(c.Inside()).Panel().Events(0) {
				said += e.Text + "\n"
			}
			if !strings.Contains(said, "circuit breaker of L2 is open server=10.0.0.1:6379") || !strings.Contains(said, "bus is silent server=10.0.0.1:6379 error=the circuit breaker of L2 is open") {
				t.Errorf("the events of cache %d:\n%s", i, said)
			}
		}
		p.Fails.Store(false)
		time.Sleep(lab.BreakFor)
		misses(t, caches[0], "b", 2)
		all("c")
		time.Sleep(time.Minute)
		all("d")
		wantLines(t, &log, 1, "level=INFO msg=\"strata: circuit breaker of L2 is closed\"")
		wantLines(t, &log, 1, "level=INFO msg=\"strata: L2 answers again\"")
		if n := strings.Count(log.String(), "\n"); n != 4 {
			t.Errorf("%d lines about one outage:\n%s", n, log.String())
		}
	})
}

func TestServerThatFailsNowAndThenFillsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		p := &lab.Patient{}
		caches, _ := trio(t, p, &log)
		log.Reset()
		for i := range 60 { // a minute: it fails for a second in three
			p.Fails.Store(i%3 == 0)
			for _, c := range caches {
				misses(t, c, fmt.Sprint(i, "-"), 10)
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n < 4 || n > 12 {
			t.Errorf("%d lines in a minute:\n%s", n, log.String())
		}
		p.Fails.Store(true) // for good
		for i := range 150 {
			for _, c := range caches {
				misses(t, c, fmt.Sprint("dead", i, "-"), 10)
			}
			time.Sleep(time.Second)
		}
		last := lines(&log, "L2 is ")
		if len(last) == 0 || !strings.Contains(last[len(last)-1], "is open") {
			t.Errorf("the last line of the breaker is not true:\n%s", log.String())
		}
	})
}

func TestCacheThatIsClosedHoldsUpNoLineOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		p := &lab.Patient{}
		caches, _ := trio(t, p, &log)
		p.Fails.Store(true)
		for _, c := range caches {
			misses(t, c, "a", 10)
		}
		lab.Must(t, caches[2].Close(context.Background()))
		p.Fails.Store(false)
		time.Sleep(lab.BreakFor)
		misses(t, caches[0], "b", 2)
		misses(t, caches[1], "b", 2)
		wantLines(t, &log, 1, "level=INFO msg=\"strata: circuit breaker of L2 is closed\" caches=\"orders, users\"")
	})
}

func TestSilentBusIsLoggedOnceForAllItsCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		_, hear := trio(t, &lab.Patient{}, &log)
		log.Reset()
		hear(false)
		time.Sleep(10 * time.Second)
		hear(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		wantLines(t, &log, 1, "level=WARN msg=\"strata: bus is silent\" caches=\"orders, prices, users\" server=10.0.0.1:6379")
		wantLines(t, &log, 1, "level=INFO msg=\"strata: bus is connected\"")
	})
}

// plainTier hides the abilities of a tier.
type plainTier struct{ remote.Tier }

func TestBusIsNotConnectedWhileTheBreakerOfAPlainTierIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		s, p := lab.NewShared(), &lab.Patient{}
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.Logger, o.Remote.Tier = lab.TextLogger(&log), p.On(plainTier{s.Tier})
		})
		if !c.Stats().Connected {
			t.Fatal("not connected at first")
		}
		log.Reset()
		p.Hangs.Store(true)
		misses(t, c, "a", 10)
		for range 20 {
			time.Sleep(time.Second)
			if s := c.Stats(); !s.BreakerOpen || s.Connected {
				t.Fatalf("breaker open %v, connected %v; want true, false", s.BreakerOpen, s.Connected)
			}
		}
		if n := len(lines(&log, "bus is connected")); n > 0 {
			t.Errorf("the log says that the bus is connected:\n%s", log.String())
		}
		p.Hangs.Store(false)
		misses(t, c, "b", 2)
		time.Sleep(2 * time.Second)
		if s := c.Stats(); s.BreakerOpen || !s.Connected {
			t.Errorf("it answers: breaker open %v, connected %v; want false, true", s.BreakerOpen, s.Connected)
		}
	})
}

func TestStoresThatGetNoAnswerAreNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lab.LogText
		s := lab.NewShared()
		p := &picky{refuses: []string{"Acquire", "Put", "Extend"}, with: errors.New("i/o timeout")}
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Logger, o.Remote.Tier = lab.TextLogger(&log), p.over(s.Tier) })
		p.on.Store(true)
		for i := range 20 {
			misses(t, c, fmt.Sprint("a", i, "-"), 1)
			_, _ = c.Get(t.Context(), fmt.Sprint("other", i)) // it answers reads
		}
		if c.Stats().StoringStopped || c.Stats().BreakerOpen {
			t.Errorf("storing stopped %v, breaker open %v: nothing was refused", c.Stats().StoringStopped, c.Stats().BreakerOpen)
		}
		wantLines(t, &log, 1, "strata: nothing is stored in L2: stores get no answer\"")
		if strings.Contains(log.String(), "refus") {
			t.Errorf("a refusal in the log:\n%s", log.String())
		}
		if n := p.refused.Load(); n > lab.BreakAfter+1 {
			t.Errorf("asked to store %d times, without an answer", n)
		}
	})
}

func TestUpdateWhoseDropWasConfirmedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		p := &picky{refuses: []string{"Acquire", "Put", "Extend"}, with: errFull}
		c := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = p.over(s.Tier) })
		p.on.Store(true)
		for range 7 { // the last ones are not sent
			for name, err := range map[string]error{
				"update": c.Update(t.Context(), "k", func(context.Context) (int64, error) { return 1, nil }),
				"set":    c.Set(t.Context(), "k", 2),
			} {
				var e *strata.RemoteError
				if !errors.As(err, &e) || !e.Dropped || e.Pending != 0 {
					t.Fatalf("%s: %+v", name, err)
				}
				if text := err.Error(); !strings.HasPrefix(text, "strata: "+name+": the old value is dropped, and the new one is not stored in L2: ") || strings.Contains(text, "pending") {
					t.Errorf("the error says %q", text)
				}
			}
		}
		if v, ok := c.Get(t.Context(), "k"); ok {
			t.Errorf("got %d, which is not stored", v)
		}
		p.refuses = []string{"Drop"}
		err := c.Set(t.Context(), "k", 3)
		if e := (*strata.RemoteError)(nil); !errors.As(err, &e) || e.Dropped || !strings.Contains(err.Error(), "not confirmed by L2 and the bus: OOM") || !strings.HasSuffix(err.Error(), "(1 pending)") {
			t.Errorf("a drop that is refused: %v", err)
		}
	})
}
