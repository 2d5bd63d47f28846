package servers

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// TestPortOfADeadServerStaysReserved has no server at a port that is reserved.
func TestPortOfADeadServerStaysReserved(t *testing.T) {
	port, release, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := reserve(port); err == nil {
		again()
		t.Errorf("port %d is reserved twice", port)
	}
	release()
	again, err := reserve(port)
	if err != nil {
		t.Fatalf("port %d was released: %v", port, err)
	}
	again()
}

// TestPortThatAnswersIsNotReserved has a server that reserved no port.
func TestPortThatAnswersIsNotReserved(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if release, err := reserve(l.Addr().(*net.TCPAddr).Port); err == nil {
		release()
		t.Errorf("%v is reserved", l.Addr())
	}
}

// TestPortIsReservedWithoutAListener: a process that is started meanwhile would have a copy of the listener until its own
// program runs, and the server for which the port was reserved would find the port in use.
func TestPortIsReservedWithoutAListener(t *testing.T) {
	port := firstPort - 1 - rand.IntN(1000) // no server has a port below the first one
	over := make(chan struct{})
	var dials sync.WaitGroup
	dials.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				if cn, err := net.Dial("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
					t.Errorf("something answers at port %d while it is reserved", port)
					cn.Close()
					return
				}
			}
		}
	})
	for range 2000 {
		release, err := reserve(port)
		if err != nil {
			t.Error(err)
			break
		}
		release()
	}
	close(over)
	dials.Wait()
}
