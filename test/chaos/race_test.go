//go:build linux && race

package chaos_test

// callers is how many ask at once. The race detector takes no more goroutines.
const callers = 2000
