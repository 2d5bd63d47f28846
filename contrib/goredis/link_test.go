package goredis_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strata-cache/strata/contrib/goredis"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/remote"
)

// silent lets the model server take commands and answer none until the returned
// function is called.
func silent(s *fakes.Redis, names ...string) (answer func()) {
	gate := make(chan struct{})
	for _, name := range names {
		s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) {
			<-gate
			ss.Int(1)
		})
	}
	return func() { close(gate) }
}

func TestCallEndsWithItsContextAlsoIfGoRedisGoesOn(t *testing.T) {
	const deadline, left = 100 * time.Millisecond, 30 * time.Millisecond
	for _, enabled := range []bool{false, true} {
		fake(t, func(_ *fakes.Redis, o *redis.Options) { o.ContextTimeoutEnabled = enabled }, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
			tier := bind(t, rdb)
			mustGet(t, tier)
			defer silent(s, "EVALSHA", "HMGET")()
			for name, op := range map[string]func(context.Context) error{
				"one script": func(ctx context.Context) error { return drop(ctx, tier, "k") },
				"several":    func(ctx context.Context) error { return drop(ctx, tier, "k", "l") },
				"a read":     func(ctx context.Context) error { _, err := get(ctx, tier, "k"); return err },
			} {
				if took, err := leave(t, op, deadline, time.Hour); took != deadline || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s with a deadline at %v: %v after %v", name, deadline, err, took)
				}
				if took, err := leave(t, op, 0, left); took != left || !errors.Is(err, context.Canceled) {
					t.Errorf("%s cancelled at %v: %v after %v", name, left, err, took)
				}
				want := left
				if enabled {
					want = deadline // go-redis looks at that and at nothing else
				}
				if took, err := leave(t, op, deadline, left); took != want || !errors.Is(err, context.Canceled) {
					t.Errorf("%s with a deadline at %v cancelled at %v: %v after %v", name, deadline, left, err, took)
				}
			}
		})
	}
}

// leave calls op with a context that has a deadline, unless deadline is zero, and cancels the
// context after the duration cancelled. It returns the duration of the call.
func leave(t *testing.T, op func(context.Context) error, deadline, cancelled time.Duration) (took time.Duration, err error) {
	t.Helper()
	ctx := t.Context()
	if deadline > 0 {
		ctx = kit.Within(t, deadline)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(cancelled, cancel).Stop()
	start := time.Now()
	err = op(ctx)
	return time.Since(start), err
}

// TestStalledServerHoldsNoMoreGoroutinesThanConnections has a hundred callers
// wait in vain.
func TestStalledServerHoldsNoMoreGoroutinesThanConnections(t *testing.T) {
	const size = 3
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.PoolSize = size }, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		mustGet(t, tier)
		answer := silent(s, "EVALSHA")
		for range 100 {
			if err := drop(kit.Within(t, time.Millisecond), tier, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := goroutines("goredis.link.start in goroutine"); n != size {
			t.Errorf("%d goroutines are left behind; want one for each of %d connections", n, size)
		}
		if n := s.Calls("EVALSHA"); n != size {
			t.Errorf("%d scripts were sent; want one on each of %d connections", n, size)
		}
		answer()
		synctest.Wait()
		if err := drop(kit.Within(t, time.Second), tier, "k"); err != nil {
			t.Errorf("once the server answers: %v", err)
		}
	})
}

func TestCommandThatMayHaveBeenExecutedIsNotSentAgain(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.MaxRetries = 5 }, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		mustGet(t, tier)
		s.Handle("EVALSHA", func(ss *fakes.RedisSession, _ [][]byte) { ss.Hangup() })
		put := remote.Put{Key: "k", Left: time.Hour, Lease: remote.Lease{Token: 7, State: "e.0.0"}}
		before := s.Calls("EVALSHA")
		if _, err := tier.Put(t.Context(), []remote.Put{put}); err == nil {
			t.Error("a put without an answer returned nil")
		}
		if n := s.Calls("EVALSHA") - before; n != 1 {
			t.Errorf("a put was sent %d times", n)
		}
		before = s.Calls("EVALSHA")
		if _, err := tier.Put(t.Context(), []remote.Put{put, put}); err == nil {
			t.Error("two puts without an answer returned nil")
		}
		if n := s.Calls("EVALSHA") - before; n != 1 {
			t.Errorf("the first of two puts was sent %d times", n)
		}
	})
}

func TestReadIsSentOnceMoreIfTheConnectionWasLost(t *testing.T) {
	for _, keys := range [][]string{{"k"}, {"k", "l"}} {
		fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
			tier := bind(t, rdb)
			warm(t, tier)
			s.Handle("HMGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Hangup() })
			before := s.Calls("HMGET")
			if _, err := tier.Get(t.Context(), keys); err == nil {
				t.Errorf("a read of %v without an answer returned nil", keys)
			}
			if n := s.Calls("HMGET") - before; n != 2 {
				t.Errorf("a read of %v was sent %d times; want 2", keys, n)
			}
		})
	}
}

