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
	// Open http://localhost:8080/debug/strata/ once: the log then has the address with the token. Without
	// it the page shows nothing.
	answer, err := http.Get(server.URL + "/debug/strata/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	// Output: 403 Forbidden
}

// How does a program use the page? With a token that both know.
func ExampleNew() {
	users, err := strata.New(strata.Options[string, int]{Name: "users", TTL: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer users.Close(context.Background())
	const token = "of the example, or from the environment"
	page := admin.New(admin.Options{Token: token}, users)
	defer page.Close()
	server := httptest.NewServer(page)
	defer server.Close()
	action, _ := http.NewRequest(http.MethodPost, server.URL+"/api/tune", strings.NewReader(`{"name":"users","ttl":"5m"}`))
	action.Header.Set("Content-Type", "application/json")
	action.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(action)
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
