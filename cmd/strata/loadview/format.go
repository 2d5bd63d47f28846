package loadview

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// printable returns s with escapes for all characters but printable ASCII, so that each
// character is one column wide and none is a command to a terminal.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if ' ' <= r && r <= '~' {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// count formats a number in at most nine columns.
func count(n int64) string {
	if n < 10_000_000 {
		return humanize.Comma(n)
	}
	f := float64(n)
	for _, unit := range []string{"k", "M", "G", "T", "P"} {
		if f /= 1000; f < 999.5 {
			return digits(f) + " " + unit
		}
	}
	return digits(f/1000) + " E"
}

// rate formats a number per second.
func rate(r float64) string {
	if r > 0 && r < 9.95 {
		return strconv.FormatFloat(math.Round(r*100)/100, 'f', -1, 64)
	}
	return count(int64(math.Round(min(r, 1e18))))
}

// digits formats a number below 1000 with three digits.
func digits(f float64) string {
	switch {
	case f < 9.995:
		return strconv.FormatFloat(f, 'f', 2, 64)
	case f < 99.95:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return count(int64(math.Round(f)))
}

// latency formats a time with three digits and a unit.
func latency(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < 999500*time.Nanosecond:
		return digits(float64(d)/float64(time.Microsecond)) + " µs"
	case d < 999500*time.Microsecond:
		return digits(float64(d)/float64(time.Millisecond)) + " ms"
	}
	return digits(d.Seconds()) + " s"
}

// bound formats the end of a bucket: 1.5 ms.
func bound(d time.Duration) string {
	unit, name := time.Microsecond, " µs"
	switch {
	case d >= time.Second:
		unit, name = time.Second, " s"
	case d >= time.Millisecond:
		unit, name = time.Millisecond, " ms"
	}
	return strconv.FormatFloat(float64(d)/float64(unit), 'f', -1, 64) + name
}

// clock formats a part of the duration of a run in whole seconds: 9 s, 1m30s, 2h5m0s.
func clock(d time.Duration) string {
	d = max(0, d.Round(time.Second))
	if d < time.Minute {
		return strconv.Itoa(int(d.Seconds())) + " s"
	}
	return d.String()
}

// percent formats a share.
func percent(n, of int64) string {
	if of <= 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(n)/float64(of), 'f', 1, 64) + " %"
}
