package stratatest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/checks"
	"github.com/strata-cache/strata/stratatest/internal/tierchecks"
)

func memoryBus(*testing.T) BusFixture {
	b := NewBus()
	return BusFixture{Bus: b, Peer: b.Connect(), Cut: func() func() { b.Cut(); return b.Join }}
}

func TestBusConforms(t *testing.T) {
	TestBus(t, memoryBus)
}

func TestBusConformsInABubble(t *testing.T) {
	for _, c := range checks.BusChecks() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, checks.BusFixture(memoryBus(t))) })
		})
	}
}

// proving is a bus that proves its delivery after each event, so at the worst times.
type proving struct{ remote.Bus }

func (b proving) Follow(name string, f func(remote.Event)) (stop func()) {
	return b.Bus.Follow(name, func(e remote.Event) {
		f(e)
		if e.State != remote.Gap {
			f(remote.Event{})
		}
	})
}

func TestBusThatProvesItsDeliveryConforms(t *testing.T) {
	TestBus(t, func(t *testing.T) BusFixture {
		f := memoryBus(t)
		f.Bus, f.Peer = proving{f.Bus}, proving{f.Peer}
		return f
	})
}

// listen follows a bus in a bubble. The function that it returns has the events
// so far.
func listen(t *testing.T, b *Bus) (told func() []remote.Event) {
	var mu sync.Mutex
	var events []remote.Event
	stop := b.Follow("n", func(e remote.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	})
	t.Cleanup(stop)
	return func() []remote.Event {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		told := events
		events = nil
		return told
	}
}

func publish(t *testing.T, b *Bus, seqs ...uint64) {
	t.Helper()
	var m []remote.Message
	for _, seq := range seqs {
		m = append(m, remote.Message{Name: "n", Is: remote.LaneVersion{Count: seq}})
	}
	if err := b.Publish(t.Context(), m); err != nil {
		t.Fatalf("Publish: %v", err)
	}
}

// story writes events as states and sequences, for comparison.
func story(events []remote.Event) (s []any) {
	for _, e := range events {
		if e.State != remote.Delivered {
			s = append(s, e.State)
		}
		for _, m := range e.Messages {
			s = append(s, m.Is.Count)
		}
	}
	return s
}

func TestCutLosesMessagesOfThisConnectionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBus()
		b := a.Connect()
		toldA, toldB := listen(t, a), listen(t, b)
		publish(t, a, 1)
		b.Cut()
		b.Cut()
		publish(t, a, 2)
		if err := b.Publish(t.Context(), []remote.Message{{Name: "n"}}); !errors.Is(err, ErrCut) {
			t.Errorf("Publish while cut = %v; want ErrCut", err)
		}
		late := listen(t, b)
		if got := late(); len(got) != 0 {
			t.Errorf("a follower of a cut bus was told %v", story(got))
		}
		b.Join()
		b.Join()
		publish(t, b, 3)
		if got := story(toldA()); !slices.Equal(got, []any{remote.Connected, uint64(1), uint64(2), uint64(3)}) {
			t.Errorf("the other connection was told %v", got)
		}
		if got := story(toldB()); !endsWith(got, remote.Gap, remote.Connected, uint64(3)) {
			t.Errorf("the cut connection was told %v", got)
		}
		if got := story(late()); !slices.Equal(got, []any{remote.Connected, uint64(3)}) {
			t.Errorf("the late follower was told %v", got)
		}
	})
}

func endsWith(s []any, end ...any) bool {
	return len(s) >= len(end) && slices.Equal(s[len(s)-len(end):], end)
}

func TestLoseIsSilentAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBus()
		b := a.Connect()
		toldA, toldB := listen(t, a), listen(t, b)
		b.Lose(3)
		publish(t, a, 1, 2)
		publish(t, a, 3, 4)
		publish(t, a, 5)
		if got := story(toldA()); len(got) != 6 {
			t.Errorf("the other connection was told %v", got)
		}
		if got := story(toldB()); !slices.Equal(got, []any{remote.Connected, uint64(4), uint64(5)}) {
			t.Errorf("told %v after 3 lost messages", got)
		}
	})
}

func TestHushIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBus()
		b := a.Connect()
		toldA, toldB := listen(t, a), listen(t, b)
		b.Delay(time.Second)
		publish(t, a, 1)
		b.Delay(0)
		b.Hush(true)
		publish(t, a, 2)
		publish(t, b, 3)
		time.Sleep(time.Minute)
		if got := story(toldB()); !slices.Equal(got, []any{remote.Connected, uint64(1)}) {
			t.Errorf("the deaf connection was told %v", got)
		}
		b.Hush(false)
		publish(t, a, 4)
		if got := story(toldB()); !slices.Equal(got, []any{uint64(4)}) {
			t.Errorf("told %v when it could hear again", got)
		}
		if got := story(toldA()); !slices.Equal(got, []any{remote.Connected, uint64(1), uint64(2), uint64(3), uint64(4)}) {
			t.Errorf("the other connection was told %v", got)
		}
	})
}

func TestDuplicateTellsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBus()
		b := a.Connect()
		toldA, toldB := listen(t, a), listen(t, b)
		b.Duplicate(3)
		publish(t, a, 1, 2)
		publish(t, a, 3)
		publish(t, a, 4)
		if got := story(toldA()); len(got) != 5 {
			t.Errorf("the other connection was told %v", got)
		}
		if got := story(toldB()); !slices.Equal(got, []any{remote.Connected, uint64(1), uint64(1), uint64(2), uint64(2), uint64(3), uint64(3), uint64(4)}) {
			t.Errorf("told %v; want three doubled", got)
		}
	})
}

func TestReorderSwapsTwoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewBus()
		b := a.Connect()
		toldA, toldB := listen(t, a), listen(t, b)
		b.Reorder()
		publish(t, a, 1, 2, 3)
		b.Reorder()
		publish(t, a, 4)
		if got := story(toldB()); !slices.Equal(got, []any{remote.Connected, uint64(2), uint64(1), uint64(3)}) {
			t.Errorf("told %v", got)
		}
		publish(t, a, 5)
		if got := story(toldB()); !slices.Equal(got, []any{uint64(5), uint64(4)}) {
			t.Errorf("told %v", got)
		}
		b.Reorder()
		publish(t, a, 6)
		b.Cut()
		b.Join()
		publish(t, a, 7)
		if got := story(toldB()); !endsWith(got, remote.Connected, uint64(7)) {
			t.Errorf("told %v after a cut with a message kept back", got)
		}
		if got := story(toldA()); len(got) != 8 {
			t.Errorf("the other connection was told %v", got)
		}
	})
}

func TestDelayKeepsOrderAndCutLosesMessagesOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBus()
		told := listen(t, b)
		b.Delay(time.Second)
		publish(t, b, 1)
		b.Delay(0)
		publish(t, b, 2)
		time.Sleep(time.Second - 1)
		if got := story(told()); !slices.Equal(got, []any{remote.Connected}) {
			t.Errorf("told %v before the delay was over", got)
		}
		time.Sleep(1)
		if got := story(told()); !slices.Equal(got, []any{uint64(1), uint64(2)}) {
			t.Errorf("told %v after the delay", got)
		}
		b.Delay(time.Second)
		publish(t, b, 3)
		b.Cut()
		time.Sleep(2 * time.Second)
		b.Join()
		if got := story(told()); !slices.Equal(got, []any{remote.Gap, remote.Connected}) {
			t.Errorf("told %v after a cut with a message on its way", got)
		}
	})
}

// brokenBus is a Bus with a mutation; nil hooks leave the method as it is.
type brokenBus struct {
	*Bus
	send   func(b *Bus, m []remote.Message) []remote.Message
	ignore bool // contexts
	hear   func(f func(remote.Event)) func(remote.Event)
	end    func(stop func())
}

