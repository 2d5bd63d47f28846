package test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/strata-cache/strata"
)

// span is an operation of a written history.
type span struct {
	from, to int64
	event
}

// after makes a history of operations that follow each other.
func after(events ...event) (all []span) {
	for i, e := range events {
		at := int64(2*i) + 1
		all = append(all, span{at, at + 1, e})
	}
	return all
}

// TestModelOfAnInstanceTellsRightFromWrong: each wrong history is next to a
// right one.
func TestModelOfAnInstanceTellsRightFromWrong(t *testing.T) {
	all := rules{keeps: true, one: true}
	for _, h := range []struct {
		name  string
		rules rules
		good  bool
		spans []span
	}{
		{"a value that was written", all, true, after(event{wrote, 1}, event{read, 1})},
		{"a value that nobody wrote", all, false, after(event{wrote, 1}, event{read, 2})},
		{"an older value", all, false, after(event{wrote, 1}, event{wrote, 2}, event{read, 1})},
		{"either of two values written at once", all, true, []span{{1, 4, event{wrote, 1}}, {2, 3, event{wrote, 2}}, {5, 6, event{read, 2}}}},
		{"both of them in turn", all, false, []span{{1, 4, event{wrote, 1}}, {2, 3, event{wrote, 2}}, {5, 6, event{read, 2}}, {7, 8, event{read, 1}}}},
		{"a value that was dropped", all, false, after(event{wrote, 1}, event{dropped, -2}, event{read, 1})},
		{"a value that was missed", all, false, after(event{wrote, 1}, event{missed, 0}, event{read, 1})},
		{"a value that was missed in L1", rules{}, true, after(event{wrote, 1}, event{missed, 0}, event{read, 1})},
		{"a value that was loaded", all, true, after(event{begun, 1}, event{brought, 1}, event{read, 1})},
		{"a load that is joined", all, true, []span{{1, 2, event{begun, 1}}, {3, 7, event{read, 1}}, {5, 6, event{brought, 1}}}},
		{"a load that is joined after a drop", all, false, []span{{1, 2, event{begun, 1}}, {3, 4, event{dropped, -2}}, {5, 9, event{read, 1}}, {7, 8, event{brought, 1}}}},
		{"a load that is stored after a drop", all, false, after(event{begun, 1}, event{dropped, -2}, event{brought, 1}, event{read, 1})},
		{"a load that is stored after a write", all, false, after(event{begun, 1}, event{wrote, 2}, event{brought, 1}, event{read, 1})},
		{"a write during a load", all, true, after(event{begun, 1}, event{wrote, 2}, event{brought, 1}, event{read, 2})},
		{"a load that is stored after an update", all, false, after(event{begun, 1}, event{updating, 2}, event{updated, 2}, event{brought, 1}, event{read, 1})},
		{"a load during an update that is there afterwards", all, false, after(event{updating, 2}, event{begun, 1}, event{brought, 1}, event{updated, 2}, event{read, 1})},
		{"two loads at once", all, false, after(event{begun, 1}, event{begun, 2})},
		{"two loads at once, of which one was overtaken", all, true, after(event{begun, 1}, event{dropped, -3}, event{begun, 2})},
		{"a load that has failed", all, false, after(event{begun, 1}, event{failed, 1}, event{read, 1})},
		{"a load after one that has failed", all, true, after(event{begun, 1}, event{failed, 1}, event{begun, 2}, event{brought, 2}, event{read, 2})},
		{"a failure after which there is what was held", all, true, after(event{wrote, 1}, event{begun, 2}, event{failed, 2}, event{read, 1})},
		{"what was held when the origin had no such key", all, false, after(event{wrote, 1}, event{begun, 2}, event{unfound, 2}, event{missed, 0}, event{read, 1})},

		{"both sides of a write while it runs", rules{}, true, after(event{wrote, 1}, event{opened, 2}, event{read, 2}, event{read, 1}, event{closed, 2}, event{read, 2})},
		{"the old side of a write when it has ended", rules{}, false, after(event{wrote, 1}, event{opened, 2}, event{closed, 2}, event{read, 1})},
		{"either of two writes that overlap", rules{}, true, after(event{opened, 1}, event{opened, 2}, event{closed, 1}, event{closed, 2}, event{read, 1})},
		{"a write that was over when another began", rules{}, false, after(event{opened, 1}, event{closed, 1}, event{opened, 2}, event{closed, 2}, event{read, 1})},
		{"what was dropped while a write ran", rules{}, true, after(event{opened, 1}, event{opened, -2}, event{closed, -2}, event{read, 1}, event{closed, 1}, event{read, 1})},
		{"what a drop has outlived", rules{}, false, after(event{opened, -2}, event{opened, 1}, event{closed, 1}, event{closed, -2}, event{opened, -3}, event{closed, -3}, event{read, 1})},
		{"a load begun during a drop", rules{}, true, after(event{opened, -2}, event{begun, 1}, event{closed, -2}, event{brought, 1}, event{read, 1})},
		{"a load begun before a drop", rules{}, false, after(event{begun, 1}, event{opened, -2}, event{closed, -2}, event{brought, 1}, event{read, 1})},
		{"a load begun during a write, beside what was written", rules{}, true, after(event{opened, 1}, event{begun, 2}, event{closed, 1}, event{brought, 2}, event{read, 1}, event{read, 2}, event{read, 1})},
		{"a load begun after a write, beside what was written", rules{}, false, after(event{opened, 1}, event{closed, 1}, event{begun, 2}, event{brought, 2}, event{read, 1}, event{read, 2}, event{read, 1})},
		{"a load that ends during the drop", rules{}, true, after(event{begun, 1}, event{opened, -2}, event{brought, 1}, event{read, 1}, event{closed, -2})},
		{"and that is there afterwards", rules{}, false, after(event{begun, 1}, event{opened, -2}, event{brought, 1}, event{read, 1}, event{closed, -2}, event{read, 1})},
	} {
		var ops []porcupine.Operation
		for _, s := range h.spans {
			ops = append(ops, porcupine.Operation{Call: s.from, Return: s.to, Input: s.event})
		}
		if got := porcupine.CheckOperations(h.rules.model(), ops); got != h.good {
			t.Errorf("%s: accepted %t, want %t", h.name, got, h.good)
		}
	}
}

