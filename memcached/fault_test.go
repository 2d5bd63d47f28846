package memcached_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/memcached"
)

// calls are calls that read, with the value of the key "k" in their results.
var calls = map[string]func(ctx context.Context, c *memcached.Client) (string, error){ // read-only
	"AppendGet": func(ctx context.Context, c *memcached.Client) (string, error) { return get(ctx, c, "k") },
	"Get": func(ctx context.Context, c *memcached.Client) (string, error) {
		item, err := c.Get(ctx, "k")
		return string(item.Value), err
	},
	"GetAndTouch": func(ctx context.Context, c *memcached.Client) (string, error) {
		item, err := c.GetAndTouch(ctx, "k", time.Hour)
		return string(item.Value), err
	},
	"GetTo": func(ctx context.Context, c *memcached.Client) (string, error) {
		var b strings.Builder
		_, err := c.GetTo(ctx, "k", &b)
		if err != nil {
			return "", err // a part of the value
		}
		return b.String(), err
	},
	"GetMany": func(ctx context.Context, c *memcached.Client) (string, error) {
		items, err := c.GetMany(ctx, []string{"a", "k", "z"})
		if it, ok := items["k"]; ok && err == nil {
			return string(it.Value), nil
		}
		return "", err
	},
	"Set": func(ctx context.Context, c *memcached.Client) (string, error) {
		return "own", c.Set(ctx, memcached.Item{Key: "k", Value: []byte("own")})
	},
	"SetMany": func(ctx context.Context, c *memcached.Client) (string, error) {
		return "own", c.SetMany(ctx, []memcached.Item{{Key: "k", Value: []byte("own")}, {Key: "l", Value: make([]byte, 20_000)}})
	},
	"Ping": func(ctx context.Context, c *memcached.Client) (string, error) { return "own", c.Ping(ctx) },
}

// hostile makes every call with a server that answers by reply, while the gate
// is on, and checks that no call gets foreign bytes.
func hostile(t *testing.T, g fakes.Generation, reply func(ss *fakes.MemcachedSession, c *meta.Command)) {
	t.Helper()
	for name, call := range calls {
		on := false
		change := func(s *fakes.Memcached, _ *memcached.Options) {
			s.Generation = g
			s.Gate = func(ss *fakes.MemcachedSession, c *meta.Command) bool {
				if on {
					reply(ss, c)
				}
				return on
			}
		}
		fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
			mustSet(t, c, "k", "own")
			on = true
			v, err := call(kit.Within(t, time.Second), c)
			var refused *memcached.ServerError
			var ce *memcached.ConnError
			if !errors.As(err, &ce) && !errors.As(err, &refused) || v != "" && v != "own" {
				t.Errorf("%s: %q, %v", name, v, err)
			}
			on = false
			if v, err := get(t.Context(), c, "k"); v != "own" || err != nil {
				t.Errorf("after %s: %q, %v", name, v, err)
			}
			synctest.Wait()
			if n := c.PoolStats().Open; s.Open() != n || n > 2 || c.PoolStats().Broken == 0 && s.Dials() == n {
				t.Errorf("%s: a connection is kept: %d are open, %+v", name, s.Open(), c.PoolStats())
			}
		})
	}
}

// wrong appends a reply to another command.
func wrong(ss *fakes.MemcachedSession, c *meta.Command) {
	switch c.Name {
	case "get", "gets", "gats":
		ss.Out = meta.AppendItem(ss.Out, "foreign", 0, 1, []byte("foreign"))
		ss.Line("END")
	case "mg":
		ss.Out = append(ss.Out, "VA 7 O999999 f0 c1\r\nforeign\r\n"...)
	case "ms":
		ss.Line("HD O999999")
	default:
		ss.Line("TOUCHED")
	}
}

// TestReplyToAnotherCommandReachesNoCall: the client closes the connection of such a reply.
func TestReplyToAnotherCommandReachesNoCall(t *testing.T) {
	for _, g := range []fakes.Generation{fakes.V1618, fakes.Old} {
		hostile(t, g, wrong)
	}
	// Flags that are no number, and none at all.
	for _, flags := range []string{"", " O", " Ox", " O-1", " O18446744073709551616", " O4294967297"} {
		hostile(t, fakes.V1618, func(ss *fakes.MemcachedSession, _ *meta.Command) {
			ss.Out = append(ss.Out, "VA 7"+flags+"\r\nforeign\r\n"...)
		})
	}
}

