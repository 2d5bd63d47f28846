// Command files is a small HTTP service that keeps files in Redis or memcached, and holds
// none of them in memory: a GET streams a value to the response, a PUT streams the request
// to the server.
//
//	go run ./examples/files -redis redis://localhost:6379
//	go run ./examples/files -memcached localhost:11211
//	curl -T picture.png localhost:8010/files/picture.png
//	curl -o copy.png localhost:8010/files/picture.png
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
)

func main() {
	addr := flag.String("addr", "localhost:8010", "address to serve on")
	redisURL := flag.String("redis", "redis://localhost:6379", "URL of the Redis that has the files")
	memcachedAddr := flag.String("memcached", "", "address of a memcached that has the files instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *redisURL, *memcachedAddr); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr, redisURL, memcachedAddr string) error {
	files, closeFiles, err := open(redisURL, memcachedAddr)
	if err != nil {
		return err
	}
	defer closeFiles()
	server := &http.Server{Addr: addr, Handler: newService(files), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer cancel()
		ended <- server.Shutdown(within)
	})
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended // ListenAndServe returns when Shutdown begins, and requests still use the client
}

// endWithin is for how long requests may go on after the end of ctx.
const endWithin = 10 * time.Second

// open returns the files in memcached if it has an address, or else in Redis.
func open(redisURL, memcachedAddr string) (files, func(), error) {
	if memcachedAddr != "" {
		client, err := memcached.New(memcached.Options{Servers: []string{memcachedAddr}})
		if err != nil {
			return nil, nil, err
		}
		return inMemcached{client}, func() { client.Close() }, nil
	}
	o, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, nil, err
	}
	client, err := redis.New(o)
	if err != nil {
		return nil, nil, err
	}
	return inRedis{client}, func() { client.Close() }, nil
}
