package flight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitEndsWithTheOperationsThatHadBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Period
		first := p.Enter()
		var done atomic.Bool
		go func() {
			if err := p.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			done.Store(true)
		}()
		time.Sleep(time.Second) // of the bubble
		later := p.Enter()
		if done.Load() {
			t.Fatal("did not wait")
		}
		p.Leave(first)
		time.Sleep(time.Second) // of the bubble
		if !done.Load() {
			t.Error("waits for an operation that began later")
		}
		p.Leave(later)
	})
}

func TestWaitThatWasGivenUpIsMadeUpForByTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Period
		first := p.Enter()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, while an operation runs", err)
			}
			cancel()
		}
		p.Leave(first)
		if err := p.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestOperationsOfManyGoroutinesAreCounted(t *testing.T) {
	var p Period
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				p.Leave(p.Enter())
			}
		})
	}
	for range 50 {
		if err := p.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if p.running[0].Load() != 0 || p.running[1].Load() != 0 {
		t.Error("the counters are not zero")
	}
}