// TestErrorInTheMiddleClosesTheConnection: the place where the next reply begins is
// not known.
func TestErrorInTheMiddleClosesTheConnection(t *testing.T) {
	for _, line := range []string{"ERROR", "CLIENT_ERROR bad data chunk", "garbage", "VA 5"} {
		for _, g := range []fakes.Generation{fakes.V1618, fakes.Old} {
			hostile(t, g, func(ss *fakes.MemcachedSession, _ *meta.Command) {
				ss.Line(line)
				ss.Hangup()
			})
		}
	}
}

// TestCallsBehindAnErrorFail: they share the connection, and get nothing foreign.
func TestCallsBehindAnErrorFail(t *testing.T) {
	broken := false
	change := func(s *fakes.Memcached, _ *memcached.Options) {
		s.Gate = func(ss *fakes.MemcachedSession, c *meta.Command) bool {
			if c.Name == "mg" && string(c.Key) == "bad" && !broken {
				time.Sleep(10 * time.Millisecond) // in the bubble
				broken = true
				ss.Line("CLIENT_ERROR line too long")
				return true
			}
			return false
		}
	}
	fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		mustSet(t, c, "k", "own")
		var wg sync.WaitGroup
		wg.Go(func() {
			var refused *memcached.ServerError
			if _, err := get(t.Context(), c, "bad"); !errors.As(err, &refused) || refused.Code != "CLIENT_ERROR" {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 5 {
			wg.Go(func() {
				if v, err := get(t.Context(), c, "k"); v != "" || !errors.Is(err, memcached.ErrProtocol) {
					t.Errorf("%q, %v", v, err)
				}
			})
		}
		wg.Wait()
		if v, err := get(t.Context(), c, "k"); v != "own" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// TestEveryCutOfAConversationIsAnErrorOrTheRightAnswer: no call takes the part of a
// value for the whole, nor a part of a reply for another.
func TestEveryCutOfAConversationIsAnErrorOrTheRightAnswer(t *testing.T) {
	for _, g := range []fakes.Generation{fakes.V1618, fakes.Old} {
		for name, call := range calls {
			for cut := range 150 {
				change := func(s *fakes.Memcached, _ *memcached.Options) {
					s.Generation = g
					s.OnDial = func(n int, client *netsim.Conn) {
						if n == 0 {
							client.CutAfter(cut)
						}
					}
				}
				fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
					keep(t, s, "own")
					v, err := call(t.Context(), c)
					var ce *memcached.ConnError
					if err == nil && v != "own" || err != nil && !errors.As(err, &ce) {
						t.Errorf("%s, cut after %d bytes: %q, %v", name, cut, v, err)
					}
					for s.Dials() < 3 { // until one meets the cut
						call(t.Context(), c)
					}
					if v, err := call(t.Context(), c); v != "own" || err != nil {
						t.Errorf("%s after a cut after %d bytes: %q, %v", name, cut, v, err)
					}
				})
			}
		}
	}
}

// keep stores a value under "k" by a client of its own.
func keep(t *testing.T, s *fakes.Memcached, value string) {
	t.Helper()
	onDial := s.OnDial
	s.OnDial = nil
	c, err := memcached.New(memcached.Options{DialContext: s.Dial})
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, c, "k", value)
	c.Close()
	first := s.Dials()
	if onDial != nil {
		s.OnDial = func(n int, client *netsim.Conn) { onDial(n-first, client) }
	}
}

// TestServerThatHangsHoldsNoCallLongerThanItsTime: in the middle of a reply, too.
func TestServerThatHangsHoldsNoCallLongerThanItsTime(t *testing.T) {
	for name, call := range calls {
		for _, stall := range []int{0, 20, 70} {
			change := func(s *fakes.Memcached, _ *memcached.Options) {
				s.OnDial = func(_ int, client *netsim.Conn) { client.StallAfter(stall) }
			}
			fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
				start := time.Now()
				_, err := call(kit.Within(t, 300*time.Millisecond), c)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond {
					t.Errorf("%s, after %d bytes: %v after %v", name, stall, err, time.Since(start))
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				start = time.Now()
				_, err = call(ctx, c)
				if !errors.Is(err, context.Canceled) || time.Since(start) != 100*time.Millisecond {
					t.Errorf("%s, after %d bytes: %v after %v", name, stall, err, time.Since(start))
				}
				start = time.Now()
				_, err = call(t.Context(), c)
				if d := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) || d > 1200*time.Millisecond {
					t.Errorf("%s, after %d bytes: %v after %v", name, stall, err, d)
				}
			})
		}
	}
}

