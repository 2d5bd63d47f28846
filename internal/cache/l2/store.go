// Package l2 is the way of one cache to the tier (L2) and the bus that its instances
// share. It knows names and sealed bytes, no keys and no values. A [Store] has the
// abilities of its tier, two breakers, the queue of unconfirmed drops, and the waits
// for leases of other instances. A [Session] is the knowledge of one read about L2.
//
// Invariant: an unconfirmed drop is pending from the return of its call until L2
// confirms it or the store is closed; while it is pending, reads of its key go past
// L2.
package l2

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/cache/envelope"
	"github.com/strata-cache/strata/internal/cache/limit"
	"github.com/strata-cache/strata/internal/cache/retry"
	states "github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/remote"
)

// Options configure a [Store]. Name, Timeout, Logger and Now are required.
type Options struct {
	// Name is the cache's name, Instance the number of this instance of it.
	Name     string
	Instance uint64
	// Service is the name of the service to which the caches on the tier and the bus
	// belong, or empty.
	Service string
	// Schema is the fingerprint of the values' type and codec. Older are the
	// fingerprints of older versions of the program, if their values can be read.
	Schema uint64
	Older  []uint64
	// Tier and Bus are shared by the instances. Either may be nil.
	Tier remote.Tier
	Bus  remote.Bus
	// Timeout bounds each operation on L2.
	Timeout time.Duration
	// BreakAfter failures in a row open a breaker for BreakFor. If BreakAfter is zero
	// or less there is no breaker.
	BreakAfter int
	BreakFor   time.Duration
	// MaxPending is the largest number of drops pending one by one. Beyond it one
	// drop of everything replaces them.
	MaxPending int
	Logger     *slog.Logger
	// Now is the time of L1, in nanoseconds.
	Now func() int64
	// Closed is part of the error of an unconfirmed drop that cannot be pending,
	// because the store is closed.
	Closed error
	// Suspend is called when L2 is left alone (true) and when it is used again.
	Suspend func(bool)
	// Failed is called after each operation not executed by L2.
	Failed func(ctx context.Context, op string, err error)
}

// Store is the tier and the bus as one instance uses them. Create it with
// [New]. It is safe for concurrent use. Without a tier and a bus it does
// nothing.
type Store struct {
	o        Options
	tier     remote.Tier   // nil without L2
	one      remote.Reader // nil if the tier is none
	versions versions
	can      abilities
	news     news
	guards   guards       // breakers
	pending  *retry.Queue // unconfirmed drops
	moves    moves
	waits    waits // for leases of other instances
	health   health
	// suspending is held while Options.Suspend is called, and guards the argument of the
	// last call.
	suspending sync.Mutex
	suspended  bool
	// ownUntil is the time until which this instance applies its own
	// announcements: one of its drops has ended without an answer and may still
	// be executed.
	ownUntil atomic.Int64
	// absence is the share of look-ups that find nothing.
	absence share
	meter   *Meter // nil without a tier
}

// versions are the versions of the program that wrote the values.
type versions struct {
	// schemas are Options.Schema and Options.Older.
	schemas []uint64
	// older are the views of the tier with the values of older versions. A tier with
	// one view has all values in that.
	older []remote.Tier
}

// abilities are the optional abilities of the tier. Each is nil if the tier, with
// all tiers inside it, lacks the ability.
type abilities struct {
	tag      remote.Tagger
	announce remote.Announcer
	probe    remote.Prober
}

