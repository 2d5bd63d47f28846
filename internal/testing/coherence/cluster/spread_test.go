package cluster_test

import (
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// A tier spread over two servers, as in a Redis Cluster: lanes with odd numbers are on
// the second. A position is not of one moment, and messages of the two servers overtake
// each other.

// spreadPosition is a position from two moments: the lanes in the second place were
// read later than the others.
func spreadPosition(first, second remote.Position) remote.Position {
	first.Spread = true
	first.Epoch += "@" + second.Epoch
	for lane := 1; lane < len(first.Lanes) && lane < len(second.Lanes); lane += 2 {
		first.Lanes[lane] = second.Lanes[lane]
	}
	return first
}

// twoWays is a connection to the bus over which messages from the second place
// take longer.
type twoWays struct {
	*stratatest.Bus
	d      *dice
	longer time.Duration // at most
}

// overtaken is a message on the longer way.
type overtaken struct {
	event remote.Event
	life  int // messages from another life of the connection are lost
	due   time.Time
}

// Follow implements remote.Bus.
func (b twoWays) Follow(name string, f func(remote.Event)) (stop func()) {
	var mu sync.Mutex // guards life, and calls of f
	life := 0
	way, done := make(chan overtaken, 1<<16), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			var o overtaken
			select {
			case o = <-way:
			case <-done:
				return
			}
			timer := time.NewTimer(time.Until(o.due))
			select {
			case <-timer.C:
			case <-done:
				timer.Stop()
				return
			}
			mu.Lock()
			if o.life == life {
				f(o.event)
			}
			mu.Unlock()
		}
	})
	end := b.Bus.Follow(name, func(e remote.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.State != remote.Delivered {
			life++
			f(e)
			return
		}
		for _, m := range e.Messages {
			one := remote.Event{Messages: []remote.Message{m}}
			if m.Lane%2 == 0 {
				f(one)
				continue
			}
			way <- overtaken{one, life, time.Now().Add(time.Duration(b.d.intn(int(b.longer) + 1)))}
		}
	})
	return func() {
		end()
		close(done)
		wg.Wait()
	}
}