// TestBytesThatNoCallAskedForReachNone: they came while no reply was owed.
func TestBytesThatNoCallAskedForReachNone(t *testing.T) {
	for _, raw := range []string{"VA 7 O3\r\nforeign\r\n", "HD\r\n", "EN\r\n", "VALUE k 0 7\r\nforeign\r\nEND\r\n", "MN\r\n", "x"} {
		for name, call := range calls {
			fake(t, nil, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
				mustSet(t, c, "k", "own")
				s.Say(raw)
				synctest.Wait()
				if v, err := call(t.Context(), c); v != "own" || err != nil {
					t.Errorf("%s after %q: %q, %v", name, raw, v, err)
				}
			})
		}
	}
}

// TestRestartOfTheServerFailsNoRead: a dead connection is replaced.
func TestRestartOfTheServerFailsNoRead(t *testing.T) {
	for name, call := range calls {
		fake(t, nil, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
			for range 3 {
				mustSet(t, c, "k", "own")
				if _, err := c.GetMany(t.Context(), []string{"k"}); err != nil {
					t.Error(err)
				}
				s.Drop()
				if v, err := call(t.Context(), c); v != "own" || err != nil {
					t.Errorf("%s: %q, %v", name, v, err)
				}
			}
		})
	}
}

// TestReaderThatFailsStoresNothing: the server sees no whole command.
func TestReaderThatFailsStoresNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		boom := errors.New("boom")
		for _, size := range []int64{-1, 10, 100_000} {
			for name, r := range map[string]io.Reader{
				"fails":         io.MultiReader(strings.NewReader(strings.Repeat("x", 60_000)), iotest.ErrReader(boom)),
				"fails at once": iotest.ErrReader(boom),
				"panics":        io.MultiReader(strings.NewReader(strings.Repeat("x", 60_000)), panics{}),
			} {
				mustSet(t, c, "k", "own")
				err := func() (err error) {
					defer func() {
						if p := recover(); p != nil {
							err = boom
						}
					}()
					return c.SetFrom(t.Context(), memcached.Item{Key: "k"}, r, size)
				}()
				if size == 10 && !strings.Contains(name, "at once") {
					continue // it fails only after ten bytes, and no more are read
				}
				if v, got := get(t.Context(), c, "k"); !errors.Is(err, boom) || v != "own" || got != nil {
					t.Errorf("%s, size %d: %v; %q, %v", name, size, err, v, got)
				}
			}
		}
		short := strings.NewReader(strings.Repeat("x", 60_000))
		if err := c.SetFrom(t.Context(), memcached.Item{Key: "k"}, short, 60_001); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		synctest.Wait()
		if c.PoolStats().Open > 4 {
			t.Errorf("%+v", c.PoolStats())
		}
	})
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("reader") }

