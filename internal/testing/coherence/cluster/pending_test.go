package cluster_test

// Schedules in which many drops fail, of tags and of everything, so that some are
// pending while others take their place and readers ask L2.

// fails sets the options of such a schedule.
func (o *simOptions) fails() {
	o.failing, o.tagged, o.faults = true, true, 0
	o.cuts, o.accidents, o.garbled, o.breaker = 0, 0, false, false
	o.keys, o.steps = o.keys[:1], 2*o.steps
}

// faultsOf is the number of faulty operations with that name, in a thousand.
func (o *simOptions) faultsOf(op string) int {
	if o.failing && (op == "DropTags" || op == "DropAll") {
		return 500
	}
	return o.faults
}

// stepFailing draws the next call of a client in such a schedule.
func (m *member) stepFailing(d *dice) (n int) {
	n = []int{0, 0, 0, 0, 85, 101, 101, 96}[d.intn(8)]
	if n == 96 && !m.sweep() {
		return 0
	}
	return n
}

// sweep reports whether the instance may drop everything once more: many drops of
// everything are a flood, and put off. They are repeated at each change of primary.
func (m *member) sweep() bool { return m.sweeps.Add(1) <= 2-int64(min(1, m.s.o.changes)) }
