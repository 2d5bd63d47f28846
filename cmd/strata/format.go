package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// count formats an integer with thousands separators.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short formats an integer in at most seven columns.
func short(n int64) string {
	if n < 999_950 {
		return count(n)
	}
	return digits(float64(n)/1e6) + " M"
}

// rate formats requests per second: whole numbers unless they are small.
func rate(r float64) string {
	if r != 0 && r < 10 {
		return fmt.Sprintf("%.2f", r)
	}
	return count(int64(math.Round(r)))
}

// duration formats a time with three digits and a unit.
func duration(d time.Duration) string {
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

// digits formats a number below 1000 with three digits, and larger ones whole.
func digits(f float64) string {
	switch {
	case f < 9.995:
		return fmt.Sprintf("%.2f", f)
	case f < 99.95:
		return fmt.Sprintf("%.1f", f)
	}
	return count(int64(math.Round(f)))
}

// seconds formats a duration of a flag: 5 s, 1.5 s, 3m0s.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
	}
	return d.String()
}

// bytes formats a size in decimal units.
func bytes(n int64) string {
	f, unit := float64(n), "B"
	for _, u := range []string{"kB", "MB", "GB", "TB"} {
		if f < 1000 {
			break
		}
		f, unit = f/1000, u
	}
	if unit == "B" {
		return count(n) + " B"
	}
	return digits(f) + " " + unit
}

// plural formats a number with its noun.
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}
