package kit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long a command may try until the program of another terminal answers.
const patience = 30 * time.Second

// Reader follows a page, in an empty directory.
type Reader struct {
	// Tree is the repository, which a clone of it leads to.
	Tree string
	// Replace has pairs of texts: an address on the page, and the address that the test uses.
	Replace []string
	// Env is added to the environment.
	Env []string

	dir   string // where commands run
	out   string // of the last command
	apart *exec.Cmd
}

// Follow carries out the steps of a page in order: it saves files, runs the commands of
// blocks of sh, and compares output. The paragraph in front of a block is its meaning: "Save
// this as `main.go`", "In one terminal" (leave the command running), "In another terminal"
// (wait for the one terminal), and "It prints".
func (r *Reader) Follow(t testing.TB, page string) {
	t.Helper()
	r.dir = t.TempDir()
	replace := strings.NewReplacer(r.Replace...)
	t.Cleanup(r.stop)
	for _, b := range Blocks(page) {
		text := replace.Replace(b.Text)
		switch {
		case b.Language == "go":
			if name := b.file(""); name != "" {
				if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		case b.Language == "sh" && strings.Contains(b.Before, "In one terminal"):
			r.stop()
			r.start(t, text)
		case b.Language == "sh":
			r.run(t, text, strings.Contains(b.Before, "In another terminal"))
		case b.Language == "" && strings.HasSuffix(b.Before, "prints:"):
			if r.out != text {
				t.Errorf("%s prints\n%s\nand the page says\n%s", b.Before, r.out, text)
			}
		}
	}
}

// prelude makes a clone of this repository a link to the tree. The last line of the
// output is the folder in which a block ends.
const prelude = `set -e
git() { if [ "$1" = clone ]; then ln -s "$STRATA_TREE" "$(basename "$2")"; else command git "$@"; fi; }
`

// shell returns a command that runs a block.
func (r *Reader) shell(t testing.TB, text string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", prelude+text+"\npwd")
	cmd.Dir = r.dir
	cmd.Env = append(append(os.Environ(), r.Env...), "STRATA_TREE="+r.Tree, "PWD="+r.dir)
	return cmd
}

// run runs a block. With again it is repeated for a while as long as it fails.
func (r *Reader) run(t testing.TB, text string, again bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
		var out, errs bytes.Buffer
		cmd := r.shell(t, text)
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err == nil {
			lines := strings.TrimSuffix(out.String(), "\n")
			at := strings.LastIndex(lines, "\n") + 1
			r.out, r.dir = lines[:at], lines[at:]
			return
		} else if !again || time.Now().After(end) {
			t.Fatalf("%v\n%s\n%s%s", err, text, out.String(), errs.String())
		}
	}
}

// start builds the program of `go run .` and leaves it running. (A killed go command would
// leave its program alive.)
func (r *Reader) start(t testing.TB, text string) {
	t.Helper()
	if strings.TrimSpace(text) != "go run ." {
		t.Fatalf("only go run . can be left running, not %s", text)
	}
	program := filepath.Join(t.TempDir(), "program")
	r.run(t, "go build -o "+program+" .", false)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir = r.dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.apart = cmd
}

// stop ends the program that start has left running.
func (r *Reader) stop() {
	if r.apart != nil {
		_ = r.apart.Process.Kill() // it may have ended
		_ = r.apart.Wait()         // with the signal
		r.apart = nil
	}
}
