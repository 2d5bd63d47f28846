package rules_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// programs are the commands that documents may tell to run, each with the check of its arguments.
// A name that ends in a slash stands for the files in that folder. The arguments of strata
// are parsed by a test of cmd/strata.
var programs = map[string]func(c commandTree, at string, args []string) string{ // read-only
	"go": commandTree.checkGo, "make": commandTree.checkMake, "scripts/": commandTree.checkScript, ".ci/": commandTree.checkScript,
	"cd": commandTree.checkFolder, "docker": commandTree.checkFiles, "promtool": commandTree.checkFiles, "curl": commandTree.checkCurl,
	"git": commandTree.checkGit, "mkdir": noCheck, "strata": noCheck, "redis-server": noCheck, "redis-cli": noCheck,
	"echo": noCheck, "true": noCheck, "head": noCheck,
}

func noCheck(commandTree, string, []string) string { return "" }

// commandTree has the things that commands may name.
type commandTree struct {
	exists  func(p string) bool
	read    func(p string) string
	targets string                     // the Makefile
	tests   map[string]map[string]bool // tests, examples and benchmarks by folder
	mains   map[string]bool            // folders of commands
	sources map[string]string          // the text of all Go files of a folder
}

func TestCommandsOfPagesExist(t *testing.T) {
	small := commandTree{
		exists: func(p string) bool {
			return slices.Contains([]string{"bench", "bench/wire", "cmd/a", "redis", "a.yml", "scripts/run"}, p)
		},
		read:    func(p string) string { return map[string]string{"scripts/run": "-all", "a.yml": "  redis:\n"}[p] },
		targets: "test: ## all\n\tcd test && go test $(or $(CHAOS),1m)\n",
		tests:   map[string]map[string]bool{"bench/wire": {"BenchmarkWire": true}, ".": {"TestA": true}},
		mains:   map[string]bool{"cmd/a": true},
		sources: map[string]string{"cmd/a": `flag.Bool("short")`},
	}
	for _, good := range []string{
		"make test", "make CHAOS=3m test", "go run ./cmd/a -short", "cd bench && go test -run '^$' -bench Wire/one -benchtime 20x ./wire",
		"go test -run TestA ./...", "go mod edit -replace " + modulePath + "/redis=../strata/redis", "go get " + modulePath + "/redis",
		"scripts/run -all NAME", "docker compose -f a.yml stop redis", "git clone https://" + modulePath, "strata top URL", "go doc ./redis", "PATH=a make test",
		"go mod tidy", "strata load URL >out || echo no", "curl -X PUT localhost:8080/names", "mkdir hello", "cd hello", "go run .",
	} {
		if errs := small.checkCommands("a.md", "```sh\nmkdir hello\n"+good+"\n```\n"); len(errs) > 0 {
			t.Errorf("the rule objects to %s: %v", good, errs)
		}
	}
	for _, bad := range []string{
		"make tset", "make CHOAS=3m test", "go run ./cmd/b", "go run ./cmd/a -shrot", "go test -bench Wire ./bench", "cd bnech && go test ./wire",
		"go test -run TestB .", "go mod edit -replace " + modulePath + "/redsi=../strata/redsi", "go get " + modulePath + "/redsi", "go doc ./redsi", "go rnu ./cmd/a",
		"go mod edit -replace " + modulePath + "/redis=../strata/other", "scripts/rnu", "scripts/run -none", "docker compose -f b.yml up", "docker compose -f a.yml stop rdeis",
		"git clone https://example.org/other", "rm -r bench", "cd bench && rm -r wire", "curl --secret localhost:8080",
	} {
		if errs := small.checkCommands("a.md", "```sh\n"+bad+"\n```\n"); len(errs) == 0 {
			t.Errorf("the rule accepts %s", bad)
		}
	}
	tree := readCommandTree(t)
	for p, text := range readPages(t) {
		for _, err := range tree.checkCommands(p, text) {
			t.Errorf("%s: %s", p, err)
		}
	}
}

