// Command hitratio prints the hit ratios of eviction policies on traces of requests.
//
//	go run ./bench/cmd/hitratio -traces DIR [flags] [file …]
//
// Each trace is run with capacities of 0.5, 2, 5 and 15 % of its distinct keys.
// Capacities below 40 entries are left out. A trace is gzip of little-endian uint64
// keys, one per request. The last lines are means: over the capacities of a trace, then
// over traces.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/strata-cache/strata/internal/testing/sim"
)

func main() {
	switch err := run(os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "hitratio:", err)
		os.Exit(1)
	}
}

var (
	errNothing  = errors.New("no traces: name a folder with -traces, or files")
	errMax      = errors.New("-max: a number of requests is at least 0")
	errPolicies = errors.New("-policies")
)

// config is the command line.
type config struct {
	files    []string
	policies []string
	limit    int // requests of each trace; 0 is all
}

// run is the command without its process.
func run(args []string, out, usage io.Writer) error {
	c, err := parse(args, usage)
	if err != nil {
		return err
	}
	traces, err := c.read()
	if err != nil {
		return err
	}
	t, err := measure(traces, c.policies)
	if err != nil {
		return err
	}
	return t.print(out)
}

// parse reads and checks the command line.
func parse(args []string, usage io.Writer) (c config, err error) {
	flags := flag.NewFlagSet("hitratio", flag.ContinueOnError)
	flags.SetOutput(usage)
	dir := flags.String("traces", "", "folder of traces, `DIR`/*"+sim.Suffix)
	names := flags.String("policies", "", "policies `a,b` (default all: "+strings.Join(sim.Names(), ",")+")")
	flags.IntVar(&c.limit, "max", 0, "read at most `N` requests of each trace (default all)")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.limit < 0 {
		return c, fmt.Errorf("%w, not %d", errMax, c.limit)
	}
	if c.policies, err = choose(*names); err != nil {
		return c, err
	}
	c.files = flags.Args()
	if *dir == "" && len(c.files) == 0 {
		return c, errNothing
	}
	if *dir == "" {
		return c, nil
	}
	found, err := sim.Files(*dir)
	c.files = append(found, c.files...)
	return c, err
}

// choose returns the policies that names lists, all if it is empty.
func choose(names string) (chosen []string, err error) {
	if names == "" {
		return sim.Names(), nil
	}
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if slices.Contains(chosen, name) {
			return nil, fmt.Errorf("%w: %q is named twice", errPolicies, name)
		}
		if !slices.Contains(sim.Names(), name) {
			return nil, fmt.Errorf("%w: unknown %q: there are %s", errPolicies, name, strings.Join(sim.Names(), ", "))
		}
		chosen = append(chosen, name)
	}
	return chosen, nil
}

// read reads the traces.
func (c config) read() (all []*sim.Trace, err error) {
	for _, path := range c.files {
		keys, err := sim.ReadFile(path, c.limit)
		if err != nil {
			return nil, err
		}
		all = append(all, sim.NewTrace(sim.Name(path), keys))
	}
	return all, nil
}
