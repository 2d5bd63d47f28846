package retry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/cache/retry"
	"github.com/strata-cache/strata/remote"
)

// target is a tier that can be down.
type target struct {
	mu    sync.Mutex
	down  bool
	drops map[string]remote.Drop
	calls int
	all   int
}

func (s *target) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *target) drop(_ context.Context, ds []remote.Drop) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.down {
		return errors.New("down")
	}
	for _, d := range ds {
		s.drops[d.Key] = d
	}
	return nil
}

func (s *target) dropTags(_ context.Context, tags []string, soft bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.down {
		return errors.New("down")
	}
	for _, t := range tags {
		s.drops["#"+t] = remote.Drop{Key: t, Soft: soft}
	}
	return nil
}

func (s *target) dropAll(_ context.Context, soft bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.down {
		return errors.New("down")
	}
	if soft {
		s.drops["*"] = remote.Drop{Soft: true}
	} else {
		s.all++
	}
	return nil
}

func (s *target) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *target) seen() (map[string]remote.Drop, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.drops), s.all
}

// giveUp closes q without further attempts.
func giveUp(q *retry.Queue) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	q.Close(ctx)
}

// each carries out attempts by a function for each kind.
type each struct {
	keys func(context.Context, []remote.Drop) error
	tags func(context.Context, []string, bool) error
	all  func(context.Context, bool) error
	puts func(context.Context, []remote.Put) error
}

func (e each) do(ctx context.Context, a retry.Attempt) error {
	switch {
	case a.All:
		return e.all(ctx, a.Soft)
	case len(a.Tags) > 0:
		return e.tags(ctx, a.Tags, a.Soft)
	case len(a.Drops) > 0:
		return e.keys(ctx, a.Drops)
	}
	return e.puts(ctx, a.Puts)
}

func newQueue(s *target) *retry.Queue {
	s.drops = map[string]remote.Drop{}
	return retry.New(retry.Options{Do: each{keys: s.drop, tags: s.dropTags, all: s.dropAll}.do, Timeout: time.Second, MaxKeys: 1000})
}

func TestPendingDropBlocksItsKeyUntilItIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		defer giveUp(q)
		q.Add([]remote.Drop{{Key: "a"}, {Key: "b", Soft: true}}, retry.Later)
		time.Sleep(20 * time.Second)
		if !q.Blocks("a") || !q.Blocks("b") || q.Blocks("c") || q.Len() != 2 {
			t.Errorf("blocks a %v, b %v, c %v, len %d; want true, true, false, 2", q.Blocks("a"), q.Blocks("b"), q.Blocks("c"), q.Len())
		}
		if s.calls > 20 {
			t.Errorf("%d attempts in 20 s: no pause", s.calls)
		}
		s.set(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		drops, _ := s.seen()
		if len(drops) != 2 || drops["a"].Soft || !drops["b"].Soft {
			t.Errorf("carried out: %v", drops)
		}
		if q.Blocks("a") || q.Len() != 0 {
			t.Error("still blocked")
		}
	})
}

func TestStrongestDropOfAKeyCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		defer giveUp(q)
		q.Add([]remote.Drop{{Key: "k", Hold: time.Minute}}, retry.Later)
		q.Add([]remote.Drop{{Key: "k", Soft: true, Hold: time.Second}}, retry.Later)
		s.set(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		drops, _ := s.seen()
		if d := drops["k"]; d.Soft || d.Hold < 50*time.Second || d.Hold > time.Minute {
			t.Errorf("carried out %+v; want hard, with the rest of the minute", d)
		}
	})
}

func TestTooManyKeysBecomeOneDropOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		defer giveUp(q)
		for i := range 1001 {
			q.Add([]remote.Drop{{Key: fmt.Sprint(i)}}, retry.Later)
		}
		if !q.Blocks("never added") || q.Len() != 1 {
			t.Errorf("blocks others %v, len %d; want true, 1", q.Blocks("never added"), q.Len())
		}
		s.set(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if drops, all := s.seen(); all != 1 || len(drops) != 0 {
			t.Errorf("%d drops of everything, %d of keys; want 1, 0", all, len(drops))
		}
	})
}

func TestOldDropIsStillADropOfItsKeyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		defer giveUp(q)
		q.Add([]remote.Drop{{Key: "k"}}, retry.Later)
		q.AddTags([]string{"t"}, true, retry.Later)
		time.Sleep(24 * time.Hour)
		if q.Blocks("another") || q.Len() != 2 {
			t.Errorf("blocks another key %v, %d pending; want false, 2", q.Blocks("another"), q.Len())
		}
		s.set(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if drops, all := s.seen(); all != 0 || len(drops) != 2 || q.Len() != 0 {
			t.Errorf("%d drops of everything, %d others, %d pending; want 0, 2, 0", all, len(drops), q.Len())
		}
	})
}

func TestDropThatAlwaysFailsHoldsUpNoOther(t *testing.T) {
	for _, stuck := range []string{"a key", "a tag", "everything"} {
		synctest.Test(t, func(t *testing.T) {
			s := &target{drops: map[string]remote.Drop{}}
			bad := errors.New("not this one")
			q := retry.New(retry.Options{
				Do: each{
					keys: func(ctx context.Context, ds []remote.Drop) error {
						for _, d := range ds {
							if d.Key == "stuck" {
								return bad
							}
						}
						return s.drop(ctx, ds)
					},
					tags: func(ctx context.Context, tags []string, soft bool) error {
						for _, tag := range tags {
							if tag == "stuck" {
								return bad
							}
						}
						return s.dropTags(ctx, tags, soft)
					},
					all: func(ctx context.Context, soft bool) error { return bad },
				}.do,
				Timeout: time.Second, MaxKeys: 1000,
			})
			defer giveUp(q)
			switch stuck {
			case "a key":
				q.Add([]remote.Drop{{Key: "stuck"}}, retry.Later)
			case "a tag":
				q.AddTags([]string{"stuck"}, false, retry.Later)
			default:
				q.AddAll(true, retry.Later)
			}
			for i := range 300 {
				q.Add([]remote.Drop{{Key: fmt.Sprint(i)}}, retry.Later)
				q.AddTags([]string{fmt.Sprint(i)}, false, retry.Later)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if drops, _ := s.seen(); len(drops) != 600 || q.Len() != 1 {
				t.Errorf("%s is stuck: %d of 600 others carried out, %d pending; want all, 1", stuck, len(drops), q.Len())
			}
		})
	}
}

func TestDropIsTriedAtOnceUnlessOthersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{}
		q := newQueue(s)
		defer giveUp(q)
		q.Add([]remote.Drop{{Key: "a"}}, retry.AtOnce)
		synctest.Wait()
		if q.Len() != 0 {
			t.Error("a drop whose caller has left waits")
		}
		s.set(true)
		q.Add([]remote.Drop{{Key: "b"}}, retry.Later)
		time.Sleep(10 * time.Second)
		calls := s.attempts()
		for i := range 100 {
			q.Add([]remote.Drop{{Key: fmt.Sprint(i)}}, retry.AtOnce)
			synctest.Wait()
		}
		if n := s.attempts() - calls; n != 0 {
			t.Errorf("%d attempts at once while attempts fail, want none", n)
		}
	})
}