// resurrecting is a cache with loads that store their value even after a drop
// or a write, as programs do that read, load and set by themselves.
type resurrecting struct{ *strata.Cache[string, int64] }

// GetOrLoad loads for each caller.
func (c resurrecting) GetOrLoad(ctx context.Context, key string, load strata.Loader[string, int64], _ ...strata.CallOption) (int64, error) {
	if v, ok := c.Get(ctx, key); ok {
		return v, nil
	}
	v, err := load(ctx, key)
	if err == nil {
		err = c.Set(ctx, key, v)
	}
	return v, err
}

// joining is a cache with loads that callers join even after a drop or a write,
// as with a bare singleflight. The loads store nothing.
type joining struct {
	*strata.Cache[string, int64]
	mu    sync.Mutex // guards below
	loads map[string]*sharedLoad
}

type sharedLoad struct {
	done chan struct{}
	v    int64
	err  error
}

// GetOrLoad joins the load under way, if there is one.
func (c *joining) GetOrLoad(ctx context.Context, key string, load strata.Loader[string, int64], _ ...strata.CallOption) (int64, error) {
	if v, ok := c.Get(ctx, key); ok {
		return v, nil
	}
	c.mu.Lock()
	l := c.loads[key]
	mine := l == nil
	if mine {
		l = &sharedLoad{done: make(chan struct{})}
		c.loads[key] = l
	}
	c.mu.Unlock()
	if !mine {
		<-l.done
		return l.v, l.err
	}
	l.v, l.err = load(ctx, key)
	c.mu.Lock()
	delete(c.loads, key)
	c.mu.Unlock()
	close(l.done)
	return l.v, l.err
}

// forgetful is a cache with an Invalidate that does nothing now and then.
type forgetful struct {
	*strata.Cache[string, int64]
	calls atomic.Int64
}

// Invalidate drops nothing each tenth time.
func (c *forgetful) Invalidate(ctx context.Context, keys ...string) error {
	if c.calls.Add(1)%10 == 0 {
		return nil
	}
	return c.Cache.Invalidate(ctx, keys...)
}

// TestHistoriesOfBrokenCachesAreRejected: within few histories, under any schedules.
func TestHistoriesOfBrokenCachesAreRejected(t *testing.T) {
	const histories = 200
	for name, broken := range map[string]func(*strata.Cache[string, int64]) subject{
		"loads store after a drop": func(c *strata.Cache[string, int64]) subject { return resurrecting{c} },
		"loads are joined after a drop": func(c *strata.Cache[string, int64]) subject {
			return &joining{Cache: c, loads: map[string]*sharedLoad{}}
		},
		"drops are forgotten": func(c *strata.Cache[string, int64]) subject { return &forgetful{Cache: c} },
	} {
		for _, s := range []setting{{}, {steps: true}} {
			c := broken(bounded(t, 100))
			var ids atomic.Int64
			n := 0
			for n < histories && record(t, c, s, uint64(n), &ids).wrong(t, s.rules) == "" {
				n++
			}
			if n == histories {
				t.Errorf("%s (writes of several steps: %t): %d histories were accepted", name, s.steps, n)
			}
			t.Logf("%s (writes of several steps: %t): history %d was rejected", name, s.steps, n)
		}
	}
}
