package ledger

import (
	"slices"
	"sync/atomic"
)

// maxSettings is the number of settings of a watermark to tell apart. Older ones
// merge.
const maxSettings = 16

// datedWatermark is a watermark that remembers when it was set: an entry with a
// lower stamp is suspect, or stale, since the first setting above its stamp. The
// zero datedWatermark has not been set.
type datedWatermark struct {
	settings atomic.Pointer[[]setting] // the slice is never changed; watermarks ascend
}

type setting struct {
	watermark uint64
	since     int64
}

// set makes every entry with a stamp below watermark suspect, or stale, since some
// time. Calls do not overlap.
func (d *datedWatermark) set(watermark uint64, since int64) {
	var next []setting
	if old := d.settings.Load(); old != nil {
		next = slices.Clone(*old)
	}
	// An event may be noticed after a later one. Entries below both are suspect since the earlier
	// of them.
	for i := range next {
		next[i].since = min(next[i].since, since)
	}
	next = append(next, setting{watermark, since})
	if len(next) > maxSettings { // the two oldest become one, with the earlier time
		next[1].since = next[0].since
		next = next[1:]
	}
	d.settings.Store(&next)
}

// judge says whether an entry with this stamp is suspect, and since when.
func (d *datedWatermark) judge(stamp uint64) (v Verdict, since int64) {
	if below, since := d.below(stamp); below {
		return Suspect, since
	}
	return Valid, 0
}

// below reports whether stamp is below the watermark, and since when.
func (d *datedWatermark) below(stamp uint64) (below bool, since int64) {
	settings := d.settings.Load()
	if settings == nil {
		return false, 0
	}
	for _, s := range *settings {
		if stamp < s.watermark {
			return true, s.since
		}
	}
	return false, 0
}

// last returns the time of the last setting, zero if there was none.
func (d *datedWatermark) last() int64 {
	settings := d.settings.Load()
	if settings == nil {
		return 0
	}
	return (*settings)[len(*settings)-1].since
}