// TestWriterThatFailsEndsTheConnection: the rest of the value is not a reply.
func TestWriterThatFailsEndsTheConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		mustSet(t, c, "k", strings.Repeat("x", 300_000))
		boom := errors.New("boom")
		n, err := c.GetTo(t.Context(), "k", writerFunc(func(p []byte) (int, error) { return 5, boom }))
		if n != 5 || !errors.Is(err, boom) {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := c.GetTo(t.Context(), "k", writerFunc(func(p []byte) (int, error) { return 1, nil })); n != 1 || err != io.ErrShortWrite {
			t.Errorf("%d, %v", n, err)
		}
		mustSet(t, c, "k", "own")
		if v, err := get(t.Context(), c, "k"); v != "own" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestSlowStreamsTakeAsLongAsTheyMakeProgress: the timeout bounds each piece.
func TestSlowStreamsTakeAsLongAsTheyMakeProgress(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		start := time.Now()
		slow := iotest.HalfReader(readerFunc(func(p []byte) (int, error) {
			time.Sleep(700 * time.Millisecond) // in the bubble
			return len(p), nil
		}))
		if err := c.SetFrom(t.Context(), memcached.Item{Key: "k"}, slow, 200_000); err != nil {
			t.Error(err)
		}
		n, err := c.GetTo(t.Context(), "k", writerFunc(func(p []byte) (int, error) {
			time.Sleep(2 * time.Second) // in the bubble
			return len(p), nil
		}))
		if n != 200_000 || err != nil || time.Since(start) < 10*time.Second {
			t.Errorf("%d bytes, %v, in %v", n, err, time.Since(start))
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestRefusedItemsOfABatchAreNamed: the error has the items that the server names,
// or else all that the server may have meant.
func TestRefusedItemsOfABatchAreNamed(t *testing.T) {
	for name, want := range map[string]string{"1.6.18": "a b large", "old": "b large"} {
		change := func(s *fakes.Memcached, _ *memcached.Options) { s.Limit, s.Generation = 1000, generations[name] }
		fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
			err := c.SetMany(t.Context(), []memcached.Item{
				{Key: "a"},
				{Key: "b", Value: make([]byte, 1001)},
				{Key: "large", Value: make([]byte, 30_000)},
				{Key: "c"},
			})
			var failed *memcached.PartialError
			if !errors.As(err, &failed) || !errors.Is(err, memcached.ErrTooLarge) {
				t.Fatalf("%s: %v", name, err)
			}
			var got []string
			for _, key := range []string{"a", "b", "c", "large"} {
				if failed.Failed[key] != nil {
					got = append(got, key)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s: %q", name, got)
			}
			if s.Dials() > 3 {
				t.Errorf("%s: %d connections", name, s.Dials())
			}
		})
	}
}

// TestDeadServerFailsAllKeysOfABatch: with an error that tells why.
func TestDeadServerFailsAllKeysOfABatch(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		s.Stop()
		items, err1 := c.GetMany(t.Context(), []string{"a", "b"})
		err2 := c.SetMany(t.Context(), []memcached.Item{{Key: "a"}, {Key: "b"}})
		for _, err := range []error{err1, err2} {
			var failed *memcached.PartialError
			if !errors.As(err, &failed) || len(failed.Failed) != 2 || !errors.Is(err, netsim.ErrRefused) || !memcached.SafeToRetry(failed.Failed["a"]) || len(items) > 0 {
				t.Errorf("%v", err)
			}
		}
		s.Start()
		time.Sleep(time.Second) // in the bubble
		mustSet(t, c, "a", "own")
	})
}

// TestValueOverTheLimitFailsOtherCallsOnce: from its second read on, a value larger than the client accepts is read over
// a connection of its own.
func TestValueOverTheLimitFailsOtherCallsOnce(t *testing.T) {
	change := func(s *fakes.Memcached, o *memcached.Options) {
		o.MaxValue = 100
		s.Gate = func(*fakes.MemcachedSession, *meta.Command) bool {
			time.Sleep(10 * time.Millisecond) // in the bubble
			return false
		}
	}
	fake(t, change, func(t *testing.T, s *fakes.Memcached, c *memcached.Client) {
		other, err := memcached.New(memcached.Options{DialContext: s.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		for key, size := range map[string]int{"small": 1, "large": 1000} {
			if err := other.Set(t.Context(), memcached.Item{Key: key, Value: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 4 {
			var wg sync.WaitGroup
			for _, key := range []string{"small", "large", "small"} {
				wg.Go(func() {
					v, err := get(t.Context(), c, key)
					switch {
					case key == "large" && !errors.Is(err, memcached.ErrProtocol):
						t.Errorf("round %d: %q, %v", round, v, err)
					case key == "small" && (len(v) != 1 || err != nil) && round > 0:
						t.Errorf("round %d: a small value: %q, %v", round, v, err)
					}
				})
				synctest.Wait()
			}
			wg.Wait()
		}
	})
}
