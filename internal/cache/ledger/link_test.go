package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/ledger"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// end is one instance's end of a bus, in a bubble.
type end struct {
	*ledger.Link
	t          *testing.T
	generation ledger.Ledger
	tier       *stratatest.Tier
	bus        *stratatest.Bus

	asked   atomic.Int64 // for positions
	down    atomic.Bool  // the tier does not tell its position
	fenced  atomic.Int64
	dropped atomic.Int64 // everything
	applied atomic.Int64
	hits    atomic.Uint64
}

func newTier(bus *stratatest.Bus) *stratatest.Tier {
	tier := stratatest.NewTierLanes(8)
	tier.Announce(bus)
	return tier
}

// start makes an instance of the cache "n" and waits until it has had the time
// to connect.
func start(t *testing.T, tier *stratatest.Tier, bus *stratatest.Bus, change ...func(*ledger.Options)) *end {
	t.Helper()
	e := &end{t: t, tier: tier.Bind(remote.Space{Name: "n"}).(*stratatest.Tier), bus: bus}
	begun := time.Now()
	o := ledger.Options{
		Name: "n", Space: "n", Instance: 1, Bus: bus, Logger: slog.New(slog.DiscardHandler), Generation: &e.generation, Confirms: true,
		Position: func(ctx context.Context) (remote.Position, error) {
			e.asked.Add(1)
			if e.down.Load() {
				return remote.Position{}, errors.New("down")
			}
			return e.tier.Position(ctx)
		},
		FenceAll: func() { e.fenced.Add(1) }, Apply: func(*remote.Message) { e.applied.Add(1) },
		Mine: func(*remote.Message) bool { return false }, DropAll: func(bool) { e.dropped.Add(1) },
		Now: func() int64 { return int64(time.Since(begun)) + 1 }, Hits: e.hits.Load,
		Patience: 30 * time.Second, Timeout: time.Second,
	}
	for _, f := range change {
		f(&o)
	}
	e.Link = ledger.Start(o)
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	synctest.Wait()
	return e
}

// drop drops keys in the tier.
func (e *end) drop(keys ...string) {
	e.t.Helper()
	for _, k := range keys {
		if _, err := e.tier.Drop(e.t.Context(), []remote.Drop{{Key: k}}); err != nil {
			e.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// judge judges an entry of key with this stamp.
func (e *end) judge(stamp uint64, key string) ledger.Verdict {
	v, _, _ := e.generation.Judge(stamp, func() uint16 { return e.tier.Lane(key) })
	return v
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestConnectedOnlyWhenThePositionIsKnown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus, func(o *ledger.Options) {
			position := o.Position
			o.Position = func(ctx context.Context) (remote.Position, error) {
				time.Sleep(time.Second)
				return position(ctx)
			}
		})
		if e.Connected() {
			t.Error("connected before the tier has answered")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !e.Connected() {
			t.Error("not connected although the tier has answered")
		}
	})
}

func TestPositionIsAskedForUntilTheTierAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		e.down.Store(true)
		bus.Cut()
		bus.Join()
		time.Sleep(20 * time.Second)
		if n := e.asked.Load(); e.Connected() || n < 10 || n > 40 {
			t.Errorf("connected %v, asked %d times in 20 s", e.Connected(), n)
		}
		e.down.Store(false)
		time.Sleep(2 * time.Second)
		if !e.Connected() {
			t.Error("not connected")
		}
	})
}

func TestLanesThatMovedDuringACutAreSuspect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		stamp := e.generation.Watermark()
		bus.Cut()
		synctest.Wait()
		if e.Connected() {
			t.Error("connected while cut")
		}
		e.drop("a")
		bus.Join()
		synctest.Wait()
		if a, b := e.judge(stamp, "a"), e.judge(stamp, "b"); !e.Connected() || a != ledger.Suspect || b != ledger.Valid {
			t.Errorf("connected %v, a is %v, b is %v", e.Connected(), a, b)
		}
		if s := e.Stats(); s.Gaps != 1 || s.Missed != 1 {
			t.Errorf("%+v; want one gap with one lane", s)
		}
	})
}

