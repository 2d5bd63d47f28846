package memcached_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
)

// modelsOf returns models in memory of some servers, and a function that connects to
// them.
func modelsOf(servers []string) (map[string]*fakes.Memcached, func(context.Context, string, string) (net.Conn, error)) {
	all := map[string]*fakes.Memcached{}
	for _, s := range servers {
		all[s] = fakes.NewMemcached()
	}
	return all, func(ctx context.Context, network, addr string) (net.Conn, error) {
		return all[addr].Dial(ctx, network, addr)
	}
}

// Three servers share the keys. While one of them is dead, reads of its keys miss;
// reads from the others go on.
func ExampleFleet() {
	o := memcached.Options{
		Servers: []string{"10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211"},
		Fleet: memcached.Fleet{
			Placement: memcached.Ketama,
			Weights:   []int{1, 1, 2}, // the third has twice the memory
			Dead:      memcached.DeadMisses,
		},
	}
	models, dial := modelsOf(o.Servers)
	o.DialContext = dial
	c, err := memcached.New(o)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	for _, key := range []string{"ann", "bob", "cem", "dan", "eve"} {
		if err := c.Set(ctx, memcached.Item{Key: key, Value: []byte(key)}); err != nil {
			log.Print(err)
		}
	}
	models["10.0.0.3:11211"].Stop()

	found, err := c.GetMany(ctx, []string{"ann", "bob", "cem", "dan", "eve"})
	fmt.Println(len(found), "of 5 found,", err)
	// Output: 3 of 5 found, <nil>
}

// A batch returns the items of the other servers, and an error with the keys of the dead one.
func ExamplePartialError() {
	o := memcached.Options{Servers: []string{"10.0.0.1:11211", "10.0.0.2:11211", "10.0.0.3:11211"}}
	models, dial := modelsOf(o.Servers)
	o.DialContext = dial
	c, err := memcached.New(o)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	keys := []string{"ann", "bob", "cem", "dan", "eve"}
	var all []memcached.Item
	for _, key := range keys {
		all = append(all, memcached.Item{Key: key, Value: []byte(key)})
	}
	if err := c.SetMany(ctx, all); err != nil {
		log.Print(err)
	}
	models["10.0.0.3:11211"].Stop()

	items, err := c.GetMany(ctx, keys)
	var partial *memcached.PartialError
	if errors.As(err, &partial) {
		fmt.Println(len(items), "read,", len(partial.Failed), "on a dead server")
	}
	// Output: 4 read, 1 on a dead server
}
