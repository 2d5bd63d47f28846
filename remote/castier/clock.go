package castier

import (
	"context"
	"sync"
	"time"
)

// Times of a server's clock in ms.
const (
	second = 1000
	// precise is the uncertainty with which a clock is content.
	precise = 50 * time.Millisecond
	// clockAge is the age at which a precise clock is read again.
	clockAge = 30 * time.Second
	// drift is how much two clocks may part, of the time that passes.
	drift = 1e-4
)

// clock estimates the clock of a server, which shows its time in steps. Each reading
// says that the server's time, in ms less the local time, is between two bounds; all
// readings together give narrow ones. If the steps are long, readings are made at the local
// times at which the server may just be about to count, so that each halves the uncertainty.
// The zero clock has no reading.
type clock struct {
	mu        sync.Mutex // guards below; never held while the server is asked
	begun     time.Time  // the origin of local times
	low, high time.Duration
	step      time.Duration // of the server's clock
	read      time.Time     // of the last reading, zero for none
	asking    bool
}

// instant is the reading of a clock at one moment: the server's time in ms is
// between early and late.
type instant struct{ early, late int64 }

// asker asks a server for its time, which is t or later, and before t+step.
type asker func(context.Context) (t time.Time, step time.Duration, err error)

// now returns the present instant. It asks the server if nothing is known, and if it
// is time for another reading and no other caller makes one.
func (c *clock) now(ctx context.Context, ask asker) (instant, error) {
	if c.due(time.Now()) {
		asked := time.Now()
		t, step, err := ask(ctx)
		c.answered(asked, time.Now(), t, step, err)
		if err != nil && !c.known() {
			return instant{}, err
		}
	}
	return c.at(time.Now()), nil
}

// due reports whether the caller has to ask the server and to call answered.
func (c *clock) due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read.IsZero() {
		return true
	}
	if c.asking || !c.wanted(now) {
		return false
	}
	c.asking = true
	return true
}

// wanted reports whether a reading now would help. c.mu is locked.
func (c *clock) wanted(now time.Time) bool {
	age := now.Sub(c.read)
	width := c.high - c.low
	if width <= precise || age < precise {
		return age > clockAge
	}
	if c.step <= precise {
		return age > time.Second
	}
	// The server counts when its time is whole: between low and high it is not
	// known which. A reading tells most if the middle is near a whole step.
	middle := (now.Sub(c.begun) + c.low + width/2) % c.step
	return middle < width/4 || middle > c.step-width/4 || age > time.Second
}

func (c *clock) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.read.IsZero()
}

// answered adds a reading: the server's clock showed t at some time from asked to
// heard. Bounds that contradict each other come from a clock set meanwhile: then
// the new bounds count.
func (c *clock) answered(asked, heard, t time.Time, step time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = false
	if err != nil {
		return
	}
	if c.read.IsZero() {
		c.begun = asked
	}
	server := time.Duration(t.UnixNano())
	low, high := server-heard.Sub(c.begun), server+step-asked.Sub(c.begun)
	if !c.read.IsZero() {
		wider := time.Duration(drift * float64(heard.Sub(c.read)))
		if l, h := max(low, c.low-wider), min(high, c.high+wider); l <= h {
			low, high = l, h
		}
	}
	c.low, c.high, c.step, c.read = low, high, step, heard
}

// steps returns the step of the server's clock.
func (c *clock) steps() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.step
}

// at returns the instant of the local time now.
func (c *clock) at(now time.Time) instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	wider := time.Duration(drift * float64(now.Sub(c.read)))
	local := now.Sub(c.begun)
	return instant{(local + c.low - wider).Milliseconds(), (local + c.high + wider).Milliseconds() + 1}
}
