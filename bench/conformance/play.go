package conformance

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// Limit is the time after which a scenario counts as hung. The longest takes
// about a second.
const Limit = 4 * time.Second

// Grade is one step of a scale.
type Grade struct {
	// Name names the outcome in a few words.
	Name string
	// Why is the reason why it is worse than the next step.
	Why string
}

// Grades that every scale begins with.
const (
	Crashes = "crashes"
	Hangs   = "hangs"
)

// Scenario is one thing that goes wrong.
type Scenario struct {
	// ID is a letter.
	ID string
	// Title is its row in the table.
	Title string
	// Story tells the calls that the scenario makes, and the result that it looks at.
	Story string
	// Scale has the possible outcomes, worst first.
	Scale []Grade
	// Measured says that Detail is a measurement, which the table shows.
	Measured bool

	play func(c Cache, forgets bool) (grade, detail string)
}

// Outcome is the result of one library in one scenario.
type Outcome struct {
	// Grade is the name of a step of the scenario's scale.
	Grade string
	// Detail is a measurement or a returned value or error; it may be empty.
	Detail string
}

// Rank returns the place of a grade on the scale, 0 being the worst. It panics
// if the scale does not have it.
func (s Scenario) Rank(grade string) int {
	i := slices.IndexFunc(s.Scale, func(g Grade) bool { return g.Name == grade })
	if i < 0 {
		panic(fmt.Sprintf("conformance: scenario %s has no grade %q", s.ID, grade))
	}
	return i
}

// Best reports whether grade is the best of the scale.
func (s Scenario) Best(grade string) bool { return s.Rank(grade) == len(s.Scale)-1 }

// Play runs s against l in this process. If l hangs, its goroutines and its
// cache are left behind; if it crashes, so does the process. [Matrix] contains
// both. Play returns the error of l.Open.
func Play(s Scenario, l Library) (Outcome, error) {
	c, err := l.Open()
	if err != nil {
		return Outcome{}, fmt.Errorf("conformance: open %s: %w", l.Name, err)
	}
	done := make(chan Outcome, 1)
	go func() {
		grade, detail := s.play(c, l.Forgets)
		done <- Outcome{grade, detail}
	}()
	limit := time.NewTimer(Limit)
	defer limit.Stop()
	select {
	case o := <-done:
		s.Rank(o.Grade) // panics: a grade beyond the scale is a bug of the scenario
		c.Close()
		return o, nil
	case <-limit.C:
		return Outcome{Hangs, fmt.Sprintf("after %v", Limit)}, nil
	}
}

// answer is the end of a call: a value and an error, or else a panic or an
// exit.
type answer struct {
	value    string
	err      error
	panicked any
	exited   bool
	took     time.Duration
}

// ok reports whether the call returned want.
func (a answer) ok(want string) bool { return a.returned() && a.err == nil && a.value == want }

func (a answer) returned() bool { return a.panicked == nil && !a.exited }

// failed reports whether the call returned an error.
func (a answer) failed() bool { return a.returned() && a.err != nil }

// String tells the end of the call in a few words.
func (a answer) String() string {
	switch {
	case a.exited:
		return "goroutine exited"
	case a.panicked != nil:
		return "panic"
	case a.err != nil:
		return "error"
	default:
		return fmt.Sprintf("%q", a.value)
	}
}

// begin makes a call on a goroutine of its own.
func begin(call func() (string, error)) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		var a answer
		start, over := time.Now(), false
		defer func() {
			a.panicked = recover()
			a.exited = !over && a.panicked == nil
			a.took = time.Since(start)
			c <- a
		}()
		a.value, a.err = call()
		over = true
	}()
	return c
}

// origin counts loads, and says when the first one is under way.
type origin struct {
	loads   atomic.Int64
	entered chan struct{}
}

func newOrigin() *origin { return &origin{entered: make(chan struct{})} }

// count counts a load and returns its number, from 1.
func (o *origin) count() int64 {
	n := o.loads.Add(1)
	if n == 1 {
		close(o.entered)
	}
	return n
}

// pause lets others run for d.
func pause(d time.Duration) { <-time.After(d) }

// pauseUnder is pause, but ends with ctx's error when ctx ends.
func pauseUnder(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// exit ends the goroutine, as testing.T.FailNow does. It is a function of its
// own so that vet does not take the code after it for unreachable.
func exit() { runtime.Goexit() }
