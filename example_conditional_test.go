package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// page is the response of an HTTP server, with the ETag that a later request needs
// to ask whether it is still current.
type page struct {
	Body, ETag string
}

// fetch stands for a request with the header If-None-Match.
func fetch(_ context.Context, path, ifNoneMatch string) (p page, status int) {
	current := page{Body: "contents of " + path, ETag: `"v1"`}
	if ifNoneMatch == current.ETag {
		return page{}, 304
	}
	return current, 200
}

// How do I refresh a large value without transferring it again? The Loader shows the origin
// the mark of the cached value, and answers ErrNotModified if the mark still holds.
func ExampleCache_Previous_eTag() {
	ctx := context.Background()
	var pages *strata.Cache[string, page]
	load := func(ctx context.Context, path string) (page, error) {
		held, _ := pages.Previous(ctx) // without one its ETag is empty
		p, status := fetch(ctx, path, held.ETag)
		fmt.Println("origin:", status)
		if status == 304 {
			return page{}, strata.ErrNotModified
		}
		return p, nil
	}
	pages, err := strata.New(strata.Options[string, page]{TTL: time.Minute, Loader: load})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close(ctx)

	for range 2 {
		p, err := pages.GetOrLoad(ctx, "/a", nil)
		fmt.Println(p.Body, err)
		_ = pages.Expire(ctx, "/a") // it may have changed
	}
	fmt.Println(pages.Stats().Loads.NotModified)
	// Output:
	// origin: 200
	// contents of /a <nil>
	// origin: 304
	// contents of /a <nil>
	// 1
}
