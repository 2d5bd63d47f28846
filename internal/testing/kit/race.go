//go:build race

package kit

// raced says that the race detector looks on.
const raced = true
