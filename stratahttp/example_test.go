package stratahttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/stratahttp"
)

// How can an operator, and no other user, read the present value of the origin?
func ExampleControls() {
	ctx := context.Background()
	loads := 0
	pages, err := strata.New(strata.Options[string, string]{
		TTL:             5 * time.Minute,
		ContextControls: true, // without it the cache ignores the middleware
		Loader: func(_ context.Context, path string) (string, error) {
			loads++
			return fmt.Sprintf("%s as of load %d", path, loads), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close(ctx)

	operators := func(r *http.Request) bool {
		_, password, ok := r.BasicAuth()
		return ok && password == "secret" // a service compares in constant time
	}
	handler := stratahttp.Controls(operators)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, err := pages.GetOrLoad(r.Context(), r.URL.Path, nil)
		if err != nil {
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, page)
	}))

	get := func(password string) {
		r := httptest.NewRequest(http.MethodGet, "/news", nil)
		r.Header.Set("Cache-Control", "no-cache") // curl -H 'Cache-Control: no-cache'
		r.SetBasicAuth("ann", password)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Body)
	}
	get("guess")
	get("guess")
	get("secret")
	get("guess")
	// Output:
	// /news as of load 1
	// /news as of load 1
	// /news as of load 2
	// /news as of load 2
}
