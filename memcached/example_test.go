package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
)

// A client needs an address and nothing else; it connects when it is used.
func Example() {
	o, err := memcached.ParseURL("memcached://localhost:11211")
	if err != nil {
		log.Fatal(err)
	}
	c, err := memcached.New(o)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	if err := c.Set(ctx, memcached.Item{Key: "greeting", Value: []byte("hello"), TTL: time.Minute}); err != nil {
		log.Print(err)
	}
	item, err := c.Get(ctx, "greeting")
	fmt.Println(string(item.Value), err)
}

// connect is memcached.New(memcached.Options{}), but that the server is a model in
// memory, so that the examples need none.
func connect() *memcached.Client {
	c, err := memcached.New(memcached.Options{DialContext: fakes.NewMemcached().Dial})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// AppendGet reads into memory that the caller reuses, without allocating anything.
func ExampleClient_AppendGet() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	if err := c.Set(ctx, memcached.Item{Key: "a", Value: []byte("some bytes")}); err != nil {
		log.Print(err)
	}
	var buf []byte
	for _, key := range []string{"a", "b"} {
		var err error
		buf, err = c.AppendGet(ctx, buf[:0], key)
		switch {
		case errors.Is(err, memcached.ErrMiss):
			fmt.Println(key, "is missing")
		case err != nil:
			log.Print(err)
		default:
			fmt.Printf("%s holds %d bytes\n", key, len(buf))
		}
	}
	// Output:
	// a holds 10 bytes
	// b is missing
}

// CompareAndSwap changes an item that others may change, too.
func ExampleClient_CompareAndSwap() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	if err := c.Set(ctx, memcached.Item{Key: "list", Value: []byte("a")}); err != nil {
		log.Print(err)
	}
	for {
		item, err := c.Get(ctx, "list")
		if err != nil {
			log.Print(err)
			return
		}
		item.Value = append(item.Value, ",b"...)
		err = c.CompareAndSwap(ctx, item)
		if errors.Is(err, memcached.ErrConflict) {
			continue // read it again
		}
		fmt.Println(string(item.Value), err)
		return
	}
	// Output: a,b <nil>
}

// Many items are written and read in one round trip each.
func ExampleClient_GetMany() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	err := c.SetMany(ctx, []memcached.Item{
		{Key: "a", Value: []byte("1"), TTL: time.Hour},
		{Key: "b", Value: []byte("2"), TTL: time.Hour},
	})
	var failed *memcached.PartialError
	if errors.As(err, &failed) {
		fmt.Println(len(failed.Failed), "items may be missing")
	}
	items, err := c.GetMany(ctx, []string{"a", "b", "c"})
	if err != nil {
		log.Print(err) // the map has the items of the other keys
	}
	_, ok := items["c"]
	fmt.Println(string(items["a"].Value), string(items["b"].Value), ok)
	// Output: 1 2 false
}

// Large values are never in memory as a whole.
func ExampleClient_GetTo() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	text := strings.NewReader("a long text\n")
	if err := c.SetFrom(ctx, memcached.Item{Key: "text"}, text, text.Size()); err != nil {
		log.Print(err)
	}
	n, err := c.GetTo(ctx, "text", os.Stdout)
	fmt.Println(n, err)
	// Output:
	// a long text
	// 12 <nil>
}

// Keys that memcached cannot carry are refused, unless the Options say otherwise.
func ExampleOptions_keys() {
	c, err := memcached.New(memcached.Options{DialContext: fakes.NewMemcached().Dial, Keys: memcached.KeysHashed})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	key := "https://example.org/?q=a key of any length, with spaces"
	if err := c.Set(ctx, memcached.Item{Key: key, Value: []byte("found")}); err != nil {
		log.Print(err)
	}
	item, err := c.Get(ctx, key)
	fmt.Println(string(item.Value), err)
	// Output: found <nil>
}
