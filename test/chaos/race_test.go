//go:build linux && race

package chaos_test

// callers is the number of callers that ask at once. The race detector bounds
// the goroutines of a program.
const callers = 2000
