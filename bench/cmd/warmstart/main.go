// Command warmstart measures how a new instance begins on a Redis that has all its values:
// cold, and warm by the hottest keys of an instance before it. Both get the same reads. It
// prints the hits of L1, the commands that Redis carries out and the reads from sockets that
// bring them, second by second. It starts a Redis server of its own on the loopback interface.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/snapshot"
)

// config says how much is measured.
type config struct {
	keys    int
	rate    int // reads of the callers in a second
	callers int
	warm    int // keys in a second that the warm instance reads from L2; 0 for no limit
	seconds int
	skew    float64 // s of the Zipf distribution
}

func main() {
	cfg := config{skew: 1.01}
	flag.IntVar(&cfg.keys, "keys", 1_000_000, "number of entries")
	flag.IntVar(&cfg.rate, "rate", 20_000, "reads of the callers in a second")
	flag.IntVar(&cfg.callers, "callers", 64, "goroutines that read")
	flag.IntVar(&cfg.warm, "warm", 0, "keys in a second that the warm instance reads from L2, 0 for no limit")
	flag.IntVar(&cfg.seconds, "seconds", 10, "seconds after the start")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, cfg, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// bench is the server and what the instances share.
type bench struct {
	config
	ctx    context.Context
	client *redis.Client
	draws  []int32 // of keys
	names  []string
	loads  atomic.Int64
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
	b := &bench{config: cfg, ctx: ctx, client: client, names: rig.Keys(cfg.keys), draws: rig.Zipf(1<<22, cfg.keys, cfg.skew, 1)}
	dir, err := os.MkdirTemp("", "warmstart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "keys")
	share, saved, err := b.donor(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, Redis %s over loopback TCP; %d entries, %d reads/s, Zipf %.2f\n", rig.Machine(), server.Version(ctx, client), cfg.keys, cfg.rate, cfg.skew)
	fmt.Fprintf(out, "the instance before: %.1f %% hits of L1; its file of keys has %.1f MB\n", 100*share, float64(saved)/1e6)
	cold, err := b.start(nil)
	if err != nil {
		return err
	}
	var report snapshot.Report
	warm, err := b.start(func(c *strata.Cache[string, string]) (err error) {
		report, err = snapshot.WarmKeys(ctx, path, snapshot.Options{KeysPerSecond: cfg.warm}, c)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "warm by keys: %d of %d in %v, beside the reads\n\n", report.Warm(), report.Entries(), report.Took.Round(time.Millisecond))
	return write(out, cold, warm)
}

func (b *bench) instance() (*strata.Cache[string, string], error) {
	c, err := strata.New(strata.Options[string, string]{
		Name: "warmstart", TTL: time.Hour, Memory: strata.Memory[string, string]{MaxEntries: int64(b.keys) * 11 / 10},
		Loader: func(_ context.Context, name string) (string, error) { // if a busy Redis does not answer
			b.loads.Add(1)
			time.Sleep(5 * time.Millisecond)
			return "value of " + name, nil
		},
		Remote: strata.Remote[string, string]{Tier: redis.NewTier(b.client), Bus: redis.NewBus(b.client), Codec: codec.String()},
	})
	if err != nil {
		return nil, err
	}
	for !c.Stats().Connected {
		time.Sleep(time.Millisecond)
	}
	return c, nil
}

// The instance before is read for donorReads, at donorRate times the rate, as one that has
// run for longer, and by other draws than the later ones.
const (
	donorReads = 10 * time.Second
	donorRate  = 10
)

// donor fills L2, lets callers read, and saves the keys. It returns the hits of L1.
func (b *bench) donor(path string) (share float64, bytes int64, err error) {
	c, err := b.instance()
	if err != nil {
		return 0, 0, err
	}
	const batch = 500
	for from := 0; from < b.keys; from += batch {
		values := make(map[string]string, batch)
		for i := from; i < min(from+batch, b.keys); i++ {
			values[b.names[i]] = "value " + strconv.Itoa(i)
		}
		err := c.SetMany(b.ctx, values)
		for tries := 0; err != nil && tries < 3; tries++ { // a busy machine lets Redis wait
			err = c.SetMany(b.ctx, values)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	time.Sleep(3 * time.Second) // the last messages of the bus
	before := c.Stats().L1
	if err := b.read(c, int64(len(b.draws))/2, donorRate*b.rate, donorReads); err != nil {
		return 0, 0, err
	}
	after := c.Stats().L1
	share = float64(after.Hits-before.Hits) / float64(after.Hits-before.Hits+after.Misses-before.Misses)
	report, err := snapshot.SaveKeys(b.ctx, path, snapshot.Options{}, c)
	return share, report.Bytes, errors.Join(err, c.Close(b.ctx))
}

// read lets callers read for some time, at a rate, from one of the draws on.
func (b *bench) read(c *strata.Cache[string, string], first int64, rate int, d time.Duration) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	begun := time.Now()
	for range b.callers {
		all.Go(func() {
			for {
				n := next.Add(1) - 1
				due := begun.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
				if due.Sub(begun) >= d || b.ctx.Err() != nil || failed.Load() != nil {
					return
				}
				if wait := time.Until(due); wait > 0 {
					time.Sleep(wait)
				}
				if _, err := c.GetOrLoad(b.ctx, b.names[b.draws[(first+n)%int64(len(b.draws))]], nil); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return b.ctx.Err()
}

// second is one second after a start.
type second struct{ hits, commands, packets, inserted float64 }

// start starts an instance, lets callers read, and samples it.
func (b *bench) start(warm func(*strata.Cache[string, string]) error) (curve []second, err error) {
	c, err := b.instance()
	if err != nil {
		return nil, err
	}
	defer c.Close(b.ctx)
	var both sync.WaitGroup
	var readErr, warmErr error
	before, err := b.server()
	if err != nil {
		return nil, err
	}
	stats, begun := c.Stats(), time.Now()
	both.Go(func() { readErr = b.read(c, 0, b.rate, time.Duration(b.seconds)*time.Second) })
	if warm != nil {
		both.Go(func() { warmErr = warm(c) })
	}
	for s := 1; s <= b.seconds; s++ {
		time.Sleep(time.Until(begun.Add(time.Duration(s) * time.Second)))
		now, err := b.server()
		if err != nil {
			return nil, err
		}
		st := c.Stats()
		hits, misses := st.L1.Hits-stats.L1.Hits, st.L1.Misses-stats.L1.Misses
		curve = append(curve, second{hits: 100 * float64(hits) / float64(max(1, hits+misses)), commands: now[0] - before[0], packets: now[1] - before[1], inserted: float64(st.Entries)})
		before, stats = now, st
	}
	both.Wait()
	if st, loads := c.Stats(), b.loads.Swap(0); st.Gaps > 0 || st.L2.Errors > 0 || loads > 0 {
		fmt.Fprintf(os.Stderr, "the instance had %d gaps of the bus, %d errors of L2 and %d loads\n", st.Gaps, st.L2.Errors, loads)
	}
	return curve, errors.Join(readErr, warmErr)
}

// server is the number of commands that the server has carried out, and the number of times
// that it has read from a connection, which is that of round trips at least.
func (b *bench) server() (n [2]float64, err error) {
	text, err := b.client.Do(b.ctx, "INFO", "stats").String()
	if err != nil {
		return n, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if i := slices.Index([]string{"total_commands_processed", "total_reads_processed"}, name); i >= 0 {
			if n[i], err = strconv.ParseFloat(value, 64); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// write writes both curves.
func write(out io.Writer, cold, warm []second) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "cold:\thits %\tcommands\treads\tentries\twarm: hits %\tcommands\treads\tentries\t")
	var a, b second
	for i, c := range cold {
		w := warm[i]
		a.commands, a.packets, b.commands, b.packets = a.commands+c.commands, a.packets+c.packets, b.commands+w.commands, b.packets+w.packets
		fmt.Fprintf(t, "%d s\t%.1f\t%.0f\t%.0f\t%.0f\t%.1f\t%.0f\t%.0f\t%.0f\t\n", i+1, c.hits, c.commands, c.packets, c.inserted, w.hits, w.commands, w.packets, w.inserted)
	}
	fmt.Fprintf(t, "all\t\t%.0f\t%.0f\t\t\t%.0f\t%.0f\t\t\n", a.commands, a.packets, b.commands, b.packets)
	return t.Flush()
}
