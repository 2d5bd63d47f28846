// Command service is a small HTTP service that reads from a database through a cache.
//
//	go run ./examples/service -addr localhost:8009 -redis redis://localhost:6379
//	curl localhost:8009/users/ann
//	curl -X PUT -d 'Ann Bell' localhost:8009/users/ann
//
// Start it twice, on two addresses: the instances share loads, and each sees the
// changes of the other one. Without -redis an instance has a cache of its own. The
// tests beside it show how a service with a cache is tested without a server.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/redis"
)

func main() {
	addr := flag.String("addr", "localhost:8009", "address to serve on")
	redisURL := flag.String("redis", "", "URL of the Redis that instances share")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *redisURL); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr, redisURL string) error {
	db := newTable()
	o := options(db)
	if redisURL != "" {
		ro, err := redis.ParseURL(redisURL)
		if err != nil {
			return err
		}
		client, err := redis.New(ro)
		if err != nil {
			return err
		}
		defer client.Close()
		o.Remote = strata.Remote[string, user]{Tier: redis.NewTier(client), Bus: redis.NewBus(client)}
	}
	users, err := strata.New(o)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: addr, Handler: newService(db, users), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	// Close sends the pending invalidations.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return users.Close(closing)
}
