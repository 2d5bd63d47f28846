package redis_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/internal/testing/kit"
	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/redis"
)

// hidden hides that a reader can do more than read.
type hidden struct{ io.Reader }

func TestBodiesOfOneReaderAreReadInOrder(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		var got []int
		all := strings.Repeat("0123456789", 40_000)
		s.Handle("PUT", func(ss *fakes.RedisSession, args [][]byte) {
			got = nil
			at := all
			for _, a := range args[1:] {
				got = append(got, len(a))
				if !strings.HasPrefix(at, string(a)) {
					t.Errorf("argument %d is not the next one", len(got))
				}
				at = at[min(len(at), len(a)):]
			}
			ss.Status("OK")
		})
		for _, sizes := range [][]int{{100_000, 200_000}, {10, 100_000, 0, 64 << 10, 70_000}, {100_000, 5, 5}, {1 << 16, 1<<16 + 1, 1}} {
			for name, r := range map[string]io.Reader{"other": hidden{strings.NewReader(all)}, "bytes": strings.NewReader(all)} {
				args := []any{"PUT"}
				for _, n := range sizes {
					args = append(args, redis.Body{Reader: r, Size: int64(n)})
				}
				if err := c.Do(t.Context(), args...).Ok(); err != nil || !slices.Equal(got, sizes) {
					t.Errorf("%s: %v, want %v, %v", name, got, sizes, err)
				}
			}
		}
		short := redis.Body{Reader: strings.NewReader(all[:150_000]), Size: 100_000}
		before := s.Calls("PUT")
		if err := c.Do(t.Context(), "PUT", short, short).Err(); !errors.Is(err, io.ErrUnexpectedEOF) || s.Calls("PUT") != before {
			t.Errorf("too short: %v", err)
		}
	})
}

func TestBodyArrivesWhole(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx := t.Context()
		for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000, 1<<20 + 5, 3 << 20} {
			want := strings.Repeat("abcdefg", n/7+1)[:n]
			for name, body := range map[string]redis.Body{
				"strings":       {Reader: strings.NewReader(want), Size: int64(n)},
				"bytes":         {Reader: bytes.NewReader([]byte(want)), Size: int64(n)},
				"buffer":        {Reader: bytes.NewBufferString(want), Size: int64(n)},
				"longer":        {Reader: strings.NewReader(want + "rest"), Size: int64(n)},
				"longer bytes":  {Reader: bytes.NewReader([]byte(want + "rest")), Size: int64(n)},
				"longer buffer": {Reader: bytes.NewBufferString(want + "rest"), Size: int64(n)},
				"other":         {Reader: hidden{strings.NewReader(want)}, Size: int64(n)},
				"with its end":  {Reader: iotest.DataErrReader(strings.NewReader(want)), Size: int64(n)},
				"halves":        {Reader: iotest.HalfReader(strings.NewReader(want)), Size: int64(n)},
				"unknown":       {Reader: strings.NewReader(want), Size: -1},
				"unknown other": {Reader: iotest.HalfReader(strings.NewReader(want)), Size: -1},
			} {
				if err := c.Do(ctx, "SET", "k", body, "PX", 100_000).Ok(); err != nil {
					t.Fatalf("%s, %d bytes: %v", name, n, err)
				}
				if v, err := get(ctx, c, "k"); v != want || err != nil {
					t.Errorf("%s: %d of %d bytes, %v", name, len(v), n, err)
				}
				if rest, _ := io.ReadAll(body.Reader); (string(rest) == "rest") != strings.HasPrefix(name, "longer") {
					t.Errorf("%s: %q is left in the reader", name, rest)
				}
			}
		}
		if n, err := c.Do(ctx, "PTTL", "k").Int(); n <= 0 || err != nil {
			t.Errorf("life %d, %v", n, err)
		}
		if s.Dials() > 2 {
			t.Errorf("%d connections", s.Dials())
		}
	})
}

func TestSeveralBodiesAndOtherArguments(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("JOIN", func(ss *fakes.RedisSession, args [][]byte) { ss.Bulk(string(bytes.Join(args[1:], []byte(",")))) })
		a, b, d := strings.Repeat("a", 200_000), strings.Repeat("b", 70_000), strings.Repeat("d", 20_000)
		args := []any{"JOIN", redis.Body{Reader: hidden{strings.NewReader(a)}, Size: 200_000}, 7, redis.Body{Reader: strings.NewReader(b), Size: 70_000}, []byte(d), "", redis.Body{Reader: strings.NewReader("e"), Size: 1}}
		want := a + ",7," + b + "," + d + ",,e"
		if v, err := c.Do(t.Context(), args...).String(); v != want || err != nil {
			t.Errorf("%d of %d bytes, %v", len(v), len(want), err)
		}
		args[1] = redis.Body{Reader: hidden{strings.NewReader(a)}, Size: 200_000}
		args[3] = redis.Body{Reader: strings.NewReader(b), Size: 70_000}
		args[6] = redis.Body{Reader: strings.NewReader("e"), Size: -1}
		st, err := c.Stream(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if v, err := io.ReadAll(st); string(v) != want || err != nil {
			t.Errorf("streamed: %d of %d bytes, %v", len(v), len(want), err)
		}
		small, err := c.Stream(t.Context(), "JOIN", redis.Body{Reader: strings.NewReader("x"), Size: 1})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := io.ReadAll(small); string(v) != "x" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		small.Close()
		var se *redis.Error
		large := func() redis.Body { return redis.Body{Reader: strings.NewReader(a), Size: 200_000} }
		if _, err := c.Stream(t.Context(), "NOSUCH", large()); !errors.As(err, &se) {
			t.Error(err)
		}
		if err := c.Do(t.Context(), "NOSUCH", large()).Err(); !errors.As(err, &se) {
			t.Error(err)
		}
		if err := c.Ping(t.Context()); err != nil || s.Dials() > 3 {
			t.Errorf("%v, %d connections", err, s.Dials())
		}
		p := c.Pipeline()
		p.Add("JOIN", large())
		if _, err := p.Do(t.Context()); err == nil {
			t.Error("a pipeline took a Body")
		}
	})
}

