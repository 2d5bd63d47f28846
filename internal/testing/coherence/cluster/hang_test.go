package cluster_test

import (
	"time"

	"github.com/strata-cache/strata/internal/testing/checker"
)

// hangs makes many loads longer than Limits.HardTimeout. Half of all Loaders do not
// look at their contexts, and still bring a value.
func (o *simOptions) hangs(d *dice) {
	o.hard = []time.Duration{20 * time.Microsecond, 200 * time.Microsecond, 2 * time.Millisecond, 200 * time.Millisecond}[d.intn(4)]
	o.cancels = d.chance(300)
}

// wait is d, or a nanosecond more if d is exactly the timeout: the order of the two
// events would be open.
func (o *simOptions) wait(d time.Duration) time.Duration {
	if d == o.hard {
		d++
	}
	return d
}

// late reports whether a load that waits for d is cut short.
func (o *simOptions) late(d time.Duration) bool { return o.hard > 0 && d > o.hard }

// timesOut notes that a load of key, which began at a time, will have failed at
// its timeout: a stale value may be served then.
func (m *member) timesOut(key string, began checker.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed[key] = append(m.failed[key], began+checker.Time(m.s.o.hard))
}

// hung notes that a load of key, which began at a time, has ended too late:
// from its timeout on it kept no caller from loading.
func (m *member) hung(key string, began checker.Time) {
	m.s.rec.Excuse(checker.Excuse{Instance: m.id, Key: key, From: began + checker.Time(m.s.o.hard), To: m.s.rec.Now()})
}
