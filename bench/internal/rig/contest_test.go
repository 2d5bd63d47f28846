package rig

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestContestComparesWithinRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		round, prepared := 0, 0
		took := func(ms ...time.Duration) func(int, int) error {
			return func(int, int) error {
				time.Sleep(ms[round] * time.Millisecond)
				return nil
			}
		}
		c := Contest{Load: Load{Goroutines: 2, Calls: 5}, Ways: []Way{
			{Name: "a", Call: took(1, 10, 20, 30)},
			{Name: "b", Before: func() error { prepared++; return nil }, Call: took(1, 20, 10, 30)},
		}}
		play := func() {
			if err := c.Round(); err != nil {
				t.Fatal(err)
			}
			round++
		}
		play()
		c.Forget()
		for range 3 {
			play()
		}
		// Two goroutines call at the same time.
		if got := fmt.Sprintf("%.3g", c.Nanos(0)); got != "[5e+06 1e+07 1.5e+07]" {
			t.Errorf("times %v", got)
		}
		if got := fmt.Sprintf("%.3g", []float64(c.Ratios(1, 0))); got != "[2 0.5 1]" {
			t.Errorf("ratios %v", got)
		}
		if prepared != 4 {
			t.Errorf("prepared %d times in 4 rounds", prepared)
		}
	})
}

func TestContestReturnsErrors(t *testing.T) {
	bad := errors.New("bad")
	before := Contest{Load: Load{Goroutines: 1, Calls: 1}, Ways: []Way{{Before: func() error { return bad }, Call: func(int, int) error { return nil }}}}
	call := Contest{Load: Load{Goroutines: 1, Calls: 1}, Ways: []Way{{Call: func(int, int) error { return bad }}}}
	if err := before.Round(); !errors.Is(err, bad) {
		t.Errorf("before a turn: %v", err)
	}
	if err := call.Round(); !errors.Is(err, bad) {
		t.Errorf("in a turn: %v", err)
	}
}

// TestCostsAreThoseOfTheCalls allocates a known number of bytes in each call,
// and in the second way spends a known time as well.
func TestCostsAreThoseOfTheCalls(t *testing.T) {
	const size, calls = 1 << 16, 200
	kept := make([][]byte, 2)
	allocate := func(g, _ int) error {
		kept[g] = make([]byte, size)
		return nil
	}
	c := Contest{Load: Load{Goroutines: 2, Calls: calls, Costs: true, Every: 1 << 30}, Ways: []Way{
		{Name: "allocate", Call: allocate},
		{Name: "spin", Call: func(int, int) error {
			for start := time.Now(); time.Since(start) < 100*time.Microsecond; {
			}
			return nil
		}},
	}}
	for range 3 {
		if err := c.Round(); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Costs(0); got.Allocs < 1 || got.Allocs > 1.5 || got.Bytes < size || got.Bytes > 1.5*size {
		t.Errorf("%.2f allocations of %.0f bytes in a call with one of %d", got.Allocs, got.Bytes, size)
	}
	// A busy machine gives less processor time than passes.
	if got := c.Costs(1); cpuTime() > 0 && (got.CPU < 2e3 || got.CPU > 400e3) || got.Bytes > 1<<10 {
		t.Errorf("%.0f ns and %.0f bytes in a call that spins for 100 µs", got.CPU, got.Bytes)
	}
	c.Load.Costs = false
	if r, err := c.Load.Run(allocate); err != nil || r.Costs != (Costs{}) {
		t.Errorf("costs %v that nobody asked for, error %v", r.Costs, err)
	}
}

func TestMeterSeesTouchedMemory(t *testing.T) {
	m := NewMeter()
	defer m.Close()
	before := m.Read()
	b := make([]byte, 64<<20)
	for i := 0; i < len(b); i += 512 {
		b[i] = 1
	}
	grown := m.Read() - before
	const detector = 6 // times as much with the race detector
	if grown < uint64(len(b))*9/10 || grown > uint64(len(b))*detector {
		t.Errorf("%d bytes are touched, and the process has grown by %d", len(b), grown)
	}
	if b[512] != 1 {
		t.Error("keeps b")
	}
	if n := testing.AllocsPerRun(10, func() { m.Read() }); m.file != nil && n != 0 {
		t.Errorf("%v allocations in a reading", n)
	}
}

func TestAnonymousMemoryIsFound(t *testing.T) {
	if n, ok := anonymous([]byte("Rss: 1996 kB\nAnonymous:           156 kB\nAnonHugePages: 0 kB\n")); n != 156<<10 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	for _, text := range []string{"", "Rss: 1996 kB\n", "Rss: 1 kB\nAnonymous:", "Rss: 1 kB\nAnonymous: x kB\n"} {
		if n, ok := anonymous([]byte(text)); ok && n != 0 {
			t.Errorf("%d in %q", n, text)
		}
	}
}
