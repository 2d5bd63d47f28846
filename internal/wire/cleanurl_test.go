package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestCleanURLHasNoSecret(t *testing.T) {
	for text, want := range map[string]string{
		"http://h:8080/debug/strata/":                "http://h:8080/debug/strata/",
		"http://user:hunter2@h:1/x":                  "http://***@h:1/x",
		"http://user:hunter2/x@h:1":                  "http://***@h:1",
		"http://user:hunter2#x@h:1":                  "http://***",
		"http://user:hunter2?x@h:1":                  "http://***",
		"http://user:hunt@er2@h:1/x":                 "http://***@h:1/x",
		"http://hunter2@h:1/x":                       "http://***@h:1/x",
		"http://h:1/?token=hunter2":                  "http://h:1/?***",
		"http://h:1/?token=hunt@er2":                 "http://***",
		"http://h/#hunter2":                          "http://h/?***",
		"http://user:hunter2@h/x?token=hunter2#y":    "http://***@h/x?***",
		"http://h/@me":                               "http://***@me",
		"http://hunter2/x@h:1":                       "http://***@h:1",
		"http://hunter2\\x@h:1":                      "http://***@h:1",
		"http://user:hunter2%zz@h:1":                 "http://***@h:1",
		"user:hunter2@h":                             "***",
		"http:user:hunter2@h":                        "***",
		"":                                           "***",
		"redis://:hunter2@[::1]:6379/0?password=abc": "redis://***@[::1]:6379/0?***",
	} {
		if got := CleanURL(text); got != want || strings.Contains(got, "hunter2") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestErrorsOfURLsHaveNoPartOfThem(t *testing.T) {
	for _, text := range []string{
		"http://user:hunter2/x@h:1", "http://user:hunter2@h:port", "http://user:hunter2 x@h", "http://user:hunter2%zz@h", "http://user:hunter2#@h",
		"http://user:hunter2?x@h", "hunter2", "hunter2://h", "http://user:hunter2@", "http://user:hunter2@[::1", "http:user:hunter2@h", "http://user:hunter2@h:99999",
		"http://user:hunter2@h:0", "http://\x7fhunter2", "hunter2:8080/x",
		"http://hunter2/x@h:1", "http://hunter2?x@h:1", "http://hunter2#x@h:1", "http://hunter2:443/@h", "http://user:4711/hunter2@h:1", "http://u:pa@hunter2/x@h",
	} {
		u, err := ParseHTTP(text)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, %v", text, u, err)
		}
	}
	if u, err := ParseHTTP("https://h/%40me?token=a%40b"); err != nil || u.Path != "/@me" {
		t.Errorf("%v, %v", u, err)
	}
	if u, err := ParseHTTP("https://user:p@h:8080/x?y=z"); err != nil || u.Host != "h:8080" || u.User == nil {
		t.Errorf("%v, %v", u, err)
	}
}

func TestReasonHasNoAddress(t *testing.T) {
	_, err := http.Get("http://127.0.0.1:1/?token=hunter2") //nolint:bodyclose // fails
	if err == nil || !strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("the error does not name the query: %v", err)
	}
	if got := CleanError(fmt.Errorf("outside: %w", err)); got == nil || strings.Contains(got.Error(), "hunter2") || strings.Contains(got.Error(), "http://") {
		t.Errorf("got %v", got)
	}
	if plain := errors.New("plain"); CleanError(plain) != plain || CleanError(nil) != nil {
		t.Error("another error is changed")
	}
}

// TestReasonHasNoPartOfAnAnswer has servers that repeat the request, or its secret, where HTTP has other words.
func TestReasonHasNoPartOfAnAnswer(t *testing.T) {
	for _, answer := range []string{
		"hunter2\r\n", "HTTP/hunter2 200 OK\r\n\r\n", "HTTP/1.1 hunter2\r\n\r\n", "HTTP/1.1 200 OK\r\nhunter2\r\n\r\n", "HTTP/1.1 200 OK\r\n hunter2: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: hunter2\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: hunter2\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: http://hunter2%zz\r\n\r\n", "HTTP/1.1 302 Found\r\nLocation: hunter2://h\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nhunter2\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhunter2\r\n",
	} {
		client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				_, _ = there.Read(make([]byte, 4096))
				_, _ = there.Write([]byte(answer))
				_ = there.Close()
			}()
			return here, nil
		}}}
		got, err := client.Get("http://h/")
		if err == nil {
			_, err = io.ReadAll(got.Body)
			_ = got.Body.Close()
		}
		if clean := CleanError(err); err == nil || clean == nil || strings.Contains(clean.Error(), "hunter2") || len(clean.Error()) < 10 {
			t.Errorf("%q: %v, of %v", answer, clean, err)
		}
	}
}

// TestReasonHasNoWordsOfAProxy has a proxy that refuses a tunnel, and repeats the secret with which it was asked.
func TestReasonHasNoWordsOfAProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, "HTTP/1.1 403 no hunter2\x1b[31m\r\n\r\n")
			_ = conn.Close()
		}
	}()
	proxy := &url.URL{Scheme: "http", Host: l.Addr().String(), User: url.UserPassword("user", "hunter2")}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	_, err = client.Get("https://h.example/") //nolint:bodyclose // fails
	if err == nil || !strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("the error has no words of the proxy: %v", err)
	}
	got := CleanError(err)
	if strings.Contains(got.Error(), "hunter2") || strings.Contains(got.Error(), "\x1b") || errors.Unwrap(got) == nil {
		t.Errorf("got %q", got)
	}
}

func TestReasonKeepsTheCause(t *testing.T) {
	inner := &url.Error{Op: "Post", URL: "http://tokens/?hunter2", Err: fmt.Errorf(`bad "hunter2": %w`, io.ErrUnexpectedEOF)}
	got := CleanError(&url.Error{Op: "Get", URL: "http://h/?hunter2", Err: inner})
	if got.Error() != "bad" || !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", got)
	}
}

func FuzzCleanURLHasNoUserAndNoQuery(f *testing.F) {
	for _, text := range []string{"http://u:p@h/x?y#z", "://@", "http://u:p/@h?@", "a://b@c@d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := CleanURL(text)
		if u, err := ParseHTTP(text); err == nil && u.User != nil {
			if p, ok := u.User.Password(); ok && len(p) > 3 && strings.Contains(got, p) && !strings.Contains(u.Host+u.Path, p) {
				t.Errorf("Clean(%q) = %q has the password", text, got)
			}
		}
		if i := strings.IndexByte(got, '?'); i >= 0 && got[i:] != "?***" {
			t.Errorf("Clean(%q) = %q has a query", text, got)
		}
	})
}
