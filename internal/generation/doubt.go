package generation

import (
	"slices"
	"sync/atomic"
)

// maxRaised is how many times a doubt tells apart.
const maxRaised = 16

// doubt is a floor that remembers when it was raised: an entry that is below it
// is suspect, or stale, since the first of those times if there were several. The
// zero doubt has not been raised.
type doubt struct {
	raised atomic.Pointer[[]raised] // never changed; floors ascend
}

type raised struct {
	floor uint64
	since int64
}

// raise makes every entry with a stamp below floor suspect since some time.
// Calls do not overlap.
func (d *doubt) raise(floor uint64, since int64) {
	var next []raised
	if held := d.raised.Load(); held != nil {
		next = slices.Clone(*held)
	}
	for i := range next {
		next[i].since = min(next[i].since, since)
	}
	next = append(next, raised{floor, since})
	if len(next) > maxRaised { // what is suspect for less long counts as the oldest
		next[1].since = next[0].since
		next = next[1:]
	}
	d.raised.Store(&next)
}

// judge says what an entry with this stamp is good for, and since when it is
// suspect if it is.
func (d *doubt) judge(stamp uint64) (v Verdict, since int64) {
	if below, since := d.below(stamp); below {
		return Suspect, since
	}
	return Valid, 0
}

// below reports whether stamp is below the floor, and since when.
func (d *doubt) below(stamp uint64) (below bool, since int64) {
	held := d.raised.Load()
	if held == nil {
		return false, 0
	}
	for _, r := range *held {
		if stamp < r.floor {
			return true, r.since
		}
	}
	return false, 0
}

// last returns when the floor was raised last; zero if that was never.
func (d *doubt) last() int64 {
	held := d.raised.Load()
	if held == nil {
		return 0
	}
	return (*held)[len(*held)-1].since
}
