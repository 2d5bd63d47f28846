package rules_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSchedulesCompileWithoutOtherTests keeps scripts/mutants fast: it compiles the
// schedules without the other test files of their package.
func TestSchedulesCompileWithoutOtherTests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a package")
	}
	dir, err := filepath.Abs("internal/testing/coherence")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	without := struct{ Replace map[string]string }{map[string]string{}}
	for _, f := range tests {
		if !strings.HasPrefix(filepath.Base(f), "cluster_") {
			without.Replace[f] = ""
		}
	}
	text, err := json.Marshal(without)
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", "-overlay", overlay, "./internal/testing/coherence").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
