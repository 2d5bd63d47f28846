package snapshot

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// warmer reads keys from L2 into one cache, while streams tell it their names.
type warmer struct {
	names chan []byte
	done  chan struct{}
	named atomic.Int64
	so    transfer.Warmed // after done
	err   error           // after done
}

// warmAhead is the number of names that wait for their turn. When they are as many, their
// stream waits.
const warmAhead = 1024

// warm gives a name to the warmer of source. It reports false if the warmer has ended: L1
// is full or L2 does not answer.
func (rd *reading) warm(source transfer.Source, name []byte) bool {
	w := rd.warmer(source)
	// A full channel lets the stream wait, so that L2 sets the pace, and no memory grows with the
	// number of keys.
	select {
	case w.names <- name:
		w.named.Add(1)
		return true
	case <-w.done:
		return false
	}
}

// warmer returns the warmer of source, which it begins.
func (rd *reading) warmer(source transfer.Source) *warmer {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	w := rd.warmers[source.Name()]
	if w == nil {
		w = &warmer{names: make(chan []byte, warmAhead), done: make(chan struct{})}
		rd.warmers[source.Name()] = w
		go w.run(rd.ctx, source, rd.o.KeysPerSecond)
	}
	return w
}

func (w *warmer) run(ctx context.Context, source transfer.Source, perSecond int) {
	defer close(w.done)
	w.so, w.err = source.Warm(ctx, w.told(ctx), perSecond, nil)
	// The reason of the caller says more than the error of a read that it has cut off.
	if cause := context.Cause(ctx); cause != nil && w.err != nil {
		w.err = cause
	}
}

// told iterates over the names that streams tell.
func (w *warmer) told(ctx context.Context) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			select {
			case name, ok := <-w.names:
				if !ok || !yield(string(name)) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// end waits for the last batch and adds the keys to c. No stream tells names any more.
func (w *warmer) end(c *CacheReport) error {
	close(w.names)
	<-w.done
	named := int(w.named.Load())
	c.Entries += named
	c.Confirmed += w.so.Found
	c.Present += w.so.Present
	c.Absent += named - w.so.Found - w.so.Present
	return w.err
}
