package strata_test

// Schedules in which many drops fail, of tags and of everything, so that some are
// pending while others take their place and readers ask L2.

// fails makes o such a schedule.
func (o *simOptions) fails() {
	o.failing, o.tagged, o.faults = true, true, 300
	o.cuts, o.accidents, o.garbled, o.breaker = 0, 0, false, false
	o.keys, o.steps = o.keys[:1], 2*o.steps
}

// stepFailing draws what a client does next in such a schedule.
func (m *member) stepFailing(d *dice) (n int) {
	n = []int{0, 0, 0, 85, 101, 101, 101, 96}[d.intn(8)]
	if n == 96 && m.sweeps.Add(1) > 4 { // more are a flood, and put off
		return 0
	}
	return n
}
