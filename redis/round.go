package redis

import (
	"errors"
	"time"
)

// A round is one question to all sentinels. It runs until most of them have named the
// present server, until all have answered or failed, or until the others are late.

// askLate is the time for which the answers of other sentinels are waited for after the
// first one.
const askLate = 200 * time.Millisecond

// round is the state of a round. The zero round does not run.
type round struct {
	running bool
	begun   time.Time
	answers []told
	failed  int
	err     error            // the most telling one
	late    <-chan time.Time // ends the round
}

// answered is the outcome of a question to one sentinel, which was sent at a time.
type answered struct {
	told
	at  time.Time
	err error
}

// add takes the outcome of a question in. known is the last answer of all sentinels.
func (r *round) add(a answered, known told) {
	if a.err != nil {
		r.failed++
		r.err = telling(r.err, a.err)
		return
	}
	// From the first answer that is not out of date, the others get a short time only: a dead
	// sentinel must not hold up a failover.
	if len(r.answers) == 0 && a.epoch >= known.epoch {
		r.late = time.After(askLate)
	}
	r.answers = append(r.answers, a.told)
}

// complete reports whether a round of questions to n sentinels is over: all have answered
// or failed, or most have named the server at addr.
func (r *round) complete(n int, addr string) bool {
	return len(r.answers)+r.failed >= n || r.most(n, addr)
}

// most reports whether most of n sentinels have named the server at addr.
func (r *round) most(n int, addr string) bool {
	votes := 0
	for _, a := range r.answers {
		if a.addr == addr {
			votes++
		}
	}
	return addr != "" && votes > n/2
}

// telling returns the more telling of the errors of two servers that were asked the
// same: a useless answer says more than none, whichever server was asked first. a may be nil.
func telling(a, b error) error {
	says := func(err error) int {
		switch {
		case errors.Is(err, ErrNoPrimary):
			return 2
		case lasting(err):
			return 1
		}
		return 0
	}
	if a == nil || says(b) > says(a) {
		return b
	}
	return a
}

// newest returns the answer of the newest configuration, and of these the most
// frequent. If several are equally frequent it is the present one: sentinels that know
// a server by different names may answer in another order each time.
func newest(answers []told, present string) (best told) {
	votes := map[told]int{}
	for _, a := range answers {
		votes[a]++
	}
	for _, a := range answers {
		same := a.epoch == best.epoch
		more := votes[a] - votes[best]
		if best.addr == "" || a.epoch > best.epoch || same && (more > 0 || more == 0 && a.addr == present) {
			best = a
		}
	}
	return best
}
