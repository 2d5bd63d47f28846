package agreement_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
	"github.com/strata-cache/strata/snapshot"
)

// This file crosses features with events. Each feature changes which values may be
// served. Each event may make an instance serve a dropped value. docs/matrix.md is the
// table.

// cell is the world of one feature and one event: a writer that drops, a reader with the
// older value, and their origin.
type cell struct {
	*testing.T
	s              succession
	o              *lab.Origin
	writer, reader *strata.Cache[string, int64]
	there, here    *way // of the writer and of the reader
	feature        *feature
	file           string
}

// feature is a way to store, to drop and to read the key k.
type feature struct {
	options func(*strata.Options[string, int64])
	store   func(c *cell)                                                // nil: a load
	drop    func(c *cell, by *strata.Cache[string, int64]) error         // nil: Invalidate
	read    func(c *cell, by *strata.Cache[string, int64]) (int64, bool) // nil: GetOrLoad
	// elsewhere says that drop drops at another instance.
	elsewhere bool
}

func (c *cell) load(ctx context.Context, key string) (int64, error) { return c.o.Load(ctx, key) }

func (c *cell) must(err error) {
	c.Helper()
	if err != nil {
		c.Error(err)
	}
}

// open opens an instance with the options of the feature.
func (c *cell) open() (*strata.Cache[string, int64], *way) {
	return c.s.join(c.T, func(o *strata.Options[string, int64]) {
		o.TTL, o.NotFoundTTL, o.Loader = time.Hour, time.Hour, c.load
		if c.feature.options != nil {
			c.feature.options(o)
		}
	})
}

func (c *cell) drop(by *strata.Cache[string, int64]) {
	c.Helper()
	c.o.Value.Store(2)
	if c.feature.drop == nil {
		c.must(by.Invalidate(c.Context(), "k"))
		return
	}
	c.must(c.feature.drop(c, by))
}

// atOnce is fresh for the instance that made the drop: its own reads see it at once.
func (c *cell) atOnce(by *strata.Cache[string, int64]) {
	c.Helper()
	if !c.feature.elsewhere {
		c.fresh("at once where it was dropped", by)
	}
}

// fresh fails if an instance serves the older value without the mark Degraded.
func (c *cell) fresh(when string, by *strata.Cache[string, int64]) {
	c.Helper()
	if c.feature.read != nil {
		if v, ok := c.feature.read(c, by); ok && v != 2 {
			c.Errorf("%s: got %d", when, v)
		}
		return
	}
	var info strata.Info
	v, err := by.GetOrLoad(c.Context(), "k", c.load, strata.ReadInfo(&info))
	if (v != 2 || err != nil) && !info.Degraded {
		c.Errorf("%s: got %d, %v", when, v, err)
	}
}

