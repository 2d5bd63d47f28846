// Command tiers measures the cost and the gain of each tier: the origin alone, Redis
// alone, strata with L1 alone, and strata with both, warm and cold. It starts a Redis
// server of its own on the loopback interface. The origin is a temporary SQLite file, or
// the PostgreSQL of --origin postgres://HOST/DATABASE. There it makes a table, and
// removes it at the end.
//
// The rows take turns in short slices, in several rounds; a row's numbers are
// medians of its slices, and ratios are taken within a round.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// config is the amount of measuring, as the flags give it.
type config struct {
	rounds     int
	slice      time.Duration
	goroutines int
	keys       int
	skew       float64 // s of the Zipf distribution
	origin     string  // sqlite, or a URL postgres://…
}

func main() {
	cfg := config{goroutines: 100, keys: 10_000, skew: 1.01}
	flag.IntVar(&cfg.rounds, "rounds", 15, "number of interleaved `rounds`")
	flag.DurationVar(&cfg.slice, "slice", 250*time.Millisecond, "`time` for each row in each round")
	flag.StringVar(&cfg.origin, "origin", "sqlite", "the database: sqlite, or a `URL` postgres://HOST/DATABASE")
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
	s, err := newSubjects(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.close()
	rows := s.rows()
	steps := make([]func() error, len(rows))
	for i := range rows {
		steps[i] = rows[i].slice
	}
	// One round to warm up: connections, scripts, the runtime.
	if err := rig.Interleave(1, steps...); err != nil {
		return err
	}
	for _, r := range rows {
		r.runs, r.l1 = nil, nil
	}
	if err := rig.Interleave(cfg.rounds, steps...); err != nil {
		return err
	}
	return report(out, cfg, s, rows)
}

// row is one line of the table.
type row struct {
	name  string
	slice func() error
	runs  []rig.Run
	l1    []float64 // share of reads that L1 answered, if there is one
}

func (r *row) perSecond() []float64 {
	xs := make([]float64, len(r.runs))
	for i, run := range r.runs {
		xs[i] = run.PerSecond()
	}
	return xs
}

func (r *row) quantile(q float64) time.Duration {
	xs := make([]time.Duration, len(r.runs))
	for i, run := range r.runs {
		xs[i] = run.Quantile(q)
	}
	return rig.Median(xs)
}

// aloneMinus is the difference of two rows of one caller in the median of a read.
func aloneMinus(a, b *row) string {
	differences := make([]time.Duration, len(a.runs))
	for i := range a.runs {
		differences[i] = a.runs[i].Quantile(0.5) - b.runs[i].Quantile(0.5)
	}
	return fmt.Sprintf("%s (one caller: look-up in L1, the state of the entry, decoding, storing in L1)", rig.Short(rig.Median(differences)))
}

func report(out io.Writer, cfg config, s *subjects, rows []*row) error {
	named := map[string]*row{}
	p := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	p("%s, Redis %s over loopback TCP, origin %s. %d goroutines, %s keys, Zipf s=%v, values of 256 B (a struct, JSON in Redis), %d rounds.",
		rig.Machine(), s.server.Version(context.Background(), s.client), s.origin.name, cfg.goroutines, rig.Thousands(float64(cfg.keys)), cfg.skew, cfg.rounds)
	p("")
	p("| | ops/s | p50 | p99 | answered by L1 |")
	p("|---|---:|---:|---:|---:|")
	for _, r := range rows {
		named[r.name] = r
		l1 := "-"
		if len(r.l1) > 0 {
			l1 = fmt.Sprintf("%.1f %%", 100*rig.Median(r.l1))
		}
		p("| %s | %s | %s | %s | %s |", r.name, rig.Thousands(rig.Median(r.perSecond())),
			rig.Short(r.quantile(0.5)), rig.Short(r.quantile(0.99)), l1)
	}
	p("")
	ratio := func(a, b string) {
		p("- %s / %s, ops/s: %v", a, b, rig.Compare(named[a].perSecond(), named[b].perSecond()))
	}
	ratio(tieredWarm, localOnly)
	ratio(tieredWarm, redisOnly)
	ratio(tieredCold, redisOnly)
	ratio(redisOnly, goRedis)
	ratio(redisOnly, originOnly)
	ratio(tieredWarm, originOnly)
	p("- a local miss before Redis minus Redis: %v", aloneMinus(named[tieredAlone], named[redisAlone]))
	p("")
	p("Origin row: one row by its primary key, not decoded. Redis rows: plain GET, bytes not decoded, clients with their default pools. Cold rows: a new instance each time, Redis full.")
	p("Of calls that L1 answers one in %d is timed, and what reading the clock costs is taken off; of others every one.", sampled)
	return nil
}
