package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/strata-cache/strata/memcached"
)

// A counter begins with the first call of each hour, which decides when it ends.
func ExampleClient_IncrementFrom() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	for range 3 {
		n, err := c.IncrementFrom(ctx, "logins:12", 1, 1, time.Hour)
		fmt.Println(n, err)
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
}

// Items of a batch have the numbers that CompareAndSwap needs: it writes the items unchanged
// since the read.
func ExampleClient_GetMany_compareAndSwap() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	if err := c.SetMany(ctx, []memcached.Item{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}}); err != nil {
		log.Print(err)
	}
	items, err := c.GetMany(ctx, []string{"a", "b"})
	if err != nil {
		log.Print(err)
	}
	_ = c.Set(ctx, memcached.Item{Key: "b", Value: []byte("3")}) // another client
	for _, key := range []string{"a", "b"} {
		item := items[key]
		item.Value = append(item.Value, '!')
		err := c.CompareAndSwap(ctx, item)
		fmt.Println(key, errors.Is(err, memcached.ErrConflict))
	}
	// Output:
	// a false
	// b true
}

// Items are removed in one round trip to each server. A missing item is not an error.
func ExampleClient_DeleteMany() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	if err := c.SetMany(ctx, []memcached.Item{{Key: "a"}, {Key: "b"}, {Key: "c"}}); err != nil {
		log.Print(err)
	}
	err := c.DeleteMany(ctx, []string{"a", "b", "missing"})
	var failed *memcached.PartialError
	if errors.As(err, &failed) {
		fmt.Println(len(failed.Failed), "items may be there still")
	}
	left, err := c.GetMany(ctx, []string{"a", "b", "c"})
	fmt.Println(len(left), err)
	// Output: 1 <nil>
}

// Append makes a list of events, without reading it first.
func ExampleClient_Append() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	for _, seen := range []string{"ann,", "bob,"} {
		err := c.Append(ctx, "seen", []byte(seen))
		if errors.Is(err, memcached.ErrNotStored) { // there is no list yet
			err = c.Add(ctx, memcached.Item{Key: "seen", Value: []byte(seen), TTL: time.Hour})
		}
		if err != nil {
			log.Print(err)
		}
	}
	item, err := c.Get(ctx, "seen")
	fmt.Println(string(item.Value), err)
	// Output: ann,bob, <nil>
}

// A fleet grows while calls run. The keys that move are loaded anew.
func ExampleClient_SetServers() {
	servers := []string{"10.0.0.1:11211", "10.0.0.2:11211"}
	_, dial := modelsOf([]string{"10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211"})
	c, err := memcached.New(memcached.Options{Servers: servers, DialContext: dial})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()

	keys := []string{"ann", "bob", "cem", "dan", "eve"}
	for _, key := range keys {
		if err := c.Set(ctx, memcached.Item{Key: key, Value: []byte(key)}); err != nil {
			log.Print(err)
		}
	}
	err = c.SetServers(ctx, append(servers, "10.0.0.3:11211"))
	found, _ := c.GetMany(ctx, keys)
	fmt.Println(len(found), "of 5 are where they were,", err)
	// Output: 4 of 5 are where they were, <nil>
}
