package rig

import (
	"bytes"
	"os"
	"runtime"
	"time"
)

// Costs are the expenses of this process, the garbage collector's share
// included.
type Costs struct {
	CPU    time.Duration // user and system time, zero where the system does not tell
	Bytes  uint64        // allocated on the heap
	Allocs uint64        // number of allocations
}

// spent returns the costs since the process began.
func spent() Costs {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Costs{CPU: cpuTime(), Bytes: m.TotalAlloc, Allocs: m.Mallocs}
}

func (c Costs) minus(d Costs) Costs {
	return Costs{CPU: c.CPU - d.CPU, Bytes: c.Bytes - d.Bytes, Allocs: c.Allocs - d.Allocs}
}

// Meter reads how much memory this process occupies for itself. It allocates
// nothing while it does.
type Meter struct {
	file *os.File // nil where the system does not tell
	text [4096]byte
}

// NewMeter returns a meter. The caller closes it.
func NewMeter() *Meter {
	f, err := os.Open("/proc/self/smaps_rollup")
	if err != nil {
		f = nil
	}
	return &Meter{file: f}
}

// Close closes the file of the meter, if it has one.
func (m *Meter) Close() {
	if m.file != nil {
		m.file.Close()
	}
}

// Read returns the memory in bytes that the process has touched, without the
// program's own code. Where the system does not tell, it returns the memory
// that the runtime has asked for.
func (m *Meter) Read() uint64 {
	if m.file != nil {
		n, _ := m.file.ReadAt(m.text[:], 0) // io.EOF always
		if size, ok := anonymous(m.text[:n]); ok {
			return size
		}
	}
	var all runtime.MemStats
	runtime.ReadMemStats(&all)
	return all.Sys
}

// anonymous finds the memory without a file behind it in the text of
// smaps_rollup.
func anonymous(text []byte) (size uint64, ok bool) {
	_, text, ok = bytes.Cut(text, []byte("\nAnonymous:"))
	if !ok {
		return 0, false
	}
	text = bytes.TrimLeft(text, " ")
	for len(text) > 0 && text[0] >= '0' && text[0] <= '9' {
		size, text = size*10+uint64(text[0]-'0'), text[1:]
	}
	return size << 10, bytes.HasPrefix(text, []byte(" kB"))
}
