package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// How do I drop everything that depends on one thing? Entries that depend on it
// carry its tag.
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

// How do I give the keys of a batch tags of their own? Options.Tags gives tags that
// follow from the value, LoadingKey tags that only the query knows.
func ExampleLoadingKey() {
	type page struct{ Text, Author, Shelf string }
	ctx := context.Background()
	pages, err := strata.New(strata.Options[string, page]{
		TTL:  time.Hour,
		Tags: func(_ string, p page) []string { return []string{"author:" + p.Author} },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close(ctx)

	load := func(ctx context.Context, paths []string) (map[string]page, error) {
		all := map[string]page{"/a": {"A", "ann", "top"}, "/b": {"B", "bob", "top"}, "/c": {"C", "bob", "low"}}
		for path, p := range all {
			strata.LoadingKey(ctx, path).SetTags("shelf:" + p.Shelf)
		}
		return all, nil
	}
	_, _ = pages.GetMany(ctx, []string{"/a", "/b", "/c"}, load)

	_ = pages.InvalidateTags(ctx, "author:ann", "shelf:low")
	for _, path := range []string{"/a", "/b", "/c"} {
		_, ok := pages.Get(ctx, path)
		fmt.Println(path, ok)
	}
	// Output:
	// /a false
	// /b true
	// /c false
}
