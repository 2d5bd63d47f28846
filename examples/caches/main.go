// Command caches shows two caches of one service on one client of Redis: they share its
// connections and the subscription of the bus, and nothing else.
//
//	go run ./examples/caches -redis redis://localhost:6379
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/strata-cache/strata/redis"
)

func main() {
	redisURL := flag.String("redis", "redis://localhost:6379", "URL of the Redis")
	flag.Parse()
	if err := run(context.Background(), *redisURL, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run reads from both caches.
func run(ctx context.Context, redisURL string, out io.Writer) error {
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return err
	}
	client, err := redis.New(o)
	if err != nil {
		return err
	}
	defer client.Close() // after the caches

	all, err := open(redis.NewTier(client), redis.NewBus(client), &database{})
	if err != nil {
		return err
	}
	if err := use(ctx, all, out); err != nil {
		return err
	}
	closing, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return all.Close(closing)
}

// use reads a value of each cache, changes one, and reads it again.
func use(ctx context.Context, all *caches, out io.Writer) error {
	for range 2 {
		name, err := all.users.GetOrLoad(ctx, "ann", nil)
		if err != nil {
			return err
		}
		price, err := all.prices.GetOrLoad(ctx, 7, nil)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, name, price)
		if err := all.prices.Invalidate(ctx, 7); err != nil { // the users stay
			return err
		}
	}
	return nil
}

// database stands for a real one. A price is another one each time.
type database struct{ users, prices int }

func (d *database) user(context.Context, string) (string, error) {
	d.users++
	return fmt.Sprintf("Ann %d", d.users), nil
}

func (d *database) price(context.Context, int) (float64, error) {
	d.prices++
	return float64(d.prices) + 0.5, nil
}
