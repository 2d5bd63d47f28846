package redis_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

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

// AppendGet reads into memory that the caller reuses.
func ExampleClient_AppendGet() {
	c, err := redis.New(redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	var buf []byte
	for _, key := range []string{"a", "b", "c"} {
		buf, err = c.AppendGet(context.Background(), buf[:0], key)
		switch {
		case errors.Is(err, redis.ErrNil):
			fmt.Println(key, "is missing")
		case err != nil:
			log.Print(err)
		default:
			fmt.Printf("%s holds %d bytes\n", key, len(buf))
		}
	}
}

// A pipeline sends any number of commands in one round trip.
func ExampleClient_Pipeline() {
	c, err := redis.New(redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	p := c.Pipeline()
	p.Add("INCR", "visits")
	p.Add("PEXPIRE", "visits", 60_000)
	replies, err := p.Do(context.Background())
	if err != nil {
		log.Print(err)
		return
	}
	n, err := replies[0].Int()
	fmt.Println(n, err)
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

// A subscription says when messages may have been missed.
func ExampleClient_Subscribe() {
	c, err := redis.New(redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sub, err := c.Subscribe(ctx, "news")
	if err != nil {
		log.Fatal(err)
	}
	defer sub.Close()
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			return
		}
		switch e.Kind {
		case redis.Subscribed:
			fmt.Println("listening")
		case redis.Received:
			fmt.Printf("%s: %s\n", e.Channel, e.Payload)
		case redis.Gap:
			fmt.Println("something may have been missed:", e.Err)
		}
	}
}

// Large values go through without being held in memory.
func ExampleClient_SetFrom() {
	c, err := redis.New(redis.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	f, err := os.Open("picture.png")
	if err != nil {
		log.Print(err)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Print(err)
		return
	}
	ctx := context.Background()
	if err := c.SetFrom(ctx, "picture", f, info.Size(), time.Hour); err != nil {
		log.Print(err)
	}
	if _, err := c.GetTo(ctx, "picture", os.Stdout); err != nil {
		log.Print(err)
	}
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
