package rules_test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain moves to the root of the repository, from where all paths in the
// rules are named.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