func (b brokenBus) Publish(ctx context.Context, m []remote.Message) error {
	if b.send != nil {
		m = b.send(b.Bus, slices.Clone(m))
	}
	if b.ignore {
		ctx = context.WithoutCancel(ctx)
	}
	return b.Bus.Publish(ctx, m)
}

func (b brokenBus) Follow(name string, f func(remote.Event)) (stop func()) {
	if b.hear != nil {
		f = b.hear(f)
	}
	end := b.Bus.Follow(name, f)
	if b.end == nil {
		return end
	}
	return func() { b.end(end) }
}

// eachMessage changes each message on its way out.
func eachMessage(f func(m *remote.Message)) func(*Bus, []remote.Message) []remote.Message {
	return func(_ *Bus, m []remote.Message) []remote.Message {
		for i := range m {
			f(&m[i])
		}
		return m
	}
}

// TestBusChecksFindMutants proves that each check can fail.
func TestBusChecksFindMutants(t *testing.T) {
	without := func(s remote.State) func(func(remote.Event)) func(remote.Event) {
		return func(f func(remote.Event)) func(remote.Event) {
			return func(e remote.Event) {
				if e.State != s {
					f(e)
				}
			}
		}
	}
	mutations := []struct {
		name, check string
		bus         brokenBus
	}{
		{"never connected", "ConnectedComesFirst", brokenBus{hear: without(remote.Connected)}},
		{"connected too early", "ConnectedComesFirst", brokenBus{hear: func(f func(remote.Event)) func(remote.Event) {
			n := 0
			return func(e remote.Event) {
				if n++; n != 2 {
					f(e)
				}
			}
		}}},
		{"own messages are skipped", "OwnMessagesArrive", brokenBus{send: func(b *Bus, m []remote.Message) []remote.Message {
			b.Lose(len(m))
			return m
		}}},
		{"names end at a space", "MessagesAreRoutedByName", brokenBus{send: eachMessage(func(m *remote.Message) {
			if i := slices.Index([]byte(m.Name), ' '); i >= 0 {
				m.Name = m.Name[:i]
			}
		})}},
		{"batches are reversed", "OrderIsKept", brokenBus{send: func(_ *Bus, m []remote.Message) []remote.Message {
			slices.Reverse(m)
			return m
		}}},
		{"a batch ends at 1000 messages", "LargeBatchesArrive", brokenBus{send: func(_ *Bus, m []remote.Message) []remote.Message {
			return m[:min(len(m), 1000)]
		}}},
		{"a batch of many bytes is lost", "LargeBatchesArrive", brokenBus{send: func(_ *Bus, m []remote.Message) []remote.Message {
			if len(m) > 0 && len(m)*len(m[0].Key) > 8000 {
				return nil
			}
			return m
		}}},
		{"kinds have three bits", "MessagesArriveUnchanged", brokenBus{send: eachMessage(func(m *remote.Message) { m.Kind = (m.Kind-1)%8 + 1 })}},
		{"numbers are floats", "MessagesArriveUnchanged", brokenBus{send: eachMessage(func(m *remote.Message) { m.From = uint64(float64(m.From >> 1)) })}},
		{"empty keys are lost", "MessagesArriveUnchanged", brokenBus{send: func(_ *Bus, m []remote.Message) []remote.Message {
			return slices.DeleteFunc(m, func(m remote.Message) bool { return m.Key == "" })
		}}},
		{"the last follower is alone", "EveryFollowerIsTold", brokenBus{send: func(b *Bus, m []remote.Message) []remote.Message {
			b.hub.mu.Lock()
			defer b.hub.mu.Unlock()
			for _, fl := range b.followers[:len(b.followers)-1] {
				fl.name = "nobody"
			}
			return m
		}}},
		{"a goroutine per event", "OneCallAtATime", brokenBus{hear: func(f func(remote.Event)) func(remote.Event) {
			return func(e remote.Event) { go f(e) }
		}}},
		{"stop does not wait", "StopWaitsAndEnds", brokenBus{end: func(stop func()) { go stop() }}},
		{"stop does nothing", "StopWaitsAndEnds", brokenBus{end: func(stop func()) {
			go func() { time.Sleep(time.Hour); stop() }() // in a bubble
		}}},
		{"gaps are silent", "CutIsAGap", brokenBus{hear: without(remote.Gap)}},
		{"one follower is told of gaps", "CutIsAGap", brokenBus{hear: func() func(func(remote.Event)) func(remote.Event) {
			followers := 0
			return func(f func(remote.Event)) func(remote.Event) {
				if followers++; followers == 1 {
					return f
				}
				return without(remote.Gap)(f)
			}
		}()}},
		{"contexts are ignored", "CancelledPublishIsAnError", brokenBus{ignore: true}},
	}
	var names []string
	for _, m := range mutations {
		names = append(names, m.check)
		t.Run(m.check+"/"+m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := NewBus()
				bus, peer := m.bus, m.bus
				bus.Bus, peer.Bus = first, first.Connect()
				cut := func() func() { first.Cut(); return first.Join }
				judge(t, checks.BusChecks(), m.check, true, checks.BusFixture{Bus: bus, Peer: peer, Cut: cut})
				time.Sleep(2 * time.Hour) // goroutines of mutants end
			})
		})
	}
	everyCheckIsProven(t, checks.BusChecks(), names)
}

