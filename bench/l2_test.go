package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// The benchmarks of L2 compare a tier with the plain commands that a program
// would send without it, on a Redis server of their own. An iteration is a
// round in which each way has its turn; run them with -benchtime 40x. They
// report the median time of a plain operation, and for the others the median
// ratio to it with its quartiles, each ratio taken within a round. The time of
// an operation is the time of the whole turn divided by its operations: its
// inverse is the throughput.

const (
	l2Turn = 50 * time.Millisecond // of each way in each round
	l2Keys = 16                    // of each goroutine
)

// BenchmarkL2Read compares a GET of 256 bytes with reads of an entry of the
// same size: by the tier itself, and through a cache with an L1 that is too
// small to have the key.
func BenchmarkL2Read(b *testing.B) {
	eachLoad(b, func(b *testing.B, s *l2, load rig.Load) {
		keys := rig.Keys(load.Goroutines * l2Keys)
		for _, k := range keys {
			if err := s.client.Do(s.ctx, "SET", "plain:"+k, s.value).Ok(); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.fill(keys); err != nil {
			b.Fatal(err)
		}
		if err := s.cache.SetMany(s.ctx, s.values(keys)); err != nil {
			b.Fatal(err)
		}
		key := func(g, i int) string { return keys[g*l2Keys+i%l2Keys] }
		compare(b, load, []rig.Way{
			{Name: "GET", Call: func(g, i int) error {
				_, err := s.client.AppendGet(s.ctx, nil, "plain:"+key(g, i))
				return err
			}},
			{Name: "tier", Call: func(g, i int) error {
				h, err := s.tier.Get(s.ctx, []string{key(g, i)})
				if err == nil && len(h[0].Data) != len(s.value) {
					return errAbsent
				}
				return err
			}},
			{Name: "cache", Call: func(g, i int) error {
				_, err := s.cache.GetOrLoad(s.ctx, key(g, i), s.mustNotLoad)
				return err
			}},
		})
		if st := s.cache.Stats(); st.L1.Hits*100 > st.Reads {
			b.Errorf("L1 answered %d of %d reads", st.L1.Hits, st.Reads)
		}
	})
}

// BenchmarkL2Fill compares plain commands, a GET that finds nothing and a SET,
// with the work of a cache on a miss of all tiers: take the lease, load (which
// takes no time), store under the lease. "tier" makes two requests, as the plain way
// does: the answer to a request for a lease also brings the entry, so that no read has to
// come first. "read+tier" makes that read, too.
func BenchmarkL2Fill(b *testing.B) {
	eachLoad(b, func(b *testing.B, s *l2, load rig.Load) {
		var next atomic.Int64
		newKey := func() string { return "new:" + strconv.FormatInt(next.Add(1), 10) }
		compare(b, load, []rig.Way{
			{Name: "GET+SET", Call: func(int, int) error {
				k := newKey()
				if _, err := s.client.AppendGet(s.ctx, nil, k); !errors.Is(err, redis.ErrNil) {
					return fmt.Errorf("a key that was never stored: %w", err)
				}
				return s.client.Do(s.ctx, "SET", k, s.value, "PX", 10_000).Ok()
			}},
			{Name: "tier", Call: func(int, int) error { return s.miss(newKey()) }},
			{Name: "read+tier", Call: func(int, int) error {
				k := newKey()
				if _, err := s.tier.Get(s.ctx, []string{k}); err != nil {
					return err
				}
				return s.miss(k)
			}},
			{Name: "cache", Call: func(int, int) error {
				_, err := s.cache.GetOrLoad(s.ctx, newKey(), s.load, strata.WithTTL(10*time.Second))
				return err
			}},
		})
	})
}

// BenchmarkL2Invalidate compares DEL with the drop of an entry, which also
// voids leases, counts in the lane and tells the bus; one follower listens.
func BenchmarkL2Invalidate(b *testing.B) {
	eachLoad(b, func(b *testing.B, s *l2, load rig.Load) {
		// A fixed number of calls: each needs an entry of its own to drop.
		load.For, load.Calls = 0, 640/load.Goroutines
		keys := rig.Keys(640)
		key := func(g, i int) string { return keys[g*load.Calls+i] }
		compare(b, load, []rig.Way{
			{Name: "DEL", Before: func() error { return s.set(keys) }, Call: func(g, i int) error {
				return s.client.Do(s.ctx, "DEL", "plain:"+key(g, i)).Err()
			}},
			{Name: "tier", Before: func() error { return s.fill(keys) }, Call: func(g, i int) error {
				_, err := s.tier.Drop(s.ctx, []remote.Drop{{Key: key(g, i)}})
				return err
			}},
			{Name: "cache", Before: func() error { return s.cache.SetMany(s.ctx, s.values(keys)) }, Call: func(g, i int) error {
				return s.cache.Invalidate(s.ctx, key(g, i))
			}},
		})
	})
}

// BenchmarkL2Server reports how many microseconds the server itself spends on
// one operation, by its own count, for one caller.
func BenchmarkL2Server(b *testing.B) {
	s := newL2(b)
	var next int
	newKey := func() string { next++; return "server:" + strconv.Itoa(next) }
	var leases []remote.Put
	var stored []remote.Put
	var names []string
	var took []float64
	for _, w := range []struct {
		name, command string
		call          func() error
	}{
		{"GET", "get", func() error { return s.client.Do(s.ctx, "GET", newKey()).Err() }},
		{"SET", "set", func() error { return s.client.Do(s.ctx, "SET", newKey(), s.value, "PX", 10_000).Err() }},
		{"DEL", "del", func() error { return s.client.Do(s.ctx, "DEL", "server:"+strconv.Itoa(next)).Err() }},
		{"acquire", "evalsha", func() error {
			k := newKey()
			_, l, err := kit.Acquire(s.ctx, s.tier, k, 5*time.Second)
			leases = append(leases, remote.Put{Key: k, Data: s.value, Fresh: time.Minute, Left: time.Minute, Lease: l})
			return err
		}},
		{"put", "evalsha", func() error {
			p := leases[0]
			leases, stored = leases[1:], append(stored, p)
			return s.put([]remote.Put{p})
		}},
		{"acquirefresh", "evalsha", func() error {
			_, _, err := kit.Acquire(s.ctx, s.tier, "server:"+strconv.Itoa(next), 5*time.Second)
			return err
		}},
		{"refresh", "evalsha", func() error {
			p := stored[0]
			stored = stored[1:]
			_, l, err := kit.Refresh(s.ctx, s.tier, p.Key, remote.ID(p.Lease.Token), 5*time.Second)
			if err == nil && l.Grant != remote.Granted {
				return errRefused
			}
			return err
		}},
		{"read", "hmget", func() error {
			_, err := s.tier.Get(s.ctx, []string{"server:" + strconv.Itoa(next)})
			return err
		}},
		{"drop", "evalsha", func() error {
			_, err := s.tier.Drop(s.ctx, []remote.Drop{{Key: "server:" + strconv.Itoa(next)}})
			next--
			return err
		}},
		{"softdrop", "evalsha", func() error {
			_, err := s.tier.Drop(s.ctx, []remote.Drop{{Key: "server:1", Soft: true}})
			return err
		}},
	} {
		const calls = 4000
		if err := w.call(); err != nil { // loads the script into the server, outside of the count
			b.Fatal(err)
		}
		if err := s.client.Do(s.ctx, "CONFIG", "RESETSTAT").Err(); err != nil {
			b.Fatal(err)
		}
		for range calls {
			if err := w.call(); err != nil {
				b.Fatal(err)
			}
		}
		took = append(took, s.serverTime(b, w.command))
		names = append(names, w.name)
	}
	for b.Loop() { // discards the metrics that were reported before
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range names {
		b.ReportMetric(took[i], "µs/"+name)
	}
}

// serverTime returns the mean time of a command on the server, in microseconds,
// since the last CONFIG RESETSTAT.
func (s *l2) serverTime(b *testing.B, command string) float64 {
	b.Helper()
	stats, err := s.client.Do(s.ctx, "INFO", "commandstats").String()
	if err != nil {
		b.Fatal(err)
	}
	_, stats, ok := strings.Cut(stats, "cmdstat_"+command+":")
	_, stats, _ = strings.Cut(stats, "usec_per_call=")
	number, _, _ := strings.Cut(stats, ",")
	perCall, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil {
		b.Fatalf("commandstats of %s: %v", command, err)
	}
	return perCall
}

// eachLoad runs f with one goroutine and with 64.
func eachLoad(b *testing.B, f func(b *testing.B, s *l2, load rig.Load)) {
	for _, n := range []int{1, 64} {
		b.Run("goroutines="+strconv.Itoa(n), func(b *testing.B) {
			f(b, newL2(b), rig.Load{Goroutines: n, For: l2Turn})
		})
	}
}

// compare gives each way its turn in b.N rounds and reports the ratios to the
// first.
func compare(b *testing.B, load rig.Load, ways []rig.Way) {
	b.Helper()
	c := rig.Contest{Load: load, Ways: ways}
	turn := func() {
		if err := c.Round(); err != nil {
			b.Fatal(err)
		}
	}
	turn() // opens connections, loads scripts
	c.Forget()
	for b.Loop() {
		turn()
	}
	b.ReportMetric(0, "ns/op") // hides the time of a whole round, which says nothing
	b.ReportMetric(rig.Median(c.Nanos(0))/1e3, "µs/"+ways[0].Name)
	for i := 1; i < len(ways); i++ {
		r := c.Ratios(i, 0)
		low, high := r.Quartiles()
		b.ReportMetric(rig.Median(r), ways[i].Name+"/"+ways[0].Name)
		b.ReportMetric(low, ways[i].Name+"/"+ways[0].Name+"-low")
		b.ReportMetric(high, ways[i].Name+"/"+ways[0].Name+"-high")
	}
}

var (
	errAbsent  = errors.New("bench: an entry is not there")
	errRefused = errors.New("bench: a store was refused")
)

// l2 is a Redis server with a tier, bound for this benchmark, and a cache with
// a space of its own.
type l2 struct {
	ctx    context.Context
	client *redis.Client
	tier   remote.Tier
	cache  *strata.Cache[string, []byte]
	value  []byte // 256 bytes
}

func newL2(b testing.TB) *l2 {
	b.Helper()
	ctx := context.Background()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	server, err := servers.RunRedis()
	if errors.Is(err, servers.ErrMissing) {
		b.Skip(err)
	}
	must(err)
	b.Cleanup(server.Close)
	client, err := server.Open()
	must(err)
	b.Cleanup(func() { client.Close() })
	tier := redis.NewTier(client)
	o := strata.Options[string, []byte]{Name: "cache", TTL: time.Hour, Memory: strata.Memory[string, []byte]{MaxEntries: 1}}
	o.Remote.Tier, o.Remote.Bus = tier, redis.NewBus(client)
	o.Remote.Timeout = time.Minute
	cache, err := strata.New(o)
	must(err)
	b.Cleanup(func() { cache.Close(ctx) })
	return &l2{
		ctx:    ctx,
		client: client,
		tier:   tier.Bind(remote.Space{Name: "bare", Schema: 1, Instance: 1}),
		cache:  cache,
		value:  bytes.Repeat([]byte{'v'}, 256),
	}
}

func (s *l2) load(context.Context, string) ([]byte, error) { return s.value, nil }

func (s *l2) mustNotLoad(context.Context, string) ([]byte, error) { return nil, errAbsent }

// set stores plain values.
func (s *l2) set(keys []string) error {
	p := s.client.Pipeline()
	for _, k := range keys {
		p.Add("SET", "plain:"+k, s.value)
	}
	_, err := p.Do(s.ctx)
	return err
}

func (s *l2) values(keys []string) map[string][]byte {
	m := make(map[string][]byte, len(keys))
	for _, k := range keys {
		m[k] = s.value
	}
	return m
}

// fill stores entries in the bare tier.
func (s *l2) fill(keys []string) error {
	drops := make([]remote.Drop, len(keys))
	for i, k := range keys {
		drops[i] = remote.Drop{Key: k, Token: time.Minute}
	}
	leases, err := s.tier.Drop(s.ctx, drops)
	if err != nil {
		return err
	}
	puts := make([]remote.Put, len(keys))
	for i, k := range keys {
		puts[i] = remote.Put{Key: k, Data: s.value, Fresh: time.Hour, Left: time.Hour, Lease: leases[i]}
	}
	return s.put(puts)
}

func (s *l2) put(puts []remote.Put) error {
	refused, err := s.tier.Put(s.ctx, puts)
	if err == nil && len(refused) > 0 {
		return errRefused
	}
	return err
}

// miss makes the requests of a cache on a miss, with the bare tier.
func (s *l2) miss(key string) error {
	_, lease, err := kit.Acquire(s.ctx, s.tier, key, 5*time.Second)
	if err != nil {
		return err
	}
	const life = 10 * time.Second
	return s.put([]remote.Put{{Key: key, Data: s.value, Fresh: life, Left: life, Lease: lease}})
}
