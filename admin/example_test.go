package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin"
)

// How do I look at the caches of a running program? Their page is a handler of its server.
func ExampleHandler() {
	users, err := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Minute, ShowKeys: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(context.Background())

	page := admin.Handler(users)
	defer page.Close()
	mux := http.NewServeMux()
	mux.Handle("/debug/strata/", page)

	server := httptest.NewServer(mux)
	defer server.Close()
	// A browser shows the page; here is an action without one.
	answer, err := http.Post(server.URL+"/debug/strata/api/tune", "application/json", strings.NewReader(`{"name":"users","ttl":"5m"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	// Output: 200 OK
}

// How do operators on other machines get the page, and no others? Authorize decides.
func ExampleOptions() {
	users, err := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(context.Background())
	isOperator := func(r *http.Request) bool {
		name, password, ok := r.BasicAuth()
		return ok && name == "operator" && password == "of the example"
	}

	page := admin.New(admin.Options{Authorize: isOperator, ReadOnly: true}, users)
	defer page.Close()

	ask := func(password string) {
		r := httptest.NewRequest(http.MethodGet, "https://admin.example/debug/strata/", nil)
		r.SetBasicAuth("operator", password)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	ask("guessed")
	ask("of the example")
	// Output:
	// 403
	// 200
}