// readCommandTree reads the names that commands may have.
func readCommandTree(t *testing.T) commandTree {
	t.Helper()
	c := commandTree{targets: readText(t, "Makefile"), tests: map[string]map[string]bool{}, mains: map[string]bool{}, sources: map[string]string{}}
	c.exists = func(p string) bool { _, err := os.Stat(p); return err == nil }
	c.read = func(p string) string { text, _ := os.ReadFile(p); return string(text) }
	for _, s := range readTree(t) {
		if s.test() {
			if c.tests[s.dir()] == nil {
				c.tests[s.dir()] = map[string]bool{}
			}
			maps.Copy(c.tests[s.dir()], testFunctions([]source{s}))
			continue
		}
		c.mains[s.dir()] = c.mains[s.dir()] || s.main()
		c.sources[s.dir()] += c.read(s.path)
	}
	return c
}

// checkCommands checks each command of page p.
func (c commandTree) checkCommands(p, text string) (errs []string) {
	made := map[string]bool{} // folders that the page makes
	at := "."
	for _, line := range kit.Commands(text, slices.Collect(maps.Keys(programs))) {
		for _, words := range kit.Steps(line) {
			switch {
			case words[0] == "mkdir" && len(words) > 1:
				made[words[1]] = true
			case words[0] == "cd" && len(words) > 1 && made[words[1]]:
				at = "."
			default:
				if err := c.check(p, at, words); err != "" {
					errs = append(errs, fmt.Sprintf("%s: %s", line, err))
				} else if words[0] == "cd" && len(words) > 1 {
					at = path.Join(at, words[1])
				}
			}
		}
		if strings.Contains(line, "&&") {
			at = "."
		}
	}
	return errs
}

// check checks one command, which page p tells to run in the folder at.
func (c commandTree) check(p, at string, words []string) string {
	check := programs[words[0]]
	if i := strings.LastIndex(words[0], "/"); check == nil && i > 0 {
		if check = programs[words[0][:i+1]]; check != nil {
			return check(c, at, words)
		}
	}
	if check == nil {
		return "no check knows this program: add one to programs in test/rules/commands_test.go"
	}
	if dir := path.Dir(p); at == "." && !strings.HasPrefix(dir, "docs") {
		at = dir
	}
	return check(c, at, words[1:])
}

// find returns the path p from the root of the repository. p may begin in the folder at, at the
// root, or in the module of at. The first of them with such a path counts.
func (c commandTree) find(at, p string) (string, bool) {
	for _, base := range []string{at, ".", module(at + "/")} {
		if full := path.Join(base, p); full == "." || c.exists(full) {
			return full, true
		}
	}
	return "", false
}

func (c commandTree) checkFolder(at string, args []string) string {
	if len(args) != 1 {
		return "one folder is wanted"
	}
	if _, ok := c.find(at, args[0]); !ok {
		return "there is no folder " + args[0]
	}
	return ""
}

func (c commandTree) checkGo(at string, args []string) string {
	if len(args) == 0 {
		return "a command of go is missing"
	}
	known := []string{"build", "doc", "get", "install", "list", "mod", "run", "test", "vet", "work", "env"}
	if !slices.Contains(known, args[0]) {
		return "no command of go that pages use: " + args[0]
	}
	for _, arg := range args[1:] {
		if err := c.checkModule(strings.TrimPrefix(arg, "-replace=")); err != "" {
			return err
		}
	}
	switch args[0] {
	case "run":
		return c.checkRun(at, args[1:])
	case "test":
		return c.checkTest(at, args[1:])
	case "doc", "build", "vet", "install":
		for _, arg := range args[1:] {
			if p, ok := strings.CutPrefix(arg, "./"); ok && !strings.HasSuffix(p, "...") {
				if _, ok := c.find(at, p); !ok {
					return "there is no package " + arg
				}
			}
		}
	}
	return ""
}

// checkModule wants a package of this repository behind its module path. In a replacement
// the same folder stands on both sides.
func (c commandTree) checkModule(arg string) string {
	rest, ok := strings.CutPrefix(arg, modulePath)
	if !ok {
		return ""
	}
	name, to, replaced := strings.Cut(rest, "=")
	name, _, _ = strings.Cut(name, "@")
	name = strings.Trim(name, "/")
	if name != "" && !c.exists(name) {
		return "there is no package " + name
	}
	if replaced && !strings.HasSuffix(to, path.Join("strata", name)) {
		return "the folder of " + path.Join(modulePath, name) + " is not " + to
	}
	return ""
}

