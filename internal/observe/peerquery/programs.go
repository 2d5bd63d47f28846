package peerquery

import (
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/strata-cache/strata/internal/observe/events"
	"github.com/strata-cache/strata/remote"
)

// Programs announce themselves when they have joined the bus, in an answer to no instance.
// An instance of another version of strata ignores it:
//
//	Answered  key: 0 <0, or 1 for a reply> {"Main": <the path of the main module>}
//	Answered  key: 0 2 {}                   this instance closes
//
// An instance that hears another program join replies with its own after a random time,
// unless another instance of its program has done so meanwhile. No instance replies to a reply. So
// both sides know of each other, and an idle bus carries nothing.

const (
	// announceEvery is the least time between two announcements without a cause.
	announceEvery = 10 * time.Minute
	// replyWithin is the longest time until an announcement that another program has caused.
	replyWithin = 5 * time.Second
	// maxPrograms is the highest number of other programs remembered.
	maxPrograms = 16
)

// programs is the knowledge of an instance about the programs of the others.
type programs struct {
	announced  time.Time // by this instance, without a cause
	own, other time.Time // when an announcement of the same program, and of another one, came last
	replying   bool
	strangers  map[string]bool
}

// announcement is the part of an answer that names a program.
type announcement struct{ Main string }

// Announce tells other instances of this program, unless the program is unknown, or was announced
// lately.
func (a *Asker) Announce() {
	a.mu.Lock()
	lately := !a.announced.IsZero() && time.Since(a.announced) < announceEvery
	if !lately {
		a.announced = time.Now()
	}
	a.mu.Unlock()
	if !lately {
		a.announce(joins)
	}
}

// The reasons for an announcement, as its number.
const (
	joins   = "0"
	replies = "1"
	leaves  = "2"
)

// Leave is the key of the message Answered that an instance sends when it closes, so that no
// question waits for its answer.
const Leave = "0 " + leaves + " {}"

// receiveLeave notes that an instance has closed. Its number is remembered for as long as the
// number of an open one, because its last drops may come later than its leave.
func (a *Asker) receiveLeave(from uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.known[from]; ok {
		k.left = true
		a.known[from] = k
	}
}

func (a *Asker) announce(why string) {
	if a.Program == "" {
		return
	}
	if text, err := json.Marshal(announcement{a.Program}); err == nil {
		a.Publish(remote.Answered, "0 "+why+" "+string(text))
	}
}

// receiveProgram notes the program of another instance, which has announced it for some
// reason. It does not wait.
func (a *Asker) receiveProgram(why, text string) {
	var got announcement
	if a.Program == "" || json.Unmarshal([]byte(text), &got) != nil || got.Main == "" {
		return
	}
	program := events.Line(got.Main, maxText)
	a.mu.Lock()
	p := &a.programs
	if got.Main == a.Program {
		p.own = time.Now()
		a.mu.Unlock()
		return
	}
	news := !p.strangers[program] && len(p.strangers) < maxPrograms
	if news {
		if p.strangers == nil {
			p.strangers = map[string]bool{}
		}
		p.strangers[program] = true
	}
	reply := why == joins && !p.replying
	if why == joins {
		p.replying, p.other = true, time.Now()
	}
	a.mu.Unlock()
	if news {
		a.Stranger(program)
	}
	if reply {
		a.Go(a.reply)
	}
}

// reply announces this program to another one, after the other has announced itself.
func (a *Asker) reply() {
	wait := time.NewTimer(rand.N(replyWithin))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-a.Open.Done():
		return
	}
	a.mu.Lock()
	a.replying = false
	told := a.own.After(a.other)
	a.mu.Unlock()
	if !told {
		a.announce(replies)
	}
}
