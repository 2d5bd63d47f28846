package test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
)

// earlier is the last commit without services and announcements of programs.
const earlier = "9167122"

// checkout is the folder with the earlier version in its history: the root of this module, or,
// if this is a copy without history, the folder that the variable STRATA_HISTORY names.
func checkout() string { return cmp.Or(os.Getenv("STRATA_HISTORY"), "..") }

// lacks returns why a folder has no commit in its history, or an empty string.
func lacks(ctx context.Context, dir, commit string) string {
	git := func(args ...string) error {
		return exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Run()
	}
	if _, err := exec.LookPath("git"); err != nil {
		return "git is not installed, so that there is no earlier version to roll from"
	}
	if git("rev-parse", "--git-dir") != nil {
		return "this checkout has no git history, so that there is no earlier version to roll from"
	}
	if git("cat-file", "-e", commit+"^{commit}") != nil {
		return "the git history of this checkout does not have commit " + commit + ", the earlier version: git fetch --unshallow brings it"
	}
	return ""
}

// treeOf writes the root module at a commit to a folder, and returns that.
func treeOf(t *testing.T, commit string) string {
	t.Helper()
	if why := lacks(t.Context(), checkout(), commit); why != "" {
		t.Skip(why)
	}
	packed, err := exec.CommandContext(t.Context(), "git", "-C", checkout(), "archive", commit).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || !strings.HasSuffix(h.Name, ".go") && h.Name != "go.mod" && !strings.HasSuffix(h.Name, ".lua") {
			continue
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		text, err := io.ReadAll(r)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// program builds main.go of testdata/rolling as the main module with that path, on strata in a
// folder.
func program(t *testing.T, module, strata string, services bool) (path string) {
	t.Helper()
	text, err := os.ReadFile("testdata/rolling/main.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	if services {
		text = bytes.Replace(text, []byte("//SERVICE "), nil, 1)
	}
	return buildProgram(t, module, strata, text)
}

// buildProgram builds a program as the main module with that path, on strata in a folder.
func buildProgram(t *testing.T, module, strata string, text []byte) (path string) {
	t.Helper()
	dir := t.TempDir()
	mod := "module " + module + "\n\ngo 1.26\n\nrequire github.com/strata-cache/strata v0.0.0\n\nreplace github.com/strata-cache/strata => " + strata + "\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "main.go"), text, 0o600), os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600)); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// here is the folder of the root module.
func here(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// versions builds one program on the earlier version, and on this one.
func versions(t *testing.T, services bool) (before, now string) {
	t.Helper()
	return program(t, "example.com/shop", treeOf(t, earlier), false), program(t, "example.com/shop", here(t), services)
}

// process is a program that runs.
type process struct {
	t  *testing.T
	in io.Writer

	answers chan string
	mu      sync.Mutex
	logged  []string
}

// run starts a program on a Redis, for a service, or on a fleet of memcached, and waits until
// its bus is connected.
func run(t *testing.T, program, addr, service string, fleet ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{addr, service}, fleet...)...)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, in: in, answers: make(chan string, 1)}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "log "); ok {
				p.mu.Lock()
				p.logged = append(p.logged, text)
				p.mu.Unlock()
				continue
			}
			p.answers <- lines.Text()
		}
	})
	t.Cleanup(func() {
		_ = in.Close()
		reading.Wait()
		_ = cmd.Wait()
	})
	eventually(t, "connected", func() bool { return p.do("connected") == "true" })
	return p
}

// do sends a line, and returns the answer.
func (p *process) do(line string) string {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
	select {
	case a := <-p.answers:
		return a
	case <-time.After(20 * time.Second):
		p.t.Fatalf("no answer to %q", line)
	}
	return ""
}

func (p *process) wants(line, want string) {
	p.t.Helper()
	if got := p.do(line); got != want {
		p.t.Errorf("%s: %q, want %q", line, got, want)
	}
}

// told returns the lines that the process has logged.
func (p *process) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.logged, "\n")
}

// TestCheckoutWithoutTheEarlierVersionIsToldApart: the tests of this file say why they cannot run.
func TestCheckoutWithoutTheEarlierVersionIsToldApart(t *testing.T) {
	dir := t.TempDir()
	if why := lacks(t.Context(), dir, earlier); !strings.Contains(why, "no git history") && !strings.Contains(why, "not installed") {
		t.Errorf("a folder without history: %q", why)
	}
	if exec.CommandContext(t.Context(), "git", "-C", dir, "init", "-q").Run() != nil {
		t.Skip("git is not installed")
	}
	if why := lacks(t.Context(), dir, earlier); !strings.Contains(why, "does not have commit "+earlier) {
		t.Errorf("a history that does not go back so far: %q", why)
	}
}

