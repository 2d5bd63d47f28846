// Package history records what several instances of a cache did with the keys
// of one origin, and judges whether they kept the promises of a cluster.
//
// The model is a versioned register: every write at the origin gives a key its
// next version, and a value names its key and version. So each read carries
// its place in the order of writes, and judging needs no search: it takes
// O(n log n).
//
// What a history knows of faults comes from whoever injects them, never from
// the cache's own opinion.
package history

import (
	"math"
	"sync"
	"time"
)

// Time is a point on a recorder's clock, in nanoseconds since it was made.
type Time int64

// Never is later than everything.
const Never Time = math.MaxInt64

// Shared is the instance of what is known about the tier that all share.
const Shared = -1

// Write is a write at the origin. Version 0 of every key is there before
// anything else.
type Write struct {
	Key     string
	Version uint64
	At      Time
}

// Fence is a call that made what was cached before it old: Invalidate, Expire
// (Soft), Set, or, with no Key, InvalidateAll and ExpireAll.
type Fence struct {
	Instance int
	Key      string
	// Soft leaves the old values to be served when a load fails.
	Soft bool
	// Tags says that the call dropped tags: what runs may be joined all the same.
	Tags bool
	// Stores says that the call was a Set, of this Version.
	Stores  bool
	Version uint64

	Call, Return Time
	// Failed says that the call returned an error: it binds its own instance
	// only, until everything that failed has been tried again.
	Failed bool
	// Lost says that nobody is left who would try it again: the process has
	// ended.
	Lost bool
}

// Read is a read that returned a value. With the instance Shared it is a look
// into the tier itself, which nothing may excuse.
type Read struct {
	Instance int
	Key      string
	// Of and Version are what the value says about itself.
	Of      string
	Version uint64

	Call, Return Time
	// More says that this stands for so many further reads that got the same:
	// Return is then the return of the first of them and Call the call of the
	// last, by which they are judged.
	More int
	// Stale says that the value may be one that was expired: it was not said
	// to be fresh, or a load has failed during the read.
	Stale bool
	// Degraded says that the instance has said so of the value, or of itself:
	// it may not have heard of everything.
	Degraded bool
	// Past says that the caller asked past the cache, for a load that begins after
	// the call.
	Past bool
	// Final says that faults have ended, and that all that failed has been
	// tried again, before the read was called.
	Final bool
}

// Load is one run of a Loader.
type Load struct {
	Instance int
	Key      string
	Version  uint64
	// Since is when the caller who started it called, Call when the Loader
	// began to run.
	Since, Call, Return Time
	// OK says that the Loader brought a value or said that the held one holds.
	OK bool
}

// State is what an injector has done to an instance's connection to the bus.
type State uint8

const (
	// Connected: what is sent arrives within the promised delay.
	Connected State = iota
	// Deaf: messages are lost and the instance does not know.
	Deaf
	// Down: the instance has been told that messages are lost.
	Down
)

// Link is a change of an instance's connection.
type Link struct {
	Instance int
	At       Time
	State    State
}

// Excuse is a reason for one more load of Key (of any, if empty) on Instance
// (on any, if Shared) at some time from From to To.
type Excuse struct {
	// Cluster says for which rule it counts: the one about all instances, or
	// the one about loads that one instance runs at the same time.
	Cluster  bool
	Instance int
	Key      string
	From, To Time
}

// Loss says that the shared tier has lost what it had acknowledged from Since
// on: what had been dropped since then may be served from From to To.
type Loss struct {
	Since, From, To Time
}

// Note is a line for the trace. It is not judged.
type Note struct {
	At   Time
	Text string
}

// History is what happened. Its slices are in no particular order.
type History struct {
	Writes  []Write
	Fences  []Fence
	Reads   []Read
	Loads   []Load
	Links   []Link // every instance is Connected at first
	Excuses []Excuse
	Losses  []Loss
	Notes   []Note
}

// Recorder records a History. It is safe for concurrent use. Use [NewRecorder]
// to make one.
type Recorder struct {
	start time.Time

	mu   sync.Mutex // guards below
	last Time
	h    History
}

// NewRecorder returns a recorder whose clock begins now.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// Now is the time. No two calls return the same, so that the order of times is
// an order of events; where time stands still they are a nanosecond apart.
func (r *Recorder) Now() Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now()
}

func (r *Recorder) now() Time {
	r.last = max(r.last+1, Time(time.Since(r.start)))
	return r.last
}

// Write adds a write that happens now.
func (r *Recorder) Write(key string, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Writes = append(r.h.Writes, Write{key, version, r.now()})
}

// Link adds a change of a connection that happens now.
func (r *Recorder) Link(instance int, s State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Links = append(r.h.Links, Link{instance, r.now(), s})
}

// Fence adds a fence that returns now.
func (r *Recorder) Fence(f Fence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.Return = r.now()
	r.h.Fences = append(r.h.Fences, f)
}

// Read adds a read that returns now.
func (r *Recorder) Read(read Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	read.Return = r.now()
	r.h.Reads = append(r.h.Reads, read)
}

// Load adds a load that returns now.
func (r *Recorder) Load(l Load) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Return = r.now()
	r.h.Loads = append(r.h.Loads, l)
}

// Excuse adds an excuse.
func (r *Recorder) Excuse(e Excuse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Excuses = append(r.h.Excuses, e)
}

// Note adds a note about now.
func (r *Recorder) Note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.h.Notes = append(r.h.Notes, Note{r.now(), text})
}

// History returns what was recorded. The recorder must not be used any more.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.h
}
