package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Many bugs fit into one tree: a function that a bug edits gets a variant beside it, and calls
// the variant of the bug whose number is in the environment. So the tree is compiled once for all of them,
// where a tree for each bug is compiled as often as there are bugs ("mutant schemata": Untch,
// Offutt and Harrold, "Mutation Analysis Using Mutant Schemata", ISSTA 1993).

// variable is the name of the environment variable with the number of the bug. It
// is read once, before anything else of a package runs.
const variable = "STRATA_SEEDED_BUG"

// errNoVariant is the reason why a bug needs a tree of its own.
var errNoVariant = errors.New("it is not an edit of functions alone")

// variants is a tree in which bugs are present as variants of functions.
type variants struct {
	root string
	put  map[string][]insertion // by the path of a file
}

// insertion is text that a bug puts into a file.
type insertion struct {
	bug  int
	at   int // its distance from the begin of the file, in bytes
	text string
}

// add makes bug n, which is positive, a variant. It changes nothing if it returns an error.
func (v *variants) add(n int, b bug) error {
	files, err := b.apply(v.root)
	if err != nil {
		return err
	}
	put := map[string][]insertion{}
	for _, e := range b.edits {
		if e.name == "" {
			return errNoVariant
		}
		found := false
		for p, mutated := range files {
			if path.Dir(p) != path.Clean(e.place) && p != path.Clean(e.place) {
				continue
			}
			original, err := os.ReadFile(filepath.Join(v.root, p))
			if err != nil {
				return err
			}
			these, err := variant(n, e.name, string(original), mutated)
			if err != nil {
				return err
			}
			found = found || these != nil
			put[p] = append(put[p], these...)
		}
		if !found {
			return errNoVariant
		}
	}
	v.insert(put)
	return nil
}

func (v *variants) insert(put map[string][]insertion) {
	for p, these := range put {
		v.put[p] = append(v.put[p], these...)
	}
}

// remove takes bugs away.
func (v *variants) remove(bugs map[int]bool) {
	for p, these := range v.put {
		v.put[p] = slices.DeleteFunc(these, func(i insertion) bool { return bugs[i.bug] })
	}
}

// bugs returns the numbers of the bugs in the tree.
func (v *variants) bugs() map[int]bool {
	all := map[int]bool{}
	for _, these := range v.put {
		for _, i := range these {
			all[i.bug] = true
		}
	}
	return all
}

// text returns a file with its insertions, and for each line of it the bug that inserted it, or 0.
func (v *variants) text(original string, these []insertion) (text string, bugs []int) {
	these = slices.Clone(these)
	slices.SortStableFunc(these, func(a, b insertion) int { return a.at - b.at })
	var out strings.Builder
	write := func(s string, bug int) {
		out.WriteString(s)
		for range strings.Count(s, "\n") {
			bugs = append(bugs, bug)
		}
	}
	from := 0
	for _, i := range these {
		write(original[from:i.at], 0)
		write(i.text, i.bug)
		from = i.at
	}
	write(original[from:], 0)
	return out.String(), bugs
}

// variant returns what bug n inserts into a file for a function: a call of the variant, and the variant.
// It returns nothing if the file does not have the function.
func variant(n int, name, original, mutated string) ([]insertion, error) {
	was, err := function(original, name)
	if err != nil || was == nil {
		return nil, err
	}
	is, err := function(mutated, name)
	if err != nil || is == nil {
		return nil, errNoVariant
	}
	if signature(original, was) != signature(mutated, is) || is.Name.Name == "init" || is.Name.Name == "main" || callsRecover(is) || callsRecover(was) {
		return nil, errNoVariant
	}
	called := fmt.Sprintf("%s__%d", is.Name.Name, n)
	call, err := forward(was, called)
	if err != nil {
		return nil, err
	}
	if was.Type.Results != nil {
		call = "return " + call
	} else {
		call += "; return"
	}
	return []insertion{
		{n, int(was.Body.Lbrace), fmt.Sprintf("\n\tif seededBug == %d { %s }\n", n, call)},
		{n, len(original), "\n" + mutated[is.Pos()-1:is.Name.Pos()-1] + called + mutated[is.Name.End()-1:is.End()-1] + "\n"},
	}, nil
}

// function returns the declaration of the function or method in a file, or nil.
func function(text, name string) (*ast.FuncDecl, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		if slices.Contains(names(d), name) {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				return d, nil
			}
			return nil, errNoVariant
		}
	}
	return nil, nil
}

// signature returns the text of a declaration up to its body.
func signature(text string, d *ast.FuncDecl) string {
	return strings.Join(strings.Fields(text[d.Pos()-1:d.Body.Lbrace-1]), " ")
}

