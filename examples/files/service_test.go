package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/fakes"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/redis"
)

// each runs f with a service over either store, which is a model in memory.
func each(t *testing.T, f func(t *testing.T, s *httptest.Server)) {
	run := func(name string, kept files) {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(newService(kept))
			defer s.Close()
			f(t, s)
		})
	}
	r, err := redis.New(redis.Options{DialContext: fakes.NewRedis().Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	run("redis", inRedis{r})
	m, err := memcached.New(memcached.Options{Servers: []string{"localhost:11211"}, MaxValue: mostBytes, DialContext: fakes.NewMemcached().Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	run("memcached", inMemcached{m})
}

// send returns the status and the text of a response, and the error of reading it.
func send(t *testing.T, method, url string, body io.Reader) (status int, text string, err error) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	return r.StatusCode, string(all), err
}

func TestFilesComeBackWhole(t *testing.T) {
	each(t, func(t *testing.T, s *httptest.Server) {
		for _, size := range []int{0, 1, 10_000, 40_000, 900_000} {
			file := strings.Repeat("x", size)
			for name, body := range map[string]io.Reader{
				"known":   strings.NewReader(file),
				"unknown": struct{ io.Reader }{strings.NewReader(file)}, // sent in chunks
			} {
				if status, text, _ := send(t, "PUT", s.URL+"/files/"+name, body); status != http.StatusNoContent {
					t.Fatalf("%d bytes, size %s: PUT %d %s", size, name, status, text)
				}
				if status, text, err := send(t, "GET", s.URL+"/files/"+name, nil); status != http.StatusOK || text != file || err != nil {
					t.Errorf("%d bytes, size %s: GET %d, %d bytes, %v", size, name, status, len(text), err)
				}
			}
		}
	})
}

func TestFileThatThereIsNotIs404(t *testing.T) {
	each(t, func(t *testing.T, s *httptest.Server) {
		if status, text, _ := send(t, "GET", s.URL+"/files/none", nil); status != http.StatusNotFound {
			t.Errorf("%d %q", status, text)
		}
	})
}

func TestFileBeyondTheLimitIsNotStored(t *testing.T) {
	each(t, func(t *testing.T, s *httptest.Server) {
		for _, known := range []bool{true, false} {
			var body io.Reader = bytes.NewReader(make([]byte, mostBytes+1))
			if !known {
				body = struct{ io.Reader }{body}
			}
			if status, text, _ := send(t, "PUT", s.URL+"/files/large", body); status != http.StatusRequestEntityTooLarge {
				t.Errorf("known size %v: PUT %d %q", known, status, text)
			}
			if status, _, _ := send(t, "GET", s.URL+"/files/large", nil); status != http.StatusNotFound {
				t.Errorf("known size %v: GET %d", known, status)
			}
		}
	})
}

// TestRequestThatBreaksOffStoresNothing sends less than it has announced.
func TestRequestThatBreaksOffStoresNothing(t *testing.T) {
	each(t, func(t *testing.T, s *httptest.Server) {
		for _, head := range []string{"Content-Length: 100000\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"} {
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, "PUT /files/part HTTP/1.1\r\nHost: x\r\n"+head); err != nil {
				t.Fatal(err)
			}
			c.(*net.TCPConn).CloseWrite()
			answer, _ := io.ReadAll(c)
			c.Close()
			if !bytes.Contains(answer, []byte(" 400 ")) {
				t.Errorf("%q: %q", head, answer)
			}
			if status, _, _ := send(t, "GET", s.URL+"/files/part", nil); status != http.StatusNotFound {
				t.Errorf("%q: GET %d", head, status)
			}
		}
	})
}

// TestValueThatBreaksOffIsToldToTheClient: the server goes away in the middle of a value.
func TestValueThatBreaksOffIsToldToTheClient(t *testing.T) {
	server := fakes.NewRedis()
	r, err := redis.New(redis.Options{DialContext: server.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := httptest.NewServer(newService(inRedis{r}))
	defer s.Close()
	send(t, "PUT", s.URL+"/files/f", strings.NewReader(strings.Repeat("x", 100_000)))
	send(t, "GET", s.URL+"/files/f", nil) // from now on the client knows that it is large
	server.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) {
		ss.Out = append(ss.Out, "$100000\r\n"+strings.Repeat("x", 50_000)...)
		ss.Hangup()
	})
	if status, text, err := send(t, "GET", s.URL+"/files/f", nil); status != http.StatusOK || len(text) > 50_000 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d, %d bytes, %v", status, len(text), err)
	}
	server.Handle("GET", func(ss *fakes.RedisSession, _ [][]byte) { ss.Hangup() })
	if status, text, _ := send(t, "GET", s.URL+"/files/f", nil); status != http.StatusServiceUnavailable {
		t.Errorf("%d %q", status, text)
	}
}

func TestStoreIsChosenByItsFlag(t *testing.T) {
	for _, x := range []struct {
		redis, memcached string
		ok               bool
	}{
		{"redis://localhost:6379", "", true},
		{"no url", "", false},
		{"", "localhost:11211", true},
		{"", "no address", false},
	} {
		_, closeFiles, err := open(x.redis, x.memcached)
		if (err == nil) != x.ok {
			t.Errorf("%q, %q: %v", x.redis, x.memcached, err)
		}
		if err == nil {
			closeFiles()
		}
	}
}
