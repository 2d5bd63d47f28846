package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/snapshot"
)

// receiver is this process.
type receiver struct {
	ctx        context.Context
	cfg        config
	web, plain string // addresses of the donor
}

// way is one way to move entries, with its seconds and bytes in each round.
type way struct {
	name    string
	move    func() (bytes int64, err error)
	seconds []float64
	bytes   int64
}

// measure gives each way a turn in each round. A turn begins with a collected heap.
func (r *receiver) measure(ways []*way) error {
	steps := make([]func() error, len(ways))
	for i, w := range ways {
		steps[i] = func() (err error) {
			runtime.GC()
			begun := time.Now()
			w.bytes, err = w.move()
			w.seconds = append(w.seconds, time.Since(begun).Seconds())
			if err != nil {
				err = fmt.Errorf("%s: %w", w.name, err)
			}
			return err
		}
	}
	return rig.Interleave(r.cfg.rounds, steps...)
}

// table prints rates, and how many times as fast as the first way each one is.
func table(out io.Writer, head, against string, ways []*way) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\tMB\ts\tMB/s\t%s\t\n", head, against)
	for _, w := range ways {
		s := rig.Median(w.seconds)
		ratios := make([]float64, len(w.seconds))
		for i := range ratios {
			ratios[i] = ways[0].seconds[i] / w.seconds[i]
		}
		slices.Sort(ratios)
		fmt.Fprintf(t, "%s\t%.0f\t%.3f\t%.0f\t%.2f (%.2f-%.2f)\t\n", w.name, float64(w.bytes)/1e6, s, float64(w.bytes)/1e6/s,
			rig.Median(ratios), ratios[len(ratios)/4], ratios[len(ratios)*3/4])
	}
	return t.Flush()
}

// bytes moves caches of byte slices.
func (r *receiver) bytes(out io.Writer) error {
	for _, size := range sizes {
		n := r.cfg.bytes / size
		ways := []*way{{name: "socket copy", move: func() (int64, error) { return r.copy(int64(n * size)) }}}
		for _, o := range []snapshot.Options{{Streams: 1}, {Streams: 2}, {Streams: 1, Alias: true}, {Streams: 2, Alias: true}} {
			name := fmt.Sprintf("strata, %d stream", o.Streams)
			if o.Streams > 1 {
				name += "s"
			}
			if o.Alias {
				name += ", aliased"
			}
			ways = append(ways, &way{name: name, move: func() (int64, error) {
				c, err := newBytes(size, n)
				if err != nil {
					return 0, err
				}
				return pull(r.ctx, r.web+"/bytes/"+strconv.Itoa(size), n, o, c)
			}})
		}
		if err := r.measure(ways); err != nil {
			return err
		}
		fmt.Fprintln(out)
		if err := table(out, fmt.Sprintf("[]byte of %d B", size), "of the copy", ways); err != nil {
			return err
		}
	}
	return nil
}

// pull takes over all of n entries, and closes the cache.
func pull[V any](ctx context.Context, from string, n int, o snapshot.Options, c *strata.Cache[string, V]) (int64, error) {
	report, err := snapshot.Pull(ctx, from, o, c)
	if err == nil && report.Warm() != n {
		err = fmt.Errorf("%d of %d entries: %+v", report.Warm(), n, report)
	}
	return report.Bytes, errors.Join(err, c.Close(ctx))
}

// copy reads bytes from the plain socket.
func (r *receiver) copy(n int64) (int64, error) {
	var d net.Dialer
	c, err := d.DialContext(r.ctx, "tcp", r.plain)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := binary.Write(c, binary.LittleEndian, uint64(n)); err != nil {
		return 0, err
	}
	all := int64(0)
	for b := make([]byte, chunk); all < n; {
		got, err := c.Read(b)
		if err != nil {
			return 0, err
		}
		all += int64(got)
	}
	return all, nil
}

