package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/bench/internal/rig"
	"github.com/strata-cache/strata/redis"
)

// Names of rows.
const (
	redisOnly  = "Redis only"
	goRedis    = "Redis only, go-redis"
	localOnly  = "local only"
	tieredWarm = "tiered, warm"
	tieredCold = "tiered, cold: each key once"
	tieredZipf = "tiered, cold: as many reads as keys"
)

// sampled is how many of the quickest calls go by for each that is timed.
const sampled = 256

var errLoaded = errors.New("tiers: a read reached the origin, which has nothing to answer")

type cache = strata.Cache[string, rig.Profile]

// subjects are what is measured.
type subjects struct {
	ctx    context.Context
	cfg    config
	server *rig.Redis
	client *redis.Client
	peer   *goredis.Client
	local  *cache
	tiered *cache

	keys  []string
	draws []int32
}

func newSubjects(ctx context.Context, cfg config) (s *subjects, err error) {
	s = &subjects{ctx: ctx, cfg: cfg, keys: rig.Keys(cfg.keys), draws: rig.Zipf(1<<18, cfg.keys, cfg.skew, 1)}
	if s.server, err = rig.StartRedis(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.client, err = s.server.Client(); err != nil {
		return nil, err
	}
	s.peer = goredis.NewClient(&goredis.Options{Addr: s.server.Addr})
	if s.local, err = s.open(false); err != nil {
		return nil, err
	}
	if s.tiered, err = s.open(true); err != nil {
		return nil, err
	}
	return s, s.fill()
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
		o.Remote.Timeout = time.Minute // a stall of the machine is to be seen in p99, not to become a load
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

func (s *subjects) close() {
	for _, c := range []*cache{s.tiered, s.local} {
		if c != nil {
			c.Close(context.Background())
		}
	}
	if s.peer != nil {
		s.peer.Close()
	}
	if s.client != nil {
		s.client.Close()
	}
	s.server.Stop()
}

// key returns the key of call i of goroutine g: each walks the same draws from
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
		s.plainRow(redisOnly, remote, func(g, i int) error {
			_, err := s.client.AppendGet(s.ctx, nil, plainKey(g, i))
			return err
		}),
		s.plainRow(goRedis, remote, func(g, i int) error {
			_, err := s.peer.Get(s.ctx, plainKey(g, i)).Bytes()
			return err
		}),
		s.cacheRow(localOnly, memory, func() (*cache, error) { return s.local, nil }, s.key, 1),
		s.cacheRow(tieredWarm, memory, func() (*cache, error) { return s.tiered, nil }, s.key, 1),
		s.cacheRow(tieredCold, once, func() (*cache, error) { return s.open(true) }, each, 0),
		s.cacheRow(tieredZipf, once, func() (*cache, error) { return s.open(true) }, s.key, -1),
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

// cacheRow reads through the cache that open returns, and closes it if it is
// none of the two that stay. share is the share of reads that L1 must have
// answered, or negative if any will do.
func (s *subjects) cacheRow(name string, l rig.Load, open func() (*cache, error), key func(g, i int) string, share float64) *row {
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
		hits := float64(after.L1.Hits-before.L1.Hits) / float64(after.Reads-before.Reads)
		if share >= 0 && (hits < share-0.001 || hits > share+0.001) {
			return fmt.Errorf("tiers: %s: L1 answered %.4f of the reads, expected %v", name, hits, share)
		}
		r.runs, r.l1 = append(r.runs, run), append(r.l1, hits)
		return nil
	}
	return r
}