// New returns a Store. It does not wait for the network.
func New(o Options) *Store {
	s := &Store{o: o}
	s.versions.schemas = append([]uint64{o.Schema}, o.Older...)
	s.guards.make = func(server string) *guard {
		return &guard{
			server: server,
			all:    limit.NewBreaker(max(0, o.BreakAfter), o.BreakFor), stores: limit.NewBreaker(max(0, o.BreakAfter), o.BreakFor),
		}
	}
	s.guards.whole = s.guards.make("")
	if o.Tier != nil {
		s.bind(o.Tier)
		s.waits.asks = limit.NewBackground(math.MaxInt)
	}
	var fleet retry.Fleet
	if s.guards.fleet != nil {
		fleet = retry.Fleet{ServerOf: s.guards.serverOf, DropAllOf: s.dropAllOf}
	}
	s.pending = retry.New(retry.Options{
		Do:      s.again,
		Fleet:   fleet,
		Timeout: o.Timeout,
		MaxKeys: o.MaxPending,
	})
	s.news.bus, s.news.space, s.news.instance = o.Bus, s.Space(), o.Instance
	if s.tier != nil && s.announces() {
		s.news.unsent = retry.New(retry.Options{Do: s.news.sayAgain, Timeout: o.Timeout, MaxKeys: o.MaxPending})
	}
	return s
}

// bind takes this cache's view of the tier, and finds the view's abilities.
func (s *Store) bind(t remote.Tier) {
	space := remote.Space{Name: s.Space(), Schema: s.o.Schema, Instance: s.o.Instance}
	s.tier, _ = remote.Bind(t, space)
	s.meter = new(Meter)
	for _, space.Schema = range s.o.Older {
		if view, bound := remote.Bind(t, space); bound {
			s.versions.older = append(s.versions.older, view)
		}
	}
	if r, ok := remote.AsReader(s.tier); ok {
		s.one = r
	}
	s.can.tag, _ = remote.As[remote.Tagger](s.tier)
	s.can.announce, _ = remote.As[remote.Announcer](s.tier)
	s.can.probe, _ = remote.As[remote.Prober](s.tier)
	s.moves.tier, _ = remote.As[remote.Mover](s.tier)
	s.guards.watch(s.tier)
	s.know()
	s.news.byTier = s.can.announce != nil && s.can.announce.Announces()
}

// know finds the health of the servers that the caches of the client share, and their names.
func (s *Store) know() {
	servers := states.NewServerHealth()
	if known, ok := remote.As[interface{ Health() any }](s.tier); ok {
		servers = states.ServerHealthOf(known)
	}
	s.health.log, s.health.server = servers.Join(s.o.Name), servers.Name()
	if f, ok := remote.As[remote.Fleet](s.tier); ok && s.health.server == "" {
		s.health.server = strings.Join(f.Servers(), ", ")
	}
}

// Server returns the name of the server, or of all servers; empty if it is not known.
func (s *Store) Server() string { return s.health.server }

// Space is the name of the cache in the tier and on the bus.
func (s *Store) Space() string { return remote.SpaceName(s.o.Service, s.o.Name) }

// InstanceName is the name of this instance for people.
func (s *Store) InstanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%016x", host, os.Getpid(), s.o.Instance)
}

// Used reports whether there is a tier or a bus.
func (s *Store) Used() bool { return s.tier != nil || s.o.Bus != nil }

// HasTier reports whether there is an L2.
func (s *Store) HasTier() bool { return s.tier != nil }

// HasBus reports whether there is a bus.
func (s *Store) HasBus() bool { return s.o.Bus != nil }

// LacksTags reports whether there is an L2, and it has no tags.
func (s *Store) LacksTags() bool { return s.tier != nil && s.can.tag == nil }

// Schema returns Options.Schema.
func (s *Store) Schema() uint64 { return s.o.Schema }

// Open removes the envelope of data, and returns the version of the program with the
// fingerprint that has sealed it: 0 for this version.
func (s *Store) Open(data []byte, name string) (payload []byte, flags envelope.Flags, version int, err error) {
	for version, schema := range s.versions.schemas {
		if payload, flags, err = envelope.Open(data, name, schema); err == nil {
			return payload, flags, version, nil
		}
	}
	return nil, 0, 0, err
}

// Elders returns the number of questions by which values of older versions are found;
// see [Store.ReadOlder].
func (s *Store) Elders() int { return len(s.versions.older) }

// ReadOlder is [Store.Read] of the values of an older version, from 0 to Elders.
func (s *Store) ReadOlder(ctx context.Context, version int, names []string) ([]remote.Held, error) {
	return s.get(ctx, s.versions.older[version], names, nil)
}

