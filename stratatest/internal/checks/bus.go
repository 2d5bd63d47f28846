package checks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/remote"
)

// BusFixture is a stratatest.BusFixture.
type BusFixture struct {
	// Bus is the bus under test.
	Bus remote.Bus
	// Peer is another connection to the same bus, as another process has it.
	// Nil means that Bus is used.
	Peer remote.Bus
	// Cut breaks the connection of Bus, but not of Peer, until join is called.
	// Nil skips the checks that need it.
	Cut func() (join func())
}

// BusChecks returns the promises of a bus.
func BusChecks() []Check[BusFixture] {
	var all []Check[BusFixture]
	for _, p := range busPromises() {
		all = append(all, Check[BusFixture]{p.name, func(t testing.TB, f BusFixture) {
			Patiently(t, func(t testing.TB) { p.run(newBusView(t, f)) })
		}})
	}
	return all
}

type busPromise struct {
	name string
	run  func(v *busView)
}

func busPromises() []busPromise {
	return []busPromise{
		{"ConnectedComesFirst", checkConnectedFirst},
		{"OwnMessagesArrive", checkOwnMessages},
		{"MessagesAreRoutedByName", checkRouting},
		{"OrderIsKept", checkOrder},
		{"LargeBatchesArrive", checkLargeBatches},
		{"MessagesArriveUnchanged", checkUnchanged},
		{"EveryFollowerIsTold", checkEveryFollower},
		{"OneCallAtATime", checkOneCallAtATime},
		{"StopWaitsAndEnds", checkStop},
		{"CutIsAGap", checkGap},
		{"CancelledPublishIsAnError", checkCancelledPublish},
	}
}

// tries is the number of times for which a check may lose its connection.
const tries = 3

// Patiently runs a check. An Ear with the t of the check may lose its connection, which the bus
// announces by a gap: that is no fault of a bus on a busy machine. Then the check runs again, with names
// of its own, since messages of the first try may still be on their way. A bus that loses its connection
// in each of three tries fails.
func Patiently(t testing.TB, run func(t testing.TB)) {
	t.Helper()
	for try := 1; ; try++ {
		lost := attempt(t, run)
		if lost == "" {
			return
		}
		if try == tries {
			t.Fatalf("the connection was lost in each of %d tries: %s", tries, lost)
		}
	}
}

// patient is the t of a check that may run again.
type patient struct{ testing.TB }

// lostConnection is the panic that ends a try.
type lostConnection string

func attempt(t testing.TB, run func(t testing.TB)) (lost string) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case lostConnection:
			lost = string(p)
		default:
			panic(p)
		}
	}()
	run(patient{t})
	return ""
}

// watchdog is the longest wait for an event.
const watchdog = 20 * time.Second

type busView struct {
	testing.TB
	BusFixture
	name  string
	alone bool // without another connection
}

func newBusView(t testing.TB, f BusFixture) *busView {
	alone := f.Peer == nil
	if alone {
		f.Peer = f.Bus
	}
	return &busView{t, f, fmt.Sprintf("kit-%x", rand.Uint64()), alone}
}

// Ear is a follower that keeps its events.
type Ear struct {
	t      testing.TB
	events chan remote.Event
	stop   func()
}

// Follow starts an Ear, which ends with the test, and waits until it is
// connected.
func Follow(t testing.TB, bus remote.Bus, name string) *Ear {
	t.Helper()
	return tell(t, bus, name, func(keep func()) { keep() })
}

// tell is Follow with a function f, called for each event. f calls keep if
// the Ear shall get the event. The Ear gets no proof of delivery, which is an
// event without messages: a bus may send one at any time while it is connected.
func tell(t testing.TB, bus remote.Bus, name string, f func(keep func())) *Ear {
	t.Helper()
	e := &Ear{t: t, events: make(chan remote.Event, 1<<14)}
	e.stop = sync.OnceFunc(bus.Follow(name, func(ev remote.Event) {
		f(func() {
			if ev.State != remote.Delivered || len(ev.Messages) > 0 {
				e.events <- ev
			}
		})
	}))
	t.Cleanup(e.stop)
	e.connected()
	return e
}

func (e *Ear) next() remote.Event {
	e.t.Helper()
	select {
	case ev := <-e.events:
		return ev
	case <-time.After(watchdog):
		e.t.Fatalf("nothing arrived within %v", watchdog)
		return remote.Event{}
	}
}

