package memory_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/strata-cache/strata/memory"
)

func ExampleByteCache() {
	cache, err := memory.NewByteCache(64 << 20)
	if err != nil {
		panic(err)
	}
	cache.SetTTL([]byte("ada"), []byte("Ada Lovelace"), time.Minute)

	var buffer []byte // used again for each read
	buffer, ok := cache.AppendGet(buffer[:0], []byte("ada"))
	fmt.Println(string(buffer), ok)
	// Output: Ada Lovelace true
}

// TestByteCacheReturnsCopies writes to the slices that it has given and got.
func TestByteCacheReturnsCopies(t *testing.T) {
	c, err := memory.NewByteCache(memory.MinBytes)
	if err != nil {
		t.Fatal(err)
	}
	key, value := []byte("key"), []byte("value")
	c.Set(key, value)
	clear(value)
	got, ok := c.AppendGet([]byte("its "), key)
	if !ok || string(got) != "its value" {
		t.Fatalf("%q, %v", got, ok)
	}
	got, _ = c.AppendGet(nil, key)
	clear(got)
	clear(key)
	if got, ok := c.AppendGet(nil, []byte("key")); !ok || string(got) != "value" {
		t.Errorf("%q, %v", got, ok)
	}
	for key, value := range c.All() {
		if string(key) != "key" || string(value) != "value" {
			t.Errorf("%q: %q", key, value)
		}
		clear(value)
	}
	if got, _ := c.AppendGet(nil, []byte("key")); string(got) != "value" {
		t.Errorf("%q after a loop that wrote to its value", got)
	}
	if n := c.Stats(); n.Hits != 4 || n.Misses != 0 || c.Len() != 1 {
		t.Errorf("%+v, %d entries", n, c.Len())
	}
	if !c.Delete([]byte("key")) || c.Delete([]byte("key")) || c.Len() != 0 {
		t.Error("Delete does not say whether there was an entry")
	}
}

// TestByteCacheTakesNoMoreThanItsBound stores entries of all sizes, and too large ones.
func TestByteCacheTakesNoMoreThanItsBound(t *testing.T) {
	for _, bound := range []int64{memory.MinBytes, 1 << 20, 10_000_019} {
		c, err := memory.NewByteCache(bound)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50_000 {
			size := i * 37 % 500
			if i%500 == 0 {
				size = int(bound) / 11
			}
			key := fmt.Appendf(nil, "key %d", i)
			if !c.Set(key, make([]byte, size)) {
				t.Fatalf("a value of %d bytes is not stored in %d", size, bound)
			}
			if got, ok := c.AppendGet(nil, key); !ok || len(got) != size {
				t.Fatalf("%d bytes of %d, %v", len(got), size, ok)
			}
			if n := c.Bytes(); n > bound {
				t.Fatalf("takes %d bytes of %d", n, bound)
			}
		}
		c.Set([]byte("large"), []byte("small"))
		if c.Set([]byte("large"), bytes.Repeat([]byte("x"), int(bound)/10)) {
			t.Error("an entry larger than a tenth is stored")
		}
		if _, ok := c.AppendGet(nil, []byte("large")); ok || c.Stats().Rejected != 1 {
			t.Errorf("the key of a rejected entry has a value: %v, %+v", ok, c.Stats())
		}
	}
}

// TestByteCacheRefusesBoundsThatAreTooSmall makes and resizes one.
func TestByteCacheRefusesBoundsThatAreTooSmall(t *testing.T) {
	for _, bound := range []int64{-1, 0, memory.MinBytes - 1} {
		if c, err := memory.NewByteCache(bound); err == nil || c != nil {
			t.Errorf("%d: %v", bound, err)
		}
	}
	c, err := memory.NewByteCache(memory.MinBytes)
	if err != nil {
		t.Fatalf("the least bound: %v", err)
	}
	if err := c.Resize(10); err == nil || err.Error() != "memory: a ByteCache of 10 bytes is too small: it needs 131072" {
		t.Errorf("%v", err)
	}
}

// liveHeap is the heap that is in use.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestByteCacheWithALoweredBoundTakesNoMoreThanThat measures the heap: tables of the cache count, too, and do not stay
// as large as they were.
func TestByteCacheWithALoweredBoundTakesNoMoreThanThat(t *testing.T) {
	const bound = 512 << 10
	before := liveHeap()
	c, err := memory.NewByteCache(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5000 {
		c.Set(fmt.Append(nil, i), make([]byte, 17<<10))
	}
	if took := liveHeap() - before; took > 64<<20+1<<20 {
		t.Errorf("takes %d bytes of the heap, for a bound of 64 MiB", took)
	}
	if err := c.Resize(bound); err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		c.Set(fmt.Append(nil, i), make([]byte, 100))
	}
	if took := liveHeap() - before; took > bound*103/100 {
		t.Errorf("takes %d bytes of the heap, for a bound of %d that was lowered", took, bound)
	}
	runtime.KeepAlive(c)
}