func TestLastMessageThatIsLostIsFoundByAHeartbeat(t *testing.T) {
	for _, sender := range []string{"by one's own", "by another's"} {
		bubble(t, func(t *testing.T) {
			bus := stratatest.NewBus()
			tier := newTier(bus)
			if sender == "by another's" {
				start(t, tier, bus.Connect())
			}
			e := start(t, tier, bus)
			stamp := e.generation.Watermark()
			bus.Lose(1)
			e.drop("a")
			if v := e.judge(stamp, "a"); v != ledger.Valid {
				t.Fatalf("%s: %v before a loss can be known", sender, v)
			}
			time.Sleep(3500 * time.Millisecond)
			if a, b := e.judge(stamp, "a"), e.judge(stamp, "b"); a != ledger.Suspect || b != ledger.Valid {
				t.Errorf("%s: after 3.5 s a is %v and b is %v, want suspect and valid", sender, a, b)
			}
			if e.fenced.Load() < 2 {
				t.Errorf("%s: flights from before can still be joined", sender)
			}
		})
	}
}

func TestLostMessageIsFoundByTheNextOfItsLane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		stamp := e.generation.Watermark()
		bus.Lose(1)
		e.drop("a", "a")
		if v := e.judge(stamp, "a"); v != ledger.Suspect || e.Stats().Missed != 1 {
			t.Errorf("%v, %+v", v, e.Stats())
		}
	})
}

func TestMessagesThatAreLateAreNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		stamp := e.generation.Watermark()
		bus.Delay(900 * time.Millisecond)
		for range 100 {
			e.drop("a", "b", "c")
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if v := e.judge(stamp, "a"); v != ledger.Valid || e.Stats().Missed != 0 {
			t.Errorf("%v, %+v; nothing was lost", v, e.Stats())
		}
	})
}

func TestOneHeartbeatASecondForTheWholeCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		tier := newTier(bus)
		var ends []*end
		for range 10 {
			ends = append(ends, start(t, tier, bus.Connect()))
		}
		beats := 0
		stop := bus.Follow("n", func(e remote.Event) {
			for _, m := range e.Messages {
				if m.Kind == remote.Beat {
					beats++
				}
			}
		})
		time.Sleep(time.Minute)
		stop()
		if beats < 45 || beats > 75 {
			t.Errorf("%d heartbeats in a minute, want about one a second", beats)
		}
		asked := int64(-10) // to join
		for _, e := range ends {
			asked += e.asked.Load()
			if !e.Connected() {
				t.Error("an instance is not connected")
			}
		}
		if asked > 80 {
			t.Errorf("the tier was asked %d times in a minute, want about once a second", asked)
		}
	})
}

func TestBusThatDeliversNothingForThreeSecondsIsSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		stamp := e.generation.Watermark()
		bus.Hush(true)
		time.Sleep(1500 * time.Millisecond)
		if !e.Connected() {
			t.Error("silent after 1.5 s")
		}
		time.Sleep(3 * time.Second)
		if e.Connected() || e.Stats().Gaps != 1 {
			t.Errorf("connected %v, %+v", e.Connected(), e.Stats())
		}
		e.drop("a")
		bus.Hush(false)
		time.Sleep(3 * time.Second)
		if v := e.judge(stamp, "a"); !e.Connected() || v != ledger.Suspect {
			t.Errorf("heard again: connected %v, the lane that moved is %v", e.Connected(), v)
		}
	})
}

func TestL1IsUsedUntilPatienceEnds(t *testing.T) {
	for _, strict := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			patience := 30 * time.Second
			if strict {
				patience = ledger.SilentAfter
			}
			bus := stratatest.NewBus()
			e := start(t, newTier(bus), bus, func(o *ledger.Options) { o.Strict, o.Patience = strict, patience })
			time.Sleep(10 * time.Second) // heartbeats prolong it
			stamp := e.generation.Watermark()
			bus.Cut()
			time.Sleep(patience - 1500*time.Millisecond)
			if v := e.judge(stamp, "a"); v != ledger.Valid || e.Mute() {
				t.Errorf("strict %v: after a moment %v, mute %v", strict, v, e.Mute())
			}
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if v := e.judge(stamp, "a"); v != ledger.Invalid || e.Mute() != strict {
				t.Errorf("strict %v: after %v %v, mute %v", strict, patience, v, e.Mute())
			}
			bus.Join()
			synctest.Wait()
			if !e.Connected() || e.Mute() {
				t.Errorf("strict %v: joined, and connected %v, mute %v", strict, e.Connected(), e.Mute())
			}
		})
	}
}

