package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/strata-cache/strata/internal/fakeredis"
	"github.com/strata-cache/strata/redis"
)

// A client needs an address and nothing else; it connects when it is used.
func Example() {
	o, err := redis.ParseURL("redis://user:password@localhost:6379/0")
	if err != nil {
		log.Fatal(err)
	}
	c, err := redis.New(o)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx := context.Background()
	if err := c.Do(ctx, "SET", "greeting", "hello", "EX", 60).Ok(); err != nil {
		log.Print(err)
	}
	v, err := c.Do(ctx, "GET", "greeting").String()
	fmt.Println(v, err)
}

// connect is redis.New(redis.Options{}), but that the server is a model in
// memory, so that the examples need none.
func connect() *redis.Client {
	c, err := redis.New(redis.Options{DialContext: fakeredis.New().Dial})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// AppendGet reads into memory that the caller reuses, and Set writes, without
// allocating anything.
func ExampleClient_AppendGet() {
	c := connect()
	defer c.Close()
	ctx := context.Background()

	if err := c.Set(ctx, "a", []byte("some bytes"), time.Hour); err != nil {
		log.Print(err)
	}
	var buf []byte
	for _, key := range []string{"a", "b"} {
		var err error
		buf, err = c.AppendGet(ctx, buf[:0], key)
		switch {
		case errors.Is(err, redis.ErrNil):
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

// An error of the server and a failed connection are told apart, and so are calls
// that can be repeated without harm.
func ExampleSafeToRetry() {
	c := connect()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	err := c.Set(ctx, "key", []byte("text"), 0)
	if err == nil {
		err = c.Do(ctx, "INCR", "key").Err()
	}
	var refused *redis.Error
	switch {
	case errors.As(err, &refused):
		fmt.Println("refused:", refused.Message)
	case redis.SafeToRetry(err):
		fmt.Println("nothing has happened yet")
	}
	// Output: refused: value is not an integer or out of range
}

// The server runs a script in one step. Its text is sent once.
func ExampleClient_Eval() {
	c, err := redis.New(redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	swap := redis.NewScript(`
		local old = redis.call('GET', KEYS[1])
		redis.call('SET', KEYS[1], ARGV[1])
		return old`)
	old, err := c.Eval(context.Background(), swap, []string{"key"}, "new").String()
	fmt.Println(old, err)
}

func ExampleOptions_cluster() {
	o, err := redis.ParseURL("redis://10.0.0.1:6379,10.0.0.2:6379/?cluster=true")
	if err != nil {
		log.Fatal(err)
	}
	c, err := redis.New(o) // any nodes will do: they name the others
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	// Keys with the same part in braces are in one slot, and so in one script.
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], redis.call('GET', KEYS[2]))")
	n, err := c.Eval(ctx, add, []string{"{cart:7}sum", "{cart:7}last"}).Int()
	if err != nil {
		log.Print(err)
		return
	}
	fmt.Println(n)
}
