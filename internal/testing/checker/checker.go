// Package checker records the operations of several instances of a cache on the
// keys of one origin, and judges whether the instances kept their promises.
//
// The model is a versioned register: every write at the origin gives a key its
// next version, and a value contains its key and version. So the value of a
// read gives its place in the order of writes. Judging needs no search and
// takes O(n log n).
//
// The faults in a history are recorded by the code that injects them, never by
// the cache.
package checker

import (
	"math"
	"sync"
	"time"
)

// Time is a point on a recorder's clock, in nanoseconds since it was made.
type Time int64

// Never is later than every other time.
const Never Time = math.MaxInt64

// Shared stands for the shared tier in fields that name an instance.
const Shared = -1

// Write is a write at the origin. Version 0 of every key exists from the
// beginning.
type Write struct {
	Key     string
	Version uint64
	At      Time
}

// Fence is a call that makes cached values outdated: Invalidate, Expire (Soft),
// Set, or, with no Key, InvalidateAll and ExpireAll.
type Fence struct {
	Instance int
	Key      string
	// Soft: old values may still be served if a load fails.
	Soft bool
	// Tags: the call dropped tags. Running flights may still be joined.
	Tags bool
	// Stores: the call was a Set of Version.
	Stores  bool
	Version uint64

	Call, Return Time
	// Known is the time from which the tier and other instances must know of the call, if
	// it is later than Return: the server that executed it was deposed, and another one
	// had taken its place.
	Known Time
	// Failed: the call returned an error. It binds its own instance only, until
	// all failed calls have been retried.
	Failed bool
	// Lost: the process ended before the failed call was retried.
	Lost bool
	// Unsure: the call failed, and may have had no effect. It binds no instance, and may
	// have stored its Version.
	Unsure bool
}

// Read is a read that returned a value. With the instance Shared it is a read
// of the tier itself, for which there is no excuse.
type Read struct {
	Instance int
	Key      string
	// Of and Version are the key and the version in the value.
	Of      string
	Version uint64

	Call, Return Time
	// More is the number of further reads with the same result that this Read
	// stands for. Return is then the return of the first of them and Call the
	// call of the last; they are judged by these times.
	More int
	// Stale: the value may have been expired, because it was not reported as
	// fresh, or because a load failed during the read.
	Stale bool
	// Degraded: the instance reported the value, or itself, as degraded. It may
	// have missed messages.
	Degraded bool
	// Past: the call had the option SkipRead, for a load that begins after the
	// call.
	Past bool
	// Final: before the call of the read, faults had ended and all failed calls
	// had been retried.
	Final bool
}

// Load is one run of a Loader.
type Load struct {
	Instance int
	Key      string
	Version  uint64
	// Since is the time of the call that started the load, and Call the time
	// when the Loader began to run.
	Since, Call, Return Time
	// OK: the Loader returned a value, or confirmed the previous value.
	OK bool
}

// State is the state of an instance's connection to the bus. The injector of
// faults sets it.
type State uint8

const (
	// Connected: messages arrive within the promised delay.
	Connected State = iota
	// Deaf: messages are lost, and the instance is not told.
	Deaf
	// Down: messages are lost, and the instance has been told.
	Down
)

// Link is a change of an instance's connection.
type Link struct {
	Instance int
	At       Time
	State    State
}

// Excuse is a reason for one more load of Key (of any key, if empty) on
// Instance (on any instance, if Shared) between From and To.
type Excuse struct {
	// Cluster selects the rule that the excuse applies to: OneClusterLoad if
	// true, OneLoad if false.
	Cluster  bool
	Instance int
	Key      string
	From, To Time
}

// Loss is a loss of writes by the shared tier: it has lost all writes acknowledged from
// Since on. Values dropped since then may be served between From and To, but not by the
// instance that dropped them.
type Loss struct {
	Since, From, To Time
}

// Note is a line of the trace. It is not judged.
type Note struct {
	At   Time
	Text string
}

// History is a record of all operations and faults. Its slices are in no
// particular order.
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

// NewRecorder returns a recorder. Its clock begins now.
func NewRecorder() *Recorder { return &Recorder{start: time.Now()} }

// Now returns the time. No two calls return the same time, so that times order
// events; in a bubble, where time stands still, they are a nanosecond apart.
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

// History returns the record. The recorder must not be used afterwards.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &r.h
}
