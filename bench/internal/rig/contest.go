package rig

// Way is one way to do the same thing as others.
type Way struct {
	// Name is the row of the way in tables.
	Name string
	// Before prepares a turn and is not counted. It may be nil.
	Before func() error
	// Call does the operation once: g is the number of the goroutine, and i the number of the call
	// of this goroutine.
	Call func(g, i int) error
}

// Contest compares ways to do the same thing: in each round every one has its
// turn under the same load.
type Contest struct {
	Load Load
	Ways []Way

	rounds int
	runs   [][]Run // by way and round
}

// Round gives each way a turn.
func (c *Contest) Round() error {
	if c.runs == nil {
		c.runs = make([][]Run, len(c.Ways))
	}
	steps := make([]func() error, len(c.Ways))
	for i, w := range c.Ways {
		steps[i] = func() error {
			if w.Before != nil {
				if err := w.Before(); err != nil {
					return err
				}
			}
			run, err := c.Load.Run(w.Call)
			c.runs[i] = append(c.runs[i], run)
			return err
		}
	}
	err := Round(c.rounds, steps...)
	c.rounds++
	return err
}

// Forget drops the measurements so far: of rounds that opened connections, sent
// scripts and warmed caches.
func (c *Contest) Forget() { clear(c.runs) }

// Nanos returns the nanoseconds of a call of a way in each round: the time of
// its whole turn divided by its calls, the inverse of the throughput.
func (c *Contest) Nanos(way int) []float64 {
	return c.each(way, func(r Run) float64 { return 1e9 / r.PerSecond() })
}

// CPU returns the processor time of a call of a way in each round, in
// nanoseconds; zeros unless the Load asks for it.
func (c *Contest) CPU(way int) []float64 {
	return c.each(way, func(r Run) float64 { return float64(r.Costs.CPU) / float64(r.Calls) })
}

// Ratios compares the times of two ways round by round.
func (c *Contest) Ratios(a, b int) Ratios { return Compare(c.Nanos(a), c.Nanos(b)) }

// PerCall are the costs of one call.
type PerCall struct{ CPU, Bytes, Allocs float64 }

// Costs returns the median costs of a call of a way, CPU in nanoseconds; zeros
// unless the Load asks for costs.
func (c *Contest) Costs(way int) PerCall {
	median := func(of func(Costs) float64) float64 {
		return Median(c.each(way, func(r Run) float64 { return of(r.Costs) / float64(r.Calls) }))
	}
	return PerCall{
		CPU:    median(func(c Costs) float64 { return float64(c.CPU) }),
		Bytes:  median(func(c Costs) float64 { return float64(c.Bytes) }),
		Allocs: median(func(c Costs) float64 { return float64(c.Allocs) }),
	}
}

func (c *Contest) each(way int, f func(Run) float64) []float64 {
	xs := make([]float64, len(c.runs[way]))
	for i, r := range c.runs[way] {
		xs[i] = f(r)
	}
	return xs
}