func TestPatienceEndsThoughMessagesArriveAgain(t *testing.T) {
	lost := map[string]func(b *stratatest.Bus){
		"cut": func(b *stratatest.Bus) {
			b.Cut()
			time.Sleep(time.Second)
			b.Join()
		},
		"quiet": func(b *stratatest.Bus) {
			b.Hush(true)
			time.Sleep(4 * time.Second)
			b.Hush(false)
		},
	}
	for name, lose := range lost {
		bubble(t, func(t *testing.T) {
			bus := stratatest.NewBus()
			e := start(t, newTier(bus), bus)
			stamp := e.generation.Watermark()
			begun := time.Now()
			e.down.Store(true)
			for time.Since(begun) < 25*time.Second {
				lose(bus)
			}
			time.Sleep(28*time.Second - time.Since(begun))
			if v := e.judge(stamp, "a"); v != ledger.Valid || e.Connected() {
				t.Errorf("%s: after 28 s %v, connected %v", name, v, e.Connected())
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if v := e.judge(stamp, "a"); v != ledger.Invalid {
				t.Errorf("%s: after 30 s %v although the tier has not told its position", name, v)
			}
		})
	}
}

func TestLossThatTheTierDoesNotExplainIsASilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		tier := newTier(bus)
		start(t, tier, bus.Connect())
		e := start(t, tier, bus)
		stamp := e.generation.Watermark()
		e.down.Store(true)
		bus.Lose(1)
		e.drop("a")
		time.Sleep(5 * time.Second)
		if s := e.Stats(); e.Connected() || s.Gaps != 1 {
			t.Errorf("after 5 s: connected %v, %+v", e.Connected(), s)
		}
		e.down.Store(false)
		time.Sleep(2 * time.Second)
		if v := e.judge(stamp, "a"); !e.Connected() || v != ledger.Suspect {
			t.Errorf("the tier answers: connected %v, the lane that moved is %v", e.Connected(), v)
		}
	})
}

func TestTierThatDoesNotAnswerIsNoSilenceWithoutALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		tier := newTier(bus)
		other := start(t, tier, bus.Connect())
		e := start(t, tier, bus)
		e.down.Store(true)
		for range 60 {
			time.Sleep(time.Second)
			e.drop("a")
		}
		if s := e.Stats(); !e.Connected() || !other.Connected() || s.Gaps != 0 {
			t.Errorf("connected %v and %v, %+v", e.Connected(), other.Connected(), s)
		}
	})
}

func TestLossWhileTheTierIsLeftAloneEndsPatience(t *testing.T) {
	for lost, want := range map[int]ledger.Verdict{0: ledger.Valid, 1: ledger.Invalid} {
		bubble(t, func(t *testing.T) {
			bus := stratatest.NewBus()
			tier := newTier(bus)
			start(t, tier, bus.Connect())
			e := start(t, tier, bus)
			stamp := e.generation.Watermark()
			e.down.Store(true)
			e.Suspend(true)
			time.Sleep(20 * time.Second)
			bus.Lose(lost)
			e.drop("a")
			time.Sleep(25 * time.Second)
			if v := e.judge(stamp, "b"); v != ledger.Valid {
				t.Errorf("%d lost, 25 s later: %v", lost, v)
			}
			time.Sleep(10 * time.Second)
			if v := e.judge(stamp, "b"); v != want {
				t.Errorf("%d lost, 35 s later: %v, want %v", lost, v, want)
			}
		})
	}
}

// TestLossBesideADeadTierIsFoundWithAHeartbeat has no answer of the tier: a heartbeat tells of a message that
// was lost without a word, and a second later L1 counts as from before the loss, also if the bus has gone meanwhile.
// A message that a heartbeat has overtaken is no loss.
func TestLossBesideADeadTierIsFoundWithAHeartbeat(t *testing.T) {
	for name, fault := range map[string]struct {
		begin func(*stratatest.Bus)
		mute  bool
	}{
		"none": {func(*stratatest.Bus) {}, false}, "overtaken": {(*stratatest.Bus).Reorder, false},
		"lost": {func(b *stratatest.Bus) { b.Lose(1) }, true},
	} {
		for n := range 20 { // the heartbeats are at random times
			bubble(t, func(t *testing.T) {
				bus := stratatest.NewBus()
				tier := newTier(bus)
				start(t, tier, bus.Connect())
				e := start(t, tier, bus, func(o *ledger.Options) { o.Strict, o.Patience = true, ledger.SilentAfter })
				e.down.Store(true)
				e.Suspend(true)
				time.Sleep(20 * time.Second)
				fault.begin(bus)
				e.drop("a")
				time.Sleep(1300 * time.Millisecond) // longer than between two heartbeats
				if n%2 == 0 {
					bus.Cut()
				}
				time.Sleep(1100 * time.Millisecond)
				if e.Mute() != fault.mute {
					t.Errorf("%s, %d: mute %v after 2.4 s", name, n, e.Mute())
				}
			})
		}
	}
}

