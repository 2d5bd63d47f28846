package redis_test

import (
	"bytes"
	"context"
	"errors"
	"io"
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

func TestStream(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		for _, n := range []int{0, 1, 4096, 70_000, 1 << 20} {
			want := strings.Repeat("abcdefg", n/7+1)[:n]
			mustSet(t, c, "k", want)
			st, err := c.Stream(t.Context(), "GET", "k")
			if err != nil {
				t.Fatal(err)
			}
			if st.Size() != int64(n) {
				t.Errorf("size %d, want %d", st.Size(), n)
			}
			if err := iotest.TestReader(st, []byte(want)); err != nil {
				t.Error(err)
			}
			st.Close()
			st.Close()
			if _, err := st.Read(make([]byte, 1)); err != redis.ErrClosed {
				t.Errorf("read of a closed stream: %v", err)
			}
			if n, err := st.WriteTo(io.Discard); n != 0 || err != redis.ErrClosed {
				t.Errorf("copy of a closed stream: %d, %v", n, err)
			}
			var b bytes.Buffer
			if m, err := c.GetTo(t.Context(), "k", &b); m != int64(n) || err != nil || b.String() != want {
				t.Errorf("GetTo: %d of %d, %v", m, n, err)
			}
		}
		if _, err := c.GetTo(t.Context(), "none", io.Discard); err != redis.ErrNil {
			t.Errorf("missing key: %v", err)
		}
		if _, err := c.Stream(t.Context(), "PING"); err == nil {
			t.Error("a status as a stream")
		}
		var se *redis.Error
		if _, err := c.Stream(t.Context(), "NOSUCH"); !errors.As(err, &se) {
			t.Error(err)
		}
		if _, err := c.Stream(t.Context(), "GET", nil); err == nil {
			t.Error("bad argument accepted")
		}
		// One for the streams, and the shared one.
		if s.Dials() != 2 || c.Stats().Idle != 1 {
			t.Errorf("%d connections, %+v", s.Dials(), c.Stats())
		}
	})
}

func TestStreamLeftEarlyClosesItsConnection(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", strings.Repeat("x", 100_000))
		mustSet(t, c, "other", "right")
		st, err := c.Stream(t.Context(), "GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		st.Read(make([]byte, 10))
		st.Close()
		if _, err := c.GetTo(t.Context(), "k", io.Discard); err != nil { // from now on it is known to be large
			t.Fatal(err)
		}
		broken := errors.New("full")
		if _, err := c.GetTo(t.Context(), "k", failing{broken}); !errors.Is(err, broken) {
			t.Error(err)
		}
		func() {
			defer func() { _ = recover() }()
			c.GetTo(t.Context(), "k", panicking{})
		}()
		if v, err := get(t.Context(), c, "other"); v != "right" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
		if st := c.Stats(); st.Broken != 3 || st.Open != 1 {
			t.Errorf("%+v", st)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
func (f failing) Read([]byte) (int, error)  { return 0, f.err }

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("writer") }
func (panicking) Read([]byte) (int, error)  { panic("reader") }

func TestStreamDeadlineIsPerPiece(t *testing.T) {
	var conn *netsim.Conn
	change := func(s *fakes.Redis, _ *redis.Options) {
		s.Window = 100
		s.OnDial = func(_ int, client *netsim.Conn) { conn = client }
	}
	fake(t, change, func(t *testing.T, _ *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", strings.Repeat("x", 10_000))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		st, err := c.Stream(ctx, "GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 10)
		for range 100 { // longer in all than the timeout
			time.Sleep(900 * time.Millisecond)
			if _, err := io.ReadFull(st, buf); err != nil {
				t.Fatal(err)
			}
		}
		st.Close()
		st, err = c.Stream(ctx, "GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		conn.StallAfter(conn.Received())
		start := time.Now()
		_, err = io.Copy(io.Discard, st)
		if took := time.Since(start); err == nil || took < time.Second || took > time.Second+time.Second/8 {
			t.Errorf("stalled: %v after %v", err, took)
		}
		st.Close()
		// A context that ends before the piece bounds it more closely.
		start = time.Now()
		st, err = c.Stream(kit.Within(t, 1500*time.Millisecond), "GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(900 * time.Millisecond)
		if _, err := io.ReadFull(st, buf); err != nil {
			t.Fatal(err)
		}
		conn.StallAfter(conn.Received())
		_, err = io.Copy(io.Discard, st)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 1500*time.Millisecond {
			t.Errorf("bounded: %v after %v", err, took)
		}
		st.Close()
		st, err = c.Stream(ctx, "GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		conn.StallAfter(conn.Received())
		start = time.Now()
		time.AfterFunc(300*time.Millisecond, cancel)
		if _, err = io.Copy(io.Discard, st); !errors.Is(err, context.Canceled) || time.Since(start) != 300*time.Millisecond {
			t.Errorf("cancelled: %v after %v", err, time.Since(start))
		}
		st.Close()
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStreamCutShortIsUnexpectedEOF(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(ss.Out, "$100\r\nabc"...)
			ss.Hangup()
		})
		var b strings.Builder
		n, err := c.GetTo(t.Context(), "k", &b) // over the shared connection: all or nothing
		if n != 0 || b.Len() != 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d, %q, %v", n, b.String(), err)
		}
		s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(append(ss.Out, "$40000\r\n"...), strings.Repeat("x", 40_000)+"\r\n"...)
		})
		if n, err := c.GetTo(t.Context(), "k", io.Discard); n != 40_000 || err != nil {
			t.Error(n, err)
		}
		s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) {
			ss.Out = append(ss.Out, "$40000\r\nabc"...)
			ss.Hangup()
		})
		n, err = c.GetTo(t.Context(), "k", &b)
		if n != 3 || b.String() != "abc" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d, %q, %v", n, b.String(), err)
		}
		s.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Out = append(ss.Out, "$3\r\nabcXX"...) })
		if _, err := c.GetTo(t.Context(), "k", io.Discard); !errors.Is(err, redis.ErrProtocol) {
			t.Error(err)
		}
	})
}