// connected waits for Connected; only gaps may come before it.
func (e *Ear) connected() {
	e.t.Helper()
	for {
		switch ev := e.next(); ev.State {
		case remote.Connected:
			return
		case remote.Delivered:
			e.t.Fatalf("messages arrived before Connected: %+v", ev.Messages)
		}
	}
}

// Messages waits for n messages.
func (e *Ear) Messages(n int) []remote.Message {
	e.t.Helper()
	all, ended := e.upTo(n)
	if ended.State == remote.Delivered {
		return all
	}
	why := fmt.Sprintf("state %d after %d of %d messages: %v", ended.State, len(all), n, ended.Err)
	if _, ok := e.t.(patient); ok && ended.State == remote.Gap {
		panic(lostConnection(why))
	}
	e.t.Fatal(why)
	return nil
}

// upTo waits for n messages, or for an event of another state.
func (e *Ear) upTo(n int) (all []remote.Message, last remote.Event) {
	e.t.Helper()
	for last.State = remote.Delivered; len(all) < n && last.State == remote.Delivered; all = append(all, last.Messages...) {
		last = e.next()
	}
	return all, last
}

// hears fails unless the next messages are want.
func (e *Ear) hears(want ...remote.Message) {
	e.t.Helper()
	if got := e.Messages(len(want)); !slices.Equal(got, want) {
		e.t.Fatalf("got %+v; want %+v", got, want)
	}
}

func (v *busView) publish(bus remote.Bus, m ...remote.Message) {
	v.Helper()
	if err := bus.Publish(v.Context(), m); err != nil {
		v.Fatalf("Publish: %v", err)
	}
}

// message returns the n-th message of the view's name.
func (v *busView) message(n int) remote.Message {
	return remote.Message{
		Name: v.name, Kind: remote.Dropped, From: 7,
		Key: fmt.Sprint("k", n), Lane: uint16(n % 1000), Was: remote.LaneVersion{Count: uint64(n), Nonce: 1}, Is: remote.LaneVersion{Count: uint64(n) + 1, Nonce: 2},
	}
}

func checkConnectedFirst(v *busView) {
	// Messages after Connected must arrive. So one try per follower is enough
	// to find a bus that sends Connected too early.
	for i := range 20 {
		e := Follow(v.TB, v.Bus, v.name)
		v.publish(v.Peer, v.message(i))
		e.hears(v.message(i))
		e.stop()
	}
}

// checkOwnMessages: an instance hears its own messages, by which it knows that the bus works.
func checkOwnMessages(v *busView) {
	e := Follow(v.TB, v.Bus, v.name)
	v.publish(v.Bus, v.message(1))
	e.hears(v.message(1))
}

// checkRouting: names are bytes, and none is a pattern or the beginning of another for the bus.
func checkRouting(v *busView) {
	names := []string{v.name, v.name + "-other", v.name + ":", v.name + "{x", v.name + "*", "[" + v.name + "]", v.name + " x\r\n\x00"}
	var ears []*Ear
	var all []remote.Message
	for i, name := range names {
		ears = append(ears, Follow(v.TB, v.Bus, name))
		m := v.message(i)
		m.Name = name
		all = append(all, m)
	}
	v.publish(v.Peer, all...)
	v.publish(v.Peer, all...)
	for i, e := range ears {
		e.hears(all[i], all[i])
	}
}

// checkOrder: messages of one publisher arrive in their order, within a call and from call to call.
func checkOrder(v *busView) { v.arrive("k", slices.Repeat([]int{10}, 100)...) }

// checkLargeBatches: a caller may invalidate thousands of keys by one call, which are more bytes than some stores take in
// one message.
func checkLargeBatches(v *busView) { v.arrive(strings.Repeat("k", 200), 2000, 1) }

// arrive publishes a batch of each size, and fails unless a follower hears all their messages in order.
func (v *busView) arrive(key string, sizes ...int) {
	v.Helper()
	e := Follow(v.TB, v.Bus, v.name)
	var want []remote.Message
	for _, size := range sizes {
		for range size {
			m := v.message(len(want))
			m.Key = key + m.Key
			want = append(want, m)
		}
		v.publish(v.Peer, want[len(want)-size:]...)
	}
	if got := e.Messages(len(want)); !slices.Equal(got, want) {
		v.Fatalf("%d messages arrived, but not as they were sent, or not in their order", len(got))
	}
}