func TestHitsDuringASilenceAreDegraded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		e.hits.Store(100)
		bus.Cut()
		synctest.Wait()
		e.hits.Store(107)
		if n := e.Stats().Degraded; n != 7 {
			t.Errorf("%d degraded, want 7", n)
		}
		bus.Join()
		synctest.Wait()
		e.hits.Store(200)
		if n := e.Stats().Degraded; n != 7 {
			t.Errorf("%d degraded afterwards, want 7 still", n)
		}
	})
}

func TestHitsBeforeTheBusHasConnectedAreDegraded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		tier := newTier(bus)
		bus.Cut()
		e := start(t, tier, bus)
		e.hits.Store(5)
		if n := e.Stats().Degraded; n != 5 {
			t.Errorf("%d degraded, want 5", n)
		}
		bus.Join()
		synctest.Wait()
		e.hits.Store(9)
		if n := e.Stats().Degraded; !e.Connected() || n != 5 {
			t.Errorf("connected %v, %d degraded, want 5 still", e.Connected(), n)
		}
	})
}

func TestBusThatDoesNotConnectIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, cut := range []bool{false, true} {
			var log bytes.Buffer
			bus := stratatest.NewBus()
			tier := newTier(bus)
			if cut {
				bus.Cut()
			}
			start(t, tier, bus, func(o *ledger.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := strings.Count(log.String(), "has not connected"); n != 1 && cut || n != 0 && !cut {
				t.Errorf("cut %v: logged %d times", cut, n)
			}
		}
	})
}

func TestFloodOfDropsOfEverythingIsDelayedAndNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		other := bus.Connect()
		for range 1000 {
			if err := other.Publish(t.Context(), []remote.Message{{Name: "n", Kind: remote.AllDropped, From: 2}}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := e.dropped.Load(); n != 10 {
			t.Errorf("%d of 1000 applied at once, want 10", n)
		}
		time.Sleep(1100 * time.Millisecond)
		if n := e.dropped.Load(); n != 11 {
			t.Errorf("%d applied after a second, want one for all the others", n)
		}
		time.Sleep(10 * time.Second)
		if n := e.dropped.Load(); n != 11 {
			t.Errorf("%d applied later, want no more", n)
		}
	})
}

func TestFloodOfUnknownHeartbeatsCostsOnePositionASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		before := e.asked.Load()
		for i := range 5000 {
			key := []string{"ffff", "not a digest", ""}[i%3]
			if err := bus.Publish(t.Context(), []remote.Message{{Name: "n", Kind: remote.Beat, From: 2, Key: key}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := e.asked.Load() - before; n > 8 {
			t.Errorf("the tier was asked %d times in 5 s", n)
		}
		if !e.Connected() {
			t.Error("not connected")
		}
	})
}

func TestWithoutPositionsEverythingIsSuspectAfterAGap(t *testing.T) {
	for _, confirms := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			bus := stratatest.NewBus()
			e := start(t, newTier(bus), bus, func(o *ledger.Options) { o.Position, o.Confirms = nil, confirms })
			stamp := e.generation.Watermark()
			bus.Cut()
			bus.Join()
			synctest.Wait()
			want := ledger.Invalid
			if confirms {
				want = ledger.Suspect
			}
			if v := e.judge(stamp, "a"); v != want {
				t.Errorf("confirms %v: %v, want %v", confirms, v, want)
			}
		})
	}
}

func TestInstanceWithoutABusIsNotConnected(t *testing.T) {
	var none *ledger.Link
	if none.Connected() || none.Mute() || none.Stats() != (ledger.Stats{}) {
		t.Error("a link that is none")
	}
}

// spreadOut makes the tier one of several servers.
func spreadOut(o *ledger.Options) {
	position := o.Position
	o.Position = func(ctx context.Context) (remote.Position, error) {
		p, err := position(ctx)
		p.Spread = true
		return p, err
	}
}

func TestHeartbeatThatOvertakesMessagesIsNoAlarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		tier := newTier(bus)
		e := start(t, tier, bus, spreadOut)
		stamp := e.generation.Watermark()
		for range 20 {
			p, err := e.tier.Position(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p.Spread = true
			was := p.Lanes[3]
			p.Lanes[3] = remote.LaneVersion{Count: was.Count + 1, Nonce: was.Nonce + 1}
			m := remote.Message{Name: "n", Kind: remote.Beat, Key: ledger.Heartbeat(p)}
			if err := bus.Publish(t.Context(), []remote.Message{m}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
			m = remote.Message{Name: "n", Kind: remote.Dropped, Lane: 3, Was: was, Is: p.Lanes[3]}
			back := remote.Message{Name: "n", Kind: remote.Dropped, Lane: 3, Was: p.Lanes[3], Is: was}
			if err := bus.Publish(t.Context(), []remote.Message{m, back}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
		}
		synctest.Wait()
		if n := e.asked.Load(); n != 1 {
			t.Errorf("the tier was asked %d times; want once, to join", n)
		}
		if v, _, _ := e.generation.Judge(stamp, func() uint16 { return 3 }); v != ledger.Valid || e.Stats().Missed != 0 {
			t.Errorf("%v, %+v; nothing was lost", v, e.Stats())
		}
	})
}

