package strata_test

import (
	"context"
	"fmt"
	"time"

	"github.com/strata-cache/strata"
)

// Page is a value with pointers: its words.
type Page struct {
	Title string
	Words []string
}

// An L1 that keeps bytes: the garbage collector does not look at them, and each caller has a value of
// its own.
func ExampleMemory_encoded() {
	pages, err := strata.New(strata.Options[string, Page]{
		TTL:    time.Hour,
		Memory: strata.Memory[string, Page]{Encoded: true, MaxWeight: 256 << 20},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close(context.Background())

	ctx := context.Background()
	load := func(context.Context, string) (Page, error) {
		return Page{Title: "Home", Words: []string{"welcome", "home"}}, nil
	}
	for range 2 {
		p, _ := pages.GetOrLoad(ctx, "/", load)
		fmt.Println(p.Title, p.Words)
		p.Words[0] = "changed by a caller"
	}
	// Output:
	// Home [welcome home]
	// Home [welcome home]
}
