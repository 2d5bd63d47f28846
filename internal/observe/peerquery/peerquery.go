// Package peerquery lets an instance of a cache ask all others for the state of a key, over the
// bus: one instance asks, the others answer.
//
//	Asked     key: <number of the question> <name of the key>
//	Answered  key: <instance that has asked> <number of the question> <JSON of a panel.Explanation>
//
// Numbers are hexadecimal. A lost message costs an answer, and nothing else. An instance that
// closes takes its leave in an answer to no instance, as programs.go says.
package peerquery

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/observe/events"
	"github.com/strata-cache/strata/internal/observe/histogram"
	"github.com/strata-cache/strata/internal/observe/panel"
	"github.com/strata-cache/strata/remote"
)

const (
	// askFor is for how long a question waits for the answers of other instances. askAtLeast is for
	// how long it waits even if all known instances have answered, provided that all were looked
	// for within the time countEvery.
	askFor, askAtLeast = time.Second, 200 * time.Millisecond
	countEvery         = time.Minute
	// answerWithin is how long an instance looks at a key before it answers.
	answerWithin = 800 * time.Millisecond
	// maxAnswers is the most questions that an instance answers at once; others are left.
	maxAnswers = 4
	// maxAnswer is the length of an answer in bytes, maxInstances the most instances that
	// are remembered, for as long as knownFor after their last message.
	maxAnswer, maxInstances = 16 << 10, 1000
	knownFor                = 10 * time.Minute
	// maxText is the length of the name of an instance, and of an error, in bytes.
	maxText = 200
)

// Asker asks and answers for one instance. The fields are set before its first use. It is safe
// for concurrent use.
type Asker struct {
	// Instance is the number of this instance.
	Instance uint64
	// Open ends with the cache.
	Open context.Context
	// Publish sends a message of a kind with a key to all instances. If it fails, answers are
	// missing.
	Publish func(k remote.Kind, key string)
	// Explain returns the state of the key with a name on this instance.
	Explain func(ctx context.Context, name string) (panel.Explanation, error)
	// Program is the main module of this program. If it is empty, programs are not compared.
	Program string
	// Stranger is called once for each other program that has an instance. It does not wait.
	Stranger func(program string)
	// Usable reports whether a name may be the name of a key.
	Usable func(name string) bool
	// Go runs a function on a goroutine that the end of the cache waits for.
	Go func(func())

	answering atomic.Int64 // questions being answered now

	mu    sync.Mutex // guards below
	open  map[uint64]chan<- answer
	known map[uint64]known // other instances
	programs
	// counted is when answers were last awaited for all of askFor.
	counted time.Time
}

// answer is the answer of an instance.
type answer struct {
	from uint64
	panel.Explanation
}

// known is an instance heard on the bus.
type known struct {
	name string // empty if it has never answered
	at   time.Time
	left bool // it has closed; messages from it that come later were sent before
}

// Seen notes that an instance was heard of.
func (a *Asker) Seen(from uint64) { a.seen(from, "") }

func (a *Asker) seen(from uint64, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old, again := a.known[from]
	if from == a.Instance || !again && len(a.known) >= maxInstances {
		return
	}
	if a.known == nil {
		a.known = map[uint64]known{}
	}
	a.known[from] = known{cmp.Or(name, old.name), time.Now(), old.left}
}

// others are the open instances heard on the bus lately.
func (a *Asker) others() map[uint64]known {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make(map[uint64]known, len(a.known))
	for id, k := range a.known {
		if time.Since(k.at) > knownFor {
			delete(a.known, id)
			continue
		}
		if !k.left {
			k.name = cmp.Or(k.name, fmt.Sprintf("instance %016x", id))
			all[id] = k
		}
	}
	return all
}

// Receive handles a message of the kinds Asked and Answered. It does not wait.
func (a *Asker) Receive(m *remote.Message) {
	if m.From == a.Instance {
		return
	}
	if m.Kind == remote.Answered {
		a.receiveAnswer(m)
		return
	}
	a.Seen(m.From)
	number, name, ok := strings.Cut(m.Key, " ")
	if _, err := strconv.ParseUint(number, 16, 64); !ok || err != nil || !a.Usable(name) {
		return
	}
	// A question is a message that any instance can send: it must not cost this one more than it
	// can bear.
	if a.answering.Add(1) > maxAnswers {
		a.answering.Add(-1)
		return
	}
	to := strconv.FormatUint(m.From, 16) + " " + number + " "
	a.Go(func() {
		defer a.answering.Add(-1)
		a.answer(to, name)
	})
}