// counted counts bytes.
type counted struct {
	io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// get reads an answer of the donor.
func (r *receiver) get(path string, read func(io.Reader) error) (int64, error) {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.web+path, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	c := &counted{Reader: answer.Body}
	err = read(c)
	return c.n, err
}

// structs moves caches of structs.
func (r *receiver) structs(out io.Writer) error {
	n := r.cfg.profiles
	strataWay := func(o snapshot.Options) func() (int64, error) {
		return func() (int64, error) {
			c, err := newProfiles(n)
			if err != nil {
				return 0, err
			}
			return pull(r.ctx, r.web+"/profiles", n, o, c)
		}
	}
	ways := []*way{
		{name: "gob stream", move: func() (int64, error) { return r.get("/gob", func(from io.Reader) error { return readGob(from, n) }) }},
		{name: "otter", move: func() (int64, error) {
			return r.get("/otter", func(from io.Reader) error {
				c := newOtter(n)
				return errors.Join(otter.LoadCacheFrom(c, bufio.NewReader(from)), all(c.EstimatedSize(), n))
			})
		}},
		{name: "hamba/avro", move: func() (int64, error) { return r.get("/avro", func(from io.Reader) error { return readAvro(from, n) }) }},
		{name: "strata, 1 stream", move: strataWay(snapshot.Options{Streams: 1})},
		{name: "strata, 2 streams", move: strataWay(snapshot.Options{Streams: 2})},
		{name: "strata, 2 streams, aliased", move: strataWay(snapshot.Options{Streams: 2, Alias: true})},
	}
	if err := r.measure(ways); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return table(out, fmt.Sprintf("%d structs", n), "times the gob stream", ways)
}

func all(got, want int) error {
	if got != want {
		return fmt.Errorf("%d of %d entries", got, want)
	}
	return nil
}

// readGob fills a map, as the article's cache does.
func readGob(from io.Reader, n int) error {
	var mu sync.Mutex
	entries := make(map[string]gobEntry)
	d := gob.NewDecoder(bufio.NewReader(from))
	for {
		var e gobEntry
		switch err := d.Decode(&e); {
		case err == io.EOF:
			return all(len(entries), n)
		case err != nil:
			return err
		}
		mu.Lock()
		entries[e.Key] = e
		mu.Unlock()
	}
}

// readAvro fills a map.
func readAvro(from io.Reader, n int) error {
	in := bufio.NewReaderSize(from, chunk)
	api, s := avroForm()
	entries := make(map[string]rig.Profile)
	text := func() ([]byte, error) {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, err
		}
		b := make([]byte, binary.LittleEndian.Uint32(head[:]))
		_, err := io.ReadFull(in, b)
		return b, err
	}
	for {
		key, err := text()
		if err == io.EOF {
			return all(len(entries), n)
		}
		b, err := text()
		if err != nil {
			return err
		}
		var p rig.Profile
		if err := api.Unmarshal(s, b, &p); err != nil {
			return err
		}
		entries[string(key)] = p
	}
}

