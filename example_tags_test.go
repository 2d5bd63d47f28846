package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// How do I drop everything that depends on one thing? What depends on it
// carries its tag.
func ExampleCache_InvalidateTags() {
	ctx := context.Background()
	pages, err := strata.New(strata.Options[string, string]{
		TTL: time.Hour,
		Loader: func(ctx context.Context, path string) (string, error) {
			author := "author:ann" // learned while the page is made
			strata.Loading(ctx).SetTags(author)
			return "page " + path + " by " + author, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close(ctx)

	_, _ = pages.GetOrLoad(ctx, "/a", nil)
	_ = pages.Set(ctx, "/about", "page /about", strata.WithTags("static"))

	if err := pages.InvalidateTags(ctx, "author:ann"); err != nil {
		fmt.Println("other instances may not know yet:", err)
	}
	_, a := pages.Get(ctx, "/a")
	_, about := pages.Get(ctx, "/about")
	fmt.Println(a, about)
	// Output: false true
}
