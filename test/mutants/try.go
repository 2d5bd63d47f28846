package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The seeded schedules, which know nothing of the bugs.
const (
	checkerPackage = "./internal/testing/coherence/cluster"
	checker        = "TestClusterKeepsItsPromisesOnEverySchedule"
)

// session tries seeded bugs.
type session struct {
	source string // the repository
	dir    string // for trees
	files  []string
	limit  string // the time of one run of a test, in seconds
	all    bool   // run the named test of a bug that schedules have found, too

	shared   string                    // the tree of the variants
	numbers  map[string]int            // of the bugs that are variants there, by their files
	binaries map[string]string         // test programs of the shared tree, by their packages
	failing  map[string]*regexp.Regexp // tests that fail there without a bug, by their packages; nil: none
}

// outcome is what became of a bug.
type outcome struct {
	result string // caught, SURVIVED, TIMEOUT or BROKEN
	by     string // the test that caught it, or did not
}

// newSession returns a session in the folder at hand, the root of the repository. done removes its trees.
func newSession() (s *session, done func(), err error) {
	s = &session{limit: "300", all: os.Getenv("ALL") != "", numbers: map[string]int{}, binaries: map[string]string{}, failing: map[string]*regexp.Regexp{}}
	if l := os.Getenv("LIMIT"); l != "" {
		s.limit = l
	}
	if s.source, err = os.Getwd(); err != nil {
		return nil, nil, err
	}
	out, err := exec.CommandContext(context.Background(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!go.work*").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("git ls-files: %w", err)
	}
	s.files = strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if s.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return nil, nil, err
	}
	return s, func() { _ = os.RemoveAll(s.dir) }, nil
}

// try tries the bugs of some files, jobs at once. It prints an outcome for each, and returns an error unless all are caught.
func (s *session) try(w io.Writer, files []string, jobs int) (err error) {
	bugs := map[string]bug{}
	for _, f := range files {
		if bugs[f], err = read(f); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "%-36s %-9s %s\n", "mutant", "result", "found by")
	if len(files) > 1 {
		if err := s.share(w, files, bugs); err != nil {
			return err
		}
	}

	var mu sync.Mutex
	missed := 0
	next := make(chan string)
	var wg sync.WaitGroup
	for n := range jobs {
		wg.Go(func() {
			own := filepath.Join(s.dir, strconv.Itoa(n))
			for f := range next {
				o := s.one(f, bugs[f], own)
				mu.Lock()
				if o.result != "caught" {
					missed++
				}
				fmt.Fprintf(w, "%-36s %-9s %s\n", strings.TrimSuffix(path.Base(f), ".bug"), o.result, o.by)
				mu.Unlock()
			}
		})
	}
	for _, f := range files {
		next <- f
	}
	close(next)
	wg.Wait()
	if missed > 0 {
		return fmt.Errorf("%d of %d not caught", missed, len(files))
	}
	fmt.Fprintf(w, "all %d caught\n", len(files))
	return nil
}