// TestReadIsNotSentAgainAfterATimeout of go-redis: the server is slow, and the
// connection was not lost.
func TestReadIsNotSentAgainAfterATimeout(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.ReadTimeout = time.Second }, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		warm(t, tier)
		before := s.Calls("HMGET")
		defer silent(s, "HMGET")()
		start := time.Now()
		if _, err := get(t.Context(), tier, "k"); err == nil {
			t.Error("no error")
		}
		if took, n := time.Since(start), s.Calls("HMGET")-before; took != time.Second || n != 1 {
			t.Errorf("sent %d times in %v; want once in 1s", n, took)
		}
	})
}

// TestTalkIsWithOneServer has a connection opened, as after a failover, while
// the first of two questions of one operation is answered. The second could go
// to another server. Its reply must not be judged by the state of the first.
func TestTalkIsWithOneServer(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		var asked []string
		var over []*fakes.RedisSession
		meanwhile := func() {}
		s.Script(layout.Namespace(), func(ss *fakes.RedisSession, args [][]byte) {
			asked, over = append(asked, "state"), append(over, ss)
			namespaceState(ss, args)
			meanwhile()
		})
		s.Script(layout.Acquire, func(ss *fakes.RedisSession, _ [][]byte) {
			asked, over = append(asked, "lease"), append(over, ss)
			ss.Int(1)
		})
		tier := bind(t, rdb)
		acquire := func() {
			t.Helper()
			tier.Recheck()
			time.Sleep(time.Millisecond)
			asked, over = nil, nil
			if _, _, err := kit.Acquire(t.Context(), tier, "k", time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		acquire()
		acquire()
		if want := []string{"state", "lease"}; !slices.Equal(asked, want) {
			t.Fatalf("asked for %v; want %v", asked, want)
		}
		meanwhile = func() { rdb.Ping(context.Background()) } // the only connection is taken
		acquire()
		if want := []string{"state", "lease", "state", "lease"}; !slices.Equal(asked, want) {
			t.Errorf("asked for %v; want %v", asked, want)
		} else if over[2] != over[3] {
			t.Error("the second time over two connections")
		}
	})
}

// TestWatchedKeysAreNotLeftOnAConnection lets a caller leave while a
// transaction is under way.
func TestWatchedKeysAreNotLeftOnAConnection(t *testing.T) {
	fake(t, func(_ *fakes.Redis, o *redis.Options) { o.PoolSize = 1 }, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		watching := map[*fakes.RedisSession]bool{}
		noScripts(s)
		s.Handle("WATCH", func(ss *fakes.RedisSession, _ [][]byte) {
			watching[ss] = true
			time.Sleep(time.Second) // in a bubble
			ss.Status("OK")
		})
		s.Handle("UNWATCH", func(ss *fakes.RedisSession, _ [][]byte) {
			delete(watching, ss)
			ss.Status("OK")
		})
		tier := bind(t, rdb)
		if err := tier.Release(kit.Within(t, 10*time.Millisecond), "k", remote.Lease{Token: 7}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err := rdb.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if n := s.Calls("WATCH"); n != 1 || len(watching) != 0 {
			t.Errorf("%d WATCH, and %d connections that watch still; want 1, 0", n, len(watching))
		}
	})
}

// TestScriptThatIsNotKnownIsRunOnce though its text follows over a newer connection.
func TestScriptThatIsNotKnownIsRunOnce(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		ran := 0
		s.Script(layout.DropAll(), func(ss *fakes.RedisSession, args [][]byte) {
			ran++
			namespaceState(ss, args)
		})
		if err := bind(t, rdb).DropAll(t.Context(), false); err != nil || ran != 1 {
			t.Errorf("everything was dropped %d times, %v; want once", ran, err)
		}
	})
}

// TestConnectionOfATalkIsUsedAgain checks that the next talk does not open
// another one.
func TestConnectionOfATalkIsUsedAgain(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		noScripts(s)
		tier := bind(t, rdb)
		for range 20 {
			if err := tier.Release(t.Context(), "k", remote.Lease{Token: 7}); err != nil {
				t.Fatal(err)
			}
		}
		// The first one has learnt over another that scripts are not permitted.
		if n := s.Dials(); n > 2 {
			t.Errorf("%d connections for one caller", n)
		}
	})
}

