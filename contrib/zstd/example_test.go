package zstd_test

import (
	"fmt"
	"strings"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/contrib/zstd"
)

type page struct{ Text string }

// Large values are compressed, and small ones are not.
func ExampleNew() {
	pages := codec.Compressed(codec.JSON[page](), 4096, zstd.New())

	small, err := pages.Append(nil, page{"short"})
	fmt.Println(len(small), err)
	large, err := pages.Append(nil, page{strings.Repeat("long ", 2000)})
	fmt.Println(len(large) < 200, err)
	back, err := pages.Decode(large)
	fmt.Println(len(back.Text), err)
	// Output:
	// 17 <nil>
	// true <nil>
	// 10000 <nil>
}