// hits measures the callers of the donor, with a snapshot under way and without.
func (r *receiver) hits(out io.Writer) error {
	turn := func() (l latencies, err error) {
		_, err = r.get("/hits?for="+r.cfg.hitsFor.String(), func(from io.Reader) error { return json.NewDecoder(from).Decode(&l) })
		return l, err
	}
	var without, with []latencies
	step := func(to *[]latencies) func() error {
		return func() error {
			l, err := turn()
			*to = append(*to, l)
			return err
		}
	}
	busy := func() error {
		ctx, stop := context.WithCancel(r.ctx)
		var pulling sync.WaitGroup
		pulling.Go(func() {
			for ctx.Err() == nil {
				_, _ = (&receiver{ctx: ctx, web: r.web}).get("/limited", func(from io.Reader) error {
					_, err := io.Copy(io.Discard, from)
					return err
				})
			}
		})
		err := step(&with)()
		stop()
		pulling.Wait()
		return err
	}
	if err := rig.Interleave(r.cfg.rounds, step(&without), busy); err != nil {
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\nhits of the donor, ns\twithout\tat 100 MB/s\tratio\t\n")
	for _, p := range []struct {
		name string
		of   func(latencies) float64
	}{
		{"p50", func(l latencies) float64 { return l.P50 }},
		{"p99", func(l latencies) float64 { return l.P99 }},
		{"p99.9", func(l latencies) float64 { return l.P999 }},
	} {
		var a, b, ratios []float64
		for i := range with {
			a, b = append(a, p.of(without[i])), append(b, p.of(with[i]))
			ratios = append(ratios, b[i]/a[i])
		}
		slices.Sort(ratios)
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.2f (%.2f-%.2f)\t\n", p.name, rig.Median(a), rig.Median(b), rig.Median(ratios), ratios[len(ratios)/4], ratios[len(ratios)*3/4])
	}
	return t.Flush()
}

// files writes and reads files of small entries.
func (r *receiver) files(out io.Writer) error {
	dir, err := os.MkdirTemp("", "transfer-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n, path, theirs := r.cfg.keys, filepath.Join(dir, "strata"), filepath.Join(dir, "otter")
	fresh := func() (*strata.Cache[string, string], error) {
		return strata.New(strata.Options[string, string]{
			Name: "small", TTL: time.Hour, Memory: strata.Memory[string, string]{MaxEntries: int64(2*n + 1000)},
			Remote: strata.Remote[string, string]{Codec: codec.String()},
		})
	}
	o := &otter.Options[string, string]{MaximumSize: 2*n + 1000, ExpiryCalculator: otter.ExpiryWriting[string, string](time.Hour)}
	from, err := fresh()
	if err != nil {
		return err
	}
	peer := otter.Must(o)
	for i := range n {
		key, value := "user:"+strconv.Itoa(1_000_000+i), "value "+strconv.Itoa(i)
		peer.Set(key, value)
		if err := from.Set(r.ctx, key, value); err != nil {
			return err
		}
	}
	size := func(path string, err error) (int64, error) {
		if err != nil {
			return 0, err
		}
		about, err := os.Stat(path)
		if err != nil {
			return 0, err
		}
		return about.Size(), nil
	}
	keysFile := filepath.Join(dir, "keys")
	ways := []*way{
		{name: "otter, save", move: func() (int64, error) { return size(theirs, otter.SaveCacheToFile(peer, theirs)) }},
		{name: "otter, load", move: func() (int64, error) {
			c := otter.Must(o)
			return size(theirs, errors.Join(otter.LoadCacheFromFile(c, theirs), all(c.EstimatedSize(), n)))
		}},
		{name: "strata, save", move: func() (int64, error) {
			_, err := snapshot.Save(r.ctx, path, snapshot.Options{}, from)
			return size(path, err)
		}},
		{name: "strata, load", move: func() (int64, error) {
			c, err := fresh()
			if err != nil {
				return 0, err
			}
			report, err := snapshot.Load(r.ctx, path, snapshot.Options{}, c)
			return size(path, errors.Join(err, all(report.Warm(), n), c.Close(r.ctx)))
		}},
		{name: "strata, save keys", move: func() (int64, error) {
			_, err := snapshot.SaveKeys(r.ctx, keysFile, snapshot.Options{}, from)
			return size(keysFile, err)
		}},
	}
	// A load needs the file of a save, so the order stays.
	for range r.cfg.rounds {
		for _, w := range ways {
			runtime.GC()
			begun := time.Now()
			if w.bytes, err = w.move(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.seconds = append(w.seconds, time.Since(begun).Seconds())
		}
	}
	fmt.Fprintln(out)
	return errors.Join(table(out, fmt.Sprintf("file of %d small entries", n), "times otter's save", ways), from.Close(r.ctx))
}
