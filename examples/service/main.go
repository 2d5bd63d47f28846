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
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/redis"
)

func main() {
	addr := flag.String("addr", "localhost:8009", "address to serve on")
	redisURL := flag.String("redis", "", "URL of the Redis that instances share")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return errors.Join(err, users.Close(ctx))
	}
	return serve(ctx, listener, newService(db, users))
}

// endWithin is for how long requests may go on after the end of ctx.
const endWithin = 10 * time.Second

// serve answers requests until ctx ends. When the last one has its answer it closes the cache.
func serve(ctx context.Context, l net.Listener, s *service) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer cancel()
		ended <- server.Shutdown(within)
	})
	defer stop()
	err := server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = <-ended // Serve returns when Shutdown begins, and requests are still running
	}
	// Close sends the pending invalidations.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	return errors.Join(err, s.users.Close(closing))
}
