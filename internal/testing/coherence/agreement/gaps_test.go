package agreement_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/kit"
)

// TestGapCostsALoadForADroppedKeyAndAReadForItsLane cuts off an instance with 100 000
// entries, and lets another one invalidate ten of them. With -short it has a quarter of
// the entries.
func TestGapCostsALoadForADroppedKeyAndAReadForItsLane(t *testing.T) {
	const dropped, readers = 10, 4
	entries := kit.Rounds(100_000)
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		tier, asked := lab.CountCalls(s.Tier)
		ear := s.Bus.Connect()
		large := func(o *strata.Options[int, int]) { o.TTL, o.Memory.MaxEntries = time.Hour, int64(2*entries) }
		a := lab.Instance(t, s, large)
		b := lab.Instance(t, s, large, func(o *strata.Options[int, int]) { o.Remote.Tier, o.Remote.Bus = tier, ear })
		values := map[int]int{}
		for i := range entries {
			values[i] = i
		}
		lab.Must(t, a.SetMany(t.Context(), values))
		synctest.Wait()
		for i := range entries {
			if v, ok := b.Get(t.Context(), i); v != i || !ok {
				t.Fatalf("%d: got %d, %v", i, v, ok)
			}
		}
		ear.Cut()
		synctest.Wait()
		suspect := map[uint16]bool{}
		for i := range dropped {
			lab.Must(t, a.Invalidate(t.Context(), i*997))
			suspect[s.Tier.Lane(strconv.Itoa(i*997))] = true
		}
		ear.Join()
		synctest.Wait()

		want := int64(0) // reads of L2: one for each entry of a lane with a drop
		for i := range entries {
			if suspect[s.Tier.Lane(strconv.Itoa(i))] {
				want++
			}
		}
		gets, leases, puts := asked("Get"), asked("Acquire"), asked("Put")
		var loads atomic.Int64
		load := func(_ context.Context, i int) (int, error) {
			loads.Add(1)
			time.Sleep(time.Millisecond)
			return i, nil
		}
		var wg sync.WaitGroup
		for range readers {
			wg.Go(func() {
				for i := range entries {
					if v, err := b.GetOrLoad(t.Context(), i, load); v != i || err != nil {
						t.Errorf("%d: got %d, %v", i, v, err)
					}
				}
			})
		}
		wg.Wait()
		gets, leases, puts = asked("Get")-gets, asked("Acquire")-leases, asked("Put")-puts
		st := b.Stats()
		t.Logf("%d readers of %d entries after %d missed drops: %d loads, %d reads of L2, %d leases, %d stores, %d entries confirmed",
			readers, entries, dropped, loads.Load(), gets, leases, puts, st.Confirmed)
		if loads.Load() != dropped || leases != dropped || puts != dropped {
			t.Errorf("%d loads, %d leases, %d stores; want %d of each", loads.Load(), leases, puts, dropped)
		}
		if gets != want {
			t.Errorf("%d reads of L2; want %d, one for each entry of %d lanes", gets, want, len(suspect))
		}
		if st.Missed != uint64(len(suspect)) || st.Confirmed != uint64(want-dropped) {
			t.Errorf("%d lanes missed, %d entries confirmed; want %d, %d", st.Missed, st.Confirmed, len(suspect), want-dropped)
		}
	})
}

