package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// Schedules of caches without L2 and bus that load snapshots of each other at work. No message
// tells of a drop: an instance knows its own drops, and the drops in the files that it has
// loaded.

// TestCachesAloneKeepDropsOverSnapshotsOnEverySchedule judges the reads of each schedule: no
// instance serves a value that it has dropped after the value was read from the origin. Nor
// does it serve a value of another instance that the instance of a loaded file has dropped.
// See TestClusterKeepsItsPromisesOnEverySchedule for the flags.
func TestCachesAloneKeepDropsOverSnapshotsOnEverySchedule(t *testing.T) {
	count, first := kit.Rounds(*schedules/4), uint64(1)
	if isFlagSet("seed") {
		count, first = 1, *seed
	}
	if isFlagSet("schedules") {
		count = *schedules
	}
	for n := range uint64(count) {
		synctest.Test(t, func(t *testing.T) { runAlone(t, first+n) })
		if t.Failed() {
			return
		}
	}
}

// aloneSim is one schedule. Its clock counts events: a value has the count at which it was read
// from the origin, or set.
type aloneSim struct {
	t    *testing.T
	seed uint64
	keys []string
	all  []*aloneMember

	mu    sync.Mutex // guards below
	now   uint64
	until map[uint64]uint64 // of each value: the end of the call that set it
	files []aloneFile
}

// aloneFile is a snapshot, and the drops of which it tells.
type aloneFile struct {
	bytes []byte
	known map[string]uint64
}

type aloneMember struct {
	s     *aloneSim
	id    int
	cache *strata.Cache[string, string]
	dice  *dice
	// dropped is the time of the last drop of a key here, by calls that have returned. known
	// also counts the drops in loaded files. Both are guarded by s.mu.
	dropped, known map[string]uint64
}

// slowCodec takes its time, so that other calls run beside dumps and restores.
type slowCodec struct {
	codec.Codec[string]
	dice *dice
}

func (c slowCodec) Append(dst []byte, v string) ([]byte, error) {
	c.dice.sometimes()
	return c.Codec.Append(dst, v)
}

func (c slowCodec) Decode(data []byte) (string, error) {
	c.dice.sometimes()
	return c.Codec.Decode(data)
}

func runAlone(t *testing.T, seed uint64) {
	d := newDice(seed, 0, time.Microsecond)
	s := &aloneSim{t: t, seed: seed, keys: []string{"a", "b", "c", "d"}[:1+d.intn(4)], until: map[uint64]uint64{}}
	for id := range 2 + d.intn(2) {
		s.join(id)
	}
	var wg sync.WaitGroup
	for _, m := range s.all {
		for c := range 3 {
			d := newDice(seed, uint64(100*m.id+c+1), time.Microsecond)
			wg.Go(func() { m.client(d) })
		}
	}
	wg.Wait()
	s.countsAreTrue(d)
	for _, m := range s.all {
		lab.Must(t, m.cache.Close(t.Context()))
	}
}

