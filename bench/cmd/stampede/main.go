// Command stampede measures a burst of 1000 goroutines that ask at once for one
// key that has just expired: how many loads reach the origin, and how long the
// callers wait. It compares no protection, singleflight and strata, in one
// process and in three that share a Redis. It starts a Redis server of its own
// on the loopback interface.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/internal/testing/servers"
)

// config is the amount of measuring, as the flags give it.
type config struct {
	rounds  int
	callers int           // of each instance
	latency time.Duration // of one call on the origin
	atOnce  int           // calls that the origin works on at the same time
}

const instances = 3

func main() {
	var cfg config
	flag.IntVar(&cfg.rounds, "rounds", 9, "number of interleaved `rounds`")
	flag.IntVar(&cfg.callers, "callers", 1000, "goroutines of each instance")
	flag.DurationVar(&cfg.latency, "latency", 10*time.Millisecond, "`time` that one call on the origin takes")
	flag.IntVar(&cfg.atOnce, "at-once", 20, "calls that the origin works on at the same time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, cfg config, out io.Writer) error {
	server, err := servers.RunRedis()
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := server.Open()
	if err != nil {
		return err
	}
	defer client.Close()
	rows := subjects(cfg, client)
	steps := make([]func() error, len(rows))
	for i, r := range rows {
		steps[i] = func() error { return r.stampede(ctx, cfg) }
	}
	if err := rig.Interleave(cfg.rounds, steps...); err != nil {
		return err
	}
	p := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	p("%s, Redis %s over loopback TCP. %d goroutines for each instance, one expired key, %d rounds.",
		rig.Machine(), server.Version(ctx, client), cfg.callers, cfg.rounds)
	p("The origin takes %v for a call and works on %d at a time, as a pool of connections does.", cfg.latency, cfg.atOnce)
	p("")
	p("| | callers | calls on the origin | p50 | p99 |")
	p("|---|---:|---:|---:|---:|")
	for _, r := range rows {
		p("| %s | %d | %s | %s | %s |", r.name, r.instances*cfg.callers, spread(r.calls),
			rig.Short(rig.Median(r.p50)), rig.Short(rig.Median(r.p99)))
	}
	p("")
	p("Times are medians of the rounds; calls are those of one round, from fewest to most.")
	return nil
}

// spread writes the smallest and the largest of xs.
func spread(xs []int64) string {
	least, most := slices.Min(xs), slices.Max(xs)
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}