// share makes the shared tree, and a test program of each package there that tests one of its
// bugs. It runs their tests without a bug, too.
func (s *session) share(w io.Writer, files []string, bugs map[string]bug) error {
	s.shared = filepath.Join(s.dir, "shared")
	if err := s.copy(s.shared, s.files...); err != nil {
		return err
	}
	v := &variants{root: s.shared, put: map[string][]insertion{}}
	for i, f := range files {
		err := v.add(i+1, bugs[f])
		if err != nil && !errors.Is(err, errNoVariant) {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	if err := v.write(); err != nil {
		return err
	}
	tests := map[string][]string{} // by package
	for n := range v.bugs() {
		b := bugs[files[n-1]]
		s.numbers[files[n-1]] = n
		tests[b.pkg] = append(tests[b.pkg], b.test)
		if b.schedules > 0 {
			tests[checkerPackage] = append(tests[checkerPackage], checker)
		}
	}
	for pkg, named := range tests {
		slices.Sort(named)
		binary := filepath.Join(s.dir, strings.ReplaceAll(path.Clean(pkg), "/", "_")+".test")
		if out, err := s.compile(s.shared, pkg, binary, nil); err != nil {
			return fmt.Errorf("%s with variants: %w\n%s", pkg, err, out)
		}
		out, err := s.run(s.shared, pkg, binary, 0, strings.Join(slices.Compact(named), "|"))
		if err != nil {
			fmt.Fprintf(w, "%-36s %-9s %s\n", pkg, "alone", failure(out))
		}
		s.binaries[pkg], s.failing[pkg] = binary, failing(out, err)
	}
	return nil
}

// failing returns a pattern of the tests that fail without a bug, or nil. A function with variants is
// not inlined, so that a test which counts allocations may fail: its bugs have trees of their own.
func failing(out string, err error) *regexp.Regexp {
	if err == nil {
		return nil
	}
	var names []string
	for _, m := range failed.FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 || strings.Contains(out, "\npanic: ") { // the tests after a panic did not run
		names = []string{"."}
	}
	return regexp.MustCompile(strings.Join(names, "|"))
}

// failed finds the names of failed tests in the text of a run. It is read-only.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// sound reports whether the tests of a pattern pass in the shared tree without a bug.
func (s *session) sound(pkg, test string) bool {
	if s.failing[pkg] == nil {
		return true
	}
	return !slices.ContainsFunc(strings.Split(test, "|"), s.failing[pkg].MatchString)
}

// one tries a bug: as a variant if it is one, else in the tree own. A variant that survives
// is tried in that tree, too: a program that a test starts does not have the variant.
func (s *session) one(file string, b bug, own string) outcome {
	if n := s.numbers[file]; n > 0 && s.sound(b.pkg, b.test) && (b.schedules == 0 || s.sound(checkerPackage, checker)) {
		o := s.test(b, func(pkg, test string, args ...string) (string, error) {
			return s.run(s.shared, pkg, s.binaries[pkg], n, test, args...)
		})
		if o.result == "caught" || b.schedules > 0 { // schedules start no program
			return o
		}
	}
	if _, err := os.Stat(own); err != nil {
		if err := s.copy(own, s.files...); err != nil {
			return outcome{"BROKEN", err.Error()}
		}
	}
	edited, err := seedInto(own, b)
	if err != nil {
		return outcome{"BROKEN", err.Error()}
	}
	o := s.test(b, func(pkg, test string, args ...string) (string, error) {
		binary := own + ".test"
		var left []string
		if test != checker {
			left = needless(test)
		}
		out, err := s.compile(own, pkg, binary, left)
		if err != nil && len(left) > 0 { // the test needs one of them
			out, err = s.compile(own, pkg, binary, nil)
		}
		if err != nil {
			return out, err
		}
		return s.run(own, pkg, binary, 0, test, args...)
	})
	if err := s.copy(own, edited...); err != nil {
		return outcome{"BROKEN", err.Error()}
	}
	return o
}

// seed finds the seeds of bad schedules in the text of a run. It is read-only.
var seed = regexp.MustCompile(`seed[= ](\d+)`)

// test runs the schedules, if they find the bug, and its test, if they do not or if all tests are to run.
func (s *session) test(b bug, run func(pkg, test string, args ...string) (string, error)) outcome {
	by := ""
	if b.schedules > 0 {
		o := judge(run(checkerPackage, checker, "-schedules", strconv.Itoa(b.schedules)))
		// A run that ends without a bad schedule has found nothing: its time was over.
		first := 0
		for _, m := range seed.FindAllStringSubmatch(o.by, -1) {
			if n, _ := strconv.Atoi(m[1]); first == 0 || n < first {
				first = n
			}
		}
		by = fmt.Sprintf("seed %d of %d schedules", first, b.schedules)
		if first == 0 && o.result == "caught" {
			o.result = "TIMEOUT"
		}
		if o.by = by; o.result != "caught" || !s.all {
			return o
		}
		by += ", "
	}
	o := judge(run(b.pkg, b.test))
	o.by = by + b.test
	return o
}

// judge tells from what a test has printed whether it has caught the bug.
func judge(out string, err error) outcome {
	switch {
	case err == nil:
		return outcome{"SURVIVED", out}
	case strings.Contains(out, "--- FAIL") || ended.MatchString(out):
		return outcome{"caught", out}
	}
	return outcome{"BROKEN", out}
}

// ended finds the line with which a bug has ended a test program: a panic, or a fatal error of the runtime. It is read-only.
var ended = regexp.MustCompile(`(?m)^(panic: |fatal error: (stack overflow|concurrent map|all goroutines are asleep))`)

// compile makes a test program. left are test files that it leaves out: generic code is
// compiled for each type that tests use, which takes most of the time.
func (s *session) compile(tree, pkg, binary string, left []string) (string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for _, f := range left {
		overlay.Replace[filepath.Join(tree, f)] = ""
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(binary+".json", text, 0o600); err != nil {
		return "", err
	}
	inline := "-gcflags="
	if strings.Contains(pkg, "/coherence/") {
		inline = "-gcflags=-l" // they compile in half the time, and count no allocations
	}
	c := exec.CommandContext(context.Background(), "go", "test", inline, "-overlay", binary+".json", "-c", "-o", binary, ".") //nolint:gosec // our own arguments
	c.Dir = filepath.Join(tree, pkg)
	out, err := c.CombinedOutput()
	return string(out), err
}

// needless returns test files without the test that take long to compile, and that few tests need.
func needless(test string) (left []string) {
	candidates, _ := filepath.Glob("*_test.go")
	has := regexp.MustCompile(`func (` + test + `)\(`)
	for _, f := range append(candidates, "internal/testing/coherence/loads/options_test.go") {
		if text, err := os.ReadFile(f); err == nil && !has.Match(text) {
			left = append(left, f)
		}
	}
	return left
}

// run runs a test with bug n, and returns what it has printed.
func (s *session) run(tree, pkg, binary string, n int, test string, args ...string) (string, error) {
	c := exec.CommandContext(context.Background(), binary, append([]string{"-test.timeout", s.limit + "s", "-test.run", test}, args...)...) //nolint:gosec // our own program
	c.Dir = filepath.Join(tree, pkg)
	// The copies have no history of their own.
	c.Env = append(os.Environ(), variable+"="+strconv.Itoa(n), "STRATA_HISTORY="+s.source)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

// failure returns the first line of what a failed test has printed that tells which one failed.
func failure(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "--- FAIL") || ended.MatchString(line) {
			return strings.TrimSpace(line)
		}
	}
	return "no test has failed"
}

// copy copies files of the repository into a tree.
func (s *session) copy(tree string, files ...string) error {
	for _, f := range files {
		from, to := filepath.Join(s.source, f), filepath.Join(tree, f)
		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not yet committed
		} else if err != nil {
			return err
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, info.Mode()); err != nil {
			return err
		}
	}
	return nil
}

// jobs returns how many bugs are tried at once.
func jobs() (int, error) {
	text := os.Getenv("JOBS")
	if text == "" {
		return runtime.NumCPU(), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("JOBS=%s is no number of jobs", text)
	}
	return n, nil
}