// noScripts makes the model server one that permits no scripts, and holds
// nothing.
func noScripts(s *fakes.Redis) {
	for _, name := range []string{"EVAL", "EVALSHA"} {
		s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Error("NOPERM this user has no permissions to run the 'eval' command")
		})
	}
	for _, name := range []string{"WATCH", "UNWATCH"} {
		s.Handle(name, func(ss *fakes.RedisSession, _ [][]byte) { ss.Status("OK") })
	}
	s.Handle("HMGET", func(ss *fakes.RedisSession, _ [][]byte) {
		ss.Out = resp.AppendArray(ss.Out, 2)
		ss.Null()
		ss.Null()
	})
	s.Handle("PTTL", func(ss *fakes.RedisSession, _ [][]byte) { ss.Int(-2) })
	s.Handle("TIME", func(ss *fakes.RedisSession, _ [][]byte) {
		ss.Out = resp.AppendArray(ss.Out, 2)
		ss.Bulk("1")
		ss.Bulk("0")
	})
}

func TestPanicOfAHookIsAnError(t *testing.T) {
	fake(t, nil, func(t *testing.T, _ *fakes.Redis, rdb *redis.Client) {
		tier := bind(t, rdb)
		mustGet(t, tier)
		rdb.AddHook(panics{})
		if _, err := get(t.Context(), tier, "k"); err == nil {
			t.Error("no error")
		}
		if err := drop(t.Context(), tier, "k", "l"); err == nil {
			t.Error("no error of a pipeline")
		}
	})
}

type panics struct{}

func (panics) DialHook(next redis.DialHook) redis.DialHook { return next }

func (panics) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { panic("hook") }
}

func (panics) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { panic("hook") }
}

// TestConnectionLeftInATransactionIsNotUsedAgain: a server that refuses an EXEC goes on to take commands for a part
// of the transaction, as old ones do, and all to whose users it is forbidden.
func TestConnectionLeftInATransactionIsNotUsedAgain(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, rdb *redis.Client){
		"Tier": func(t *testing.T, rdb *redis.Client) {
			if err := drop(t.Context(), bind(t, rdb), "k"); err == nil {
				t.Error("a drop was confirmed without a transaction")
			}
		},
		"Bus": func(t *testing.T, rdb *redis.Client) {
			_, stop := follow(t, rdb)
			synctest.Wait()
			stop()
		},
	} {
		for _, text := range []string{"OOM command not allowed when used memory > 'maxmemory'.", "NOPERM this user has no permissions to run the 'exec' command"} {
			t.Run(name+" "+text[:4], func(t *testing.T) {
				leftInATransaction(t, text, true, use)
				leftInATransaction(t, text, false, use)
			})
		}
	}
}

// leftInATransaction has a server refuse each EXEC, and DISCARD unless discards is set, and reads a missing key after use.
func leftInATransaction(t *testing.T, text string, discards bool, use func(t *testing.T, rdb *redis.Client)) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		noScripts(s)
		s.Handle("HGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Null() })
		s.Handle("EXEC", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error(text) })
		if !discards {
			s.Handle("DISCARD", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("NOPERM 'discard'") })
		}
		use(t, rdb)
		if n := s.Calls("EXEC"); n == 0 {
			t.Error("no EXEC was sent")
		}
		for range 5 {
			if v, err := rdb.Get(t.Context(), "n").Result(); err != redis.Nil {
				t.Errorf("a missing key has %q, %v", v, err)
			}
			replies, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Get(t.Context(), "n")
				return nil
			})
			if err != redis.Nil {
				t.Errorf("a pipeline has %v, %v", replies, err)
			}
		}
	})
}

// TestCallEndsWithItsContextAlsoIfItsTransactionCannotBeEnded: the server refuses the EXEC, and does not answer
// DISCARD.
func TestCallEndsWithItsContextAlsoIfItsTransactionCannotBeEnded(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		noScripts(s)
		s.Handle("HGET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Null() })
		s.Handle("EXEC", func(ss *fakes.RedisSession, _ [][]byte) { ss.Error("OOM command not allowed") })
		s.Handle("DISCARD", func(*fakes.RedisSession, [][]byte) {})
		tier := bind(t, rdb)
		start := time.Now()
		if err := drop(kit.Within(t, time.Second), tier, "k"); err == nil || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if v, err := rdb.Get(t.Context(), "n").Result(); err != redis.Nil {
			t.Errorf("a missing key has %q, %v", v, err)
		}
	})
}

// TestMessageWithoutANumberAsItsAnswerIsNotPublished: in a transaction it is only queued.
func TestMessageWithoutANumberAsItsAnswerIsNotPublished(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, rdb *redis.Client) {
		s.Handle("PUBLISH", func(ss *fakes.RedisSession, _ [][]byte) { ss.Status("QUEUED") })
		bus, err := goredis.NewBus(rdb)
		if err != nil {
			t.Fatal(err)
		}
		if err := bus.Publish(t.Context(), []remote.Message{{Name: "n", Kind: remote.Beat}}); err == nil {
			t.Error("a queued message counts as published")
		}
	})
}
