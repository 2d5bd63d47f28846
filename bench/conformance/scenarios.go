package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	key   = "k"
	value = "value"
)

// Grades that several scales have.
const (
	emptyValue = "empty value"
	keyBroken  = "key stays broken"
)

// Times of the scenarios. A load takes much longer than everything else in a
// scenario, so steps that are quick, or that join it, have ample time on a busy machine.
const (
	slow  = 800 * time.Millisecond
	quick = 50 * time.Millisecond
)

var errOrigin = errors.New("origin is down")

// Scenarios returns all scenarios in the order of the table.
func Scenarios() []Scenario {
	return []Scenario{
		{
			ID: "A", Title: "leader cancelled, follower",
			Story: "Two callers share a load of 800 ms that obeys its context. The one who came first is cancelled after 50 ms. What does the other get?",
			Scale: scale(
				Grade{emptyValue, "nothing tells the follower that this is not the value"},
				Grade{"leader's error", "the follower fails although nothing is wrong with it or with the origin"},
				Grade{"second load", "the follower succeeds, but begins again: the origin works twice and the follower waits longer"},
				Grade{"the value", "one load, and whoever still waits gets it"},
			),
			play: leaderCancelled,
		},
		{
			ID: "B", Title: "follower's deadline",
			Story: "A caller with a deadline of 50 ms joins a load that takes 800 ms. When does it return?",
			Scale: scale(
				Grade{"load lost", "the leader fails because a follower left"},
				Grade{emptyValue, "nothing tells the follower that this is not the value"},
				Grade{"waits for the load", "a deadline that is not kept is none: requests pile up behind a slow origin"},
				Grade{"at its deadline", "the follower leaves, the load goes on"},
			),
			Measured: true,
			play:     followerDeadline,
		},
		{
			ID: "C", Title: "loader panics",
			Story: "Two callers share a load that panics. What do they get, and does the next call load again?",
			Scale: scale(
				Grade{keyBroken, "one panic takes the key out of service"},
				Grade{emptyValue, "nothing tells the caller that this is not the value"},
				Grade{"all callers panic", "one bad load unwinds every request that waited for it"},
				Grade{"one caller panics", "who panics and who gets an error depends on who came first"},
				Grade{"errors", "every caller can deal with it as with any failed load"},
			),
			play: loaderPanics,
		},
		{
			ID: "D", Title: "loader exits (Goexit)",
			Story: "Two callers share a load that ends its goroutine, as a failing test does. What does the second get, and does the next call load again?",
			Scale: scale(
				Grade{keyBroken, "one exit takes the key out of service"},
				Grade{emptyValue, "nothing tells the caller that this is not the value"},
				Grade{"all callers exit", "goroutines end that had no part in it"},
				Grade{"panic", "an exit is no panic, and unwinds callers that had no part in it"},
				Grade{"errors", "the follower can deal with it as with any failed load"},
			),
			play: loaderExits,
		},
		{
			ID: "E", Title: "invalidated while loading: reader at once / later",
			Story: "The origin changes and the key is invalidated while a load of 800 ms runs that has read the old value. What does a reader get who comes after the invalidation, and one who comes when the old load is over?",
			Scale: scale(
				Grade{"fails", "the reader gets an error or an empty value although nothing is wrong with the origin"},
				Grade{"OLD / OLD", "the value from before the invalidation is stored after it and served for its whole TTL"},
				Grade{"NEW / OLD", "the value from before the invalidation replaces the new one and is served for its whole TTL"},
				Grade{"OLD / NEW", "the reader joins a load that began before what it may already know"},
				Grade{"NEW / -", "nothing is kept, so nothing old can be"},
				Grade{"NEW / NEW", "what was begun before the invalidation is never seen after it"},
			),
			play: invalidatedWhileLoading,
		},
		{
			ID: "F", Title: "loader asks for its own key",
			Story: "A load asks the cache for the key that it loads.",
			Scale: scale(
				Grade{keyBroken, "one such load takes the key out of service"},
				Grade{emptyValue, "nothing tells the load that this is not the value"},
				Grade{"loads again", "each load starts another: only the origin's patience ends it"},
				Grade{"error", "the load is told what it does"},
			),
			play: recursion,
		},
		{
			ID: "G", Title: "100 failing gets in a row",
			Story: "A hundred calls, one after the other, for a key whose origin is down. How many reach the origin?",
			Scale: scale(
				Grade{emptyValue, "nothing tells the caller that this is not the value"},
				Grade{"a load each", "the origin gets all the calls that the cache kept from it, while it is down"},
				Grade{"fewer loads", "the origin is spared in part"},
				Grade{"at most 10 loads", "the failure is remembered for a moment"},
			),
			Measured: true,
			play:     failingGets,
		},
	}
}

// scale returns the grades of a scenario: the two worst outcomes, which are the same for all
// scenarios, and then its own ones.
func scale(own ...Grade) []Grade {
	return append([]Grade{
		{Crashes, "the process is gone, and all it did"},
		{Hangs, "the callers never return, whatever their context says"},
	}, own...)
}

