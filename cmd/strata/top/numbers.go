package top

import (
	"math"
	"strconv"
)

// Numbers as text have three digits, and never an exponent: a unit is as much a part of the text as the
// digits are. The text of a column is no wider than the column.

// unknown stands for an unknown number.
const unknown = "–"

// unit is a unit for numbers of one kind. It is used for numbers of at least from.
type unit struct {
	name string
	size float64
	// from is the smallest number written in this unit.
	from float64
}

// The units, the largest first. They are read-only.
var (
	byteUnits = []unit{{" GiB", 1 << 30, 1 << 30}, {" MiB", 1 << 20, 1 << 20}, {" KiB", 1 << 10, 1 << 10}, {" B", 1, 0}}
	counts    = []unit{{"E", 1e18, 1e18}, {"P", 1e15, 1e15}, {"T", 1e12, 1e12}, {"G", 1e9, 1e9}, {"M", 1e6, 1e6}, {"k", 1e3, 1e4}}
	spans     = []unit{
		{" d", 86400e9, 48 * 3600e9}, {" h", 3600e9, 2 * 3600e9}, {" min", 60e9, 120e9}, {" s", 1e9, 1e9}, {" ms", 1e6, 1e6}, {" µs", 1e3, 1e3}, {" ns", 1, 0},
	}
)

// three is x in three digits, without zeros at the end of a fraction.
func three(x float64) string { return strconv.FormatFloat(round3(x), 'f', -1, 64) }

// round3 is x rounded to three digits, or to a whole number if a whole number has more digits.
func round3(x float64) float64 {
	a := math.Abs(x)
	if a >= 100 || a == 0 {
		return math.Round(x)
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(a)))
	return math.Round(x*scale) / scale
}

// in is x in the largest unit in which it is, when it is rounded, not too small.
func in(units []unit, x float64) string {
	for _, u := range units {
		if round3(math.Abs(x)/u.size)*u.size >= u.from {
			return three(x/u.size) + u.name
		}
	}
	return three(x)
}

// number is a number, such as 12.3k. One below a hundredth is nearly none.
func number(n float64) string {
	switch a := math.Abs(n); {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return unknown
	case a > 0 && a < 0.01:
		return "<0.01"
	case a < 10:
		return three(math.Round(n*100) / 100)
	case a < 9999.5:
		return three(n)
	}
	return in(counts, n)
}

// size is a number of bytes.
func size(n float64) string { return in(byteUnits, n) }

// percent is a share in percent. It is 100 only if nothing is left.
func percent(n float64) string {
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return unknown
	case n > 99.9 && n < 100:
		return "99.9"
	}
	return number(n)
}

// span is a duration, given in nanoseconds.
func span(ns float64) string {
	switch {
	case math.IsNaN(ns) || math.IsInf(ns, 0):
		return unknown
	case ns == 0:
		return "0 s"
	case math.Abs(ns) >= 9e18:
		return "no end"
	}
	return in(spans, ns)
}

// known is a duration, or NaN for none.
func known(ns float64) float64 {
	if ns == 0 {
		return math.NaN()
	}
	return ns
}

// counted is a number with the name of the counted things.
func counted(n float64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}
