package ledger_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// checker is a bus that checks itself.
type checker struct{ *stratatest.Bus }

func (checker) Checks() bool { return true }

func (c checker) Follow(name string, f func(remote.Event)) (stop func()) {
	var mu sync.Mutex // one call at a time
	tell := func(e remote.Event) {
		mu.Lock()
		defer mu.Unlock()
		f(e)
	}
	end := c.Bus.Follow(name, tell)
	ticker, done := time.NewTicker(time.Second), make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				tell(remote.Event{})
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		end()
	}
}

// tells sets the options of an instance on a bus that checks itself, with a tier
// that tells its count of changes, as old as the count may be.
func (e *end) tells(o *ledger.Options) {
	o.Bus = checker{e.bus}
	var asked time.Time
	var text string
	o.Changes = func(ctx context.Context) (_ string, err error) {
		if time.Since(asked) >= remote.ChangesAge {
			asked = time.Now()
			text, err = e.tier.Changes(ctx)
		}
		return text, err
	}
}

// startTelling is start for such an instance.
func startTelling(t *testing.T, tier *stratatest.Tier, bus *stratatest.Bus, change ...func(*ledger.Options)) *end {
	t.Helper()
	e := &end{tier: tier.Bind(remote.Space{Name: "n"}).(*stratatest.Tier), bus: bus}
	return start(t, tier, bus, append([]func(*ledger.Options){e.tells}, change...)...)
}

func TestPositionsAreNotAskedForWhileNothingIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		tier := newTier(bus)
		e, other := startTelling(t, tier, bus), startTelling(t, tier, bus.Connect())
		time.Sleep(10 * time.Second)
		e.asked.Store(0)
		other.asked.Store(0)
		time.Sleep(10 * time.Minute)
		if a, b := e.asked.Load(), other.asked.Load(); a+b != 0 || !e.Connected() || !other.Connected() {
			t.Errorf("asked %d and %d times in ten minutes, connected %v and %v", a, b, e.Connected(), other.Connected())
		}
		for range 600 {
			e.drop("a")
			time.Sleep(100 * time.Millisecond)
		}
		if n := e.asked.Load() + other.asked.Load(); n < 15 || n > 32 { // once in 2.4 s to 3 s, by one of the two
			t.Errorf("asked %d times in a minute of drops", n)
		}
	})
}

func TestLastMessageThatIsLostIsFoundByTheChangesOfTheTier(t *testing.T) {
	for after := range 30 {
		bubble(t, func(t *testing.T) {
			bus := stratatest.NewBus()
			e := startTelling(t, newTier(bus), bus)
			time.Sleep(time.Minute + time.Duration(after)*100*time.Millisecond)
			stamp := e.generation.Watermark()
			bus.Lose(1)
			e.drop("a")
			time.Sleep(5 * time.Second)
			if a, b := e.judge(stamp, "a"), e.judge(stamp, "b"); a != ledger.Suspect || b != ledger.Valid {
				t.Errorf("%d: after 5 s a is %v and b is %v, want suspect and valid", after, a, b)
			}
		})
	}
}

// TestDropJustAfterAPositionIsNotOverlooked: a position settles no change that came after
// the question for it was sent.
func TestDropJustAfterAPositionIsNotOverlooked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		var late atomic.Pointer[func()]
		e := startTelling(t, newTier(bus), bus, func(o *ledger.Options) {
			position := o.Position
			o.Position = func(ctx context.Context) (remote.Position, error) {
				p, err := position(ctx)
				if f := late.Swap(nil); f != nil {
					(*f)()
				}
				return p, err
			}
		})
		time.Sleep(time.Minute)
		stamp := e.generation.Watermark()
		lose := func() {
			time.Sleep(3 * time.Second)
			bus.Lose(1)
			if _, err := e.tier.Drop(t.Context(), []remote.Drop{{Key: "a"}}); err != nil {
				t.Error(err)
			}
		}
		late.Store(&lose)
		e.drop("b")
		time.Sleep(12 * time.Second)
		if a := e.judge(stamp, "a"); a != ledger.Suspect {
			t.Errorf("a is %v, want suspect", a)
		}
	})
}

// TestPositionThatIsNotToldSettlesNothing: while the tier does not answer the question for
// its position, a change that it has told stays open, so that the lost drop is found later.
func TestPositionThatIsNotToldSettlesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := startTelling(t, newTier(bus), bus)
		time.Sleep(time.Minute)
		stamp := e.generation.Watermark()
		e.down.Store(true)
		bus.Lose(1)
		e.drop("a")
		time.Sleep(10 * time.Second)
		e.down.Store(false)
		time.Sleep(5 * time.Second)
		if a := e.judge(stamp, "a"); a != ledger.Suspect {
			t.Errorf("a is %v, want suspect", a)
		}
	})
}