// checkUnchanged: all fields arrive as they were, also the largest numbers and any bytes of keys.
func checkUnchanged(v *busView) {
	e := Follow(v.TB, v.Bus, v.name)
	for i, key := range HostileKeys() {
		most := ^uint64(0) - uint64(i)
		m := remote.Message{
			Name: v.name, Kind: remote.Dropped + remote.Kind(i)%remote.Answered, From: most, Key: key, Lane: ^uint16(0) - uint16(i),
			Was: remote.LaneVersion{Count: most, Nonce: most - 1}, Is: remote.LaneVersion{Count: most - 2, Nonce: most - 3},
			Hold: time.Duration(i) * time.Millisecond,
		}
		v.publish(v.Peer, m)
		e.hears(m)
	}
	m := remote.Message{Name: v.name, Kind: remote.AllDropped, From: 1, Hold: 24 * time.Hour}
	v.publish(v.Peer, m)
	e.hears(m)
}

// checkEveryFollower: a message is for all followers of its name, of this connection and of others,
// until they stop.
func checkEveryFollower(v *busView) {
	a, b, c := Follow(v.TB, v.Bus, v.name), Follow(v.TB, v.Bus, v.name), Follow(v.TB, v.Peer, v.name)
	v.publish(v.Bus, v.message(1))
	for _, e := range []*Ear{a, b, c} {
		e.hears(v.message(1))
	}
	a.stop()
	v.publish(v.Bus, v.message(2))
	b.hears(v.message(2))
	c.hears(v.message(2))
}

// checkOneCallAtATime: a follower keeps its state without a lock.
func checkOneCallAtATime(v *busView) {
	const publishers, each = 4, 50
	var running, overlaps atomic.Int32
	e := tell(v.TB, v.Bus, v.name, func(keep func()) {
		if running.Add(1) > 1 {
			overlaps.Add(1)
		}
		keep()
		<-time.After(10 * time.Microsecond)
		running.Add(-1)
	})
	var wg sync.WaitGroup
	for range publishers {
		wg.Go(func() {
			for i := range each {
				if err := v.Peer.Publish(v.Context(), []remote.Message{v.message(i)}); err != nil {
					v.Errorf("Publish: %v", err)
				}
			}
		})
	}
	wg.Wait()
	e.upTo(publishers * each) // or a gap, as on a busy machine: only overlaps count
	if n := overlaps.Load(); n > 0 {
		v.Errorf("%d calls overlapped", n)
	}
}

// checkStop: after stop the follower may be taken apart. Other followers of the name go on.
func checkStop(v *busView) {
	other := Follow(v.TB, v.Bus, v.name)
	var slow, running atomic.Bool
	e := tell(v.TB, v.Bus, v.name, func(keep func()) {
		running.Store(slow.Load())
		keep()
		if running.Load() {
			<-time.After(50 * time.Millisecond)
		}
		running.Store(false)
	})
	slow.Store(true)
	v.publish(v.Bus, v.message(0))
	e.hears(v.message(0))
	e.stop()
	if running.Load() {
		v.Errorf("stop returned while a call was running")
	}
	slow.Store(false)
	other.hears(v.message(0))
	for n := range 20 {
		v.publish(v.Bus, v.message(n))
		other.hears(v.message(n))
	}
	if n := len(e.events); n > 0 {
		v.Errorf("%d calls after stop had returned", n)
	}
}

// checkGap: messages during a cut are lost, so that all followers must be told of it before anything
// else arrives.
func checkGap(v *busView) {
	if v.Cut == nil {
		v.Skip("no Cut")
	}
	ears := []*Ear{Follow(v.TB, v.Bus, v.name), Follow(v.TB, v.Bus, v.name), Follow(v.TB, v.Bus, v.name+"-other")}
	for round := range 3 {
		v.publish(v.Peer, v.message(round))
		ears[0].hears(v.message(round))
		ears[1].hears(v.message(round))
		join := v.Cut()
		if !v.alone {
			v.publish(v.Peer, v.message(1000))
		}
		join()
		for i, e := range ears {
			if ev := e.next(); ev.State != remote.Gap {
				v.Fatalf("follower %d: state %d, messages %+v after a cut; want Gap first", i, ev.State, ev.Messages)
			}
			e.connected()
		}
	}
}

// checkCancelledPublish: a publisher must know that its message may not have been sent.
func checkCancelledPublish(v *busView) {
	ctx, cancel := context.WithCancel(v.Context())
	cancel()
	if err := v.Bus.Publish(ctx, []remote.Message{v.message(1)}); err == nil {
		v.Errorf("Publish with a cancelled context returned no error")
	}
}
