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
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hamba/avro/v2"
	"github.com/maypok86/otter/v2"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/compact"
	"github.com/strata-cache/strata/snapshot"
)

// sizes are the lengths of the values in the caches of byte slices.
var sizes = []int{1 << 10, 4 << 10, 64 << 10} // read-only

// chunk is the size of the writes and reads of the plain socket, that of a frame.
const chunk = 64 << 10

func newBytes(size, n int) (*strata.Cache[string, []byte], error) {
	return strata.New(strata.Options[string, []byte]{
		Name: "bytes" + strconv.Itoa(size), TTL: time.Hour, Memory: strata.Memory[string, []byte]{MaxEntries: int64(2*n + 1000)},
		Remote: strata.Remote[string, []byte]{Codec: codec.Bytes()},
	})
}

func newProfiles(n int) (*strata.Cache[string, rig.Profile], error) {
	return strata.New(strata.Options[string, rig.Profile]{
		Name: "profiles", TTL: time.Hour, Memory: strata.Memory[string, rig.Profile]{MaxEntries: int64(2*n + 1000)},
		Remote: strata.Remote[string, rig.Profile]{Codec: compact.New[rig.Profile]()},
	})
}

func newOtter(n int) *otter.Cache[string, rig.Profile] {
	return otter.Must(&otter.Options[string, rig.Profile]{MaximumSize: 2*n + 1000, ExpiryCalculator: otter.ExpiryWriting[string, rig.Profile](time.Hour)})
}

// runDonor fills caches, prints two addresses, and serves until in ends.
func runDonor(ctx context.Context, cfg config, in io.Reader, out io.Writer) error {
	mux := http.NewServeMux()
	var hit *strata.Cache[string, []byte]
	for _, size := range sizes {
		n := cfg.bytes / size
		c, err := newBytes(size, n)
		if err != nil {
			return err
		}
		for i := range n {
			if err := c.Set(ctx, "key:"+strconv.Itoa(i), make([]byte, size)); err != nil {
				return err
			}
		}
		if hit == nil {
			hit = c
			mux.Handle("/limited", snapshot.Handler(snapshot.HandlerOptions{Authorize: peer}, c))
		}
		mux.Handle(fmt.Sprintf("/bytes/%d", size), snapshot.Handler(snapshot.HandlerOptions{Authorize: peer, BytesPerSecond: -1}, c))
	}
	if err := serveProfiles(ctx, mux, cfg.profiles); err != nil {
		return err
	}
	mux.HandleFunc("/hits", func(w http.ResponseWriter, r *http.Request) {
		d, _ := time.ParseDuration(r.URL.Query().Get("for"))
		_ = json.NewEncoder(w).Encode(hits(hit, cfg.bytes/sizes[0], d))
	})
	var config net.ListenConfig
	web, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	plain, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(web) })
	served.Go(func() { servePlain(plain) })
	fmt.Fprintln(out, web.Addr(), plain.Addr())
	_, _ = io.Copy(io.Discard, in)
	err = errors.Join(server.Close(), plain.Close())
	served.Wait()
	return err
}

func peer(*http.Request) bool { return true } // the benchmark is alone on the loopback interface

// schema is that of a profile for Avro.
const schema = `{"type": "record", "name": "Profile", "fields": [
	{"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "email", "type": "string"},
	{"name": "city", "type": "string"}, {"name": "roles", "type": {"type": "array", "items": "string"}},
	{"name": "score", "type": "double"}, {"name": "verified", "type": "boolean"}, {"name": "bio", "type": "string"}
]}`

// avroForm is the schema with the names of the fields.
func avroForm() (avro.API, avro.Schema) {
	return avro.Config{TagKey: "json"}.Freeze(), avro.MustParse(schema)
}

// gobEntry is an entry of the article's stream.
type gobEntry struct {
	Key     string
	Value   rig.Profile
	Expires time.Time
}

// serveProfiles serves structs in all forms.
func serveProfiles(ctx context.Context, mux *http.ServeMux, n int) error {
	c, err := newProfiles(n)
	if err != nil {
		return err
	}
	other := newOtter(n)
	entries := make(map[string]gobEntry, n)
	for i := range n {
		key, p := "user:"+strconv.Itoa(i), rig.ProfileOf(i)
		entries[key] = gobEntry{key, p, time.Now().Add(time.Hour)}
		other.Set(key, p)
		if err := c.Set(ctx, key, p); err != nil {
			return err
		}
	}
	mux.Handle("/profiles", snapshot.Handler(snapshot.HandlerOptions{Authorize: peer, BytesPerSecond: -1}, c))
	mux.HandleFunc("/gob", func(w http.ResponseWriter, _ *http.Request) {
		to := gob.NewEncoder(w)
		for _, e := range entries {
			if to.Encode(e) != nil {
				return
			}
		}
	})
	mux.HandleFunc("/otter", func(w http.ResponseWriter, _ *http.Request) { _ = otter.SaveCacheTo(other, w) })
	mux.HandleFunc("/avro", func(w http.ResponseWriter, _ *http.Request) {
		to := bufio.NewWriterSize(w, chunk)
		api, s := avroForm()
		for key, e := range entries {
			b, err := api.Marshal(s, e.Value)
			if err != nil {
				return
			}
			_, _ = to.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(key))))
			_, _ = to.WriteString(key)
			_, _ = to.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(b))))
			if _, err := to.Write(b); err != nil {
				return
			}
		}
		_ = to.Flush()
	})
	return nil
}

// servePlain sends as many bytes as each connection asks for.
func servePlain(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		var n uint64
		if binary.Read(c, binary.LittleEndian, &n) == nil {
			for b := make([]byte, chunk); n > 0; {
				sent, err := c.Write(b[:min(n, chunk)])
				if err != nil {
					break
				}
				n -= uint64(sent)
			}
		}
		c.Close()
	}
}

// latencies are those of hits, in nanoseconds.
type latencies struct{ P50, P99, P999 float64 }

// hits measures reads of a cache at a moderate rate, by two goroutines.
func hits(c *strata.Cache[string, []byte], n int, d time.Duration) latencies {
	var all []float64
	var mu sync.Mutex
	var readers sync.WaitGroup
	for g := range 2 {
		readers.Go(func() {
			ctx, r := context.Background(), rand.New(rand.NewPCG(1, uint64(g)))
			keys := make([]string, 64)
			var own []float64
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
				for i := range keys {
					keys[i] = "key:" + strconv.Itoa(r.IntN(n))
				}
				for _, key := range keys {
					begun := time.Now()
					_, _ = c.Get(ctx, key)
					own = append(own, float64(time.Since(begun)))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	readers.Wait()
	slices.Sort(all)
	at := func(p float64) float64 { return all[int(p*float64(len(all)-1))] }
	return latencies{P50: at(0.5), P99: at(0.99), P999: at(0.999)}
}
