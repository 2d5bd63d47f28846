package ledger

import (
	"sync"
	"time"
)

const (
	// floodBurst is the number of drops of everything by one publisher to apply
	// at once, floodEvery the interval of further ones.
	floodBurst = 10
	floodEvery = int64(time.Second)
	// maxPublishers bounds the memory of publishers. Publishers beyond it share
	// one account.
	maxPublishers = 256
)

// Floods delays drops of everything if one publisher sends too many: each costs
// every instance its L1. The zero Floods has seen none. It is safe for
// concurrent use.
type Floods struct {
	mu sync.Mutex // guards below
	of map[uint64]*account
}

// account is the number of drops that a publisher has left.
type account struct {
	left int
	at   int64 // when left was last topped up
}

// Admit returns the time at which to apply a drop of everything that a publisher
// has announced: now, or when its turn comes. A delayed drop stands for all that
// arrive until then.
func (f *Floods) Admit(from uint64, now int64) (at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.account(from, now)
	if more := (now - a.at) / floodEvery; more > 0 {
		a.left = int(min(floodBurst, int64(a.left)+more))
		// The rest of an interval counts for the next one.
		a.at += more * floodEvery
	}
	if a.left == 0 {
		return a.at + floodEvery
	}
	a.left--
	return now
}

func (f *Floods) account(from uint64, now int64) *account {
	if f.of == nil {
		f.of = map[uint64]*account{}
	}
	if len(f.of) >= maxPublishers && f.of[from] == nil {
		for id, a := range f.of { // a full account is equal to a new one
			if now-a.at >= floodBurst*floodEvery {
				delete(f.of, id)
			}
		}
		if len(f.of) >= maxPublishers {
			// Too many publishers at once: the new ones share an account, so that numbers made up
			// by one of them gain nothing.
			from = 0
		}
	}
	a := f.of[from]
	if a == nil {
		a = &account{left: floodBurst, at: now}
		f.of[from] = a
	}
	return a
}
