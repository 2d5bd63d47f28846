package memcached_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
)

// TestItemsOfABatchCanBeComparedAndSwapped: as items of Get can, until they change.
func TestItemsOfABatchCanBeComparedAndSwapped(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
		ctx := t.Context()
		for _, key := range []string{"a", "b"} {
			mustSet(t, c, key, "old")
		}
		for _, key := range []string{"a", "b"} {
			items, err := c.GetMany(ctx, []string{"a", "missing", "b"})
			one, err2 := c.Get(ctx, key)
			if it := items[key]; err != nil || err2 != nil || it.CAS != one.CAS || it.CAS == 0 {
				t.Fatalf("%+v, %v; Get has %+v, %v", it, err, one, err2)
			}
			first, second := items[key], items[key]
			first.Value, second.Value = []byte("new"), []byte("late")
			if err := c.CompareAndSwap(ctx, first); err != nil {
				t.Error(err)
			}
			if err := c.CompareAndSwap(ctx, second); !errors.Is(err, memcached.ErrConflict) {
				t.Errorf("late: %v", err)
			}
			if v, err := get(ctx, c, key); v != "new" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		}
	})
}

// TestCountersBeginWhereTheyAreTold: a counter begins once, with its life. Afterwards calls
// count on and keep its life.
func TestCountersBeginWhereTheyAreTold(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *fakes.Memcached, c *memcached.Client) {
		ctx := t.Context()
		for i, want := range []uint64{40, 42, 44} {
			if n, err := c.IncrementFrom(ctx, "up", 2, 40, 10*time.Second); n != want || err != nil {
				t.Errorf("%d: %d, %v", i, n, err)
			}
			if n, err := c.DecrementFrom(ctx, "down", 25, 40, 0); n != []uint64{40, 15, 0}[i] || err != nil {
				t.Errorf("%d: %d, %v", i, n, err)
			}
			time.Sleep(3 * time.Second) // in the bubble
		}
		if n, err := c.Increment(ctx, "up", 1); n != 45 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		time.Sleep(time.Second) // in the bubble
		if _, err := c.Increment(ctx, "up", 1); !errors.Is(err, memcached.ErrMiss) {
			t.Errorf("after its life: %v", err)
		}
		if n, err := c.Increment(ctx, "down", 1); n != 1 || err != nil {
			t.Errorf("a life without end: %d, %v", n, err)
		}
		if n, err := c.IncrementFrom(ctx, "most", 1, math.MaxUint64, time.Minute); n != math.MaxUint64 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := c.IncrementFrom(ctx, "most", 1, 7, time.Minute); n != 0 || err != nil {
			t.Errorf("beyond 64 bits: %d, %v", n, err)
		}
		mustSet(t, c, "text", "x")
		if _, err := c.IncrementFrom(ctx, "text", 1, 1, time.Minute); !errors.Is(err, remote.ErrRefused) {
			t.Errorf("a text: %v", err)
		}
		if v, err := get(ctx, c, "text"); v != "x" || err != nil {
			t.Errorf("the text has become %q, %v", v, err)
		}
		if _, err := c.IncrementFrom(ctx, "new", 1, 1, -1); err == nil {
			t.Error("a negative life was accepted")
		}
		if _, err := c.Get(ctx, "new"); !errors.Is(err, memcached.ErrMiss) {
			t.Errorf("stored by a call that was refused: %v", err)
		}
	})
}

// TestCounterOfAnOldServerBeginsOnce: another client makes it between the two commands.
func TestCounterOfAnOldServerBeginsOnce(t *testing.T) {
	fake(t, func(s *fakes.Memcached, _ *memcached.Options) { s.Generation = fakes.Old }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		adds := 0
		s.SetGate(func(ss *fakes.MemcachedSession, cmd *meta.Command) bool {
			if cmd.Name == "add" {
				if adds++; adds == 1 {
					other := meta.Command{Name: "set", Key: []byte("n"), Data: []byte("100")}
					ss.Answer(&other)
					ss.Out = ss.Out[:0]
				}
			}
			return false
		})
		if n, err := c.IncrementFrom(t.Context(), "n", 5, 1, time.Minute); n != 105 || err != nil || adds != 1 {
			t.Errorf("%d, %v after %d adds", n, err, adds)
		}
	})
}

// TestDataIsAddedAtBothEnds: the item keeps its flags and its life.
func TestDataIsAddedAtBothEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		ctx := t.Context()
		for _, err := range []error{c.Append(ctx, "k", []byte("x")), c.Prepend(ctx, "k", []byte("x"))} {
			if !errors.Is(err, memcached.ErrNotStored) {
				t.Errorf("to nothing: %v", err)
			}
		}
		if err := c.Set(ctx, memcached.Item{Key: "k", Value: []byte("b"), Flags: 7, TTL: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		before, err := c.Get(ctx, "k")
		if err := errors.Join(err, c.Append(ctx, "k", []byte("c")), c.Prepend(ctx, "k", []byte("a")), c.Append(ctx, "k", nil)); err != nil {
			t.Error(err)
		}
		item, err := c.Get(ctx, "k")
		if string(item.Value) != "abc" || item.Flags != 7 || item.CAS == before.CAS || err != nil {
			t.Errorf("%+v, %v", item, err)
		}
		large := bytes.Repeat([]byte("x"), 30_000) // over a connection of its own
		if err := c.Append(ctx, "k", large); err != nil {
			t.Error(err)
		}
		if v, err := get(ctx, c, "k"); v != "abc"+string(large) || err != nil {
			t.Errorf("%d bytes, %v", len(v), err)
		}
		if err := c.Append(ctx, "k", make([]byte, 1<<20-100)); !errors.Is(err, memcached.ErrNotStored) {
			t.Errorf("a sum that is too large: %v", err)
		}
		if v, err := get(ctx, c, "k"); len(v) != 30_003 || err != nil {
			t.Errorf("%d bytes are left, %v", len(v), err)
		}
		time.Sleep(11 * time.Second) // in the bubble
		if _, err := c.Get(ctx, "k"); !errors.Is(err, memcached.ErrMiss) {
			t.Errorf("after its life: %v", err)
		}
	})
	fake(t, func(_ *fakes.Memcached, o *memcached.Options) { o.MaxValue = 10 }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		if err := c.Append(t.Context(), "k", make([]byte, 11)); !errors.Is(err, memcached.ErrTooLarge) || s.Dials() > 0 {
			t.Errorf("%v, %d connections", err, s.Dials())
		}
	})
}

// TestOnlyWholeValuesAreJoinedAndCounted: the item of a hashed key has the key in front.
func TestOnlyWholeValuesAreJoinedAndCounted(t *testing.T) {
	fake(t, func(_ *fakes.Memcached, o *memcached.Options) { o.Keys = memcached.KeysHashed }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		mustSet(t, c, "a b", "1")
		_, err1 := c.IncrementFrom(t.Context(), "a b", 1, 1, 0)
		_, err2 := c.DecrementFrom(t.Context(), "a b", 1, 1, 0)
		for _, err := range []error{err1, err2, c.Append(t.Context(), "a b", []byte("x")), c.Prepend(t.Context(), "a b", []byte("x"))} {
			if !errors.Is(err, memcached.ErrBadKey) {
				t.Error(err)
			}
		}
		if v, err := get(t.Context(), c, "a b"); v != "1" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
	fake(t, func(_ *fakes.Memcached, o *memcached.Options) { o.Keys = memcached.KeysBase64 }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		n, err := c.IncrementFrom(t.Context(), "a b", 1, 5, 0)
		if err := errors.Join(err, c.Append(t.Context(), "a b", []byte("6"))); err != nil {
			t.Error(err)
		}
		if v, err := get(t.Context(), c, "a b"); v != "56" || n != 5 || err != nil {
			t.Errorf("%q, %d, %v", v, n, err)
		}
	})
}

// TestManyItemsAreDeletedTogether: no other item is deleted; a missing item is not an error.
func TestManyItemsAreDeletedTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		ctx := t.Context()
		for _, n := range []int{0, 1, 100, 3000} {
			var items []memcached.Item
			var doomed, all []string
			for i := range n {
				key := fmt.Sprint("key", i)
				items, all = append(items, memcached.Item{Key: key, Value: []byte("v")}), append(all, key)
				if i%3 > 0 || n == 1 {
					doomed = append(doomed, key, "missing"+key)
				}
			}
			if n > 0 {
				doomed = append(doomed, doomed[0]) // twice
			}
			if err := errors.Join(c.FlushAll(ctx), c.SetMany(ctx, items)); err != nil {
				t.Fatal(err)
			}
			calls := s.Calls("md") + s.Calls("delete")
			if err := c.DeleteMany(ctx, doomed); err != nil {
				t.Errorf("%d keys: %v", n, err)
			}
			left, err := c.GetMany(ctx, all)
			if want := n - n*2/3; n > 1 && len(left) != want || n == 1 && len(left) > 0 || err != nil {
				t.Errorf("%d of %d are left, %v", len(left), n, err)
			}
			if sent := s.Calls("md") + s.Calls("delete") - calls; sent != len(doomed) {
				t.Errorf("%d commands for %d keys", sent, len(doomed))
			}
			for _, key := range doomed {
				if _, ok := left[key]; ok {
					t.Errorf("%s is left", key)
				}
			}
		}
	})
}