func (c commandTree) checkRun(at string, args []string) string {
	if len(args) == 0 || args[0] == "." {
		return ""
	}
	dir, ok := c.find(at, args[0])
	if !ok || !c.mains[dir] {
		return "there is no command " + args[0]
	}
	if dir == "cmd/strata" {
		return "" // parsed by a test beside it
	}
	for _, arg := range args[1:] {
		if name, ok := strings.CutPrefix(arg, "-"); ok && !strings.Contains(c.sources[dir], fmt.Sprintf("%q", name)) && !c.anySource(dir, name) {
			return "there is no flag " + arg
		}
	}
	return ""
}

// anySource reports whether a package of the module of dir defines a flag: commands share
// some of them.
func (c commandTree) anySource(dir, name string) bool {
	for d, text := range c.sources {
		if module(dir) != "" && module(d) == module(dir) && strings.Contains(text, fmt.Sprintf("(%q", name)) {
			return true
		}
	}
	return false
}

func (c commandTree) checkTest(at string, args []string) string {
	var patterns, folders []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-run" || arg == "-bench":
			if i++; i < len(args) {
				patterns = append(patterns, args[i])
			}
		case arg == "-benchtime" || arg == "-count" || arg == "-timeout" || arg == "-parallel":
			i++
		case arg == "-v" || arg == "-short" || arg == "-race" || arg == "-benchmem":
		case strings.HasPrefix(arg, "-"):
			return "no flag of go test that pages use: " + arg
		default:
			folders = append(folders, arg)
		}
	}
	if len(folders) == 0 {
		folders = []string{"."}
	}
	names := map[string]bool{}
	for _, folder := range folders {
		all := strings.HasSuffix(folder, "...")
		dir, ok := c.find(at, strings.TrimSuffix(folder, "/..."))
		if !ok {
			return "there is no package " + folder
		}
		for d, tests := range c.tests {
			if d == dir || all && (dir == "." || strings.HasPrefix(d, dir+"/")) {
				maps.Copy(names, tests)
			}
		}
	}
	for _, pattern := range patterns {
		first, _, _ := strings.Cut(pattern, "/")
		re, err := regexp.Compile(first)
		if err != nil {
			return err.Error()
		}
		if first != "^$" && !slices.ContainsFunc(slices.Collect(maps.Keys(names)), re.MatchString) {
			return fmt.Sprintf("no test of %s matches %s", folders, first)
		}
	}
	return ""
}

func (c commandTree) checkMake(_ string, args []string) string {
	for _, arg := range args {
		name, _, isVariable := strings.Cut(arg, "=")
		switch {
		case isVariable && !strings.Contains(c.targets, "$("+name+")"):
			return "the Makefile has no variable " + name
		case !isVariable && !regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(arg)+`:`).MatchString(c.targets):
			return "the Makefile has no target " + arg
		}
	}
	return ""
}

// checkScript gets the name of the script as the first word.
func (c commandTree) checkScript(_ string, words []string) string {
	if !c.exists(words[0]) {
		return "there is no script " + words[0]
	}
	for _, arg := range words[1:] {
		if strings.HasPrefix(arg, "-") && !strings.Contains(c.read(words[0]), arg) {
			return words[0] + " does not speak of the flag " + arg
		}
	}
	return ""
}

// checkFiles wants the files that arguments name, and the services of a file for docker.
func (c commandTree) checkFiles(at string, args []string) string {
	services := ""
	for i, arg := range args {
		if strings.HasSuffix(arg, ".yml") || strings.HasSuffix(arg, ".yaml") {
			file, ok := c.find(at, arg)
			if !ok {
				return "there is no " + arg
			}
			services = c.read(file)
		} else if i > 0 && args[i-1] == "stop" && !strings.Contains(services, "\n  "+arg+":") && !strings.HasPrefix(services, "  "+arg+":") {
			return "there is no service " + arg
		}
	}
	return ""
}

func (c commandTree) checkCurl(_ string, args []string) string {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") && !slices.Contains([]string{"-X", "-d", "-H", "-s", "-i", "-T", "-o"}, arg) {
			return "no flag of curl that pages use: " + arg
		}
		if _, action, ok := strings.Cut(arg, "/debug/strata/"); ok && action != "" && !strings.Contains(c.sources["admin"], action) {
			return "package admin has no " + action
		}
	}
	return ""
}

func (c commandTree) checkGit(_ string, args []string) string {
	if len(args) > 1 && args[0] == "clone" && args[1] != "https://"+modulePath {
		return "the repository is https://" + modulePath
	}
	return ""
}