// TestEarlierVersionSharesEntriesWithACacheWithoutAService rolls a program from the earlier
// version to this one, on one Redis, and back.
func TestEarlierVersionSharesEntriesWithACacheWithoutAService(t *testing.T) {
	if testing.Short() {
		t.Skip("builds three programs")
	}
	before, now := versions(t, true)
	other := program(t, "example.com/bank", here(t), true)
	r := servers.StartRedis(t)
	old, shop := run(t, before, r.Addr, ""), run(t, now, r.Addr, "")
	pairs := [][2]*process{{old, shop}, {shop, old}}
	for i, p := range pairs {
		k := fmt.Sprint("k", i)
		p[0].wants("set "+k+" 1", "<nil>")
		p[1].wants("get "+k, "1 <nil>")
		p[0].wants("set "+k+" 2", "<nil>")
		eventually(t, "told of a Set", func() bool { return p[1].do("get "+k) == "2 <nil>" })
		p[0].wants("invalidate "+k, "<nil>")
		eventually(t, "told of a drop", func() bool { return p[1].do("get "+k) == "loaded <nil>" })
		p[0].wants("hold "+k, "<nil>")
	}
	// A program of another service, and then one with the same service as the
	// first.
	apart := run(t, other, r.Addr, "bank")
	old.wants("set k 1", "<nil>")
	apart.wants("get k", "loaded <nil>")
	apart.wants("invalidate k", "<nil>")
	for _, p := range []*process{old, shop} {
		p.wants("get k", "1 <nil>")
		if text := p.told(); text != "" {
			t.Errorf("logged beside another service: %s", text)
		}
	}
	mixed := run(t, other, r.Addr, "")
	mixed.wants("get k", "1 <nil>")
	eventually(t, "told of another program", func() bool {
		return strings.Contains(shop.told(), "example.com/bank") && strings.Contains(mixed.told(), "example.com/shop")
	})
	if a, b := shop.told(), mixed.told(); strings.Count(a+b, "\n") > 0 || old.told() != "" || apart.told() != "" {
		t.Errorf("logged: %q, %q, %q by the earlier version, %q by another service", a, b, old.told(), apart.told())
	}
	for name, p := range map[string]*process{"earlier": old, "now": shop, "mixed": mixed, "apart": apart} {
		if s := p.do("stats"); !strings.HasPrefix(s, "0 0 0 0 ") {
			t.Errorf("%s: foreign values, errors, gaps, lost messages, drops heard: %s", name, s)
		}
	}
}

// TestEarlierVersionAgreesAboutLanesWithoutKeys: the earlier version makes all lanes when it
// starts, and this one makes the lanes with drops.
func TestEarlierVersionAgreesAboutLanesWithoutKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs")
	}
	before, now := versions(t, true)
	r := servers.StartRedis(t)
	exchange := func(what string, all ...*process) {
		t.Helper()
		for i, p := range all {
			for j := range 20 { // lanes with drops, and others
				k := fmt.Sprintf("k%s%d-%d", what, i, j)
				p.wants("set "+k+" 1", "<nil>")
				for _, q := range all {
					q.wants("get "+k, "1 <nil>")
				}
				p.wants("set "+k+" 2", "<nil>")
				for _, q := range all {
					eventually(t, "told of a Set", func() bool { return q.do("get "+k) == "2 <nil>" })
				}
				p.wants("invalidate "+k, "<nil>")
				for _, q := range all {
					eventually(t, "told of a drop", func() bool { return q.do("get "+k) == "loaded <nil>" })
				}
			}
		}
	}
	first := run(t, now, r.Addr, "")
	exchange("a", first)
	first.wants("set kept 1", "<nil>")
	old := run(t, before, r.Addr, "")
	exchange("b", first, old)
	second := run(t, now, r.Addr, "")
	exchange("c", first, old, second)
	if keys, err := r.Client(t, patiently).Do(t.Context(), "DBSIZE").Int(); err != nil || keys < 1024 {
		t.Errorf("the earlier version has made no lanes: %d keys, %v", keys, err)
	}
	for name, p := range map[string]*process{"earlier": old, "first": first, "second": second} {
		p.wants("get kept", "1 <nil>")
		if s := p.do("stats"); !strings.HasPrefix(s, "0 0 0 ") {
			t.Errorf("%s: foreign values, errors, gaps, lost messages, drops heard: %s", name, s)
		}
		if text := p.told(); text != "" {
			t.Errorf("%s has logged %s", name, text)
		}
	}
}