// TestKeysThatAreNotDeletedAreNamed: the error names the keys of a dead
// server, and no others.
func TestKeysThatAreNotDeletedAreNamed(t *testing.T) {
	for d := memcached.DeadFails; d <= memcached.DeadMoves; d++ {
		three(t, treating(d), func(t *testing.T, q *squad, c *memcached.Client) {
			ctx := t.Context()
			keys := q.everyKey()
			for _, key := range keys {
				mustSet(t, c, key, "v")
			}
			q.members[1].Stop()
			err := c.DeleteMany(ctx, keys)
			var failed *memcached.PartialError
			if !errors.As(err, &failed) {
				t.Fatalf("%v: %v", d, err)
			}
			for _, key := range keys {
				if dead := q.ring.Pick(key) == 1; dead != (failed.Failed[key] != nil) {
					t.Errorf("%v: %s of a server that is dead (%v): %v", d, key, dead, failed.Failed[key])
				}
			}
		})
	}
}

// TestErrorsOfADeleteNameAllKeysThatMayBeThere: the reply to a failed quiet command does not
// name its key.
func TestErrorsOfADeleteNameAllKeysThatMayBeThere(t *testing.T) {
	for _, name := range []string{"1.6.18", "old"} {
		fake(t, func(s *fakes.Memcached, _ *memcached.Options) { s.Generation = generations[name] }, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
			for _, key := range []string{"a", "b", "c"} {
				mustSet(t, c, key, "v")
			}
			s.SetGate(func(ss *fakes.MemcachedSession, cmd *meta.Command) bool {
				if string(cmd.Key) == "b" && (cmd.Name == "md" || cmd.Name == "delete") {
					ss.Line("SERVER_ERROR busy")
					return true
				}
				return false
			})
			var failed *memcached.PartialError
			if err := c.DeleteMany(t.Context(), []string{"a", "b", "c"}); !errors.As(err, &failed) || failed.Failed["b"] == nil {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "old" && len(failed.Failed) != 1 {
				t.Errorf("%v", failed.Failed)
			}
			left, err := c.GetMany(t.Context(), []string{"a", "b", "c"})
			if _, ok := left["b"]; !ok || len(left) != 1 || err != nil {
				t.Errorf("%s: %v, %v", name, left, err)
			}
		})
	}
}

// TestChangesWithBadKeysSendNothing: neither a batch nor a single call does.
func TestChangesWithBadKeysSendNothing(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		for _, key := range []string{"", "a b", "a\r\nflush_all", "a\x00", strings.Repeat("k", 251)} {
			_, err1 := c.IncrementFrom(t.Context(), key, 1, 1, time.Minute)
			_, err2 := c.DecrementFrom(t.Context(), key, 1, 1, time.Minute)
			for i, err := range []error{
				err1, err2, c.DeleteMany(t.Context(), []string{"good", key}),
				c.Append(t.Context(), key, []byte("x")), c.Prepend(t.Context(), key, []byte("x")),
			} {
				if !errors.Is(err, memcached.ErrBadKey) {
					t.Errorf("%.20q, call %d: %v", key, i, err)
				}
			}
		}
		if err := c.DeleteMany(t.Context(), nil); err != nil || s.Dials() > 0 {
			t.Errorf("%v, %d connections", err, s.Dials())
		}
	})
}

// TestChangesEndWithTheirContext: also on a hanging server.
func TestChangesEndWithTheirContext(t *testing.T) {
	everywhere(t, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		mustSet(t, c, "k", "1")
		hung := make(chan struct{})
		s.SetGate(func(_ *fakes.MemcachedSession, cmd *meta.Command) bool {
			if key := string(cmd.Key); key == "k" || key == "x" || key == "y" {
				<-hung
			}
			return false
		})
		for what, call := range map[string]func(context.Context) error{
			"Append":     func(ctx context.Context) error { return c.Append(ctx, "k", []byte("0")) },
			"DeleteMany": func(ctx context.Context) error { return c.DeleteMany(ctx, []string{"x", "y"}) },
			"IncrementFrom": func(ctx context.Context) error {
				_, err := c.IncrementFrom(ctx, "k", 1, 1, time.Minute)
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			took := elapsed(func() {
				if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", what, err)
				}
			})
			if cancel(); took > 150*time.Millisecond {
				t.Errorf("%s: %v", what, took)
			}
		}
		close(hung)
	})
}
