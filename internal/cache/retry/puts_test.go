package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/retry"
	"github.com/strata-cache/strata/remote"
)

// TestPutOfNothingIsTriedUntilItIsDone: it blocks its key like a drop, keeps its token, and stands
// beside drops of other keys. A drop of the same key takes its place, in either order.
func TestPutOfNothingIsTriedUntilItIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{drops: map[string]remote.Drop{}, down: true}
		puts := map[string]remote.Put{}
		q := retry.New(retry.Options{
			Timeout: time.Second, MaxKeys: 100,
			Do: each{keys: s.drop, tags: s.dropTags, all: s.dropAll, puts: func(_ context.Context, ps []remote.Put) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.down {
					return errors.New("down")
				}
				for _, p := range ps {
					puts[p.Key] = p
				}
				return nil
			}}.do,
		})
		nothing := func(key string, token uint64) []remote.Put {
			return []remote.Put{{Key: key, Lease: remote.Lease{Token: token, Quiet: true}}}
		}
		q.AddPuts(nothing("a", 2), retry.Later)
		q.AddPuts(nothing("a", 4), retry.Later)
		q.AddPuts(nothing("first", 6), retry.Later)
		q.Add([]remote.Drop{{Key: "first", Soft: true}, {Key: "then"}}, retry.Later)
		q.AddPuts(nothing("then", 8), retry.Later)
		time.Sleep(time.Minute)
		if !q.Blocks("a") || q.Len() != 3 {
			t.Errorf("%d are pending, and a is blocked: %v; want 3, true", q.Len(), q.Blocks("a"))
		}
		s.set(false)
		time.Sleep(time.Minute)
		if q.Len() != 0 || q.Blocks("a") {
			t.Errorf("%d are pending after all, a is blocked: %v", q.Len(), q.Blocks("a"))
		}
		if p := puts["a"]; len(puts) != 1 || p.Lease.Token != 4 || !p.Lease.Quiet || !p.Drops || p.Left != 0 {
			t.Errorf("puts %+v; want nothing put under the token 4 of a", puts)
		}
		if drops, _ := s.seen(); len(drops) != 2 || drops["first"].Soft {
			t.Errorf("drops %+v; want hard ones of the other two", drops)
		}
		q.Close(t.Context())
		if q.AddPuts(nothing("a", 2), retry.AtOnce) {
			t.Error("a closed queue has taken a put")
		}
	})
}
