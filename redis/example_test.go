package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/testing/fakes"
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
	c, err := redis.New(redis.Options{DialContext: fakes.NewRedis().Dial})
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

// A handler copies a value to the response without holding it in memory.
func ExampleClient_GetTo() {
	c := connect()
	defer c.Close()
	handler := func(w http.ResponseWriter, r *http.Request) {
		n, err := c.GetTo(r.Context(), "files:"+r.PathValue("name"), w)
		switch {
		case err == nil:
		case errors.Is(err, redis.ErrNil):
			http.NotFound(w, r)
		case n == 0:
			http.Error(w, "Redis does not answer", http.StatusServiceUnavailable)
		default:
			panic(http.ErrAbortHandler) // a part is sent: only the end of the connection tells
		}
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /files/{name}", handler)
	if err := c.Set(context.Background(), "files:a", []byte("some bytes"), time.Hour); err != nil {
		log.Print(err)
	}
	for _, path := range []string{"/files/a", "/files/b"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	}
	// Output:
	// 200 some bytes
	// 404 404 page not found
}

// A request of known or unknown length is sent to Redis while it is read.
func ExampleClient_SetFrom() {
	c := connect()
	defer c.Close()
	handler := func(w http.ResponseWriter, r *http.Request) {
		body := http.MaxBytesReader(w, r.Body, 64<<20)
		// ContentLength is -1 if the client has not said it.
		err := c.SetFrom(r.Context(), "files:"+r.PathValue("name"), body, r.ContentLength, 24*time.Hour)
		if err != nil {
			http.Error(w, "nothing is stored", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("PUT /files/{name}", handler)
	for _, body := range []io.Reader{strings.NewReader("known"), struct{ io.Reader }{strings.NewReader("unknown")}} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("PUT", "/files/a", body))
		v, err := c.Do(context.Background(), "GET", "files:a").String()
		fmt.Println(w.Code, v, err)
	}
	// Output:
	// 204 known <nil>
	// 204 unknown <nil>
}
