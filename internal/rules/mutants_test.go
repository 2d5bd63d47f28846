package rules_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// applies returns an error for a patch that does not fit the tree.
func applies(patch string) error {
	if out, err := exec.Command("git", "apply", "--check", patch).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// TestEverySeededBugApplies keeps seeded bugs in step with the code. `git apply -3`, or
// `patch --fuzz=3` and `git diff`, bring most of them to another place.
func TestEverySeededBugApplies(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	bad := filepath.Join(t.TempDir(), "bad.patch")
	if err := os.WriteFile(bad, []byte("A.\n\n--- a/go.mod\n+++ b/go.mod\n@@ -1,1 +1,1 @@\n-no such line\n+another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if applies(bad) == nil {
		t.Error("the rule accepts a patch of another tree")
	}
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no seeded bugs: %v", err)
	}
	for _, p := range patches {
		if err := applies(p); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestSchedulesCompileWithoutOtherTests keeps scripts/mutants fast: it compiles the
// schedules without the other test files of their package.
func TestSchedulesCompileWithoutOtherTests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a package")
	}
	dir, err := filepath.Abs("internal/coherence")
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
	if out, err := exec.Command("go", "vet", "-overlay", overlay, "./internal/coherence").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