func leaderCancelled(c Cache, _ bool) (grade, detail string) {
	o := newOrigin()
	load := func(ctx context.Context) (string, error) {
		o.count()
		return value, pauseUnder(ctx, slow)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	leader := begin(func() (string, error) { return c.Get(ctx, key, load) })
	<-o.entered
	follower := begin(func() (string, error) { return c.Get(context.Background(), key, load) })
	pause(quick)
	cancel()
	f := <-follower
	<-leader
	switch {
	case !f.ok(value) && !f.failed():
		return emptyValue, f.String()
	case f.failed():
		return "leader's error", f.err.Error()
	case o.loads.Load() > 1:
		return "second load", fmt.Sprintf("%d loads", o.loads.Load())
	}
	return "the value", ""
}

func followerDeadline(c Cache, _ bool) (grade, detail string) {
	o := newOrigin()
	load := func(context.Context) (string, error) {
		o.count()
		pause(slow)
		return value, nil
	}
	leader := begin(func() (string, error) { return c.Get(context.Background(), key, load) })
	<-o.entered
	ctx, cancel := context.WithTimeout(context.Background(), quick)
	defer cancel()
	f := <-begin(func() (string, error) { return c.Get(ctx, key, load) })
	l := <-leader
	detail = f.took.Round(10 * time.Millisecond).String()
	switch {
	case !l.ok(value):
		return "load lost", "leader: " + l.String()
	case !f.ok(value) && !f.failed():
		return emptyValue, f.String()
	case f.took > slow/2:
		return "waits for the load", detail
	}
	return "at its deadline", detail
}

func loaderPanics(c Cache, _ bool) (grade, detail string) {
	e := endLoader(c, func() { panic("boom") })
	switch {
	case e.bad != "":
		return e.bad, e.String()
	case !e.leader.failed() && !e.follower.failed():
		return "all callers panic", e.String()
	case !e.leader.failed() || !e.follower.failed():
		return "one caller panics", e.String()
	}
	return "errors", e.String()
}

func loaderExits(c Cache, _ bool) (grade, detail string) {
	e := endLoader(c, exit)
	switch {
	case e.bad != "":
		return e.bad, e.String()
	case e.leader.panicked != nil || e.follower.panicked != nil:
		return "panic", e.String()
	case e.follower.exited:
		return "all callers exit", e.String()
	}
	return "errors", e.String()
}

// ending holds the answers around a load that ended without returning.
type ending struct {
	leader, follower, next answer
	bad                    string // the grade, if it is the same for panic and exit
}

func (e ending) String() string {
	if e.bad == keyBroken {
		return "next: " + e.next.String()
	}
	return fmt.Sprintf("leader: %v, follower: %v", e.leader, e.follower)
}

// endLoader lets two callers share a load that calls the function end, and makes a third call after
// it.
func endLoader(c Cache, end func()) (e ending) {
	o := newOrigin()
	load := func(context.Context) (string, error) {
		o.count()
		pause(4 * quick)
		end()
		return "", nil
	}
	get := func() (string, error) { return c.Get(context.Background(), key, load) }
	leader := begin(get)
	<-o.entered
	follower := begin(get)
	e.leader, e.follower = <-leader, <-follower
	e.next = nextGet(c)
	switch {
	case !e.next.ok(value):
		e.bad = keyBroken
	case e.leader.returned() && !e.leader.failed() || e.follower.returned() && !e.follower.failed():
		e.bad = emptyValue
	}
	return e
}

// nextGet is a call without any trouble.
func nextGet(c Cache) answer {
	return <-begin(func() (string, error) {
		return c.Get(context.Background(), key, func(context.Context) (string, error) { return value, nil })
	})
}

func invalidatedWhileLoading(c Cache, forgets bool) (grade, detail string) {
	const before, after = "OLD", "NEW"
	o := newOrigin()
	held := make(chan struct{}) // closed when the origin has changed
	load := func(context.Context) (string, error) {
		n := o.count()
		select {
		case <-held:
			pause(quick)
			return after, nil
		default:
		}
		if n > 1 {
			return "", errors.New("loaded twice before the invalidation")
		}
		pause(slow)
		return before, nil
	}
	get := func() (string, error) { return c.Get(context.Background(), key, load) }
	leader := begin(get)
	<-o.entered
	pause(2 * quick)
	close(held)
	if err := c.Invalidate(context.Background(), key); err != nil {
		return "fails", "invalidate: " + err.Error()
	}
	pause(quick) // other instances hear of it
	first := <-begin(get)
	<-leader
	pause(quick)
	later := <-begin(get)
	for _, a := range []answer{first, later} {
		if !a.ok(before) && !a.ok(after) {
			return "fails", a.String()
		}
	}
	if forgets && first.value == after {
		return "NEW / -", ""
	}
	return first.value + " / " + later.value, ""
}

func recursion(c Cache, _ bool) (grade, detail string) {
	const enough = 100
	o := newOrigin()
	var load Load
	load = func(ctx context.Context) (string, error) {
		if o.count() == enough {
			return value, nil
		}
		return c.Get(ctx, key, load)
	}
	a := <-begin(func() (string, error) { return c.Get(context.Background(), key, load) })
	if n := o.loads.Load(); n > 1 {
		return "loads again", fmt.Sprintf("%d times", n)
	}
	if next := nextGet(c); !next.ok(value) {
		return keyBroken, "next: " + next.String()
	}
	if !a.failed() {
		return emptyValue, a.String()
	}
	return "error", ""
}

func failingGets(c Cache, _ bool) (grade, detail string) {
	const gets = 100
	o := newOrigin()
	load := func(context.Context) (string, error) {
		o.count()
		return "", errOrigin
	}
	for range gets {
		a := <-begin(func() (string, error) { return c.Get(context.Background(), key, load) })
		if !a.failed() {
			return emptyValue, a.String()
		}
	}
	n := o.loads.Load()
	detail = fmt.Sprintf("%d loads", n)
	switch {
	case n >= gets:
		return "a load each", detail
	case n > 10:
		return "fewer loads", detail
	}
	return "at most 10 loads", detail
}
