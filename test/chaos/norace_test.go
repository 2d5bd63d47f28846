//go:build linux && !race

package chaos_test

// callers is how many ask at once.
const callers = 10_000
