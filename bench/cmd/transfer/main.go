// Command transfer moves caches from one process to another over the loopback interface:
// strata's snapshots beside a copy of as many bytes through a socket, beside the gob stream
// of the article "Implementing robust in-memory cache with Go", otter's SaveCacheTo, and
// hamba/avro. It also measures hits in the process that gives its entries away, and files.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
)

// config says how much is measured.
type config struct {
	rounds   int
	bytes    int // of the values of a cache of byte slices
	profiles int
	keys     int // of the files
	hitsFor  time.Duration
	only     string // the part that is measured; empty for all
	profile  string // a file; empty for none
}

// donorFlag makes this program the process that gives its entries away.
const donorFlag = "-donor"

func main() {
	var cfg config
	var donate bool
	flag.IntVar(&cfg.rounds, "rounds", 9, "number of interleaved `rounds`")
	flag.IntVar(&cfg.bytes, "bytes", 256<<20, "`bytes` of values in each cache of byte slices")
	flag.IntVar(&cfg.profiles, "profiles", 300_000, "number of structs")
	flag.IntVar(&cfg.keys, "keys", 1_000_000, "number of entries of the files")
	flag.DurationVar(&cfg.hitsFor, "hits", 2*time.Second, "`time` of each turn of hits")
	flag.BoolVar(&donate, donorFlag[1:], false, "be the process that gives its entries away")
	flag.StringVar(&cfg.profile, "cpuprofile", "", "write a profile to `FILE`, and one of the other process to FILE.donor")
	flag.StringVar(&cfg.only, "only", "", "measure this `PART` alone: bytes, structs, hits or files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := profiled(cfg.profile, func() error {
		if donate {
			return runDonor(ctx, cfg, os.Stdin, os.Stdout)
		}
		return run(ctx, cfg, os.Stdout)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// profiled runs f, and writes a profile if it has a file.
func profiled(file string, f func() error) error {
	if file == "" {
		return f()
	}
	to, err := os.Create(file)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := pprof.StartCPUProfile(to); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}

// startDonor starts the other process and returns the two addresses that it prints: of
// HTTP, and of the plain socket.
func startDonor(ctx context.Context, cfg config) (web, plain string, stop func() error, err error) {
	c := exec.CommandContext(ctx, os.Args[0], donorFlag, fmt.Sprintf("-bytes=%d", cfg.bytes), fmt.Sprintf("-profiles=%d", cfg.profiles))
	if cfg.profile != "" {
		c.Args = append(c.Args, "-cpuprofile="+cfg.profile+".donor")
	}
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return "", "", nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return "", "", nil, err
	}
	if err := c.Start(); err != nil {
		return "", "", nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", "", nil, errors.Join(err, c.Wait())
	}
	web, plain, _ = strings.Cut(strings.TrimSpace(line), " ")
	return web, plain, func() error {
		in.Close()
		return c.Wait()
	}, nil
}

func run(ctx context.Context, cfg config, out io.Writer) error {
	web, plain, stop, err := startDonor(ctx, cfg)
	if err != nil {
		return err
	}
	r := &receiver{ctx: ctx, cfg: cfg, web: "http://" + web, plain: plain}
	fmt.Fprintf(out, "%s; two processes, loopback TCP; medians of %d rounds (first to third quarter)\n", rig.Machine(), cfg.rounds)
	for _, part := range []struct {
		name    string
		measure func(io.Writer) error
	}{{"bytes", r.bytes}, {"structs", r.structs}, {"hits", r.hits}, {"files", r.files}} {
		if cfg.only != "" && cfg.only != part.name {
			continue
		}
		if err := part.measure(out); err != nil {
			return errors.Join(err, stop())
		}
	}
	return stop()
}