func TestBodyThatCannotBeSentSendsNothing(t *testing.T) {
	change := func(_ *fakes.Redis, o *redis.Options) { o.MaxValue = 2 << 20 }
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		own := errors.New("disk")
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		text := func(s string) func() io.Reader { return func() io.Reader { return hidden{strings.NewReader(s)} } }
		for name, tc := range map[string]struct {
			ctx  context.Context
			r    func() io.Reader
			size int64
			want error
		}{
			"too large":          {t.Context(), text(""), 2<<20 + 1, redis.ErrTooLarge},
			"too large, unknown": {t.Context(), text(strings.Repeat("x", 2<<20+1)), -1, redis.ErrTooLarge},
			"endless":            {t.Context(), func() io.Reader { return zeros{} }, -1, redis.ErrTooLarge},
			"fails, unknown":     {t.Context(), func() io.Reader { return io.MultiReader(text("abc")(), failing{own}) }, -1, own},
			"fails at once":      {t.Context(), func() io.Reader { return failing{own} }, 1 << 20, own},
			"short and small":    {t.Context(), text("ab"), 3, io.ErrUnexpectedEOF},
			"cancelled, unknown": {cancelled, func() io.Reader { return zeros{} }, -1, context.Canceled},
			"no reader":          {t.Context(), func() io.Reader { return nil }, 3, nil},
			"none, unknown":      {t.Context(), func() io.Reader { return nil }, -1, nil},
		} {
			_, streamErr := c.Stream(tc.ctx, "SET", "k", redis.Body{Reader: tc.r(), Size: tc.size})
			for i, err := range []error{
				c.Do(tc.ctx, "SET", "k", redis.Body{Reader: tc.r(), Size: tc.size}).Err(),
				c.SetFrom(tc.ctx, "k", tc.r(), tc.size, 0),
				streamErr,
			} {
				if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.HasPrefix(err.Error(), "redis: ") {
					t.Errorf("%s, %d: %v", name, i, err)
				}
				if tc.ctx == cancelled && !redis.SafeToRetry(err) {
					t.Errorf("%s, %d: %v is not safe to retry", name, i, err)
				}
			}
		}
		if s.Dials() != 0 {
			t.Errorf("%d connections opened", s.Dials())
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestBrokenBodyStoresNothing: the connection goes, and the server keeps the value that
// it had.
func TestBrokenBodyStoresNothing(t *testing.T) {
	var shrinks *bytes.Buffer
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.OnDial = func(int, *netsim.Conn) {
			if shrinks != nil {
				shrinks.Next(10)
			}
		}
	}
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "old")
		large := strings.Repeat("x", 200_000)
		own := errors.New("disk")
		for name, tc := range map[string]struct {
			r    func() io.Reader
			want error
		}{
			"short":             {func() io.Reader { return hidden{strings.NewReader(large)} }, io.ErrUnexpectedEOF},
			"short, known type": {func() io.Reader { return strings.NewReader(large) }, io.ErrUnexpectedEOF},
			"fails":             {func() io.Reader { return io.MultiReader(strings.NewReader(large), failing{own}) }, own},
			"panics":            {func() io.Reader { return io.MultiReader(strings.NewReader(large), panicking{}) }, nil},
			"shrinks": {func() io.Reader {
				shrinks = bytes.NewBufferString(strings.Repeat("x", 300_000))
				return shrinks
			}, io.ErrUnexpectedEOF},
		} {
			for _, call := range []func(redis.Body) error{
				func(b redis.Body) error { return c.Do(t.Context(), "SET", "k", b).Err() },
				func(b redis.Body) error { _, err := c.Stream(t.Context(), "SET", "k", b, "GET"); return err },
			} {
				func() {
					defer func() {
						if v := recover(); (v != nil) != (tc.want == nil) {
							t.Errorf("%s: panic %v", name, v)
						}
					}()
					if err := call(redis.Body{Reader: tc.r(), Size: 300_000}); !errors.Is(err, tc.want) {
						t.Errorf("%s: %v", name, err)
					}
				}()
				shrinks = nil
				synctest.Wait()
				if v, err := get(t.Context(), c, "k"); v != "old" || err != nil {
					t.Errorf("%s: then %d bytes, %v", name, len(v), err)
				}
			}
		}
		if n := c.Stats().Open; n != s.Open() || n > 2 {
			t.Errorf("%d connections counted, %d open", n, s.Open())
		}
	})
}

