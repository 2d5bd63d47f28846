package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratatest"
)

// request returns status and body of the answer of an instance.
func request(s http.Handler, method, target, body string) string {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Body))
}

// A service reads through the cache, and drops the key of each user that it writes.
func Example_service() {
	ctx := context.Background()
	db := newTable()
	users, err := strata.New(options(db))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(ctx)
	s := newService(db, users)

	fmt.Println(request(s, "GET", "/users/ann", ""))
	fmt.Println(request(s, "GET", "/users/ann", ""))
	fmt.Println(request(s, "PUT", "/users/ann", "Ann Bell"))
	fmt.Println(request(s, "GET", "/users/ann", ""))
	fmt.Println(request(s, "GET", "/users/bob", ""))
	fmt.Println(db.queries, "queries")
	// Output:
	// 200 {"id":"ann","name":"Ann"}
	// 200 {"id":"ann","name":"Ann"}
	// 204
	// 200 {"id":"ann","name":"Ann Bell"}
	// 404 no such user
	// 3 queries
}

func TestChangeOnOneInstanceIsSeenOnTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable()
		a, b := stratatest.Pair(t, stratatest.Plain(options(db)))
		one, other := newService(db, a), newService(db, b)

		request(one, "GET", "/users/ann", "")
		request(other, "GET", "/users/ann", "")
		if db.queries != 1 {
			t.Errorf("%d queries; the instances share one", db.queries)
		}
		request(one, "PUT", "/users/ann", "Ann Bell")
		synctest.Wait() // for the bus
		if got := request(other, "GET", "/users/ann", ""); !strings.Contains(got, "Ann Bell") {
			t.Errorf("the other instance says %s", got)
		}
	})
}

func TestUserIsReadAgainAfterTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable()
		a, _ := stratatest.Pair(t, stratatest.Plain(options(db)))
		s := newService(db, a)

		request(s, "GET", "/users/ann", "")
		time.Sleep(5 * time.Minute) // in the bubble's time
		request(s, "GET", "/users/ann", "")
		if db.queries != 2 {
			t.Errorf("%d queries; want 2", db.queries)
		}
	})
}

func TestDatabaseThatIsBackIsAskedAtOnce(t *testing.T) {
	db := newTable()
	a, _ := stratatest.Pair(t, stratatest.Plain(options(db)))
	s := newService(db, a)

	db.err = errors.New("connection refused")
	if got := request(s, "GET", "/users/ann", ""); got != "503 the database does not answer" {
		t.Error(got)
	}
	db.err = nil
	if got := request(s, "GET", "/users/ann", ""); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
}

// mute is a database that saves, and whose answer does not arrive.
type mute struct{ *table }

func (m mute) save(ctx context.Context, u user) error {
	_ = m.table.save(ctx, u)
	return context.Canceled
}

// TestUserOfAWriteWithoutAnAnswerIsReadAgain: the client has left during the write, or the connection to
// the database has ended. No error says whether the user is saved.
func TestUserOfAWriteWithoutAnAnswerIsReadAgain(t *testing.T) {
	db := mute{newTable()}
	a, _ := stratatest.Pair(t, stratatest.Plain(options(db)))
	s := newService(db, a)

	request(s, "GET", "/users/ann", "")
	left, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(left, "PUT", "/users/ann", strings.NewReader("Ann Bell")))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("the write gets %d", w.Code)
	}
	if got := request(s, "GET", "/users/ann", ""); !strings.Contains(got, "Ann Bell") {
		t.Errorf("after the write: %s", got)
	}
}

// The options of the service itself, not the plain ones: users outlive an outage.
func TestUserIsServedWhileTheDatabaseIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newTable()
		a, _ := stratatest.Pair(t, options(db))
		s := newService(db, a)

		request(s, "GET", "/users/ann", "")
		db.err = errors.New("connection refused")
		time.Sleep(6 * time.Minute) // in the bubble's time
		if got := request(s, "GET", "/users/ann", ""); !strings.HasPrefix(got, "200 ") {
			t.Error(got)
		}
	})
}

// slowTable is a table with a second for each row.
type slowTable struct{ *table }

func (t slowTable) find(ctx context.Context, id string) (user, error) {
	select {
	case <-time.After(time.Second):
		return t.table.find(ctx, id)
	case <-ctx.Done():
		return user{}, ctx.Err()
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// The order of the end: the server, with its requests, and then the cache that they read.
func TestRequestsHaveTheirAnswersBeforeTheCacheIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := slowTable{newTable()}
		users, err := strata.New(options(db))
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		defer here.Close()
		l := &oneConn{conns: make(chan net.Conn, 1)}
		l.conns <- there
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := serve(ctx, l, newService(db, users)); err != nil {
				t.Error(err)
			}
		})
		if _, err := io.WriteString(here, "GET /users/ann HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the row is being read
		stop()
		answer, err := http.ReadResponse(bufio.NewReader(here), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("a request that ran at the end got %s", answer.Status)
		}
		serving.Wait()
		if _, err := users.GetOrLoad(t.Context(), "ann", nil); !errors.Is(err, strata.ErrClosed) {
			t.Errorf("got %v of a cache that should be closed", err)
		}
	})
}
