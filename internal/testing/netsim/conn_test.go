package netsim_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/testing/netsim"
)

func TestPairCarriesBytesBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := netsim.Pair(7) // far smaller than the text sent
		want := bytes.Repeat([]byte("0123456789"), 1000)
		var wg sync.WaitGroup
		for _, end := range [][2]*netsim.Conn{{a, b}, {b, a}} {
			wg.Go(func() {
				if n, err := end[0].Write(want); n != len(want) || err != nil {
					t.Errorf("write: %d, %v", n, err)
				}
			})
			wg.Go(func() {
				got := make([]byte, len(want))
				if _, err := io.ReadFull(end[1], got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("read: %v, equal %v", err, bytes.Equal(got, want))
				}
			})
		}
		wg.Wait()
		a.Close()
		b.Close()
	})
}

func TestDeadlinesAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := netsim.Pair(4)
		defer a.Close()
		defer b.Close()
		start := time.Now()
		a.SetReadDeadline(start.Add(30 * time.Millisecond))
		_, err := a.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 30*time.Millisecond {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		a.SetDeadline(time.Now().Add(time.Second))
		n, err := a.Write(make([]byte, 10))
		if n != 4 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 1030*time.Millisecond {
			t.Errorf("write: %d, %v after %v", n, err, time.Since(start))
		}
		// A deadline set during a Read applies to this Read, too.
		a.SetDeadline(time.Time{})
		time.AfterFunc(time.Minute, func() { a.SetDeadline(time.Unix(1, 0)) })
		if _, err = a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("interrupted read: %v", err)
		}
	})
}

func TestCloseEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := netsim.Pair(0)
		a.Write([]byte("last"))
		a.Close()
		got, err := io.ReadAll(b)
		if string(got) != "last" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, netsim.ErrReset) {
			t.Errorf("write to a closed peer: %v", err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read of a closed end: %v", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write to a closed end: %v", err)
		}
		b.Close()
	})
}

// TestReadDuringCloseIsClosed has ends that are closed while they read: none sees the reset that the peer gets.
func TestReadDuringCloseIsClosed(t *testing.T) {
	for range 20_000 {
		c, _ := netsim.Pair(0)
		begun, ended := make(chan struct{}), make(chan error)
		go func() {
			close(begun)
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
		<-begun
		c.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := netsim.Pair(0)
		b.Slice(1)
		b.CutAfter(3)
		a.Write([]byte("abcdef"))
		buf := make([]byte, 8)
		for range 3 {
			if n, err := b.Read(buf); n != 1 || err != nil {
				t.Fatalf("sliced read: %d, %v", n, err)
			}
		}
		if _, err := b.Read(buf); !errors.Is(err, netsim.ErrReset) {
			t.Errorf("read past the cut: %v", err)
		}
		if _, err := a.Write(buf); !errors.Is(err, netsim.ErrReset) {
			t.Errorf("write past the cut: %v", err)
		}

		a, b = netsim.Pair(8)
		b.StallAfter(2)
		a.Write([]byte("abcd"))
		a.Close()
		if n, err := b.Read(buf); n != 2 || err != nil {
			t.Fatalf("read before the stall: %d, %v", n, err)
		}
		b.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := b.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("stalled read: %v", err)
		}
		b.SetReadDeadline(time.Time{})
		b.StallAfter(-1)
		if got, err := io.ReadAll(b); string(got) != "cd" || err != nil {
			t.Errorf("after the stall: %q, %v", got, err)
		}
	})
}
