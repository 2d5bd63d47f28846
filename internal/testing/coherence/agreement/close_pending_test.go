package agreement_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/remote"
)

// pendingInstance returns two instances. An invalidation of "k" by a is pending while
// down is set, and b has the older value.
func pendingInstance(t *testing.T, down *atomic.Bool, change ...func(*strata.Options[string, int64])) (a, b *strata.Cache[string, int64]) {
	t.Helper()
	s := lab.NewShared()
	change = append(change, func(o *strata.Options[string, int64]) {
		o.Remote.Tier = lab.Failing(lab.Failing(lab.Failing(s.Tier, "Drop", down), "DropTags", down), "DropAll", down)
	})
	a = lab.Instance(t, s, change...)
	b = lab.Instance[string, int64](t, s)
	lab.Must(t, b.Set(t.Context(), "k", 1))
	synctest.Wait()
	down.Store(true)
	if err := a.Invalidate(t.Context(), "k"); err == nil {
		t.Fatal("confirmed by an L2 that is down")
	}
	return a, b
}

func TestCloseCarriesOutPendingInvalidations(t *testing.T) {
	for name, obedient := range map[string]bool{"with a load that ends": true, "with a load that hangs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var down atomic.Bool
				a, b := pendingInstance(t, &down)
				release := make(chan struct{})
				go a.GetOrLoad(context.Background(), "other", func(ctx context.Context, _ string) (int64, error) {
					if !obedient {
						<-release
					}
					<-ctx.Done()
					return 0, ctx.Err()
				})
				time.Sleep(10 * time.Second) // attempts are rare by now
				time.AfterFunc(3*time.Second, func() { down.Store(false) })
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				start := time.Now()
				err := a.Close(ctx)
				took := time.Since(start)
				var lost *strata.RemoteError
				if errors.As(err, &lost) {
					t.Errorf("lost: %v", err)
				}
				if obedient && (err != nil || took > 3500*time.Millisecond) {
					t.Errorf("got %v after %v; want nil soon after L2 is back", err, took)
				}
				synctest.Wait()
				lab.WantAbsent(t, "the other instance", b)
				close(release)
			})
		})
	}
}

func TestCloseSaysAndLogsWhichInvalidationsAreLost(t *testing.T) {
	for _, show := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var down atomic.Bool
			var log lab.LogText
			a, _ := pendingInstance(t, &down, func(o *strata.Options[string, int64]) {
				o.Logger, o.ShowKeys = lab.TextLogger(&log), show
			})
			_ = a.Invalidate(t.Context(), "secret")
			_ = a.InvalidateTags(t.Context(), "private")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			start := time.Now()
			err := a.Close(ctx)
			var lost *strata.RemoteError
			if !errors.As(err, &lost) || lost.Op != "close" || lost.Pending != 3 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v; want a *RemoteError of 3 drops that wraps the context's error", err)
			}
			if took := time.Since(start); took != 2*time.Second {
				t.Errorf("it took %v, want 2s", took)
			}
			if again := a.Close(t.Context()); !errors.As(again, &lost) {
				t.Errorf("closed again: got %v, want what is lost", again)
			}
			lines := 0
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, "lost") {
					continue
				}
				lines++
				if !strings.Contains(line, "keys=2 tags=1 all=false") || strings.Contains(line, "secret") != show || strings.Contains(line, "private") != show {
					t.Errorf("ShowKeys %v: %s", show, line)
				}
			}
			if lines != 1 {
				t.Errorf("%d lines of what is lost, want 1:\n%s", lines, log.String())
			}
		})
	}
}

func TestCloseWithoutADeadlineTriesForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		a, _ := pendingInstance(t, &down)
		start := time.Now()
		err := a.Close(context.Background())
		var lost *strata.RemoteError
		if took := time.Since(start); took != 10*time.Second || !errors.As(err, &lost) {
			t.Errorf("got %v after %v; want a *RemoteError after 10s", err, took)
		}
		idle := lab.Instance[string, int64](t, lab.NewShared())
		start = time.Now()
		lab.Must(t, idle.Close(context.Background()))
		if took := time.Since(start); took != 0 {
			t.Errorf("with nothing pending it took %v", took)
		}
	})
}

func TestInvalidationDuringCloseSaysThatItIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := lab.NewShared(), &lab.Patient{}
		a := lab.IllInstance(t, s, p)
		p.Hangs.Store(true)
		ended := make(chan error, 1)
		go func() { ended <- a.Invalidate(context.Background(), "k") }()
		synctest.Wait()
		lab.Must(t, a.Close(t.Context()))
		var unconfirmed *strata.RemoteError
		if err := <-ended; !errors.As(err, &unconfirmed) || !errors.Is(err, strata.ErrClosed) {
			t.Errorf("got %v; want a *RemoteError that wraps ErrClosed", err)
		}
	})
}

// lateBus is a bus whose subscriptions take long to end, as during a dial.
type lateBus struct {
	remote.Bus
	takes time.Duration
}

// Follow follows the bus below.
func (b lateBus) Follow(name string, f func(remote.Event)) (stop func()) {
	end := b.Bus.Follow(name, f)
	return func() {
		<-time.After(b.takes)
		end()
	}
}

func TestCloseReturnsAtItsDeadlineWhileTheBusStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := lab.Instance(t, lab.NewShared(), func(o *strata.Options[string, int64]) { o.Remote.Bus = lateBus{o.Remote.Bus, 8 * time.Second} })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		err := a.Close(ctx)
		if took := time.Since(start); took != 2*time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v after %v; want the error of the context after 2s", err, took)
		}
		lab.Must(t, a.Close(t.Context()))
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("closed again: the bus has stopped after %v, want 8s", took)
		}
	})
}

func TestPendingInvalidationsAreTriedWhileTheBusStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		a, b := pendingInstance(t, &down, func(o *strata.Options[string, int64]) { o.Remote.Bus = lateBus{o.Remote.Bus, 8 * time.Second} })
		time.Sleep(time.Minute) // attempts are rare by now
		down.Store(false)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var lost *strata.RemoteError
		if err := a.Close(ctx); errors.As(err, &lost) {
			t.Errorf("lost: %v", err)
		}
		synctest.Wait()
		lab.WantAbsent(t, "the other instance", b)
	})
}
