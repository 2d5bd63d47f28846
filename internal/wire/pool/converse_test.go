package pool_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/netsim"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// lines are commands of one line each; the reply to one is the same line.
type lines struct {
	text  string
	ends  []int64
	at    int
	piece int
	next  func(at int) // called by Next if not nil
}

func newLines(n, length, piece int) *lines {
	l := &lines{piece: piece}
	for i := range n {
		l.text += fmt.Sprintf("%d%s\n", i, strings.Repeat("x", length))
		l.ends = append(l.ends, int64(len(l.text)))
	}
	return l
}

func (l *lines) Next() []byte {
	if l.next != nil {
		l.next(l.at)
	}
	p := l.text[l.at:min(len(l.text), l.at+l.piece)]
	l.at += len(p)
	return []byte(p)
}
func (l *lines) Size() int64       { return int64(len(l.text)) }
func (l *lines) Len() int          { return len(l.ends) }
func (l *lines) EndOf(i int) int64 { return l.ends[i] }

// mirror sends lines back. An eager one sends each before it reads on. Another one answers only
// when it has no more to read, as a server that buffers does.
func mirror(c net.Conn, eager bool) {
	defer c.Close()
	r, w := bufio.NewReaderSize(c, 256), bufio.NewWriter(c)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := w.WriteString(line); err != nil {
			return
		}
		if (eager || r.Buffered() == 0) && w.Flush() != nil {
			return
		}
	}
}

// reads returns a function that reads lines and adds them to got.
func reads(c net.Conn, got *strings.Builder) func() error {
	r := bufio.NewReader(c)
	return func() error {
		s, err := r.ReadString('\n')
		got.WriteString(s)
		return err
	}
}

func TestConversationCannotDeadlock(t *testing.T) {
	for _, window := range []int{1, 100, 1024, 64 << 10} {
		for _, eager := range []bool{true, false} {
			for _, asks := range []bool{true, false} {
				t.Run(fmt.Sprintf("window=%d,eager=%v,asks=%v", window, eager, asks), func(t *testing.T) {
					for _, shape := range [][2]int{{1, 10_000}, {3, 10}, {20, 500}, {1200, 4}} {
						synctest.Test(t, func(t *testing.T) { converse(t, window, eager, asks, newLines(shape[0], shape[1], 700)) })
					}
				})
			}
		}
	}
}

// converse has a conversation that must not take any time. asks says that the
// connection can tell whether it has room.
func converse(t *testing.T, window int, eager, asks bool, c *lines) {
	client, srv := netsim.Pair(window)
	defer client.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { mirror(srv, eager) })
	client.SetDeadline(time.Now().Add(time.Second)) // in the bubble it never gets so late
	var got strings.Builder
	wire := pool.Wire{Conn: client, Interrupt: func() { client.Close() }}
	if asks {
		wire.Try = pool.NewTrier(client)
	}
	if err := wire.Converse(c, reads(client, &got)); err != nil || got.String() != c.text {
		t.Errorf("%d commands: %v, %d of %d bytes came back", c.Len(), err, got.Len(), len(c.text))
	}
	client.Close()
}

func TestConversationReadsRepliesFromBeforeAFailure(t *testing.T) {
	for _, window := range []int{4 << 10, 1 << 20} {
		for _, asks := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				client, srv := netsim.Pair(window)
				defer client.Close()
				var wg sync.WaitGroup
				wg.Go(func() { // answers 700 commands and goes
					r := bufio.NewReader(srv)
					for range 700 {
						line, err := r.ReadString('\n')
						if err != nil {
							t.Error(err)
						}
						io.WriteString(srv, line)
					}
					srv.Close()
				})
				c := newLines(5000, 10, 700)
				if asks && window > 4<<10 {
					c.next = func(at int) {
						if at > int(c.ends[800]) {
							synctest.Wait() // it has gone
						}
					}
				}
				var got strings.Builder
				wire := pool.Wire{Conn: client, Interrupt: func() { client.Close() }}
				if asks {
					wire.Try = pool.NewTrier(client)
				}
				err := wire.Converse(c, reads(client, &got))
				var failed *pool.WriteError
				if err == nil || errors.As(err, &failed) && (failed.Written == 0 || failed.Written > c.Size()) {
					t.Errorf("asks %v: %v", asks, err)
				}
				if want := c.text[:c.ends[699]]; got.String() != want {
					t.Errorf("window %d, asks %v: %d bytes came, want %d", window, asks, got.Len(), len(want))
				}
				wg.Wait()
			})
		}
	}
}

