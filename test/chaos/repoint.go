//go:build linux

package chaos

import (
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
)

// repointKinds are the faults of a run with addresses that lead to another server. The
// table is read-only.
var repointKinds = []kind{
	{"kill", 2, (*run).killWorker},
	{"stop", 4, (*run).stopWorker},
	{"repoint", 12, (*run).repoint},
}

const (
	// renewed is how long an instance may take to find that an address leads to another
	// server than its connections: the bound of a silent bus, and a connection.
	renewed = notice + time.Second
	// livesOn is the time for which the former server goes on as a primary.
	livesOn = 10 * time.Second
)

// repoint promotes the replica and aims the addresses of all workers at it. The former
// primary lives on, and keeps some connections: of each worker either all for its
// commands, or the one of its bus, or none.
func (r *run) repoint(time.Duration) *fault {
	if r.repointed != 0 {
		if r.clock.Now() > r.repointed+checker.Time(livesOn) {
			r.repointed = 0
			r.follow(r.replica)
		}
		return nil
	}
	if !r.replicates() {
		return nil
	}
	f := r.about(renewed, "repoint")
	f.silent = false // messages of the former server arrive
	loss := checker.Loss{}
	keep := make([]int, len(r.slots))
	for i := range keep {
		keep[i] = r.rand.IntN(3)
	}
	f.begin = func() {
		loss = lossAt(r.clock.Now())
		r.primary, r.replica = r.replica, r.primary
		_, err := r.admin(r.primary, "REPLICAOF", "NO", "ONE")
		r.must(err)
		for i, s := range r.slots {
			for j, p := range s.lines() {
				p.Aim(r.primary.Addr)
				bus := j == len(s.tier)
				if keep[i] == 0 || (keep[i] == 1) == bus {
					p.Reset()
				}
			}
		}
		r.repointed = r.clock.Now()
	}
	f.end = func() {
		loss.To = r.clock.Now() + checker.Time(rejoin)
		r.losses = append(r.losses, loss)
	}
	return f
}
