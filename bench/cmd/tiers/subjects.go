package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
)

// Names of rows.
const (
	originOnly  = "origin only"
	redisOnly   = "Redis only"
	goRedis     = "Redis only, go-redis"
	localOnly   = "local only"
	tieredWarm  = "tiered, warm"
	tieredCold  = "tiered, cold: each key once"
	tieredZipf  = "tiered, cold: as many reads as keys"
	redisAlone  = "one caller: Redis only"
	tieredAlone = "one caller: tiered, cold"
)

// sampled is the number of calls of which one is timed in rows that L1 answers,
// because reading the clock costs more than such a call.
const sampled = 256

var errLoaded = errors.New("tiers: a read reached the origin, which has nothing to answer")

type cache = strata.Cache[string, rig.Profile]

// subjects are the things that the rows measure: clients, caches and the origin.
type subjects struct {
	ctx    context.Context
	cfg    config
	server *servers.RedisServer
	client *redis.Client
	peer   *goredis.Client
	origin *origin
	local  *cache
	tiered *cache

	keys  []string
	draws []int32
}

func newSubjects(ctx context.Context, cfg config) (s *subjects, err error) {
	s = &subjects{ctx: ctx, cfg: cfg, keys: rig.Keys(cfg.keys), draws: rig.Zipf(1<<18, cfg.keys, cfg.skew, 1)}
	if s.server, err = servers.RunRedis(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.client, err = s.server.Open(); err != nil {
		return nil, err
	}
	if s.origin, err = openOrigin(ctx, cfg.origin, s.keys); err != nil {
		return nil, err
	}
	s.peer = goredis.NewClient(&goredis.Options{Addr: s.server.Addr})
	if s.local, err = s.open(false); err != nil {
		return nil, err
	}
	if s.tiered, err = s.open(true); err != nil {
		return nil, err
	}
	if err = s.fill(); err != nil {
		return nil, err
	}
	return s, s.touch()
}

// open returns a cache with room for all keys, with L2 or without.
func (s *subjects) open(l2 bool) (*cache, error) {
	o := strata.Options[string, rig.Profile]{
		Name:   "tiers",
		TTL:    strata.NoExpiry,
		Memory: strata.Memory[string, rig.Profile]{MaxEntries: int64(2 * s.cfg.keys)},
		Loader: func(context.Context, string) (rig.Profile, error) { return rig.Profile{}, errLoaded },
	}
	if l2 {
		o.Remote.Tier, o.Remote.Bus = redis.NewTier(s.client), redis.NewBus(s.client)
		o.Remote.Timeout = time.Minute // so that a stall of the machine shows in p99, and does not become a load
	}
	return strata.New(o)
}

// fill puts every value into the caches, and plainly into Redis.
func (s *subjects) fill() error {
	for i, key := range s.keys {
		v := rig.ProfileOf(i)
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		err = errors.Join(
			s.client.Do(s.ctx, "SET", "plain:"+key, b).Ok(),
			s.local.Set(s.ctx, key, v),
			s.tiered.Set(s.ctx, key, v),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// touch reads every key once, so that the cache is warm before the measurement. The first read of
// an entry that was set before the bus listened asks L2 to confirm it, and later reads do not.
func (s *subjects) touch() error {
	for _, key := range s.keys {
		if _, err := s.tiered.GetOrLoad(s.ctx, key, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *subjects) close() {
	for _, c := range []*cache{s.tiered, s.local} {
		if c != nil {
			c.Close(context.Background())
		}
	}
	if s.peer != nil {
		s.peer.Close()
	}
	if s.origin != nil {
		if err := s.origin.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	if s.client != nil {
		s.client.Close()
	}
	s.server.Close()
}

// key returns the key of call i of goroutine g. All goroutines go through the same draws, each from
// a place of its own.
func (s *subjects) key(g, i int) string {
	at := g*(len(s.draws)/s.cfg.goroutines) + i
	return s.keys[s.draws[at&(len(s.draws)-1)]]
}

// rows returns the rows in the order of the table.
func (s *subjects) rows() []*row {
	remote := rig.Load{Goroutines: s.cfg.goroutines, For: s.cfg.slice}
	memory := remote
	memory.Every = sampled
	alone := rig.Load{Goroutines: 1, Calls: min(s.cfg.keys, 1000)}
	once := rig.Load{Goroutines: s.cfg.goroutines, Calls: s.cfg.keys / s.cfg.goroutines}

	plain := make([]string, len(s.keys))
	for i := range plain {
		plain[i] = "plain:" + s.keys[i]
	}
	plainKey := func(g, i int) string {
		at := g*(len(s.draws)/s.cfg.goroutines) + i
		return plain[s.draws[at&(len(s.draws)-1)]]
	}
	each := func(g, i int) string { return s.keys[i*s.cfg.goroutines+g] }
	return []*row{
		s.plainRow(originOnly, remote, func(g, i int) error { return s.origin.get(s.ctx, s.key(g, i)) }),
		s.plainRow(redisOnly, remote, func(g, i int) error {
			_, err := s.client.AppendGet(s.ctx, nil, plainKey(g, i))
			return err
		}),
		s.plainRow(goRedis, remote, func(g, i int) error {
			_, err := s.peer.Get(s.ctx, plainKey(g, i)).Bytes()
			return err
		}),
		s.cacheRow(localOnly, memory, func() (*cache, error) { return s.local, nil }, s.key, warm),
		s.cacheRow(tieredWarm, memory, func() (*cache, error) { return s.tiered, nil }, s.key, warm),
		s.cacheRow(tieredCold, once, func() (*cache, error) { return s.open(true) }, each, cold),
		s.cacheRow(tieredZipf, once, func() (*cache, error) { return s.open(true) }, s.key, mixed),
		s.plainRow(redisAlone, alone, func(_, i int) error {
			_, err := s.client.AppendGet(s.ctx, nil, plain[i])
			return err
		}),
		s.cacheRow(tieredAlone, alone, func() (*cache, error) { return s.open(true) }, func(_, i int) string { return s.keys[i] }, cold),
	}
}

func (s *subjects) plainRow(name string, l rig.Load, get func(g, i int) error) *row {
	r := &row{name: name}
	r.slice = func() error {
		run, err := l.Run(get)
		r.runs = append(r.runs, run)
		return err
	}
	return r
}

// state is the share of reads that a row's cache must have answered from L1.
type state int

const (
	mixed state = iota
	cold        // nothing
	warm        // all; but after a gap of the bus L2 confirms each entry once
)

// check returns an error if L1 answered another share of the reads than want says.
func (s *subjects) check(name string, want state, reads, hits int64) error {
	wrong := want == cold && hits > 0 || want == warm && reads-hits > int64(s.cfg.keys)
	if wrong {
		return fmt.Errorf("tiers: %s: L1 answered %d of %d reads", name, hits, reads)
	}
	return nil
}

// cacheRow reads through the cache that open returns. It closes the cache,
// unless it is one of the two that stay open.
func (s *subjects) cacheRow(name string, l rig.Load, open func() (*cache, error), key func(g, i int) string, want state) *row {
	r := &row{name: name}
	r.slice = func() error {
		c, err := open()
		if err != nil {
			return err
		}
		if c != s.local && c != s.tiered {
			defer c.Close(context.Background())
		}
		before := c.Stats()
		run, err := l.Run(func(g, i int) error {
			_, err := c.GetOrLoad(s.ctx, key(g, i), nil)
			return err
		})
		if err != nil {
			return err
		}
		after := c.Stats()
		reads, hits := int64(after.Reads-before.Reads), int64(after.L1.Hits-before.L1.Hits)
		if err := s.check(name, want, reads, hits); err != nil {
			return err
		}
		r.runs, r.l1 = append(r.runs, run), append(r.l1, float64(hits)/float64(reads))
		return nil
	}
	return r
}