// TestStrictCountsL1AsEmptyAfterThreeSecondsOfSilence loses all messages to an
// instance, without a Gap.
func TestStrictCountsL1AsEmptyAfterThreeSecondsOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		tier, asked := lab.CountCalls(s.Tier)
		ear := s.Bus.Connect()
		a := lab.Instance[string, int64](t, s)
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.TTL = time.Hour
			o.Remote.Tier, o.Remote.Bus, o.Remote.Strict = tier, ear, true
		})
		o := &lab.Origin{}
		lab.MustGet(t, b, "k", o.Load)
		lab.MustGet(t, b, "other", o.Load)
		time.Sleep(time.Minute) // heartbeats keep it connected
		if !b.Stats().Connected {
			t.Fatal("not connected without any fault")
		}
		ear.Hush(true)
		o.Value.Store(2)
		lab.Must(t, a.Invalidate(t.Context(), "k"))
		time.Sleep(3*time.Second + time.Millisecond)
		before := asked("Get")
		if v := lab.MustGet(t, b, "k", o.Load); v != 2 {
			t.Errorf("got %d after 3 seconds of silence, want 2", v)
		}
		for range 5 {
			time.Sleep(time.Second)
			if v := lab.MustGet(t, b, "other", lab.Unavailable); v != 0 {
				t.Errorf("got %d, want 0", v)
			}
		}
		if n := asked("Get") - before; n != 6 {
			t.Errorf("6 reads during the silence asked L2 %d times", n)
		}
		if r := b.Explain(t.Context(), "other"); r.L1.Present || b.Stats().Connected {
			t.Errorf("L1 present %v, connected %v during the silence", r.L1.Present, b.Stats().Connected)
		}
		o.Value.Store(3)
		lab.Must(t, a.Invalidate(t.Context(), "k"))
		if v := lab.MustGet(t, b, "k", o.Load); v != 3 {
			t.Errorf("got %d at once, want 3: L2 is asked for every value", v)
		}

		ear.Hush(false)
		time.Sleep(2 * time.Second) // until the next heartbeat
		if !b.Stats().Connected {
			t.Fatal("not connected again")
		}
		lab.MustGet(t, b, "k", lab.Unavailable)
		before = asked("Get")
		for range 10 {
			if v := lab.MustGet(t, b, "k", lab.Unavailable); v != 3 {
				t.Errorf("got %d after the silence, want 3", v)
			}
		}
		if n := asked("Get") - before; n != 0 {
			t.Errorf("10 hits after the silence asked L2 %d times", n)
		}
	})
}

// TestStrictServesNothingWhenL2IsSilentToo lets a Loader fail while neither bus
// nor L2 answers: then no value is known to be right.
func TestStrictServesNothingWhenL2IsSilentToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for strict, wait := range map[bool]time.Duration{true: 3 * time.Second, false: strata.UnconfirmedTTL} {
			s := lab.NewShared()
			ear := s.Bus.Connect()
			var down atomic.Bool
			c := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
				o.TTL = time.Hour
				o.Remote.Tier, o.Remote.Bus, o.Remote.Strict = lab.Failing(s.Tier, "Get", &down), ear, strict
			})
			lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			down.Store(true)
			ear.Cut()
			time.Sleep(wait - time.Second)
			var info strata.Info
			if _, err := c.GetOrLoad(t.Context(), "k", lab.Unavailable, strata.ReadInfo(&info)); err != nil || !info.Degraded {
				t.Errorf("strict %v, before its time: %v, degraded %v; want the entry, marked", strict, err, info.Degraded)
			}
			time.Sleep(time.Second + time.Millisecond)
			if v, err := c.GetOrLoad(t.Context(), "k", lab.Unavailable); err == nil {
				t.Errorf("strict %v, after its time: served %d", strict, v)
			}
		}
	})
}

func TestReadInfoNamesTheTierOfAValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		o := &lab.Origin{Takes: time.Second}
		read := func(c *strata.Cache[string, int64], load strata.Loader[string, int64], want strata.Info) {
			t.Helper()
			got := strata.Info{Tier: "not written"}
			if _, err := c.GetOrLoad(t.Context(), "k", load, strata.ReadInfo(&got)); err != nil || lab.SourceOf(got) != want {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
		}
		joins := make(chan struct{})
		go func() {
			time.Sleep(time.Millisecond)
			read(a, o.Load, strata.Info{Tier: "origin", Shared: true})
			close(joins)
		}()
		read(a, o.Load, strata.Info{Tier: "origin"})
		<-joins
		read(a, o.Load, strata.Info{Tier: "L1"})
		read(b, o.Load, strata.Info{Tier: "L2"})
		read(b, o.Load, strata.Info{Tier: "L1"})
		lab.Must(t, a.Expire(t.Context(), "k"))
		synctest.Wait()
		read(b, lab.Unavailable, strata.Info{Tier: "L1", Stale: true})
		read(b, lab.NotModified(0), strata.Info{Tier: "origin"})
		fails := strata.Info{Tier: "not written"}
		if _, err := a.GetOrLoad(t.Context(), "none", lab.Unavailable, strata.ReadInfo(&fails)); err == nil || fails.Tier != "not written" {
			t.Errorf("a read that failed: %+v, %v", fails, err)
		}
	})
}

