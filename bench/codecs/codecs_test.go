package codecs

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/strata-cache/strata/bench/internal/rig"
)

func TestEveryRowKeepsTheValue(t *testing.T) {
	for _, p := range peers() {
		for range 3 {
			v := sampleProfile()
			data, err := p.encode(&v)
			if err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
			if got, err := p.decode(bytes.Clone(data)); err != nil || !reflect.DeepEqual(got, v) {
				t.Errorf("%s: %+v, %v", p.name, got, err)
			}
		}
	}
}

// contests returns the contest of encoding, the contest of decoding, and the size of
// a value by row, in bytes.
func contests(slice time.Duration) (encode, decode *rig.Contest, sizes []int, err error) {
	load := rig.Load{Goroutines: 1, For: slice, Every: 1 << 10, Costs: true}
	encode, decode = &rig.Contest{Load: load}, &rig.Contest{Load: load}
	v := sampleProfile()
	for _, p := range peers() {
		data, err := p.encode(&v)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s: %w", p.name, err)
		}
		data = bytes.Clone(data)
		sizes = append(sizes, len(data))
		encode.Ways = append(encode.Ways, rig.Way{Name: p.name, Call: func(int, int) error {
			_, err := p.encode(&v)
			return err
		}})
		decode.Ways = append(decode.Ways, rig.Way{Name: p.name, Call: func(int, int) error {
			_, err := p.decode(data)
			return err
		}})
	}
	return encode, decode, sizes, nil
}

// BenchmarkCodecs prints the table. An operation is a round.
func BenchmarkCodecs(b *testing.B) {
	encode, decode, sizes, err := contests(20 * time.Millisecond)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := rig.Interleave(1, encode.Round, decode.Round); err != nil {
			b.Fatal(err)
		}
	}
	if b.N == 1 {
		return // the run that warms up
	}
	fmt.Printf("\n%s; medians of %d rounds\n", rig.Machine(), b.N)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tbytes\tencode ns\tB\tallocs\tstream / row\tdecode ns\tB\tallocs\tstream / row\t")
	for i, way := range encode.Ways {
		encoding := cells(encode, i)
		if i == aliasedRow {
			encoding = "-\t-\t-\t-"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t\n", way.Name, sizes[i], encoding, cells(decode, i))
	}
	w.Flush()
}

// cells are the time, the allocations and the ratio of a row.
func cells(c *rig.Contest, row int) string {
	cost := c.Costs(row)
	ratio := rig.Median(rig.Compare(c.CPU(streamRow), c.CPU(row)))
	return fmt.Sprintf("%.0f\t%.0f\t%.0f\t%.2f", cost.CPU, cost.Bytes, cost.Allocs, ratio)
}