func TestConversationEndsWhenAReplyIsWrong(t *testing.T) {
	for _, asks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			client, srv := netsim.Pair(1 << 10) // the other end does not read
			defer client.Close()
			defer srv.Close()
			wire := pool.Wire{Conn: client, Interrupt: func() { client.SetDeadline(time.Unix(1, 0)) }}
			if asks {
				wire.Try = pool.NewTrier(client)
			}
			wrong := errors.New("wrong")
			if err := wire.Converse(newLines(5000, 10, 700), func() error { return wrong }); err != wrong {
				t.Error(err)
			}
		})
	}
}

func TestConversationThatIsInterruptedReturns(t *testing.T) {
	for _, asks := range []bool{true, false} {
		for _, n := range []int{2, 5000} {
			synctest.Test(t, func(t *testing.T) {
				client, srv := netsim.Pair(1 << 10) // the other end does not read
				defer client.Close()
				defer srv.Close()
				interrupt := func() { client.SetDeadline(time.Unix(1, 0)) }
				wire := pool.Wire{Conn: client, Interrupt: interrupt}
				if asks {
					wire.Try = pool.NewTrier(client)
				}
				start := time.Now()
				time.AfterFunc(time.Second, interrupt)
				var got strings.Builder
				err := wire.Converse(newLines(n, 10, 700), reads(client, &got))
				if err == nil || time.Since(start) != time.Second {
					t.Errorf("%d commands: %v after %v", n, err, time.Since(start))
				}
			})
		}
	}
}

func TestConversationOverARealSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Skip("no unix sockets:", err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		if c, err := l.Accept(); err == nil {
			mirror(c, true)
		}
	})
	var d net.Dialer
	client, err := d.DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer wg.Wait()
	defer client.Close()
	wire := pool.Wire{Conn: client, Try: pool.NewTrier(client), Interrupt: func() { client.Close() }}
	var got strings.Builder
	read := reads(client, &got)
	// The last does not fit into any socket, and is not read while its replies
	// are not taken.
	for _, c := range []*lines{newLines(10, 10, 2000), newLines(3000, 10, 2000), newLines(100, 50_000, 8000)} {
		got.Reset()
		if err := wire.Converse(c, read); err != nil || got.String() != c.text {
			t.Errorf("%v, %d of %d bytes came back", err, got.Len(), len(c.text))
		}
	}
}

func TestConversationThatFitsNeedsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, srv := netsim.Pair(1 << 20)
		defer client.Close()
		var wg sync.WaitGroup
		wg.Go(func() { mirror(srv, true) })
		wire := pool.Wire{Conn: client, Try: pool.NewTrier(client)}
		var got strings.Builder
		read := reads(client, &got)
		before := runtime.NumGoroutine()
		// The runtime may count a goroutine of its own for a moment, so one conversation of some has none.
		least := math.MaxInt
		for range 5 {
			most := 0
			if err := wire.Converse(newLines(1000, 20, 700), func() error {
				most = max(most, runtime.NumGoroutine())
				return read()
			}); err != nil {
				t.Fatal(err)
			}
			least = min(least, most)
		}
		if least > before {
			t.Errorf("%d goroutines instead of %d", least, before)
		}
		client.Close()
		wg.Wait()
	})
}

// counted has a Write of its own that must not be gone past.
type counted struct {
	*net.UnixConn
}

func TestOnlyPlainSocketsAreAskedForRoom(t *testing.T) {
	if pool.NewTrier(counted{}) != nil || pool.NewTrier(&net.IPConn{}) != nil {
		t.Error("a connection with a Write of its own would be bypassed")
	}
}
