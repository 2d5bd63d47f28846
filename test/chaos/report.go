//go:build linux

package chaos

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
	"github.com/strata-cache/strata/test/internal/cluster"
)

// Report is the result of a run.
type Report struct {
	// Seed repeats the faults of the run.
	Seed uint64
	// Violations are broken promises. Problems are the other faults: crashes,
	// errors that no call may return, goroutines left after Close.
	Violations []checker.Violation
	Problems   []string
	// Reads and Fences are the numbers of calls that returned a value, and that
	// dropped one; Failed is the number of Fences without a confirmation. Loads
	// is the number of loads. Errors counts operations that L2 did not answer
	// although no fault was under way.
	Reads, Fences, Failed, Loads, Errors int
	// Hits are reads that L1 answered, Refused values that L2 refused, as the
	// instances counted them.
	Hits, Refused uint64
	// Moved counts snapshots.
	Moved cluster.Moved
	// Connected and CutOff count reads of dropped values by the time since the
	// drop: Connected on instances that heard of drops, CutOff on the others.
	// Current is the number of reads with a value that no drop had reached,
	// Heard the number of all reads on instances that heard of drops.
	Connected, CutOff Ages
	Current, Heard    int
	// Noticed has the times until instances found a silent bus silent, Back the
	// times from the end of a fault until the bus was connected.
	Noticed, Back []time.Duration
	// Faults counts faults by their kinds.
	Faults map[string]int
	// Goroutines is the largest number that an instance had, RSS the largest
	// memory of one, in bytes.
	Goroutines int
	RSS        int64

	took time.Duration
	h    *checker.History
}

// Ages is the number of reads by age.
type Ages map[time.Duration]int

// report judges the history of the run, and counts its calls.
func (r *run) report(answers []cluster.Answer) *Report {
	h, logs := r.gather()
	rep := &Report{Seed: r.o.Seed, Faults: map[string]int{}, Connected: Ages{}, CutOff: Ages{}, h: h, took: r.o.For}
	rep.Violations = r.judge(h)
	rep.Fences, rep.Loads = len(h.Fences), len(h.Loads)
	for _, f := range h.Fences {
		if f.Failed {
			rep.Failed++
		}
	}
	h.Ages(r.promise(longTTL), func(read *checker.Read, old time.Duration, connected bool) {
		n := 1 + read.More
		rep.Reads += n
		if connected {
			rep.Heard += n
		}
		switch {
		case old == 0:
			rep.Current += n
		case connected:
			rep.Connected[old] += n
		default:
			rep.CutOff[old] += n
		}
	})
	for _, w := range r.windows {
		rep.Faults[w.kind()]++
	}
	for _, l := range logs {
		for _, at := range l.RemoteErrors {
			if !slices.ContainsFunc(r.windows, func(w window) bool { return at >= w.from && at <= w.to+checker.Time(rejoin) }) {
				rep.Errors++
			}
		}
		for i, s := range l.Samples {
			rep.RSS, rep.Goroutines = max(rep.RSS, s.RSS), max(rep.Goroutines, s.Goroutines)
			if i == len(l.Samples)-1 {
				rep.Hits += s.L1Hits
				rep.Refused += s.RemoteRefused
				rep.Moved.Add(&s.Moved)
			}
		}
	}
	if !r.o.Alone {
		rep.Noticed, rep.Back = r.opinions(logs)
		r.unmarked(h, logs)
	}
	rep.Problems = r.problems
	return rep
}

// kind is the name of w without numbers and details.
func (w *window) kind() string {
	name, _, _ := strings.Cut(w.name, ",")
	return strings.Join(strings.FieldsFunc(name, func(c rune) bool { return c == ' ' || c >= '0' && c <= '9' }), " ")
}

// Good reports whether all promises were kept.
func (r *Report) Good() bool { return len(r.Violations) == 0 && len(r.Problems) == 0 }

// Print writes the report for people, with the traces of the first violations.
func (r *Report) Print(w io.Writer) {
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("\nseed                 %d", r.Seed)
	line("calls                %d reads (%.0f a second), %d from L1", r.Reads, float64(r.Reads)/r.took.Seconds(), r.Hits)
	line("drops and sets       %d, %d of them not confirmed", r.Fences, r.Failed)
	line("loads                %d, %.3f for each drop or set; %d needless ones", r.Loads, float64(r.Loads)/float64(max(1, r.Fences)), r.count(checker.OneClusterLoad))
	line("refused by L2        %d values that came too late", r.Refused)
	line("snapshots            %d saved, %d loaded; %d entries taken in, %d read from L2 instead, %d left out as dropped or loaded since",
		r.Moved.Saved, r.Moved.Loaded, r.Moved.Stored, r.Moved.Confirmed, r.Moved.Changed)
	line("errors of L2         %d while nothing was wrong with it", r.Errors)
	line("most in an instance  %d MiB, %d goroutines", r.RSS>>20, r.Goroutines)
	line("faults               %s", counted(r.Faults))
	line("bus found silent     %s", once(r.Noticed))
	line("bus back             %s", once(r.Back))
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, r.Reads)) }
	line("reads                %.1f%% by instances that got messages, %.3f%% got values that were not dropped", share(r.Heard), share(r.Current))
	line("age, connected       %s", r.Connected)
	line("age, cut off         %s", r.CutOff)
	for _, p := range r.Problems {
		line("PROBLEM              %s", p)
	}
	line("violations           %d", len(r.Violations))
	for i, v := range r.Violations {
		if i == 40 {
			line("... and %d more", len(r.Violations)-i)
			break
		}
		line("VIOLATION            %v", v)
	}
	for i, v := range r.Violations {
		if i < 3 {
			line("\n%v\n%s", v, strings.Join(trace(r.h, v.Key, v.At), "\n"))
		}
	}
}

func (r *Report) count(rule checker.Rule) (n int) {
	for _, v := range r.Violations {
		if v.Rule == rule {
			n++
		}
	}
	return n
}

func counted(m map[string]int) string {
	var parts []string
	for name, n := range m {
		parts = append(parts, fmt.Sprintf("%d × %s", n, name))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func once(all []time.Duration) Ages {
	a := Ages{}
	for _, d := range all {
		a[d]++
	}
	return a
}

// String is the quantiles of a.
func (a Ages) String() string {
	total := 0
	for _, n := range a {
		total += n
	}
	if total == 0 {
		return "none"
	}
	sorted := slices.Sorted(maps.Keys(a))
	at := func(q float64) time.Duration {
		seen := 0
		for _, d := range sorted {
			if seen += a[d]; float64(seen) > q*float64(total) {
				return d.Round(10 * time.Microsecond)
			}
		}
		return sorted[len(sorted)-1].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v, most %v (%d)", at(0.5), at(0.99), at(0.999), at(1), total)
}
