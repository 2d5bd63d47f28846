// Command guard shows what the guard of package memory does for a process with little memory. Each
// scenario runs in a process of its own, under GOMEMLIMIT and a hard limit of the kernel
// (RLIMIT_DATA: what RLIMIT_AS counts, less what is only reserved), with and without the guard:
//
//   - fill: 16 goroutines read and fill caches by a Zipf distribution over more than fits
//   - tuned: the same with a bound by hand and without a guard; the best of several bounds
//   - burst: values of twice the limit are stored within a second
//   - cold: two caches of the same size, of which one is read, and then the other one is filled
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// config is the amount of measuring, as the flags give it.
type config struct {
	limit   int64 // GOMEMLIMIT, in bytes
	hard    int64 // of the kernel, beyond what a Go program needs for itself
	seconds int
	keys    int
	share   float64 // of the guard; 0 for the default
	only    string

	// Of a child:
	scenario string
	guarded  bool
	entries  int
}

// result is the line that a child prints.
type result struct {
	Scenario     string
	Guarded      bool
	Entries      int     // bound
	HitRatio     float64 // of the second half
	GC           float64 // share of the CPU time in use
	PeakRSS      int64
	Operations   int64
	Held, Hot    int // entries at the end; of the cache that is read
	Episodes     uint64
	Evicted      uint64
	EvictedBytes uint64
	died         string
}

func main() {
	var c config
	flag.Int64Var(&c.limit, "limit", 256<<20, "GOMEMLIMIT in `bytes`")
	flag.Int64Var(&c.hard, "hard", 64<<20, "`bytes` that the hard limit of the kernel is above GOMEMLIMIT; 0 for none")
	flag.IntVar(&c.seconds, "seconds", 60, "`seconds` of each run")
	flag.IntVar(&c.keys, "keys", 1_000_000, "`keys`, of 1 KiB on average")
	flag.Float64Var(&c.share, "share", 0, "`part` of the limit that the guard leaves to the live heap; 0 for the default")
	flag.StringVar(&c.only, "only", "", "scenarios with this `text` in their names")
	flag.StringVar(&c.scenario, "scenario", "", "run one `scenario` in this process")
	flag.BoolVar(&c.guarded, "guarded", false, "with a guard; for -scenario")
	flag.IntVar(&c.entries, "entries", 0, "bound of the cache in `entries`; for -scenario")
	flag.Parse()
	if err := run(c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

func run(c config, out io.Writer) error {
	if c.scenario != "" {
		r, err := c.child()
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	fmt.Fprintf(out, "GOMEMLIMIT %d MiB, RLIMIT_DATA %d MiB above it, %d keys, %d s\n\n", c.limit>>20, c.hard>>20, c.keys, c.seconds)
	fmt.Fprintln(out, "| scenario | guard | bound | lives | peak RSS, MiB | GC share of CPU | hit ratio | operations, M | entries (of the hot cache) | episodes | evicted, k |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, x := range c.scenarios() {
		r, err := c.spawn(x)
		if err != nil {
			return err
		}
		r.print(out)
	}
	return nil
}

// scenarios are the runs of a whole program.
func (c config) scenarios() (all []config) {
	add := func(name string, guarded bool, entries int) {
		if strings.Contains(name, c.only) {
			x := c
			x.scenario, x.guarded, x.entries = name, guarded, entries
			all = append(all, x)
		}
	}
	for _, guarded := range []bool{true, false} {
		for _, name := range []string{"fill", "burst", "cold"} {
			add(name, guarded, 10*c.keys)
		}
	}
	for _, part := range []int64{40, 50, 60, 70, 80} {
		add("tuned", false, int(c.limit*part/100/mean))
	}
	return all
}

// spawn runs one scenario in a process of its own.
func (c config) spawn(x config) (result, error) {
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	cmd := exec.CommandContext(context.Background(), self, "-scenario", x.scenario, fmt.Sprint("-guarded=", x.guarded), "-entries", fmt.Sprint(x.entries),
		"-limit", fmt.Sprint(c.limit), "-hard", fmt.Sprint(c.hard), "-seconds", fmt.Sprint(c.seconds), "-keys", fmt.Sprint(c.keys),
		"-share", fmt.Sprint(c.share))
	cmd.Env = append(os.Environ(), fmt.Sprint("GOMEMLIMIT=", c.limit))
	var told, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &told, &said
	begun := time.Now()
	r := result{Scenario: x.scenario, Guarded: x.guarded, Entries: x.entries}
	if err := cmd.Run(); err != nil {
		first, _, _ := strings.Cut(said.String(), "\n")
		r.died = fmt.Sprintf("after %.1f s: %s", time.Since(begun).Seconds(), first)
		return r, nil
	}
	return r, json.Unmarshal(told.Bytes(), &r)
}

func (r result) print(out io.Writer) {
	guard, lives := "no", "yes"
	if r.Guarded {
		guard = "yes"
	}
	if r.died != "" {
		fmt.Fprintf(out, "| %s | %s | %d | no: %s | | | | | | | |\n", r.Scenario, guard, r.Entries, r.died)
		return
	}
	fmt.Fprintf(out, "| %s | %s | %d | %s | %d | %.1f %% | %.1f %% | %.2f | %d (%d) | %d | %d |\n", r.Scenario, guard, r.Entries, lives,
		r.PeakRSS>>20, 100*r.GC, 100*r.HitRatio, float64(r.Operations)/1e6, r.Held, r.Hot, r.Episodes, r.Evicted/1000)
}