// TestValueThatAFailedLoadLeavesIsDegradedToo: the read has found nothing in L2, and its load fails.
func TestValueThatAFailedLoadLeavesIsDegradedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		ear := s.Bus.Connect()
		a := lab.Instance[string, int64](t, s)
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Bus = ear })
		lab.Must(t, b.Set(t.Context(), "k", 1))
		time.Sleep(61 * time.Second)
		ear.Cut()
		synctest.Wait()
		lab.Must(t, a.Invalidate(t.Context(), "k"))
		for n := range uint64(2) {
			var info strata.Info
			v, err := b.GetOrLoad(t.Context(), "k", lab.DownLoad, strata.ReadInfo(&info))
			if v != 1 || err != nil || !info.Degraded || b.Stats().Degraded != n+1 {
				t.Errorf("%d, %v, %+v, %d counted", v, err, info, b.Stats().Degraded)
			}
		}
	})
}

// TestAvailableMarksEntriesThatMayHaveBeenDropped reads on while the bus is cut, and
// while L2 is down after the bus is back, so that it cannot confirm.
func TestAvailableMarksEntriesThatMayHaveBeenDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		ear := s.Bus.Connect()
		var down atomic.Bool
		a := lab.Instance[string, int64](t, s)
		b := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
			o.TTL = time.Hour
			o.Remote.Tier, o.Remote.Bus = lab.Failing(s.Tier, "Get", &down), ear
		})
		o := &lab.Origin{}
		lab.MustGet(t, b, "k", o.Load)
		reads := uint64(0)
		read := func(when string, degraded bool) {
			t.Helper()
			var info strata.Info
			v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable, strata.ReadInfo(&info))
			if v != 0 || err != nil || info.Tier != "L1" || info.Degraded != degraded {
				t.Errorf("%s: %d, %v, %+v; want 0 from L1, degraded %v", when, v, err, info, degraded)
			}
			if degraded {
				reads++
			}
			if n := b.Stats().Degraded; n != reads {
				t.Errorf("%s: %d degraded reads counted, want %d", when, n, reads)
			}
		}
		read("connected", false)
		ear.Cut()
		synctest.Wait()
		lab.Must(t, a.Invalidate(t.Context(), "k"))
		for range 5 {
			b.Get(t.Context(), "k", strata.NoMemory()) // which L1 does not answer
			read("cut off", true)
		}
		down.Store(true)
		ear.Join()
		synctest.Wait()
		if !b.Stats().Connected {
			t.Fatal("not connected")
		}
		for range 20 { // in the middle, the breaker opens
			read("connected again, unconfirmed", true)
		}
		time.Sleep(strata.UnconfirmedTTL - time.Second)
		read("29 s later", true)
		time.Sleep(time.Second)
		if v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable); err == nil {
			t.Errorf("served %d although nobody has confirmed it for %v", v, strata.UnconfirmedTTL)
		}
		down.Store(false)
		o.Value.Store(2)
		var info strata.Info
		if v, err := b.GetOrLoad(t.Context(), "k", o.Load, strata.ReadInfo(&info)); v != 2 || err != nil || info.Degraded {
			t.Errorf("L2 is back: %d, %v, %+v; want 2, not degraded", v, err, info)
		}
	})
}

