package snapshot

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Report is the result of a call. It is valid beside an error, too.
type Report struct {
	// Caches has one element for each cache of the snapshot, in its order.
	Caches []CacheReport
	// Rest is why no entries at the end of a snapshot were taken in, though no error happened: L1 is full.
	// These entries are not counted. Rest is empty if there are none.
	Rest string `json:",omitempty"`
	// Bytes is the length of the snapshot, or of its part read so far.
	Bytes int64
	// Took is the time of the call.
	Took time.Duration
}

// CacheReport is the part of a [Report] about one cache. The entries read are counted
// by their outcome, so that Entries is the sum of the fields below Kept.
type CacheReport struct {
	// Name is Options.Name of the cache.
	Name string
	// Refused is the reason why the cache was passed over. It is empty if the
	// cache was not.
	Refused string `json:",omitempty"`
	// Suspect is the reason why some entries are suspect and were not taken in: a drop may concern them.
	// They were read from L2, or are absent. Suspect is empty if there are no such
	// entries.
	Suspect string `json:",omitempty"`
	// Skipped is the number of entries that the writer could not encode.
	Skipped int
	// Missing counts the other entries that the writer had and the snapshot does not
	// have.
	Missing
	// Entries is the number of entries written or read.
	Entries int
	// Kept is the part of Entries that SaveKeys took over from the file that it replaced,
	// since L1 lost them in a quiet time.
	Kept int
	// Stored is the number of values now in L1, Confirmed the number of keys with a
	// value read from L2 instead.
	Stored, Confirmed int
	// Present is the number of keys that L1 had already, and Changed the number of
	// keys dropped or written since their values were read, or loaded meanwhile.
	Present, Changed int
	// Absent is the number of keys that a drop may concern, and that L2 does not have or
	// was not asked for. Their first readers load them.
	Absent int
	// Over is the number of entries at the end of their lives, Full the number for which
	// L1 had no room, Unusable the number with an unusable key or value, and Passed the
	// number in the section of a refused cache.
	Over, Full, Unusable, Passed int
}

// Missing counts entries that the writer of a snapshot had in L1 when it began, and that
// the snapshot lacks.
type Missing struct {
	// Busy entries had a write or a load of their key under way. Gone ones had ended, were
	// dropped, or were not to be trusted when their turn came, or have a key without a name.
	// Beyond ones are more than Options.MaxEntries.
	Busy, Gone, Beyond int
	// Coarse says that the writer or the reader has seen more drops than it remembers one by
	// one, so that some undropped keys may be among CacheReport.Changed.
	Coarse bool `json:",omitempty"`
}

// miss sets the numbers of entries that the snapshot does not have.
func (c *CacheReport) miss(l *format.Left) {
	c.Busy, c.Gone, c.Beyond, c.Coarse = count(l.Busy), count(l.Gone), count(l.Beyond), l.Coarse
}

// count is a number of a snapshot, which may be any.
func count(n uint64) int { return int(min(n, math.MaxInt)) }

// outcomes counts the fates of entries.
type outcomes [transfer.Outcomes]int

// add adds the fates of entries.
func (c *CacheReport) add(n *outcomes) {
	for _, one := range n {
		c.Entries += one
	}
	c.Stored += n[transfer.Stored]
	c.Present += n[transfer.Present]
	c.Changed += n[transfer.Changed]
	c.Absent += n[transfer.Unconfirmed]
	c.Over += n[transfer.Over]
	c.Full += n[transfer.Full]
	c.Unusable += n[transfer.Unusable]
}

// withdraw counts as changed the stored entries that have gone by drops that the snapshot
// told of.
func (c *CacheReport) withdraw(t *transfer.Taken) {
	if t != nil {
		n := min(t.Withdrawn(), c.Stored)
		c.Stored, c.Changed = c.Stored-n, c.Changed+n
	}
}

// merge adds the counts of another stream.
func (c *CacheReport) merge(o *CacheReport) {
	if c.Refused == "" {
		c.Refused = o.Refused
	}
	if c.Suspect == "" {
		c.Suspect = o.Suspect
	}
	c.Coarse = c.Coarse || o.Coarse
	c.Skipped += o.Skipped
	c.Busy += o.Busy
	c.Gone += o.Gone
	c.Beyond += o.Beyond
	c.Entries += o.Entries
	c.Kept += o.Kept
	c.Stored += o.Stored
	c.Confirmed += o.Confirmed
	c.Present += o.Present
	c.Changed += o.Changed
	c.Absent += o.Absent
	c.Over += o.Over
	c.Full += o.Full
	c.Unusable += o.Unusable
	c.Passed += o.Passed
}

// Entries is the number of entries of all caches.
func (r *Report) Entries() int {
	return r.sum(func(c *CacheReport) int { return c.Entries })
}

// Missing is the number of entries of all caches that the writer had and that the snapshot
// does not have.
func (r *Report) Missing() int {
	return r.sum(func(c *CacheReport) int { return c.Skipped + c.Busy + c.Gone + c.Beyond })
}

// Warm is the number of entries of all caches that came into L1.
func (r *Report) Warm() int {
	return r.sum(func(c *CacheReport) int { return c.Stored + c.Confirmed })
}

// refused is the reason why the first cache was passed over, if all were.
func (r *Report) refused() (why string) {
	for i := range r.Caches {
		if r.Caches[i].Refused == "" {
			return ""
		}
		if why == "" {
			why = strconv.Quote(r.Caches[i].Name) + ": " + r.Caches[i].Refused
		}
	}
	return why
}

func (r *Report) sum(of func(*CacheReport) int) (n int) {
	for i := range r.Caches {
		n += of(&r.Caches[i])
	}
	return n
}

// MBPerSecond is the rate in megabytes (10⁶ bytes) of the snapshot in a second.
func (r *Report) MBPerSecond() float64 {
	return float64(r.Bytes) / 1e6 / max(r.Took.Seconds(), 1e-9)
}

// log writes the line about a call, and a line about each refused cache.
func (r *Report) log(to *slog.Logger, done, failed string, err error) {
	for _, c := range r.Caches {
		if c.Refused != "" {
			to.Warn("strata: snapshot: cache is passed over", slog.String("cache", c.Name), slog.String("why", c.Refused), slog.Int("entries", c.Entries))
		}
	}
	names, suspect := make([]string, len(r.Caches)), ""
	for i, c := range r.Caches {
		names[i], suspect = c.Name, cmp.Or(suspect, c.Suspect)
	}
	about := []slog.Attr{
		slog.Any("caches", names), slog.Int("entries", r.Entries()), slog.Int("warm", r.Warm()), slog.Int64("bytes", r.Bytes),
		slog.Float64("seconds", float64(r.Took.Round(time.Millisecond))/1e9), slog.Float64("mb_per_second", float64(int(r.MBPerSecond()*10))/10),
	}
	if n := r.Missing(); n > 0 {
		about = append(about, slog.Int("missing", n))
	}
	if n := r.sum(func(c *CacheReport) int { return c.Kept }); n > 0 {
		about = append(about, slog.Int("kept", n))
	}
	if r.Rest != "" {
		about = append(about, slog.String("rest", r.Rest))
	}
	if suspect != "" {
		about = append(about, slog.String("suspect", suspect))
	}
	level, what := slog.LevelInfo, done
	if err != nil {
		level, what, about = slog.LevelWarn, failed, append(about, slog.Any("error", err))
	}
	to.LogAttrs(context.Background(), level, "strata: "+what, about...)
}