// cutting is a bus that loses its connection before each of the first messages that it sends.
func cutting(bus *Bus, cuts int) func(_ *Bus, m []remote.Message) []remote.Message {
	var sent atomic.Int64
	return func(_ *Bus, m []remote.Message) []remote.Message {
		if sent.Add(1) <= int64(cuts) {
			bus.Cut()
			bus.Join()
		}
		return m
	}
}

// TestBusMayLoseItsConnectionButNotInEachTry: a busy machine costs a connection, which is no fault of the
// bus. A drop of everything, and overlaps, need no messages.
func TestBusMayLoseItsConnectionButNotInEachTry(t *testing.T) {
	for _, c := range checks.BusChecks() {
		for _, cuts := range []int{1, 2, math.MaxInt} {
			t.Run(fmt.Sprint(c.Name, "/", cuts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					bus := NewBus()
					send := cutting(bus, cuts)
					bad := cuts == math.MaxInt && c.Name != "OneCallAtATime" && c.Name != "CancelledPublishIsAnError"
					judge(t, checks.BusChecks(), c.Name, bad, checks.BusFixture{
						Bus: brokenBus{Bus: bus, send: send}, Peer: brokenBus{Bus: bus.Connect(), send: send}, Cut: func() func() { bus.Cut(); return bus.Join },
					})
				})
			})
		}
	}
}

// TestAnnouncementsMayLoseTheirConnectionButNotInEachTry is the same for the bus of a tier.
func TestAnnouncementsMayLoseTheirConnectionButNotInEachTry(t *testing.T) {
	for _, c := range tierchecks.AnnouncerChecks() {
		for _, cuts := range []int{1, math.MaxInt} {
			t.Run(fmt.Sprint(c.Name, "/", cuts), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tier, bus := NewTier(), NewBus()
					ear := bus.Connect()
					tier.Announce(bus)
					var told atomic.Int64 // the followers of several tries hear at once
					hear := func(f func(remote.Event)) func(remote.Event) {
						return func(e remote.Event) {
							if len(e.Messages) > 0 && told.Add(1) <= int64(cuts) {
								f(remote.Event{State: remote.Gap, Err: errors.New("a busy machine")})
								f(remote.Event{State: remote.Connected})
								return
							}
							f(e)
						}
					}
					judge(t, tierchecks.AnnouncerChecks(), c.Name, cuts == math.MaxInt, tierchecks.AnnouncerFixture{
						Tier: tier, Bus: brokenBus{Bus: ear, hear: hear},
					})
				})
			})
		}
	}
}
