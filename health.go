package strata

import "errors"

// originAnswered notes that the origin has answered.
func (c *core) originAnswered() {
	if c.failing.Load() != 0 {
		c.failing.Store(0)
	}
	c.budget.Success()
}

// logPanic logs that a Loader has panicked, or has ended its goroutine. A refresh
// has no caller that would get the error.
func (c *core) logPanic(key any, err error) {
	var stack []byte
	var p *LoadPanicError
	if errors.As(err, &p) {
		stack = p.Stack
	}
	c.origin.Panicked(c.now(), key, err, stack)
}
