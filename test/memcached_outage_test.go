//go:build unix

package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// TestMemcachedTierConformsWithoutOneServer runs the checks of every Tier on three real
// servers of which one is stopped, with keys, tags and clocks of the two others.
func TestMemcachedTierConformsWithoutOneServer(t *testing.T) {
	const stopped = 1
	f := startMemcachedFleet(t)
	c := f.client(t, memcached.DeadFails)
	f.members[stopped].Stop()
	eventually(t, "the server is ejected", func() bool {
		_, _ = c.Get(t.Context(), f.keys(1, func(s int) bool { return s == stopped })[0])
		return len(c.Ejected()) == 1
	})
	stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
		return &livingPart{Tier: memcached.NewTier(c), t: t, dead: f.addrs[stopped], names: &sync.Map{}}, time.Sleep
	})
}

// livingPart is a Tier with its keys and tags on servers that answer: it adds suffixes to
// each name until the name belongs to one of them. A drop of everything may miss the dead server.
type livingPart struct {
	*memcached.Tier
	t     *testing.T
	dead  string
	names *sync.Map // with their suffixes, by their names
}

func (l *livingPart) Bind(s remote.Space) remote.Tier {
	for i := range 100 {
		view := &livingPart{l.Tier.Bind(remote.Space{Name: fmt.Sprint(s.Name, i), Schema: s.Schema, Instance: s.Instance}).(*memcached.Tier), l.t, l.dead, &sync.Map{}}
		// The clock of tags has a server, too.
		if err := view.Tier.DropTags(context.Background(), []string{view.tag("t")}, false); err == nil {
			return view
		}
	}
	l.t.Fatal("no name has a clock")
	return nil
}

// living is added to a name until the name belongs to a server that answers. No check
// has it in a name.
const living = "\x01living"

// key returns a variant of key on a server that answers.
func (l *livingPart) key(key string) string {
	const long = 1000 // bytes, of which the first are replaced
	for n := range 100 {
		with := strings.Repeat(living, n) + key[n*len(living)*min(1, len(key)/long):]
		if l.ServerOf(with) != l.dead {
			return with
		}
	}
	return key
}

// tag is key for a tag.
func (l *livingPart) tag(tag string) string {
	if with, ok := l.names.Load(tag); ok {
		return with.(string)
	}
	with := tag
	for n := range 100 {
		with = tag + strings.Repeat(living, n)
		if _, err := l.Tier.Tags(context.Background(), []string{with}); remote.FailedServer(err) != l.dead {
			break
		}
	}
	l.names.Store(tag, with)
	return with
}

func (l *livingPart) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	with := make([]string, len(keys))
	for i, key := range keys {
		with[i] = l.key(key)
	}
	return l.Tier.Get(ctx, with, known...)
}

func (l *livingPart) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	r = slices.Clone(r)
	for i := range r {
		r[i].Key = l.key(r[i].Key)
	}
	return l.Tier.Acquire(ctx, r, d)
}

func (l *livingPart) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	p = slices.Clone(p)
	for i := range p {
		p[i].Key = l.key(p[i].Key)
	}
	return l.Tier.Put(ctx, p)
}

func (l *livingPart) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	d = slices.Clone(d)
	for i := range d {
		d[i].Key = l.key(d[i].Key)
	}
	return l.Tier.Drop(ctx, d)
}

func (l *livingPart) Extend(ctx context.Context, key string, fresh, left time.Duration, lease remote.Lease, id remote.ID) (bool, error) {
	return l.Tier.Extend(ctx, l.key(key), fresh, left, lease, id)
}

func (l *livingPart) Release(ctx context.Context, key string, lease remote.Lease) error {
	return l.Tier.Release(ctx, l.key(key), lease)
}

func (l *livingPart) Renew(ctx context.Context, key string, lease remote.Lease, d time.Duration) (bool, error) {
	return l.Tier.Renew(ctx, l.key(key), lease, d)
}

func (l *livingPart) DropAll(ctx context.Context, soft bool) error {
	err := l.Tier.DropAll(ctx, soft)
	var some *remote.NotToldError
	if errors.As(err, &some) && slices.Equal(some.Servers, []string{l.dead}) {
		return nil
	}
	return fmt.Errorf("a drop of everything without %s: %w", l.dead, err)
}

func (l *livingPart) DropTags(ctx context.Context, tags []string, soft bool) error {
	return l.Tier.DropTags(ctx, l.withTags(tags), soft)
}

func (l *livingPart) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	return l.Tier.Tags(ctx, l.withTags(tags))
}

func (l *livingPart) withTags(tags []string) []string {
	with := make([]string, len(tags))
	for i, tag := range tags {
		with[i] = l.tag(tag)
	}
	return with
}

// comebacks are ways for a server to be away and to come back, with its items or without.
var comebacks = map[string]struct{ leave, comeBack func(*servers.Memcached) }{ // read-only
	"with its items, from a pause":        {(*servers.Memcached).Stop, (*servers.Memcached).Continue},
	"with its items, from a warm restart": {(*servers.Memcached).Quit, (*servers.Memcached).Restart},
	"empty":                               {func(m *servers.Memcached) { m.Kill() }, (*servers.Memcached).Restart},
}

