package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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