func TestBodyIsBoundedByProgressAndByContext(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) { s.Window = 1000 }
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		// A reader that takes its time does not run into the timeout.
		slow := readerFunc(func(p []byte) (int, error) {
			time.Sleep(900 * time.Millisecond)
			return copy(p, strings.Repeat("x", 64<<10)), nil
		})
		start := time.Now()
		if err := c.Do(t.Context(), "SET", "k", redis.Body{Reader: slow, Size: 640 << 10}).Ok(); err != nil || time.Since(start) < 9*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		// The context bounds the call even so.
		start = time.Now()
		err := c.Do(kit.Within(t, 3*time.Second), "SET", "k", redis.Body{Reader: slow, Size: 640 << 10}).Ok()
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 4*time.Second || !redis.SafeToRetry(err) {
			t.Errorf("%v after %v", err, took)
		}
		// That it has ended is not forgotten while the reader is at work.
		ctx, cancel := context.WithCancel(t.Context())
		ends := readerFunc(func(p []byte) (int, error) {
			cancel()
			synctest.Wait()
			return len(p), nil
		})
		r := io.MultiReader(bytes.NewReader(make([]byte, 64<<10)), ends)
		if err := c.Do(ctx, "SET", "k", redis.Body{Reader: r, Size: 640 << 10}).Ok(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// A server that takes nothing is noticed.
		for name, r := range map[string]io.Reader{"pieces": zeros{}, "at once": bytes.NewReader(make([]byte, 1<<20))} {
			deaf, err := redis.New(redis.Options{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := s.Dial(ctx, network, addr)
				return &silent{Conn: nc}, err
			}})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err = deaf.Do(t.Context(), "SET", "k", redis.Body{Reader: r, Size: 1 << 20}).Err()
			if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took < time.Second || took > time.Second+time.Second/8 || !redis.SafeToRetry(err) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			deaf.Close()
		}
	})
}

// silent takes the greeting and then no byte more.
type silent struct {
	net.Conn
	greeted bool
	until   time.Time
}

func (s *silent) SetDeadline(t time.Time) error {
	s.until = t
	return s.Conn.SetDeadline(t)
}

func (s *silent) Write(p []byte) (int, error) {
	if !s.greeted {
		s.greeted = true
		return s.Conn.Write(p)
	}
	time.Sleep(time.Until(s.until)) // in the bubble
	return 0, os.ErrDeadlineExceeded
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestStreamsTakeLittleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const size = 4 << 20
	value := make([]byte, size)
	ctx := context.Background()
	getter := echoClient(t, "$4194304\r\n"+string(value)+"\r\n")
	setter := echoClient(t, "+OK\r\n", wire("SET", "k", value))
	for name, call := range map[string]func() error{
		"GetTo": func() error { _, err := getter.GetTo(ctx, "k", io.Discard); return err },
		"SetFrom": func() error {
			return setter.SetFrom(ctx, "k", hidden{bytes.NewReader(value)}, size, 0)
		},
		"SetFrom of a known type": func() error { return setter.SetFrom(ctx, "k", bytes.NewReader(value), size, 0) },
		"SetFrom of unknown size": func() error { return setter.SetFrom(ctx, "k", hidden{bytes.NewReader(value)}, -1, 0) },
	} {
		if err := call(); err != nil {
			t.Fatal(name, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const n = 20
		for range n {
			if err := call(); err != nil {
				t.Fatal(name, err)
			}
		}
		runtime.ReadMemStats(&after)
		if used := (after.TotalAlloc - before.TotalAlloc) / n; used > 20<<10 {
			t.Errorf("%s: %d bytes for each", name, used)
		}
	}
}

func TestReplyGoesWhereItIsWanted(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "value")
		r := c.Do(t.Context(), "GET", "k")
		if b, err := r.Append([]byte("a ")); string(b) != "a value" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		var b strings.Builder
		if n, err := r.WriteTo(&b); n != 5 || b.String() != "value" || err != nil {
			t.Errorf("%d, %q, %v", n, b.String(), err)
		}
		own := errors.New("own")
		if _, err := r.WriteTo(failing{own}); err != own {
			t.Error(err)
		}
		r = c.Do(t.Context(), "GET", "none")
		if b, err := r.Append([]byte("a")); string(b) != "a" || err != redis.ErrNil {
			t.Errorf("%q, %v", b, err)
		}
		if n, err := r.WriteTo(&b); n != 0 || err != redis.ErrNil {
			t.Errorf("%d, %v", n, err)
		}
		r = c.Do(t.Context(), "INCR", "n")
		if b, err := r.Append([]byte("n=")); string(b) != "n=1" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	})
}
