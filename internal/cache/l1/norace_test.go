//go:build !race

package l1

const raceEnabled = false
