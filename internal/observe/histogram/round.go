package histogram

import "time"

// Round returns d in three digits: 3.01 s for 3.012364119 s. A minute or more is in seconds, an hour
// or more in minutes.
func Round(d time.Duration) time.Duration {
	switch a := d.Abs(); {
	case a >= time.Hour:
		return d.Round(time.Minute)
	case a >= time.Minute:
		return d.Round(time.Second)
	default:
		digit := time.Duration(1)
		for ; a/digit >= 1000; digit *= 10 {
		}
		return d.Round(digit)
	}
}