// features are read-only.
var features = map[string]*feature{
	"plain": {},
	"tags": {
		options: func(o *strata.Options[string, int64]) { o.Tags = func(string, int64) []string { return []string{"t"} } },
		drop:    func(c *cell, by *strata.Cache[string, int64]) error { return by.InvalidateTags(c.Context(), "t") },
	},
	"hold": {drop: func(c *cell, by *strata.Cache[string, int64]) error {
		return by.InvalidateHold(c.Context(), 10*time.Second, "k")
	}},
	"soft drop":      {drop: func(c *cell, by *strata.Cache[string, int64]) error { return by.Expire(c.Context(), "k") }},
	"Invalidate all": {drop: func(c *cell, by *strata.Cache[string, int64]) error { return by.InvalidateAll(c.Context()) }},
	"Expire all":     {drop: func(c *cell, by *strata.Cache[string, int64]) error { return by.ExpireAll(c.Context()) }},
	"Take": {drop: func(c *cell, by *strata.Cache[string, int64]) error {
		_, _, err := by.Take(c.Context(), "k")
		return err
	}},
	"lives of its own": {
		store: func(c *cell) {
			_, err := c.reader.GetOrLoad(c.Context(), "k", func(ctx context.Context, key string) (int64, error) {
				strata.Loading(ctx).SetStale(strata.Stale{WhileRevalidate: time.Hour, OnError: time.Hour})
				strata.Loading(ctx).SetMemoryTTL(time.Hour)
				return c.load(ctx, key)
			})
			c.must(err)
		},
	},
	"Set": {drop: func(c *cell, by *strata.Cache[string, int64]) error { return by.Set(c.Context(), "k", 2) }},
	"Update": {drop: func(c *cell, by *strata.Cache[string, int64]) error {
		return by.Update(c.Context(), "k", func(context.Context) (int64, error) { return 2, nil })
	}},
	"negative entry": {store: func(c *cell) {
		_, err := c.reader.GetOrLoad(c.Context(), "k", func(context.Context, string) (int64, error) { return 0, strata.ErrNotFound })
		if !errors.Is(err, strata.ErrNotFound) {
			c.Error(err)
		}
	}},
	"batch": {store: func(c *cell) { c.many(c.reader, "k", "l") }, read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) {
		return c.many(by, "l", "k"), true
	}},
	"extra key": {store: func(c *cell) {
		_, err := c.reader.GetMany(c.Context(), []string{"l"}, func(context.Context, []string) (map[string]int64, error) {
			return map[string]int64{"l": 1, "k": 1}, nil
		})
		c.must(err)
	}},
	"Strict": {options: func(o *strata.Options[string, int64]) { o.Remote.Strict = true }},
	"NoMemory": {read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) {
		return c.read(by, strata.NoMemory())
	}},
	"NoRemote": {
		store: func(c *cell) {
			_, err := c.reader.GetOrLoad(c.Context(), "k", c.load, strata.NoRemote())
			c.must(err)
		},
		read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) { return c.read(by, strata.NoRemote()) },
	},
	"AllowStale": {read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) {
		var info strata.Info
		v, ok := by.Get(c.Context(), "k", strata.AllowStale(), strata.ReadInfo(&info))
		return v, ok && !info.Degraded
	}},
	"idle life": {
		options: func(o *strata.Options[string, int64]) { o.IdleTTL = time.Hour },
		read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) {
			by.Touch("k")
			return c.read(by)
		},
	},
	"Refresh": {read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) {
		c.must(by.Refresh(c.Context(), "k"))
		synctest.Wait()
		return c.read(by)
	}},
	"Tune": {read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) {
		off, on := true, false
		c.must(by.Tune(strata.Tuning{Off: &off}))
		c.must(by.Tune(strata.Tuning{Off: &on}))
		return c.read(by)
	}},
	"snapshot by value": {store: func(c *cell) {
		c.fill()
		r, err := snapshot.Save(c.Context(), c.file, snapshot.Options{}, c.reader)
		if err != nil || r.Caches[0].Entries == 0 {
			c.Errorf("%+v, %v", r, err)
		}
	}, read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) {
		_, err := snapshot.Load(c.Context(), c.file, snapshot.Options{}, by)
		c.must(err)
		return c.read(by)
	}},
	"snapshot by key": {store: func(c *cell) {
		c.fill()
		_, err := snapshot.SaveKeys(c.Context(), c.file, snapshot.Options{}, c.reader)
		c.must(err)
	}, read: func(c *cell, by *strata.Cache[string, int64]) (int64, bool) {
		_, err := snapshot.WarmKeys(c.Context(), c.file, snapshot.Options{}, by)
		c.must(err)
		return c.read(by)
	}},
	"another program": { // with another type of values, which drops
		elsewhere: true,
		drop: func(c *cell, _ *strata.Cache[string, int64]) error {
			o := strata.Options[string, string]{Name: "test", TTL: time.Hour}
			o.Remote.Tier, o.Remote.Bus = successor{Tier: c.s.old.Tier, way: c.there}, successorBus{c.there}
			other, err := strata.New(o)
			c.must(err)
			c.Cleanup(func() { other.Close(context.Background()) })
			synctest.Wait()
			return other.Invalidate(c.Context(), "k")
		},
	},
}

// read reads the key with options, and reports whether the value counts: a value with
// the mark Degraded may be older.
func (c *cell) read(by *strata.Cache[string, int64], opts ...strata.CallOption) (int64, bool) {
	c.Helper()
	var info strata.Info
	v, err := by.GetOrLoad(c.Context(), "k", c.load, append(opts, strata.ReadInfo(&info))...)
	c.must(err)
	return v, !info.Degraded
}

