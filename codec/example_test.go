package codec_test

import (
	"fmt"
	"strings"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/flate"
)

// Pages of at least 4 KiB are compressed in L2, smaller ones are not.
func ExampleCompressed() {
	c := codec.Compressed(codec.String(), 4096, flate.New())
	for _, page := range []string{"small", strings.Repeat("a page with many words. ", 1000)} {
		data, err := c.Append(nil, page)
		if err != nil {
			panic(err)
		}
		again, err := c.Decode(data)
		fmt.Println(c.Name(), len(data) < len(page), again == page, err)
	}
	// Output:
	// string+flate false true <nil>
	// string+flate true true <nil>
}
