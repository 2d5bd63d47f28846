package zstd_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/codec/flate"
	"github.com/strata-cache/strata/contrib/zstd"
)

// article is a row of a catalogue, as services send it as JSON.
type article struct {
	ID      int64    `json:"id"`
	SKU     string   `json:"sku"`
	Name    string   `json:"name"`
	Text    string   `json:"description"`
	Price   float64  `json:"price"`
	Stock   int      `json:"in_stock"`
	Tags    []string `json:"tags"`
	Updated string   `json:"updated_at"`
}

// catalogue returns JSON of articles of random words and numbers, of about size bytes.
func catalogue(size int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(size)))
	vocabulary := strings.Fields("the a with for light steel cotton garden table lamp wooden handle small large blue green red water proof " +
		"outdoor kitchen sharp soft warm winter summer children office and made of in two parts delivered within days including screws battery")
	words := func(n int) []string {
		var all []string
		for range n {
			all = append(all, vocabulary[r.IntN(len(vocabulary))])
		}
		return all
	}
	var rows []string
	for total := 0; total < size; {
		row, _ := json.Marshal(article{
			r.Int64N(1e9), fmt.Sprintf("%08X", r.Uint32()), strings.Join(words(3), " "), strings.Join(words(12), " "), float64(r.IntN(1e5)) / 100,
			r.IntN(500), words(2), fmt.Sprintf("2026-%02d-%02dT%02d:%02d:00Z", 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60)),
		})
		rows = append(rows, string(row))
		total += len(row) + 1
	}
	return []byte("[" + strings.Join(rows, ",") + "]")
}

// BenchmarkFormats compares formats on JSON: the ratio of its length to the length of
// its compressed form, and the bytes of JSON that one caller stores or reads in a
// second.
func BenchmarkFormats(b *testing.B) {
	for _, size := range []int{1 << 10, 4 << 10, 64 << 10} {
		text := catalogue(size - 100)
		for _, format := range []codec.Compressor{flate.New(), zstd.New()} {
			c := codec.Compressed(codec.Bytes(), 0, format)
			data, err := c.Append(nil, text)
			if err != nil {
				b.Fatal(err)
			}
			run := func(what string, f func() error) {
				b.Run(fmt.Sprintf("%dKiB/%s/%s", size>>10, format.Name(), what), func(b *testing.B) {
					b.SetBytes(int64(len(text)))
					b.ReportAllocs()
					for b.Loop() {
						if err := f(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(len(text))/float64(len(data)), "ratio")
				})
			}
			dst := make([]byte, 0, 2*len(text))
			run("append", func() error { _, err := c.Append(dst, text); return err })
			run("decode", func() error { _, err := c.Decode(data); return err })
		}
	}
}