func TestSetFrom(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		ctx := t.Context()
		for _, n := range []int{0, 1, 64 << 10, 64<<10 + 1, 1 << 20} {
			want := strings.Repeat("abcdefg", n/7+1)[:n]
			r := strings.NewReader(want + "rest")
			if err := c.SetFrom(ctx, "k", r, int64(n), 0); err != nil {
				t.Fatal(err)
			}
			if v, err := get(ctx, c, "k"); v != want || err != nil || r.Len() != 4 {
				t.Errorf("%d of %d bytes, %v, %d left in the reader", len(v), n, err, r.Len())
			}
		}
		if err := c.SetFrom(ctx, "k", strings.NewReader("v"), 1, 1500*time.Microsecond); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Do(ctx, "PTTL", "k").Int(); n != 2 || err != nil {
			t.Errorf("life %d, %v", n, err)
		}
		for name, err := range map[string]error{
			"negative life": c.SetFrom(ctx, "k", strings.NewReader("v"), 1, -1),
		} {
			if err == nil {
				t.Errorf("%s accepted", name)
			}
		}
		if s.Dials() != 2 {
			t.Errorf("%d connections", s.Dials())
		}
	})
}

func TestSetFromABrokenReaderKeepsTheOldValue(t *testing.T) {
	fake(t, nil, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		mustSet(t, c, "k", "old")
		large := strings.Repeat("x", 200_000)
		broken := errors.New("disk")
		for name, tc := range map[string]struct {
			r    io.Reader
			want error
		}{
			"short":         {strings.NewReader("ab"), io.ErrUnexpectedEOF},
			"short, large":  {strings.NewReader(large), io.ErrUnexpectedEOF},
			"fails":         {failing{broken}, broken},
			"fails, large":  {io.MultiReader(strings.NewReader(large), failing{broken}), broken},
			"panics, large": {io.MultiReader(strings.NewReader(large), panicking{}), nil},
		} {
			func() {
				defer func() { _ = recover() }()
				err := c.SetFrom(t.Context(), "k", tc.r, 300_000, 0)
				if !errors.Is(err, tc.want) {
					t.Errorf("%s: %v", name, err)
				}
			}()
			synctest.Wait()
			if v, err := get(t.Context(), c, "k"); v != "old" || err != nil {
				t.Errorf("%s: then %d bytes, %v", name, len(v), err)
			}
		}
		if n := c.Stats().Open; n != 1 {
			t.Errorf("%d connections open", n)
		}
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWriterThatStallsCostsItsOwnConnection(t *testing.T) {
	change := func(s *fakes.Redis, _ *redis.Options) { s.Window = 1000 }
	fake(t, change, func(t *testing.T, s *fakes.Redis, c *redis.Client) {
		want := strings.Repeat("abcdefg", 30_000)
		mustSet(t, c, "k", want)
		var b strings.Builder
		slow := writerFunc(func(p []byte) (int, error) {
			if b.Len()%7 == 0 {
				time.Sleep(10 * time.Second) // longer than the timeout
			}
			return b.Write(p)
		})
		if n, err := c.GetTo(t.Context(), "k", slow); n != int64(len(want)) || err != nil || b.String() != want {
			t.Errorf("%d of %d bytes, %v", n, len(want), err)
		}
		b.Reset()
		start := time.Now()
		n, err := c.GetTo(kit.Within(t, 3*time.Second), "k", slow)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 10*time.Second || n != int64(b.Len()) {
			t.Errorf("%d bytes, %v after %v", n, err, took)
		}
		for name, w := range map[string]writerFunc{
			"takes less": func(p []byte) (int, error) { return len(p) - 1, nil },
			"lies":       func([]byte) (int, error) { return -1, nil },
		} {
			if n, err := c.GetTo(t.Context(), "k", w); err != io.ErrShortWrite || n < 0 {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		if v, err := get(t.Context(), c, "k"); v != want || err != nil {
			t.Errorf("then %d bytes, %v", len(v), err)
		}
		synctest.Wait()
		if n := s.Open(); n > 2 {
			t.Errorf("%d connections", n)
		}
	})
}
