package retry_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/retry"
	"github.com/strata-cache/strata/remote"
)

// fleet is a tier over the servers a and b. A key and a tag begin with the name of their
// server.
type fleet struct {
	mu   sync.Mutex
	dead map[string]bool
	told map[string]int // how often everything was dropped on a server
	keys map[string]int // how often a key or a tag was dropped
}

func (f *fleet) set(server string, dead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead[server] = dead
}

func (f *fleet) dropAllOf(_ context.Context, server string, _ bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead[server] {
		return &remote.ServerError{Server: server, Err: errors.New("dead")}
	}
	f.told[server]++
	return nil
}

func (f *fleet) dropAll(ctx context.Context, soft bool) error {
	var untold []string
	for _, server := range []string{"a", "b"} {
		if f.dropAllOf(ctx, server, soft) != nil {
			untold = append(untold, server)
		}
	}
	switch len(untold) {
	case 0:
		return nil
	case 2:
		return errors.New("all are dead")
	}
	return &remote.NotToldError{Servers: untold, Err: errors.New("dead")}
}

func (f *fleet) drop(names []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := make([]error, len(names))
	for i, name := range names {
		if server := name[:1]; f.dead[server] {
			errs[i] = &remote.ServerError{Server: server, Err: errors.New("dead")}
		} else {
			f.keys[name]++
		}
	}
	return remote.JoinKeys(errs)
}

func newFleet() (*fleet, *retry.Queue) {
	f := &fleet{dead: map[string]bool{}, told: map[string]int{}, keys: map[string]int{}}
	return f, retry.New(retry.Options{
		Do: each{
			keys: func(_ context.Context, d []remote.Drop) error {
				var names []string
				for _, one := range d {
					names = append(names, one.Key)
				}
				return f.drop(names)
			},
			tags: func(_ context.Context, tags []string, _ bool) error { return f.drop(tags) },
			all:  f.dropAll,
		}.do,
		Fleet:   retry.Fleet{ServerOf: func(key string) string { return key[:1] }, DropAllOf: f.dropAllOf},
		Timeout: time.Second, MaxKeys: 100,
	})
}

// blocked returns which of keys of both servers are blocked.
func blocked(q *retry.Queue) (keys []string) {
	for _, key := range []string{"a1", "b1"} {
		if q.Blocks(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestDropOfAServerBlocksItsKeysOnly makes a drop of everything pending on one server, or on
// all, of which one answers first.
func TestDropOfAServerBlocksItsKeysOnly(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, q := newFleet()
			defer q.Close(t.Context())
			f.set("a", true)
			if all {
				f.set("b", true)
				q.AddAll(false, retry.AtOnce)
				if got := blocked(q); !slices.Equal(got, []string{"a1", "b1"}) {
					t.Errorf("blocked: %v", got)
				}
				time.Sleep(10 * time.Second)
				f.set("b", false)
			} else {
				q.AddAll(false, retry.AtOnce, "a")
			}
			time.Sleep(10 * time.Second)
			if got := blocked(q); !slices.Equal(got, []string{"a1"}) || q.Len() != 1 {
				t.Errorf("blocked: %v, %d pending", got, q.Len())
			}
			f.set("a", false)
			time.Sleep(10 * time.Second)
			if got := blocked(q); len(got) > 0 || q.Len() != 0 || f.told["a"] != 1 || f.told["b"] > 1 {
				t.Errorf("blocked: %v, %d pending, told: %v", got, q.Len(), f.told)
			}
		})
	}
}

// TestConfirmedDropsOfAnAttemptAreNotPending has one of two servers dead, and tries drops of
// tags before drops of keys, or after them.
func TestConfirmedDropsOfAnAttemptAreNotPending(t *testing.T) {
	keys := func(q *retry.Queue) {
		q.Add([]remote.Drop{{Key: "a1"}, {Key: "b1"}, {Key: "a2"}, {Key: "b2"}}, retry.AtOnce)
		synctest.Wait()
	}
	tags := func(q *retry.Queue) {
		q.AddTags([]string{"at", "bt"}, false, retry.AtOnce)
		synctest.Wait()
	}
	for range 6 { // pauses are random
		for _, order := range [][]func(*retry.Queue){{keys, tags}, {tags, keys}} {
			confirmedOfAnAttempt(t, order)
		}
	}
}

func confirmedOfAnAttempt(t *testing.T, add []func(*retry.Queue)) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFleet()
		defer q.Close(t.Context())
		f.set("a", true)
		for _, add := range add {
			add(q)
		}
		time.Sleep(900 * time.Millisecond) // in the bubble: a few attempts
		if q.Len() != 3 || q.Blocks("b1") || q.Blocks("b2") || !q.Blocks("a1") || q.BlocksTags([]string{"bt"}, q.Collapses()) || !q.BlocksTags([]string{"at"}, q.Collapses()) {
			t.Errorf("%d are pending", q.Len())
		}
		if f.keys["b1"] != 1 || f.keys["b2"] != 1 || f.keys["bt"] != 1 {
			t.Errorf("dropped: %v", f.keys)
		}
		f.set("a", false)
		time.Sleep(10 * time.Second)
		if q.Len() != 0 || f.keys["a1"] != 1 || f.keys["at"] != 1 {
			t.Errorf("%d are pending, dropped: %v", q.Len(), f.keys)
		}
	})
}

// TestDropOfAServerThatIsGivenUpIsLost closes a queue while the server is dead.
func TestDropOfAServerThatIsGivenUpIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFleet()
		f.set("a", true)
		q.AddAll(true, retry.AtOnce, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if lost := q.Close(ctx); !lost.All || lost.Drops() != 1 || remote.FailedServer(lost.Err) != "a" {
			t.Errorf("%+v", lost)
		}
	})
}
