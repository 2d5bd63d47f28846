// Questions to peers: an Asker lets an instance of a cache ask all others for the state of a key,
// over the bus. One instance asks, the others answer.
//
//	Asked     key: <number of the question> <name of the key>
//	Answered  key: <instance that has asked> <number of the question> <JSON of an Explanation>
//
// Numbers are hexadecimal. A lost message costs an answer, and nothing else. An instance that
// closes takes its leave in an answer to no instance, as the end of this file says.

package observe

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
	// maxVerdict is the length of the name of an instance, and of an error, in bytes.
	maxVerdict = 200
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
	Explain func(ctx context.Context, name string) (Explanation, error)
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
	Explanation
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
		e.Verdict = OneLine(err.Error(), maxVerdict)
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
func clean(e *Explanation) {
	e.Here, e.Answered = false, true
	for _, s := range []*string{&e.Instance, &e.L1, &e.L2} {
		*s = OneLine(*s, maxVerdict)
	}
	e.Verdict, e.Err = OneLine(e.Verdict, 500), OneLine(e.Err, 500)
	e.Tags = e.Tags[:min(len(e.Tags), 10)]
	for i, t := range e.Tags {
		e.Tags[i] = OneLine(t, maxVerdict)
	}
}

// Ask returns the state of the key with that name on all instances: this one first, then
// the others with an answer, then the others without one. It waits for a second at most.
func (a *Asker) Ask(ctx context.Context, name string) ([]Explanation, error) {
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
	return append([]Explanation{here}, a.collect(ctx, begun, answers)...), nil
}

// unanswered is the Explanation for an instance that did not answer for the time took. Instances
// take turns with heartbeats, so one of many may live and be heard seldom.
func unanswered(k known, took time.Duration) Explanation {
	return Explanation{Instance: k.name, Took: took, Verdict: fmt.Sprintf(
		"No answer came within %v. The instance was last heard of %v ago: it is busy, has ended, or the bus does not reach it.",
		RoundDuration(took), RoundDuration(time.Since(k.at)))}
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
func (a *Asker) collect(ctx context.Context, begun time.Time, answers <-chan answer) (all []Explanation) {
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
	slices.SortFunc(all, func(a, b Explanation) int {
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
	program := OneLine(got.Main, maxVerdict)
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