// TestSuspectIsServedForThirtySecondsFromItsLoss cuts an instance off, for 20
// seconds or twice, and lets L2 confirm nothing when the bus is back.
func TestSuspectIsServedForThirtySecondsFromItsLoss(t *testing.T) {
	for cuts := 1; cuts <= 2; cuts++ {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			ear := s.Bus.Connect()
			var down atomic.Bool
			a := lab.Instance[string, int64](t, s)
			b := lab.Instance(t, s, func(o *strata.Options[string, int64]) {
				o.TTL = time.Hour
				o.Remote.Tier, o.Remote.Bus = lab.Failing(s.Tier, "Get", &down), ear
			})
			lab.MustGet(t, b, "k", (&lab.Origin{}).Load)
			down.Store(true)
			for range cuts {
				ear.Cut()
				synctest.Wait()
				lab.Must(t, a.Invalidate(t.Context(), "k"))
				time.Sleep(20 * time.Second / time.Duration(cuts))
				ear.Join()
				synctest.Wait()
			}
			time.Sleep(9 * time.Second)
			if v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable); v != 0 || err != nil {
				t.Errorf("%d cuts, after 29 s: %d, %v; want 0", cuts, v, err)
			}
			time.Sleep(time.Second)
			if v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable); err == nil {
				t.Errorf("%d cuts, after 30 s: served %d", cuts, v)
			}
		})
	}
}

// TestWaiterWakesTheMomentTheLeaseEnds lets an instance wait for the load of
// another, which takes an odd time, and looks at the clock when it ends.
func TestWaiterWakesTheMomentTheLeaseEnds(t *testing.T) {
	const takes = 1234567 * time.Microsecond
	t.Run("stored", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b, c := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{Takes: takes}
			start := time.Now()
			var wg sync.WaitGroup
			for _, c := range []*strata.Cache[string, int64]{a, b, c} {
				wg.Go(func() {
					lab.MustGet(t, c, "k", o.Load)
					if took := time.Since(start); took != takes {
						t.Errorf("a load of %v took %v", takes, took)
					}
				})
			}
			wg.Wait()
			if n := o.Loads.Load(); n != 1 {
				t.Errorf("%d loads, want 1", n)
			}
		})
	})
	fails := map[string]error{"failed": errors.New("down"), "not found": strata.ErrNotFound}
	for name, failure := range fails {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, err := a.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) {
						time.Sleep(takes)
						return 0, failure
					})
					if !errors.Is(err, failure) {
						t.Errorf("got %v, want %v", err, failure)
					}
				}()
				synctest.Wait()
				start := time.Now()
				lab.MustGet(t, b, "k", func(context.Context, string) (int64, error) {
					if waited := time.Since(start); waited != takes {
						t.Errorf("the next load began after %v, want %v", waited, takes)
					}
					return 1, nil
				})
				<-done
			})
		})
	}
	t.Run("dropped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{Takes: time.Hour}
			ctx, cancel := context.WithCancel(t.Context())
			go a.GetOrLoad(ctx, "k", o.Load)
			synctest.Wait()
			waits := make(chan time.Duration)
			start := time.Now()
			go func() {
				lab.MustGet(t, b, "k", func(context.Context, string) (int64, error) { return 1, nil })
				waits <- time.Since(start)
			}()
			time.Sleep(takes)
			lab.Must(t, lab.Instance[string, int64](t, s).Invalidate(t.Context(), "k"))
			if waited := <-waits; waited != takes {
				t.Errorf("waited %v for a lease that was void after %v", waited, takes)
			}
			cancel()
		})
	})
}

// TestHoldIsHeardWithoutATier has nothing but the message to tell of the hold.
func TestHoldIsHeardWithoutATier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		busOnly := func(o *strata.Options[string, int64]) { o.Remote.Tier = nil }
		a, b := lab.Instance(t, s, busOnly), lab.Instance(t, s, busOnly)
		lab.Must(t, a.InvalidateHold(t.Context(), 10*time.Second, "k"))
		synctest.Wait()
		for _, c := range []*strata.Cache[string, int64]{a, b} {
			lab.MustGet(t, c, "k", (&lab.Origin{}).Load)
			lab.WantAbsent(t, "an instance during the hold", c)
		}
		time.Sleep(10 * time.Second)
		lab.MustGet(t, b, "k", (&lab.Origin{}).Load)
		lab.WantHeld(t, "an instance after the hold", b, 0)
	})
}