// dropsOf are the ways to drop keys with the tags a and b.
var dropsOf = map[string]func(ctx context.Context, c *strata.Cache[string, int64], keys []string) error{ // read-only
	"Invalidate": func(ctx context.Context, c *strata.Cache[string, int64], keys []string) error {
		return c.Invalidate(ctx, keys...)
	},
	"InvalidateTags": func(ctx context.Context, c *strata.Cache[string, int64], _ []string) error {
		return c.InvalidateTags(ctx, "a", "b")
	},
	"InvalidateAll": func(ctx context.Context, c *strata.Cache[string, int64], _ []string) error {
		return c.InvalidateAll(ctx)
	},
}

// TestMemcachedServerThatComesBackHasMissedNoDrop drops everything in each way while each of
// three servers is away. The instance that drops reads nothing older, and others read
// nothing older once the drop is confirmed.
func TestMemcachedServerThatComesBackHasMissedNoDrop(t *testing.T) {
	for absence, way := range comebacks {
		for name, drop := range dropsOf {
			for away := range 3 {
				t.Run(fmt.Sprint(absence, "/", name, "/", away), func(t *testing.T) {
					t.Parallel()
					var args []string
					if strings.Contains(absence, "warm") {
						args = []string{"-e", "items", "-m", "64"}
					}
					f := startMemcachedFleet(t, args...)
					missesNoDrop(t, f, away, way.leave, way.comeBack, drop)
				})
			}
		}
	}
}

// numbersOver returns an instance that loads the current version as the value of each key.
func numbersOver(t *testing.T, c *memcached.Client, bus *stratatest.Bus, version *atomic.Int64, timeout time.Duration) *strata.Cache[string, int64] {
	t.Helper()
	x, err := strata.New(strata.Options[string, int64]{
		Name: "numbers", TTL: time.Hour,
		Loader: func(context.Context, string) (int64, error) { return version.Load(), nil },
		Tags:   func(key string, _ int64) []string { return []string{string("ab"[len(key)%2])} },
		Memory: strata.Memory[string, int64]{MaxEntries: 1000},
		Remote: strata.Remote[string, int64]{Tier: memcached.NewTier(c), Bus: bus.Connect(), Timeout: timeout},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close(context.Background()) })
	return x
}

func missesNoDrop(t *testing.T, f *memcachedFleet, away int, leave, comeBack func(*servers.Memcached), drop func(context.Context, *strata.Cache[string, int64], []string) error) {
	bus := stratatest.NewBus()
	var version atomic.Int64
	version.Store(1)
	instance := func() *strata.Cache[string, int64] {
		return numbersOver(t, f.client(t, memcached.DeadFails), bus, &version, 200*time.Millisecond)
	}
	one, other := instance(), instance()
	keys := f.keys(40, func(int) bool { return true })
	reads := func(who string, c *strata.Cache[string, int64], want int64) {
		t.Helper()
		for _, key := range keys {
			if v, err := c.GetOrLoad(t.Context(), key, nil); v != want || err != nil {
				t.Fatalf("%s reads %s: %d, not %d, %v", who, key, v, want, err)
			}
		}
	}
	reads("the first instance", one, 1)
	reads("the other instance", other, 1)
	leave(f.members[away])
	version.Store(2)
	if err := drop(t.Context(), one, keys); err == nil && one.Stats().Pending > 0 {
		t.Errorf("a drop is pending without an error")
	}
	reads("without the server, the instance that dropped", one, 2)
	comeBack(f.members[away])
	agree(t, keys, one, other, instance, reads)
}

// TestMemcachedOfAChangedListMayBeOldUntilTheEndOfItsTTL has one server more for a while. A
// value that stayed behind may come back with the list of before, as the guide says, and
// FlushAll ends that.
func TestMemcachedOfAChangedListMayBeOldUntilTheEndOfItsTTL(t *testing.T) {
	f := startMemcachedFleet(t)
	bus := stratatest.NewBus()
	var version atomic.Int64
	version.Store(1)
	over := func(addrs []string) (*strata.Cache[string, int64], *memcached.Client) {
		c := f.members[0].Client(t, func(o *memcached.Options) { o.Servers = addrs })
		return numbersOver(t, c, bus, &version, patience), c
	}
	keys := f.keys(60, func(int) bool { return true })
	read := func(x *strata.Cache[string, int64]) (values []int64) {
		for _, key := range keys {
			v, err := x.GetOrLoad(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		return values
	}
	few, _ := over(f.addrs[:2])
	read(few)
	version.Store(2)
	more, c := over(f.addrs)
	if err := more.Invalidate(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	if values := read(more); slices.Contains(values, 1) {
		t.Errorf("the instance that dropped reads %v", values)
	}
	back, _ := over(f.addrs[:2])
	values := read(back)
	if !slices.Contains(values, 2) {
		t.Errorf("no key has the same server in both lists: %v", values)
	}
	if !slices.Contains(values, 1) {
		t.Logf("no value has stayed behind")
	}
	if err := c.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	flushed, _ := over(f.addrs[:2])
	if values := read(flushed); slices.Contains(values, 1) {
		t.Errorf("after FlushAll: %v", values)
	}
}