func TestDropThatGotStrongerDuringAnAttemptIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{}
		var q *retry.Queue
		first := true
		q = retry.New(retry.Options{
			Do: each{
				keys: func(ctx context.Context, d []remote.Drop) error {
					if first { // meanwhile the expired key is invalidated
						first = false
						q.Add([]remote.Drop{{Key: "k"}}, retry.Later)
					}
					return s.drop(ctx, d)
				},
				all: s.dropAll,
			}.do, Timeout: time.Second, MaxKeys: 10,
		})
		s.drops = map[string]remote.Drop{}
		defer giveUp(q)
		q.Add([]remote.Drop{{Key: "k", Soft: true}}, retry.Later)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if drops, _ := s.seen(); drops["k"].Soft || q.Len() != 0 {
			t.Errorf("last drop %+v, %d pending; want a hard one, 0", drops["k"], q.Len())
		}
	})
}

func TestDropThatComesDuringADropOfEverythingIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{drops: map[string]remote.Drop{}}
		var q *retry.Queue
		all := 0
		q = retry.New(retry.Options{
			Do: each{keys: s.drop, all: func(context.Context, bool) error {
				if all++; all == 1 {
					q.Add([]remote.Drop{{Key: "k"}}, retry.Later)
				}
				return nil
			}}.do,
			Timeout: time.Second, MaxKeys: 10,
		})
		defer giveUp(q)
		q.AddAll(false, retry.Later)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if drops, _ := s.seen(); all < 2 && len(drops) == 0 {
			t.Errorf("%d drops of everything and %d of keys: the late one is lost", all, len(drops))
		}
	})
}

func TestClosedQueueTriesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		q.Add([]remote.Drop{{Key: "k"}}, retry.Later)
		giveUp(q)
		calls := s.calls
		if q.Add([]remote.Drop{{Key: "k"}}, retry.Later) || q.AddAll(false, retry.Later) || q.AddTags([]string{"t"}, false, retry.AtOnce) {
			t.Error("drops are taken by a queue that is closed")
		}
		time.Sleep(time.Minute)
		if s.calls != calls {
			t.Error("tried after Close")
		}
	})
}

func TestCloseTriesUntilItsContextEndsAndReportsLostDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		q.Add([]remote.Drop{{Key: "a"}, {Key: "b"}}, retry.Later)
		q.AddTags([]string{"t"}, false, retry.Later)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start, calls := time.Now(), s.attempts()
		l := q.Close(ctx)
		if took, n := time.Since(start), s.attempts()-calls; took != 5*time.Second || n < 20 {
			t.Errorf("it took %v and %d attempts; want 5s and one every 200 ms at least", took, n)
		}
		if l.Keys != 2 || l.Tags != 1 || l.All || l.Drops() != 3 || len(l.Names) != 3 || l.Err == nil || l.Err.Error() != "down" {
			t.Errorf("lost %+v; want two keys and a tag, because it is down", l)
		}
		if again := q.Close(t.Context()); again.Drops() != 3 {
			t.Errorf("closed again: lost %+v, want the same", again)
		}
	})
}

func TestCloseEndsWhenNothingIsPendingAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{}
		idle := newQueue(s)
		start := time.Now()
		if l := idle.Close(t.Context()); l.Drops() != 0 || time.Since(start) != 0 {
			t.Errorf("nothing was pending: lost %+v after %v", l, time.Since(start))
		}
		s.set(true)
		q := newQueue(s)
		q.Add([]remote.Drop{{Key: "a"}}, retry.Later)
		q.AddAll(false, retry.Later)
		time.AfterFunc(time.Second, func() { s.set(false) })
		if l := q.Close(t.Context()); l.Drops() != 0 || time.Since(start) > 1300*time.Millisecond {
			t.Errorf("it is back after a second: lost %+v after %v", l, time.Since(start))
		}
		if _, all := s.seen(); all != 1 {
			t.Errorf("%d drops of everything, want 1", all)
		}
	})
}

func TestPendingTagBlocksItsEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		defer giveUp(q)
		q.AddTags([]string{"a"}, true, retry.Later)
		q.AddTags([]string{"a", "b"}, false, retry.Later)
		q.AddTags([]string{"b", "c"}, true, retry.Later)
		if !q.BlocksTags([]string{"x", "a"}, 0) || q.BlocksTags([]string{"x"}, 0) || q.BlocksTags(nil, 0) || q.Blocks("a") || q.Len() != 3 {
			t.Errorf("blocks a %v, x %v, none %v, the key a %v, len %d", q.BlocksTags([]string{"x", "a"}, 0), q.BlocksTags([]string{"x"}, 0), q.BlocksTags(nil, 0), q.Blocks("a"), q.Len())
		}
		s.set(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		drops, _ := s.seen()
		if len(drops) != 3 || drops["#a"].Soft || drops["#b"].Soft || !drops["#c"].Soft || q.Len() != 0 {
			t.Errorf("carried out %v, %d pending; want a and b hard, c soft", drops, q.Len())
		}
	})
}

func TestTagDropReplacedByADropOfEverythingBlocksEarlierRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		defer giveUp(q)
		q.AddTags([]string{"a"}, true, retry.Later)
		before := q.Collapses()
		q.AddAll(false, retry.Later)
		for _, state := range []string{"pending", "carried out"} {
			if !q.BlocksTags([]string{"a"}, before) || q.BlocksTags(nil, before) || q.BlocksTags([]string{"a"}, q.Collapses()) {
				t.Errorf("everything %s: blocks requests from before %v, without tags %v, later ones %v; want true, false, false", state,
					q.BlocksTags([]string{"a"}, before), q.BlocksTags(nil, before), q.BlocksTags([]string{"a"}, q.Collapses()))
			}
			s.set(false)
			time.Sleep(10 * time.Second)
		}
		if q.Len() != 0 {
			t.Errorf("%d pending, want 0", q.Len())
		}
	})
}

func TestSoftDropOfEverythingLeavesHardOnesPending(t *testing.T) {
	for _, last := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &target{down: true}
			q := newQueue(s)
			defer giveUp(q)
			if last {
				q.AddAll(true, retry.Later)
			}
			q.Add([]remote.Drop{{Key: "hard"}}, retry.Later)
			q.Add([]remote.Drop{{Key: "held", Soft: true, Hold: time.Minute}}, retry.Later)
			q.AddTags([]string{"t"}, false, retry.Later)
			if !last {
				q.AddAll(true, retry.Later)
			}
			s.set(false)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			drops, all := s.seen()
			_, hard := drops["hard"]
			_, tag := drops["#t"]
			if !drops["*"].Soft || !hard || !tag || drops["held"].Hold == 0 || all != 0 || q.Len() != 0 {
				t.Errorf("added last %v: carried out %v, %d hard drops of everything", last, drops, all)
			}
		})
	}
}

func TestHoldsStayPendingBesideADropOfEverythingAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target{down: true}
		q := newQueue(s)
		defer giveUp(q)
		q.Add([]remote.Drop{{Key: "before", Hold: time.Minute}, {Key: "over", Hold: time.Second}, {Key: "plain"}}, retry.Later)
		time.Sleep(time.Second)
		q.AddAll(false, retry.Later)
		q.Add([]remote.Drop{{Key: "after", Hold: time.Minute}, {Key: "covered"}}, retry.Later)
		if q.Len() != 3 {
			t.Errorf("%d pending, want everything and two holds", q.Len())
		}
		s.set(false)
		time.Sleep(20 * time.Second)
		drops, all := s.seen()
		if all != 1 || len(drops) != 2 || drops["before"].Hold < 30*time.Second || drops["after"].Hold < 30*time.Second {
			t.Errorf("carried out %v and %d drops of everything, want one and the rest of two holds", drops, all)
		}
		s.set(true)
		for i := range 5000 {
			q.Add([]remote.Drop{{Key: fmt.Sprint(i), Hold: time.Hour}}, retry.Later)
		}
		if n := q.Len(); n < 500 || n > 1001 {
			t.Errorf("%d pending, want as many holds as there is room for, and everything", n)
		}
	})
}