func TestFloodOfInvalidateAllIsAppliedOnceASecondAndToItsEnd(t *testing.T) {
	for _, soft := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := lab.NewShared()
			a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
			o := &lab.Origin{}
			drop := a.InvalidateAll
			if soft {
				drop = a.ExpireAll
			}
			const flood, pace = 1000, 5 * time.Millisecond
			lost := 0
			for i := range flood {
				lab.MustGet(t, b, "k", o.Load)
				o.Value.Store(int64(i + 1))
				lab.Must(t, drop(t.Context()))
				lab.WantAbsent(t, "who called", a)
				synctest.Wait()
				if r := b.Explain(t.Context(), "k"); !r.L1.Present || r.L1.Fresh == 0 {
					lost++
				}
				time.Sleep(pace)
			}
			// The loads of b refill L1 after each applied message.
			if most := 10 + int(flood*pace/time.Second) + 1; lost < 10 || lost > most {
				t.Errorf("soft %v: %d of %d in %v were applied; want 10 to %d", soft, lost, flood, flood*pace, most)
			}
			time.Sleep(time.Second)
			if v := lab.MustGet(t, b, "k", o.Load); v != flood {
				t.Errorf("soft %v: got %d a second after the last, want %d", soft, v, flood)
			}
		})
	}
}

func TestExpireAllMakesEverythingStaleEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance[string, int64](t, s), lab.Instance[string, int64](t, s)
		lab.Must(t, a.Set(t.Context(), "k", 1))
		synctest.Wait()
		lab.WantHeld(t, "b", b, 1)
		loads := &lab.Origin{Takes: time.Second}
		running := make(chan int64)
		go func() { running <- lab.MustGet(t, b, "running", loads.Load) }()
		synctest.Wait()
		lab.Must(t, a.ExpireAll(t.Context()))
		<-running
		if r := b.Explain(t.Context(), "running"); r.L1.Present && r.L1.Fresh > 0 || r.L2.Present && r.L2.Fresh > 0 {
			t.Errorf("what was loaded meanwhile is fresh: %+v", r)
		}
		for who, c := range map[string]*strata.Cache[string, int64]{"who called": a, "who heard": b, "who had nothing": lab.Instance[string, int64](t, s)} {
			lab.WantAbsent(t, who, c)
			var info strata.Info
			if v, err := c.GetOrLoad(t.Context(), "k", lab.Unavailable, strata.ReadInfo(&info)); v != 1 || err != nil || !info.Stale {
				t.Errorf("%s: %d, %v, %+v; want the stale 1 for a load that fails", who, v, err, info)
			}
		}
		if v := lab.MustGet(t, b, "k", lab.NotModified(0)); v != 1 {
			t.Errorf("got %d, want the 1 that still holds", v)
		}
		lab.WantHeld(t, "an instance without L1, after it was not modified", lab.Instance[string, int64](t, s), 1)
		lab.Must(t, a.Set(t.Context(), "later", 1))
		if _, ok := b.Get(t.Context(), "later"); !ok {
			t.Error("what was stored afterwards is not fresh")
		}
	})
}

func TestExpireAllThatL2DidNotConfirmIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var down atomic.Bool
		a := lab.Instance(t, s, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "DropAll", &down) })
		b := lab.Instance[string, int64](t, s)
		lab.Must(t, b.Set(t.Context(), "k", 1))
		down.Store(true)
		var pending *strata.RemoteError
		if err := a.ExpireAll(t.Context()); !errors.As(err, &pending) || pending.Pending != 1 {
			t.Fatalf("%v, want *RemoteError with 1 pending", err)
		}
		lab.WantAbsent(t, "who called", a)
		down.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		lab.WantAbsent(t, "the other instance", b)
		if v, err := b.GetOrLoad(t.Context(), "k", lab.Unavailable); v != 1 || err != nil || a.Stats().Pending != 0 {
			t.Errorf("%d, %v with %d pending; want the stale 1 with 0", v, err, a.Stats().Pending)
		}
	})
}