// answer tells the state of the key with that name to the instance that asked.
func (a *Asker) answer(to, name string) {
	ctx, cancel := context.WithTimeout(a.Open, answerWithin)
	defer cancel()
	e, err := a.Explain(ctx, name)
	if err != nil {
		e.Verdict = events.Line(err.Error(), maxText)
	}
	if text, err := json.Marshal(e); err == nil && len(text) <= maxAnswer {
		a.Publish(remote.Answered, to+string(text))
	}
}

// receiveAnswer hands an answer to the question that it belongs to.
func (a *Asker) receiveAnswer(m *remote.Message) {
	part := strings.SplitN(m.Key, " ", 3)
	if len(m.Key) > maxAnswer+100 || len(part) != 3 {
		return
	}
	to, err1 := strconv.ParseUint(part[0], 16, 64)
	number, err2 := strconv.ParseUint(part[1], 16, 64)
	got := answer{from: m.From}
	if err1 != nil || err2 != nil || json.Unmarshal([]byte(part[2]), &got.Explanation) != nil {
		return
	}
	// The texts come from another program, and are shown on a page and in a terminal.
	clean(&got.Explanation)
	a.seen(m.From, got.Instance)
	switch {
	case to == 0 && part[1] == leaves:
		a.receiveLeave(m.From)
	case to == 0:
		a.receiveProgram(part[1], part[2])
	}
	if to != a.Instance {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case a.open[number] <- got: // nil if no question waits
	default:
	}
}

// clean makes the texts of an answer short lines.
func clean(e *panel.Explanation) {
	e.Here, e.Answered = false, true
	for _, s := range []*string{&e.Instance, &e.L1, &e.L2} {
		*s = events.Line(*s, maxText)
	}
	e.Verdict, e.Err = events.Line(e.Verdict, 500), events.Line(e.Err, 500)
	e.Tags = e.Tags[:min(len(e.Tags), 10)]
	for i, t := range e.Tags {
		e.Tags[i] = events.Line(t, maxText)
	}
}

// Ask returns the state of the key with that name on all instances: this one first, then
// the others with an answer, then the others without one. It waits for a second at most.
func (a *Asker) Ask(ctx context.Context, name string) ([]panel.Explanation, error) {
	answers, number := make(chan answer, maxInstances), rand.Uint64()
	a.await(number, answers)
	defer a.await(number, nil)
	begun := time.Now()
	// The others are asked first, and look while this instance does.
	a.Publish(remote.Asked, strconv.FormatUint(number, 16)+" "+name)
	here, err := a.Explain(ctx, name)
	if err != nil {
		return nil, err
	}
	return append([]panel.Explanation{here}, a.collect(ctx, begun, answers)...), nil
}

// unanswered is the Explanation for an instance that did not answer for the time took. Instances
// take turns with heartbeats, so one of many may live and be heard seldom.
func unanswered(k known, took time.Duration) panel.Explanation {
	return panel.Explanation{Instance: k.name, Took: took, Verdict: fmt.Sprintf(
		"No answer came within %v. The instance was last heard of %v ago: it is busy, has ended, or the bus does not reach it.",
		histogram.Round(took), histogram.Round(time.Since(k.at)))}
}

// await makes answers to a question go to a channel; nil ends it.
func (a *Asker) await(number uint64, answers chan<- answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if answers == nil {
		delete(a.open, number)
		return
	}
	if a.open == nil {
		a.open = map[uint64]chan<- answer{}
	}
	a.open[number] = answers
}

// collect waits for the answers to a question asked at begun.
func (a *Asker) collect(ctx context.Context, begun time.Time, answers <-chan answer) (all []panel.Explanation) {
	missing, had := a.others(), map[uint64]bool{}
	a.mu.Lock()
	counted := time.Since(a.counted) < countEvery
	a.mu.Unlock()
	last, least := time.NewTimer(askFor), time.NewTimer(askAtLeast)
	defer last.Stop()
	defer least.Stop()
	for early, over := false, false; !over && (!early || len(missing) > 0); {
		select {
		case got := <-answers:
			// An instance whose answer comes twice is shown once.
			if delete(missing, got.from); !had[got.from] {
				had[got.from], got.Took = true, time.Since(begun)
				all = append(all, got.Explanation)
			}
		case <-least.C:
			early = counted
		case <-last.C:
			over = true
			a.mu.Lock()
			a.counted = time.Now()
			a.mu.Unlock()
		case <-ctx.Done():
			over = true
		}
	}
	for id, k := range a.others() { // some may have closed meanwhile
		if _, ok := missing[id]; ok {
			all = append(all, unanswered(k, time.Since(begun)))
		}
	}
	slices.SortFunc(all, func(a, b panel.Explanation) int {
		if a.Answered != b.Answered {
			if a.Answered {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Instance, b.Instance)
	})
	return all
}