// ReadAny asks L2 for the value under name, of this version or an older one.
func (s *Store) ReadAny(ctx context.Context, name string) (remote.Held, error) {
	held, err := s.Read(ctx, []string{name})
	for i := 0; err == nil && held[0].Data == nil && i < s.Elders(); i++ {
		held, err = s.ReadOlder(ctx, i, []string{name})
	}
	if err != nil {
		return remote.Held{}, err
	}
	return held[0], nil
}

// Instance returns Options.Instance.
func (s *Store) Instance() uint64 { return s.o.Instance }

// Bound bounds one operation on L2.
func (s *Store) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return remote.WithTimeout(ctx, s.o.Timeout)
}

// Pending returns the number of drops that L2 or the bus has not confirmed. A drop of everything
// counts as one.
func (s *Store) Pending() int { return s.pending.Len() + s.news.pending() }

// Hurry makes the store try pending drops without long pauses, from now on.
func (s *Store) Hurry() {
	s.pending.Hurry()
	if s.news.unsent != nil {
		s.news.unsent.Hurry()
	}
}

// Close tries pending drops until ctx ends, and returns the lost ones. It waits for questions without callers.
func (s *Store) Close(ctx context.Context) retry.Lost {
	if s.health.log != nil {
		defer s.health.log.Leave()
	}
	lost := s.pending.Close(ctx)
	if s.news.unsent != nil {
		lost.Add(s.news.unsent.Close(ctx))
	}
	s.waits.close(ctx)
	return lost
}

// LogLost writes a line about drops that Close has given up, for the reason cause. With names it
// names their keys.
func (s *Store) LogLost(l retry.Lost, cause error, names bool) {
	about := []any{
		slog.String("cache", s.o.Name), slog.Int("keys", l.Keys), slog.Int("tags", l.Tags), slog.Bool("all", l.All), slog.Any("error", cause),
	}
	if names {
		about = append(about, slog.Any("names", l.Names))
	}
	s.o.Logger.Error("strata: closed with invalidations that are not confirmed: they are lost", about...)
}

// HasPositions reports whether L2 has positions.
func (s *Store) HasPositions() bool { return s.can.announce != nil }

// Lane returns the lane of the key with that name. [Store.HasPositions] must be
// true.
func (s *Store) Lane(name string) uint16 { return s.can.announce.Lane(name) }

// Position asks L2 for the position of the namespace. Its errors are not
// counted and open no breaker, since reads of values do that.
func (s *Store) Position(ctx context.Context) (remote.Position, error) {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	p, err := s.can.announce.Position(ctx)
	if g := s.guards.about("", err); err == nil && g != nil {
		s.report(g, nil, false)
	}
	s.repeat()
	return p, err
}

// Changes returns the method Changes of the tier if the tier is a [remote.Announcer],
// else nil.
func (s *Store) Changes() func(context.Context) (string, error) {
	if s.can.announce == nil {
		return nil
	}
	return s.can.announce.Changes
}

// Recheck makes the tier read again the namespace state that it remembers.
func (s *Store) Recheck() {
	if s.tier != nil {
		s.tier.Recheck()
	}
}

// Read asks L2 for the values with these names, even while the breaker is open,
// and does not report the outcome. If the ID of a value is known under its name, the
// value may be left out; it is Same then.
func (s *Store) Read(ctx context.Context, names []string, known ...remote.ID) ([]remote.Held, error) {
	return s.get(ctx, s.tier, names, known)
}

// ReadOne is [Store.Read] of one value, in the time of one operation. The value may lie in the
// memory of b, and b then keeps this memory for the next value. known may be zero.
func (s *Store) ReadOne(ctx context.Context, name string, known remote.ID, b *[]byte) (h remote.Held, err error) {
	if s.one == nil || known != 0 && s.meter.bulk.expected() {
		return s.readOne(ctx, name, known)
	}
	begun := time.Now()
	h, err = s.one.Read(ctx, s.o.Timeout, name, *b)
	s.meter.held(h)
	s.believe(&h, 0)
	age(&h, time.Since(begun))
	_ = s.meter.end(ctx, Get, begun, err)
	if n := cap(h.Data); n > cap(*b) && n <= MaxBuffer {
		*b = h.Data[:0]
	}
	return h, err
}

