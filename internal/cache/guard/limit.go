package guard

import (
	"io/fs"
	"math"
	"runtime/metrics"
	"time"
)

// reading is what the runtime says about the memory.
type reading struct {
	cycles   int64 // collections that have ended
	live     int64 // heap that the last collection has found in use
	beside   int64 // memory of the runtime that is no heap, such as stacks
	memLimit int64 // GOMEMLIMIT; math.MaxInt64 for none
	percent  int64 // GOGC; huge if it is off
}

// The metrics that a reading needs.
const (
	cycles = iota
	liveHeap
	allMemory
	releasedMemory
	objects
	unused
	free
	goMemLimit
	goGC
	metricsRead
)

// readRuntime reads the metrics of the runtime. Missing ones are zero.
func readRuntime() reading {
	s := [metricsRead]metrics.Sample{
		cycles:         {Name: "/gc/cycles/total:gc-cycles"},
		liveHeap:       {Name: "/gc/heap/live:bytes"},
		allMemory:      {Name: "/memory/classes/total:bytes"},
		releasedMemory: {Name: "/memory/classes/heap/released:bytes"},
		objects:        {Name: "/memory/classes/heap/objects:bytes"},
		unused:         {Name: "/memory/classes/heap/unused:bytes"},
		free:           {Name: "/memory/classes/heap/free:bytes"},
		goMemLimit:     {Name: "/gc/gomemlimit:bytes"},
		goGC:           {Name: "/gc/gogc:percent"},
	}
	metrics.Read(s[:])
	var n [metricsRead]int64
	for i := range s {
		if v := s[i].Value; v.Kind() == metrics.KindUint64 {
			n[i] = int64(min(v.Uint64(), math.MaxInt64))
		}
	}
	return reading{
		cycles:   n[cycles],
		live:     n[liveHeap],
		beside:   max(0, n[allMemory]-n[releasedMemory]-n[objects]-n[unused]-n[free]),
		memLimit: n[goMemLimit], percent: n[goGC],
	}
}

// found is a limit, and where it is from.
type found struct {
	limit  int64 // 0 for none
	source string
	// kept says that the collector keeps the process below the limit, if it can.
	kept bool
}

// room is the part of a limit that the heap may take at its largest, right before a collection, if the
// collector does not know the limit.
const room = 0.9

// ceiling returns the live heap from which to evict. If the collector does not know the limit, the heap grows
// by GOGC percent of the live heap, and of all memory beside it, until the next collection.
func (f found) ceiling(share float64, r reading) int64 {
	heap := float64(max(0, f.limit-r.beside))
	if f.kept || r.percent <= 0 || r.percent > 1000 {
		return int64(share * heap)
	}
	return int64(min(share, room/(1+float64(r.percent)/100)) * heap)
}

// limits finds limits. It reads files at most once in fileInterval.
type limits struct {
	files fs.FS
	read  time.Time
	group int64 // the limit of a cgroup, when files told one last
}

const fileInterval = 10 * time.Second

// The sources of limits.
const (
	fromOptions  = "Limit"
	fromMemLimit = "GOMEMLIMIT"
	fromGroup    = "cgroup"
)

// find returns the given limit, else GOMEMLIMIT, else the smallest limit of the cgroups of the process.
// GOMEMLIMIT above the limit of a cgroup does not hold.
func (l *limits) find(given int64, r reading, now time.Time) found {
	if given > 0 {
		return found{given, fromOptions, r.memLimit <= given}
	}
	if l.read.IsZero() || now.Sub(l.read) >= fileInterval {
		l.read = now
		if n, ok := groupLimit(l.files); ok {
			l.group = n
		}
	}
	switch {
	case l.group > 0 && l.group < r.memLimit:
		return found{l.group, fromGroup, false}
	case r.memLimit > 0 && r.memLimit < math.MaxInt64:
		return found{r.memLimit, fromMemLimit, true}
	}
	return found{}
}
