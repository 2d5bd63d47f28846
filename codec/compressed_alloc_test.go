//go:build !race

package codec_test

import (
	"bytes"
	"runtime"
	"testing"
)

// TestCompressionAllocatesTheValueOnly, of a text without long codes: for those
// compress/flate allocates a few small tables. The race detector lets sync.Pool forget
// buffers, so the test is left out there.
func TestCompressionAllocatesTheValueOnly(t *testing.T) {
	c, text := compressedBytes(100), bytes.Repeat([]byte("value "), 2000)
	dst := make([]byte, 0, 2*len(text))
	data := appended(t, c, text)
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Append(dst, text) }); n != 0 {
		t.Errorf("Append: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Decode(data) }); n != 1 {
		t.Errorf("Decode: %v allocations, want one for the value", n)
	}
}

// TestLargeBuffersAreAllocatedAnew: a value of more than 1 MiB leaves no buffer of its size.
func TestLargeBuffersAreAllocatedAnew(t *testing.T) {
	c, text := compressedBytes(0), make([]byte, 0, 3<<20)
	for i := range cap(text) / 4 {
		text = append(text, byte(i), byte(i>>8), byte(i>>16), 0)
	}
	data := appended(t, c, text)
	var before, after runtime.MemStats
	for range 3 {
		runtime.ReadMemStats(&before)
		if _, err := c.Decode(data); err != nil || data[0] != asCompressed {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown < uint64(2*len(text)) {
			t.Errorf("%d bytes allocated for a value of %d bytes and its buffer", grown, len(text))
		}
	}
}
