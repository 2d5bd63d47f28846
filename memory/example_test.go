package memory_test

import (
	"fmt"
	"time"

	"github.com/strata-cache/strata/memory"
)

func Example() {
	cache, err := memory.New(memory.Options[string, int]{MaxEntries: 1000, TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cache.Close()

	cache.Set("answer", 42)
	v, ok := cache.Get("answer")
	fmt.Println(v, ok)
	_, ok = cache.Get("question")
	fmt.Println(ok)
	// Output:
	// 42 true
	// false
}

// Bound a cache by the memory of its values, and release the resources of
// evicted values.
func ExampleNew_weight() {
	cache, err := memory.New(memory.Options[string, []byte]{
		MaxWeight: 1 << 10,
		Weigh:     func(key string, value []byte) int64 { return int64(len(key) + len(value)) },
		OnEvict: func(key string, _ []byte, why memory.Reason) {
			fmt.Println(key, why)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cache.Set("a", make([]byte, 600))
	cache.Set("b", make([]byte, 600))
	fmt.Println(cache.Len(), cache.Weight())
	fmt.Println(cache.Set("c", make([]byte, 2000)))
	cache.Close()
	// Output:
	// a evicted
	// 1 601
	// false
	// b cleared
}

// Bound a cache by bytes: keys, values, and what an entry takes beside them.
func ExampleNew_bytes() {
	pages, err := memory.New(memory.Options[string, []byte]{
		MaxWeight: 64 << 20, // bytes
		Weigh:     func(path string, body []byte) int64 { return int64(len(path) + len(body) + 100) },
		Policy:    memory.A3FIFO, // the default
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close()
	pages.Set("/", []byte("hello"))
	fmt.Println(pages.Len(), pages.Weight())
	// Output: 1 106
}

// Keep the entries used last, and make room for ten percent at once.
func ExamplePolicy() {
	cache, err := memory.New(memory.Options[int, string]{
		MaxEntries: 20,
		Policy:     memory.LRU,
		EvictShare: 0.1,
		OnEvict:    func(key int, _ string, why memory.Reason) { fmt.Println(key, why) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for key := range 20 {
		cache.Set(key, "value")
	}
	cache.Get(0)
	cache.Set(20, "value")
	fmt.Println(cache.Len())
	// Output:
	// 1 evicted
	// 2 evicted
	// 19
}

// Count in a cache without losing an update to another goroutine.
func ExampleCache_Compute() {
	visits, err := memory.New(memory.Options[string, int]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer visits.Close()

	count := func(n int, _ bool) (int, memory.Op) { return n + 1, memory.Store }
	visits.Compute("home", count)
	n, _ := visits.Compute("home", count)
	fmt.Println(n)
	// Output: 2
}

// Store the value of only one of several goroutines.
func ExampleCache_SetIfAbsent() {
	cache, err := memory.New(memory.Options[string, string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cache.Close()

	fmt.Println(cache.SetIfAbsent("leader", "ada"))
	fmt.Println(cache.SetIfAbsent("leader", "grace"))
	// Output:
	// ada true
	// ada false
}

func ExampleNew_errors() {
	_, err := memory.New(memory.Options[string, int]{MaxEntries: -1, MaxWeight: 100, TTL: -time.Second})
	fmt.Println(err)
	// Output:
	// memory: MaxEntries: negative
	// memory: MaxWeight: needs Weigh
	// memory: TTL: negative
}
