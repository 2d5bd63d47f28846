package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/snapshot"
)

var schedules = flag.Int("schedules", 200, "number of seeded schedules of instances that read each other's snapshots")

// alonePeer is an instance without L2 and without a bus, and the versions that it must not
// serve any more.
type alonePeer struct {
	users
	mu    sync.Mutex
	floor map[string]int // the version of the origin at the begin of the last drop of a key
	told  map[string]int // the same for entries that come from snapshots
}

// schedule is a number of instances on one origin, whose versions only rise.
type schedule struct {
	t     *testing.T
	seed  uint64
	dice  *rand.Rand
	mu    sync.Mutex // guards below
	at    map[string]int
	peers []*alonePeer
}

func (s *schedule) version(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[key]
}

// raise writes to the origin.
func (s *schedule) raise(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[key]++
	return s.at[key]
}

func (s *schedule) load(ctx context.Context, key string) (string, error) {
	v := s.version(key)
	time.Sleep(time.Duration(v%7) * 10 * time.Millisecond) // in the bubble
	return strconv.Itoa(v), nil
}

// dropped notes a drop that has returned, of what the origin had before it began.
func (p *alonePeer) dropped(versions map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, v := range versions {
		p.floor[k] = max(p.floor[k], v)
	}
}

// known returns a copy of what the instance must not serve, or give away.
func (p *alonePeer) known() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]int)
	for _, from := range []map[string]int{p.floor, p.told} {
		for k, v := range from {
			all[k] = max(all[k], v)
		}
	}
	return all
}

func (s *schedule) step(p *alonePeer, key string) {
	ctx := s.t.Context()
	one := func() map[string]int { return map[string]int{key: s.raise(key)} }
	switch s.dice.IntN(12) {
	case 0:
		all := one()
		must(s.t, p.Invalidate(ctx, key))
		p.dropped(all)
	case 1:
		all := one()
		must(s.t, p.Set(ctx, key, strconv.Itoa(all[key]), strata.WithTags("tag "+key)))
		p.dropped(all)
	case 2:
		all := map[string]int{}
		for _, k := range names {
			all[k] = s.version(k)
		}
		must(s.t, p.InvalidateAll(ctx))
		p.dropped(all)
	case 3:
		all, failed := one(), errors.New("failed")
		if err := p.Update(ctx, key, func(context.Context) (string, error) { return "", failed }); !errors.Is(err, failed) {
			s.t.Errorf("an Update in vain: %v", err)
		}
		p.dropped(all)
	case 4:
		all := one()
		must(s.t, p.SetNotFound(ctx, key, strata.WithTTL(time.Duration(1+s.dice.IntN(200))*time.Millisecond)))
		p.dropped(all)
	case 5:
		all := map[string]int{key: s.raise(key)}
		must(s.t, p.InvalidateTags(ctx, "tag "+key))
		p.dropped(all)
	default:
		s.read(p, key)
	}
}

// read fails if the instance serves what it has dropped.
func (s *schedule) read(p *alonePeer, key string) {
	p.mu.Lock()
	least := p.floor[key]
	p.mu.Unlock()
	got, err := p.GetOrLoad(s.t.Context(), key, s.load, strata.WithTags("tag "+key))
	if err != nil && !strata.IsNotFound(err) {
		s.t.Error(err)
	}
	if v, _ := strconv.Atoi(got); err == nil && v < least {
		s.t.Errorf("seed %d: an instance serves version %d of %s, and has dropped %d", s.seed, v, key, least)
	}
}

// pass gives a snapshot from one instance to another, at once, in a while, or as it is made.
func (s *schedule) pass(from, to *alonePeer, pause, slow time.Duration) {
	ctx := s.t.Context()
	known := from.known()
	var b bytes.Buffer
	o := snapshot.Options{}
	if slow > 0 {
		o.BytesPerSecond = 2000
	}
	if _, err := snapshot.Write(ctx, &b, o, from.users); err != nil {
		s.t.Error(err)
		return
	}
	time.Sleep(pause) // in the bubble
	absent := map[string]bool{}
	for _, k := range names {
		_, found := to.Get(ctx, k)
		absent[k] = !found
	}
	r, err := snapshot.Read(ctx, &b, o, to.users)
	if err != nil {
		s.t.Error(err)
		return
	}
	for _, c := range r.Caches {
		if sum := c.Stored + c.Confirmed + c.Present + c.Changed + c.Absent + c.Over + c.Full + c.Unusable + c.Passed; sum != c.Entries {
			s.t.Errorf("seed %d: the outcomes are %d of %d entries: %+v", s.seed, sum, c.Entries, c)
		}
	}
	to.mu.Lock()
	for k, v := range known {
		to.told[k] = max(to.told[k], v)
	}
	to.mu.Unlock()
	for k, was := range absent {
		got, found := to.Get(ctx, k)
		if v, _ := strconv.Atoi(got); was && found && slow == 0 && v < known[k] {
			s.t.Errorf("seed %d: a snapshot has brought version %d of %s, which its instance knew to be older than %d", s.seed, v, k, known[k])
		}
	}
}

var names = []string{"a", "b", "c", "d", "e", "f"} // read-only

// TestInstancesAtWorkReadSnapshotsOfEachOtherAndServeNothingThatTheyDropped puts instances
// without L2 and without a bus through seeded schedules.
func TestInstancesAtWorkReadSnapshotsOfEachOtherAndServeNothingThatTheyDropped(t *testing.T) {
	for seed := range uint64(*schedules) {
		synctest.Test(t, func(t *testing.T) {
			s := &schedule{t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 27)), at: map[string]int{}}
			for range 3 {
				s.peers = append(s.peers, &alonePeer{users: alone(t, "users", 0), floor: map[string]int{}, told: map[string]int{}})
			}
			var passing sync.WaitGroup
			for range 80 {
				p, key := s.peers[s.dice.IntN(3)], names[s.dice.IntN(len(names))]
				if s.dice.IntN(5) == 0 {
					from := s.peers[s.dice.IntN(3)]
					pause, slow := time.Duration(s.dice.IntN(300))*time.Millisecond, time.Duration(s.dice.IntN(2))
					passing.Go(func() { s.pass(from, p, pause, slow) })
				}
				s.step(p, key)
				time.Sleep(time.Duration(s.dice.IntN(40)) * time.Millisecond)
			}
			passing.Wait()
			for _, p := range s.peers {
				for _, key := range names {
					s.read(p, key)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}
