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

// atRoot moves to where TestMain has moved already. The go command learns of the
// folder this time, and so of the files that a test reads: without that it
// would reuse the result of a run from before they changed.
func atRoot(t *testing.T) {
	t.Helper()
	root, err := os.Getwd()
	if err == nil {
		err = os.Chdir(root)
	}
	if err != nil {
		t.Fatal(err)
	}
}
