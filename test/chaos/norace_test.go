//go:build linux && !race

package chaos_test

// callers is the number of callers that ask at once.
const callers = 10_000
