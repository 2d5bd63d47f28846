package loadview

import "math"

// leastRate is the smallest rate that keys set, in requests per second.
const leastRate = 0.1

// stepUp returns the next round number above v, which is 5 to 10 % larger.
func stepUp(v float64) float64 {
	unit := stepOf(v)
	return round((math.Floor(v/unit+1e-9) + 1) * unit)
}

// stepDown returns the round number before v.
func stepDown(v float64) float64 {
	unit := stepOf(v * (1 - 1e-6)) // from 1,000 down, the steps are the steps of 999
	return round((math.Ceil(v/unit-1e-9) - 1) * unit)
}

func double(v float64) float64 { return 2 * v }

func halve(v float64) float64 { return v / 2 }

// stepOf returns the distance between two round numbers near v: 100 from 1,000 on, 200 from 2,000
// on, 500 from 5,000 on.
func stepOf(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(v, leastRate)))-1)
	switch lead := v / unit; {
	case lead < 20-1e-9:
		return unit
	case lead < 50-1e-9:
		return 2 * unit
	}
	return 5 * unit
}

// round removes the errors of fractions of ten.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }
