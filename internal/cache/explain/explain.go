// Package explain tells the state of one key of a cache, and in words the result that a read of
// it would have. It knows no types of keys and values.
package explain

import (
	"time"

	"github.com/strata-cache/strata/internal/observe"
)

// Key is the state of one key on one instance.
type Key struct {
	// Closed, Off and Degraded are states of the cache: it is turned off, or its bus is silent.
	Closed, Off, Degraded bool
	// Name is the name of the key in L2, or empty.
	Name   string
	L1, L2 Place
	// Refused is the reason why every read of the key fails.
	Refused error
	Running
	// Pending: a drop of the key is not confirmed. LeftAlone: L2 is not asked for the key.
	// StoringStopped: L2 gets no stores for the key.
	Pending, LeftAlone, StoringStopped bool
	// Hold is the time for which loads of the key are not stored.
	Hold time.Duration
	// Failures is the number of failures in a row. For RetryIn callers get Err.
	Failures int
	RetryIn  time.Duration
	Err      error
}

// Running is about the load of a key. Loading says that one runs, Reloading that it is one of a SkipRead, Waiters is
// the number of callers that wait for it.
type Running struct {
	Loading, Reloading bool
	Waiters            int
}

// Place is the entry of one tier, and its use.
type Place struct {
	Entry
	Silent   bool // the tier did not answer
	Served   bool // the value is stale, and served while it is refreshed
	Fallback bool // it is stale, and served if its load fails
	Lasts    bool // it is suspect, and served if the other tier cannot confirm it
}

// Entry has the fields of strata.Place, which describes them.
type Entry struct {
	Used, Present, NotFound, Suspect, Expired bool

	Fresh, Left  time.Duration
	Size         int
	Tags         []string
	DroppedByTag bool
	Err          error
}

const (
	// maxText is the length of a sentence on the page, in bytes.
	maxText = 500
	maxTags = 10
)

// Panel is the state of the key for package admin.
func (k *Key) Panel() observe.Explanation {
	e := observe.Explanation{
		Verdict: observe.OneLine(k.Verdict(), maxText), L2Size: k.L2.Size, Loading: k.Loading, Waiters: k.Waiters,
		Failures: k.Failures, RetryIn: k.RetryIn,
	}
	e.L1, e.L1Fresh = k.L1.state()
	e.L2, e.L2Fresh = k.L2.state()
	tags := k.L1.Tags
	if len(tags) == 0 {
		tags = k.L2.Tags
	}
	for _, t := range tags[:min(len(tags), maxTags)] {
		e.Tags = append(e.Tags, observe.OneLine(t, observe.MaxKey))
	}
	if k.Err != nil {
		e.Err = observe.OneLine(k.Err.Error(), maxText)
	}
	return e
}

// state is the state of the entry as a observe.Explanation names it.
func (e *Entry) state() (state string, fresh time.Duration) {
	switch {
	case !e.Used:
		return "none", 0
	case e.Err != nil:
		return "unknown", 0
	case e.NotFound:
		return "negative", e.Fresh
	case e.Suspect:
		return "suspect", e.Fresh
	case !e.Present:
		return "absent", 0
	case e.Fresh > 0:
		return "fresh", e.Fresh
	}
	return "stale", e.Fresh
}