func (s *aloneSim) join(id int) *aloneMember {
	m := &aloneMember{s: s, id: id, dice: newDice(s.seed, uint64(2000+id), time.Microsecond), dropped: map[string]uint64{}, known: map[string]uint64{}}
	o := stratatest.Plain(strata.Options[string, string]{Name: "alone", TTL: time.Hour, NotFoundTTL: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	o.Remote.Codec = slowCodec{codec.JSON[string](), m.dice}
	o.Loader = func(_ context.Context, key string) (string, error) {
		value := m.value(key, s.tick())
		m.dice.sometimes()
		return value, nil
	}
	var err error
	if m.cache, err = strata.New(o); err != nil {
		s.t.Fatal(err)
	}
	s.all = append(s.all, m)
	return m
}

// tick is the time of the next event.
func (s *aloneSim) tick() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now++
	return s.now
}

// value is a value of key that the instance has read at a time.
func (m *aloneMember) value(key string, at uint64) string {
	return key + ":" + strconv.FormatUint(at, 10) + ":" + strconv.Itoa(m.id)
}

// client makes calls, one after the other, in the schedule's bubble.
func (m *aloneMember) client(d *dice) {
	for range 8 + d.intn(8) {
		time.Sleep(d.delay())
		m.step(m.s.t.Context(), d, m.s.keys[d.intn(len(m.s.keys))])
	}
}

var errAlone = errors.New("in vain") // read-only

func (m *aloneMember) step(ctx context.Context, d *dice, key string) {
	switch n := d.intn(40); {
	case n < 8:
		m.read(ctx, key, true)
	case n < 14:
		m.read(ctx, key, false)
	case n < 18:
		m.drops(func(uint64) error { return m.cache.Invalidate(ctx, key) }, key)
	case n < 19:
		m.drops(func(uint64) error { return m.cache.InvalidateAll(ctx) }, m.s.keys...)
	case n < 20:
		m.drops(func(uint64) error { return m.cache.Expire(ctx, key) }, key)
	case n < 22:
		m.drops(func(at uint64) error { return m.cache.Set(ctx, key, m.value(key, at)) }, key)
	case n < 24:
		m.drops(func(uint64) error { return m.cache.SetNotFound(ctx, key, strata.WithTTL(d.delay())) }, key)
	case n < 26:
		m.drops(func(at uint64) error {
			fails := d.chance(500)
			err := m.cache.Update(ctx, key, func(context.Context) (string, error) {
				d.sometimes()
				if fails {
					return "", errAlone
				}
				return m.value(key, at), nil
			})
			if fails && errors.Is(err, errAlone) {
				return nil
			}
			return err
		}, key)
	case n < 27:
		m.turnOff(d)
	case n < 33:
		m.save(ctx)
	default:
		m.load(ctx, d)
	}
}

// drops makes a call that drops the older values of keys. The call may set a value, which then has
// the time of the call.
func (m *aloneMember) drops(call func(at uint64) error, keys ...string) {
	at := m.s.tick()
	m.s.mu.Lock()
	m.s.until[at] = ^uint64(0) // it may be stored at any time
	m.s.mu.Unlock()
	if err := call(at); err != nil {
		m.s.t.Errorf("seed %d: %v", m.s.seed, err)
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.now++
	m.s.until[at] = m.s.now
	for _, key := range keys {
		m.dropped[key], m.known[key] = max(m.dropped[key], at), max(m.known[key], at)
	}
}

// read reads key, with a Loader or without, and judges the value.
func (m *aloneMember) read(ctx context.Context, key string, loads bool) {
	m.s.mu.Lock()
	dropped, known := m.dropped[key], m.known[key]
	m.s.mu.Unlock()
	value, ok := "", false
	if loads {
		got, err := m.cache.GetOrLoad(ctx, key, nil)
		value, ok = got, err == nil
	} else {
		value, ok = m.cache.Get(ctx, key)
	}
	if !ok {
		return
	}
	part := strings.Split(value, ":")
	at, err := strconv.ParseUint(part[1], 10, 64)
	if err != nil || part[0] != key {
		m.s.t.Fatalf("seed %d: %s is %q", m.s.seed, key, value)
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	switch until := max(at, m.s.until[at]); {
	case until < dropped:
		m.s.t.Errorf("seed %d: instance %d has dropped %s at %d, and got %s", m.s.seed, m.id, key, dropped, value)
	case until < known && part[2] != strconv.Itoa(m.id):
		m.s.t.Errorf("seed %d: a file has told instance %d that %s was dropped at %d, and it got %s", m.s.seed, m.id, key, known, value)
	}
}

// turnOff turns the instance off for a while. Its L1 is empty then.
func (m *aloneMember) turnOff(d *dice) {
	lab.Must(m.s.t, m.cache.Tune(strata.Tuning{Off: new(true)}))
	d.sometimes()
	lab.Must(m.s.t, m.cache.Tune(strata.Tuning{Off: new(false)}))
}

// save makes a snapshot, which tells of all drops that the instance knows when it is begun.
func (m *aloneMember) save(ctx context.Context) {
	m.s.mu.Lock()
	f := aloneFile{known: maps.Clone(m.known)}
	m.s.mu.Unlock()
	var b bytes.Buffer
	if _, err := snapshot.Write(ctx, &b, snapshot.Options{}, m.cache); err != nil {
		m.s.t.Errorf("seed %d: %v", m.s.seed, err)
	}
	f.bytes = b.Bytes()
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	m.s.files = append(m.s.files, f)
}

// load loads any snapshot of any instance.
func (m *aloneMember) load(ctx context.Context, d *dice) {
	m.s.mu.Lock()
	var f aloneFile
	if n := len(m.s.files); n > 0 {
		f = m.s.files[d.intn(n)]
	}
	m.s.mu.Unlock()
	if f.bytes == nil {
		return
	}
	m.takes(ctx, f)
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	for key, at := range f.known {
		m.known[key] = max(m.known[key], at)
	}
}

// takes loads f, and returns the report about its cache. It fails the test unless the counts of the
// report add up.
func (m *aloneMember) takes(ctx context.Context, f aloneFile) snapshot.CacheReport {
	r, err := snapshot.Read(ctx, bytes.NewReader(f.bytes), snapshot.Options{}, m.cache)
	if err != nil || len(r.Caches) != 1 {
		m.s.t.Fatalf("seed %d: %+v, %v", m.s.seed, r, err)
	}
	c := r.Caches[0]
	if n := c.Stored + c.Present + c.Changed + c.Over + c.Full; n != c.Entries || c.Stored < 0 {
		m.s.t.Errorf("seed %d: %d of %d entries are counted: %+v", m.s.seed, n, c.Entries, c)
	}
	return c
}

// countsAreTrue saves a snapshot of an instance while it drops keys, and loads it into an
// instance that does nothing else.
func (s *aloneSim) countsAreTrue(d *dice) {
	from := s.all[0]
	for _, key := range s.keys {
		if _, err := from.cache.GetOrLoad(s.t.Context(), key, nil); err != nil && !strata.IsNotFound(err) {
			s.t.Error(err)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { from.save(s.t.Context()) })
	time.Sleep(d.delay())
	for range d.intn(3) {
		key := s.keys[d.intn(len(s.keys))]
		from.drops(func(uint64) error { return from.cache.Invalidate(s.t.Context(), key) }, key)
	}
	wg.Wait()
	to := s.join(len(s.all))
	r := to.takes(s.t.Context(), s.files[len(s.files)-1])
	there := to.cache.Len()
	for _, key := range s.keys {
		asked := false
		_, err := to.cache.GetOrLoad(s.t.Context(), key, func(context.Context, string) (string, error) { asked = true; return "", nil })
		if !asked && strata.IsNotFound(err) {
			there++
		}
	}
	if r.Stored != there {
		s.t.Errorf("seed %d: %d entries are there of a snapshot: %s", s.seed, there, fmt.Sprintf("%+v", r))
	}
}