// many reads keys in a batch, and returns the value of k.
func (c *cell) many(by *strata.Cache[string, int64], keys ...string) int64 {
	c.Helper()
	got, err := by.GetMany(c.Context(), keys, func(ctx context.Context, keys []string) (map[string]int64, error) {
		all := map[string]int64{}
		for _, k := range keys {
			all[k], _ = c.load(ctx, k)
		}
		return all, nil
	})
	c.must(err)
	return got["k"]
}

// fill has the reader load the key.
func (c *cell) fill() {
	c.Helper()
	_, err := c.reader.GetOrLoad(c.Context(), "k", c.load)
	c.must(err)
}

// events are read-only. Each drops the key, and checks the instances afterwards.
var events = map[string]func(c *cell){
	"drop by this instance": func(c *cell) {
		c.drop(c.reader)
		c.atOnce(c.reader)
	},
	"drop by another": func(c *cell) {
		c.drop(c.writer)
		c.atOnce(c.writer)
		synctest.Wait()
		time.Sleep(time.Millisecond) // in the bubble
		c.fresh("elsewhere", c.reader)
	},
	"lost message": func(c *cell) {
		c.here.line.Lose(1)
		c.drop(c.writer)
		time.Sleep(6 * time.Second) // in the bubble
		c.fresh("six seconds later", c.reader)
	},
	"restart of L2": func(c *cell) {
		c.drop(c.writer)
		c.s.old.Tier.Restart()
		time.Sleep(6 * time.Second) // in the bubble
		c.fresh("after the restart", c.reader)
	},
	"failover": func(c *cell) { // to a replica without the drop
		before := c.s.old.Tier.Snapshot()
		c.drop(c.writer)
		c.s.new.Tier.Restore(before)
		c.here.hear()
		c.there.hear()
		c.atOnce(c.writer)
		time.Sleep(6 * time.Second) // in the bubble
		c.fresh("elsewhere", c.reader)
	},
	"deposed primary": func(c *cell) { // which confirms the drop
		c.here.hear()
		time.Sleep(time.Second) // in the bubble
		c.refill()
		c.drop(c.writer)
		c.there.hear()
		c.atOnce(c.writer)
		time.Sleep(6 * time.Second) // in the bubble
		c.fresh("elsewhere", c.reader)
	},
	"eviction in L2": func(c *cell) {
		c.drop(c.writer)
		c.s.old.Tier.ForgetLane("k")
		c.s.old.Tier.ForgetTags()
		time.Sleep(6 * time.Second) // in the bubble
		c.fresh("later", c.reader)
	},
	"paused instance": func(c *cell) { // which hears nothing meanwhile
		c.here.line.Hush(true)
		c.drop(c.writer)
		time.Sleep(31 * time.Second) // in the bubble
		c.fresh("when it goes on", c.reader)
		c.here.line.Hush(false)
		time.Sleep(6 * time.Second) // in the bubble
		c.fresh("later", c.reader)
	},
	"Close and reopen": func(c *cell) {
		c.drop(c.writer)
		c.must(c.writer.Close(c.Context()))
		c.must(c.reader.Close(c.Context()))
		c.reader, c.here = c.open()
		time.Sleep(time.Second) // in the bubble
		c.fresh("opened again", c.reader)
	},
	"outage of L2 and bus": func(c *cell) {
		c.here.line.Cut()
		c.drop(c.writer)
		time.Sleep(40 * time.Second) // in the bubble
		c.fresh("after forty seconds without a bus", c.reader)
		c.here.line.Join()
		time.Sleep(6 * time.Second) // in the bubble
		c.fresh("when it is back", c.reader)
	},
}

// refill stores the older value at the server that the reader uses now.
func (c *cell) refill() {
	if c.feature.store != nil {
		c.feature.store(c)
	} else {
		c.fill()
	}
}

// TestMatrixOfFeaturesAndEvents: no instance serves a dropped value after the bound of the
// event, unless the read is marked Degraded.
func TestMatrixOfFeaturesAndEvents(t *testing.T) {
	for name, f := range features {
		for event, happen := range events {
			t.Run(name+"/"+event, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "file")
				synctest.Test(t, func(t *testing.T) {
					c := &cell{T: t, s: newSuccession(), o: &lab.Origin{}, feature: f, file: file}
					c.o.Value.Store(1)
					c.writer, c.there = c.open()
					c.reader, c.here = c.open()
					time.Sleep(time.Second)
					c.refill()
					happen(c)
				})
			})
		}
	}
}