// MaxBuffer is the capacity in bytes from which a buffer is not used again.
const MaxBuffer = 64 << 10

// readOne is ReadOne for a tier without the ability [remote.Reader], and for values that may
// be Same.
func (s *Store) readOne(ctx context.Context, name string, known remote.ID) (h remote.Held, err error) {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	held, err := s.get(ctx, s.tier, []string{name}, Knows(nil, 1, 0, known))
	if err != nil {
		return h, err
	}
	return held[0], nil
}

// Tags asks L2 for the drops of tags, and does not report the outcome. known is
// nil if L2 has no tags.
func (s *Store) Tags(ctx context.Context, tags []string) (known []remote.Tag, err error) {
	if s.can.tag == nil {
		return nil, nil
	}
	return s.tags(ctx, tags)
}

// Blocks reports whether a pending drop concerns the key with that name, or its value
// with these tags.
func (s *Store) Blocks(name string, tags []string) bool {
	return s.pending.Blocks(name) || len(tags) > 0 && s.pending.BlocksTags(tags, s.pending.Collapses())
}

// Dropped reports whether this instance has dropped the key with that name, or one of
// these tags, and L2 has not confirmed the drop, or only lately: another instance may
// not have heard of it, and give the older value away. A drop of everything that was confirmed before since
// does not count.
func (s *Store) Dropped(name string, tags []string, since time.Time) bool {
	return s.Blocks(name, tags) || s.pending.Remembers(name, tags, since)
}

// LookedUp notes whether a look-up has found a value.
func (s *Store) LookedUp(found bool) { s.absence.add(!found) }

// MostlyAbsent reports whether four of the last five look-ups found nothing.
func (s *Store) MostlyAbsent() bool { return s.absence.mostly() }

// Renew prolongs l, the lease on the key with that name, every third of d, until
// ctx ends, or the lease is void or cannot be prolonged.
func (s *Store) Renew(ctx context.Context, name string, l remote.Lease, d time.Duration) {
	next := time.NewTimer(d / 3)
	defer next.Stop()
	for ctx.Err() == nil {
		begun := time.Now()
		op, cancel := s.Bound(ctx)
		kept, err := s.tier.Renew(op, name, l, d)
		_ = s.meter.end(op, Renew, begun, err)
		cancel()
		if err == nil && !kept {
			return
		}
		next.Reset(max(d/3-time.Since(begun), 1))
		select {
		case <-ctx.Done():
		case <-next.C:
		}
	}
}

// TellsEnds reports whether the end of another instance's lease is announced here.
func (s *Store) TellsEnds() bool { return s.news.byTier }

// Acquire asks for leases of at most d in one round trip. Each result has its own
// error. Values that are Known may be left out, as by [Store.Read].
func (s *Store) Acquire(ctx context.Context, rs []remote.Request, d time.Duration) []remote.Acquired {
	if !s.meter.bulk.expected() {
		for i := range rs {
			rs[i].Known = 0
		}
	}
	begun := time.Now()
	acquired, err := s.tier.Acquire(ctx, rs, d)
	took := time.Since(begun)
	for i := range acquired {
		s.meter.held(acquired[i].Held)
		s.believe(&acquired[i].Held, rs[i].Known)
		if h := &acquired[i].Held; acquired[i].Lease.Grant == remote.Free { // it is fresh, or the answer has no sense
			age(h, min(took, h.Fresh-1, h.Left-1))
		} else {
			age(h, took)
		}
	}
	if s.meter.end(ctx, Acquire, begun, err) != nil {
		acquired = make([]remote.Acquired, len(rs))
		for i := range acquired {
			acquired[i].Err = err
		}
	}
	return acquired
}

// Put stores values under their leases. It does not report the outcome.
func (s *Store) Put(ctx context.Context, puts []remote.Put) (refused []int, err error) {
	return s.put(ctx, puts)
}
