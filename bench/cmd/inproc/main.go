// Command inproc compares in-process caches, a table a command: see package
// inproc.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/strata-cache/strata/bench/inproc"
)

// table is one of the tables, which the first argument names.
type table struct {
	name   string
	rounds int // by default
	play   func(inproc.Options) error
}

func tables() []table {
	return []table{
		{"hits", 15, inproc.Hits},
		{"mix", 11, inproc.Mix},
		{"misses", 31, inproc.Misses},
		{"article", 31, inproc.Article},
		{"hitratio", 1, inproc.HitRatio},
		{"bytes", 1, inproc.HitBytes},
		{"gc", 1, inproc.GC},
		{"forms", 1, inproc.Forms},
		{"storm", 15, inproc.Storm},
	}
}

func main() {
	err := run(os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "inproc:", err)
		os.Exit(1)
	}
}

// run plays the table that the first argument names.
func run(args []string, out io.Writer) (err error) {
	t, err := named(args)
	if err != nil {
		return err
	}
	o := inproc.Options{Out: out}
	f := flag.NewFlagSet("inproc "+t.name, flag.ContinueOnError)
	f.BoolVar(&o.Short, "short", false, "a quick look: 3 rounds of 10 ms, unless told otherwise, and a tenth of millions")
	f.IntVar(&o.Rounds, "rounds", 0, fmt.Sprintf("number of interleaved `rounds` (default %d)", t.rounds))
	f.DurationVar(&o.Slice, "slice", 0, "`time` for each row in each round (default 40ms)")
	f.StringVar(&o.Traces, "traces", "", "`folder` with traces, files *.u64.gz (hitratio, bytes)")
	f.DurationVar(&o.TTL, "ttl", 0, "`TTL` of caches (mix), 0 for none")
	stat := f.String("benchstat", "", "`file` for the rounds in the form that benchstat reads")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%s: unexpected argument %q", t.name, f.Arg(0))
	}
	defaults(&o, f, t)
	if err := o.Validate(); err != nil {
		return err
	}
	if *stat != "" {
		file, err := os.Create(*stat)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		o.Rounded = file
	}
	return t.play(o)
}

// defaults sets the rounds and the slice that no flag gave.
func defaults(o *inproc.Options, f *flag.FlagSet, t table) {
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	rounds, slice := t.rounds, 40*time.Millisecond
	if o.Short {
		rounds, slice = min(rounds, 3), 10*time.Millisecond
	}
	if !given["rounds"] {
		o.Rounds = rounds
	}
	if !given["slice"] {
		o.Slice = slice
	}
}

func named(args []string) (table, error) {
	var names []string
	for _, t := range tables() {
		names = append(names, t.name)
	}
	if len(args) == 0 {
		return table{}, fmt.Errorf("name a table: %s", strings.Join(names, ", "))
	}
	i := slices.Index(names, args[0])
	if i < 0 {
		return table{}, fmt.Errorf("there is no table %q, but %s", args[0], strings.Join(names, ", "))
	}
	return tables()[i], nil
}