// callsRecover reports whether a function may be deferred in order to recover: called by another it
// would not recover.
func callsRecover(d *ast.FuncDecl) (yes bool) {
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if _, inner := n.(*ast.FuncLit); inner {
			return false
		}
		if c, ok := n.(*ast.CallExpr); ok {
			f, ok := c.Fun.(*ast.Ident)
			yes = yes || ok && f.Name == "recover"
		}
		return !yes
	})
	return yes
}

// forward returns the call of a variant of d with d's own arguments. It returns an error if one of them has no
// name.
func forward(d *ast.FuncDecl, called string) (string, error) {
	known := func(n *ast.Ident) bool { return n.Name != "_" }
	if d.Recv != nil {
		names := d.Recv.List[0].Names
		if len(names) == 0 || !known(names[0]) {
			return "", errNoVariant
		}
		called = names[0].Name + "." + called
	}
	var args []string
	if d.Type.TypeParams != nil {
		for _, f := range d.Type.TypeParams.List {
			for _, n := range f.Names {
				args = append(args, n.Name)
			}
		}
		called += "[" + strings.Join(args, ", ") + "]"
		args = nil
	}
	for _, f := range d.Type.Params.List {
		if len(f.Names) == 0 {
			return "", errNoVariant
		}
		for _, n := range f.Names {
			if !known(n) {
				return "", errNoVariant
			}
			args = append(args, n.Name)
		}
		if _, variadic := f.Type.(*ast.Ellipsis); variadic {
			args[len(args)-1] += "..."
		}
	}
	return called + "(" + strings.Join(args, ", ") + ")", nil
}

// write puts the variants into the tree. A bug that does not compile beside the others is
// taken away again.
func (v *variants) write() error {
	original := map[string]string{}
	for p := range v.put {
		text, err := os.ReadFile(filepath.Join(v.root, p))
		if err != nil {
			return err
		}
		original[p] = string(text)
	}
	for {
		lines := map[string][]int{} // by the path of a file
		names := map[string]bool{}
		for p, these := range v.put {
			var text string
			text, lines[p] = v.text(original[p], these)
			if err := os.WriteFile(filepath.Join(v.root, p), []byte(text), 0o600); err != nil {
				return err
			}
			names[path.Dir(p)] = true
		}
		folders := slices.Sorted(maps.Keys(names))
		for _, dir := range folders {
			if err := v.readNumber(dir); err != nil {
				return err
			}
		}
		broken := map[int]bool{}
		for module, of := range v.modules(folders) {
			bugs, out := compile(v.root, module, of, lines)
			for _, bug := range bugs {
				if bug == 0 {
					return fmt.Errorf("module %s does not compile with variants: %s", module, out)
				}
				broken[bug] = true
			}
		}
		if len(broken) == 0 {
			return nil
		}
		v.remove(broken)
	}
}

// modules returns some folders by the folders of their modules.
func (v *variants) modules(folders []string) map[string][]string {
	all := map[string][]string{}
	for _, dir := range folders {
		module := dir
		for module != "." {
			if _, err := os.Stat(filepath.Join(v.root, module, "go.mod")); err == nil {
				break
			}
			module = path.Dir(module)
		}
		all[module] = append(all[module], dir)
	}
	return all
}

// readNumber lets the package in dir know the number of the bug.
func (v *variants) readNumber(dir string) error {
	for p := range v.put {
		if path.Dir(p) != dir {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(v.root, p), nil, parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar seededBug = func() int { n, _ := strconv.Atoi(os.Getenv(%q)); return n }()\n", f.Name.Name, variable)
		return os.WriteFile(filepath.Join(v.root, dir, "seeded_bug.go"), []byte(text), 0o600)
	}
	return nil
}

// position finds the places in errors of the compiler. It is read-only.
var position = regexp.MustCompile(`(?m)^([^\s:]+\.go):(\d+):`)

// compile compiles packages of a module, and returns the bugs whose lines have errors, 0 for other lines, and
// what the compiler has printed.
func compile(root, module string, folders []string, lines map[string][]int) (bugs []int, printed string) {
	args := []string{"build", "-o", os.DevNull, "-gcflags=-e"} // a lone command would become a file, under the name of its folder
	for _, dir := range folders {
		dir, _ = filepath.Rel(module, dir)
		args = append(args, "./"+filepath.ToSlash(dir))
	}
	c := exec.CommandContext(context.Background(), "go", args...) //nolint:gosec // folders of the repository
	c.Dir = filepath.Join(root, module)
	out, err := c.CombinedOutput()
	if err == nil {
		return nil, ""
	}
	for _, m := range position.FindAllStringSubmatch(string(out), -1) {
		n, _ := strconv.Atoi(m[2])
		if of := lines[path.Join(module, m[1])]; n > 0 && n <= len(of) {
			bugs = append(bugs, of[n-1])
		} else {
			bugs = append(bugs, 0)
		}
	}
	if len(bugs) == 0 {
		bugs = []int{0}
	}
	return bugs, string(out)
}