func TestLastMessageThatIsLostOnOneOfSeveralServersIsFound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		tier := newTier(bus)
		e := start(t, tier, bus, spreadOut)
		other := start(t, tier, bus.Connect(), spreadOut)
		stamp := e.generation.Watermark()
		bus.Lose(1)
		e.drop("a")
		time.Sleep(5 * time.Second)
		if v := e.judge(stamp, "a"); v != ledger.Suspect {
			t.Errorf("after 5 s %v, want suspect", v)
		}
		lane := e.tier.Lane("a")
		for key := range 100 {
			name := string(rune('a' + key))
			if v := e.judge(stamp, name); e.tier.Lane(name) != lane && v != ledger.Valid {
				t.Errorf("another lane is %v", v)
			}
		}
		if v := other.judge(stamp, "a"); v == ledger.Suspect {
			t.Error("an instance that received the message suspects its lane")
		}
	})
}

func TestLinesAboutTheBusCarryTheirCauseAndAreFew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		bus := stratatest.NewBus()
		said := &saying{Bus: bus.Connect(), err: errors.New("connection reset")}
		e := start(t, newTier(bus), bus, func(o *ledger.Options) {
			o.Bus, o.Logger = said, slog.New(new(observe.Journal).Handler(slog.NewTextHandler(&log, nil)))
		})
		for range 630 { // 63 s
			said.f(remote.Event{State: remote.Gap, Err: said.err})
			time.Sleep(50 * time.Millisecond)
			said.f(remote.Event{State: remote.Connected})
			time.Sleep(50 * time.Millisecond)
		}
		last := func(want string) {
			t.Helper()
			synctest.Wait()
			if at := strings.LastIndex(log.String(), "msg="); !strings.Contains(log.String()[at:], want) {
				t.Errorf("the last line says %s, want %s", log.String()[at:], want)
			}
		}
		said.f(remote.Event{State: remote.Gap, Err: said.err}) // the log may have no room for a line now
		time.Sleep(time.Minute)
		last("bus is silent")
		said.f(remote.Event{State: remote.Connected})
		time.Sleep(time.Second)
		last("bus is connected")
		time.Sleep(10 * time.Second)
		e.Suspend(true)
		if n := strings.Count(log.String(), "breaker"); n > 0 {
			t.Errorf("%d lines of the bus for a breaker that L2 has a line about", n)
		}
		text := log.String()
		silent, connected := strings.Count(text, "level=WARN msg=\"strata: bus is silent\" cache=n error=\"connection reset\""), strings.Count(text, "level=INFO msg=\"strata: bus is connected\"")
		if silent < 3 || silent > 4 || connected < 4 || connected > 5 {
			t.Errorf("%d lines of silence and %d of connections of 630 each in 63 s:\n%s", silent, connected, text)
		}
	})
}

// saying is a bus that lets a test tell its follower something.
type saying struct {
	remote.Bus
	f   func(remote.Event)
	err error
}

func (s *saying) Follow(name string, f func(remote.Event)) (stop func()) {
	s.f = f
	return s.Bus.Follow(name, f)
}

func TestBusThatNeverConnectedIsLoggedWithItsCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus, func(o *ledger.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			o.Position = func(context.Context) (remote.Position, error) { return remote.Position{}, errors.New("NOPERM") }
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "has not connected"); n != 1 || !strings.Contains(log.String(), "NOPERM") || e.Connected() {
			t.Errorf("%d lines, connected %v:\n%s", n, e.Connected(), log.String())
		}
	})
}

func TestMessagesOfUnknownKindsAreCountedAndNotApplied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		bus := stratatest.NewBus()
		e := start(t, newTier(bus), bus)
		for _, k := range []remote.Kind{0, remote.Answered + 1, 255} {
			m := remote.Message{Name: "n", Kind: k, Key: "k", Lane: 1, Is: remote.LaneVersion{Count: 9, Nonce: 9}}
			if err := bus.Publish(t.Context(), []remote.Message{m}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if st := e.Stats(); st.Unreadable != 3 || st.Missed != 0 || e.applied.Load() != 0 {
			t.Errorf("%+v, %d applied; want 3 unreadable ones and nothing else", st, e.applied.Load())
		}
	})
}
