package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// bug is a seeded bug: edits of a few declarations, and the test that finds them.
type bug struct {
	effect    string // on users: one sentence
	pkg       string // the folder of the test, as ./internal/cache/flight
	test      string // a pattern of its name
	schedules int    // as many simulated schedules find the bug, too; 0 means that none do
	edits     []edit
}

// edit changes one declaration of Go, or a whole file of another kind.
type edit struct {
	place   string // the folder of a package, or a file
	name    string // Func, Type.Method, or the name of a type, constant or variable; empty means the whole file
	changes []change
}

// change replaces lines by others. The indentation of old lines does not count.
type change struct {
	old, new []string
}

// parse reads a seeded bug:
//
//	A drop is lost.
//	package: ./internal/testing/coherence
//	test: TestDropArrives
//	schedules: 10000
//
//	in: internal/cache/flight Group.Land
//	-	old line
//	+	new line
//
// Lines that begin with a space stay as they are, and say where the others stand. A
// line of three dots begins another change of the same declaration.
func parse(text string) (bug, error) {
	var b bug
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	b.effect = lines[0]
	if strings.Count(b.effect, ".") == 0 || !strings.HasSuffix(b.effect, ".") {
		return b, errors.New("the first line is no sentence about the effect on users")
	}
	var c change
	flush := func() error {
		if len(c.old)+len(c.new) == 0 {
			return nil
		}
		if len(b.edits) == 0 {
			return errors.New("lines to change come before the place to change")
		}
		if len(c.old) == 0 {
			return errors.New("no line says where new lines belong")
		}
		last := &b.edits[len(b.edits)-1]
		last.changes = append(last.changes, c)
		c = change{}
		return nil
	}
	for i, line := range lines[1:] {
		if err := b.line(line, &c, flush); err != nil {
			return b, fmt.Errorf("line %d: %w", i+2, err)
		}
	}
	if err := flush(); err != nil {
		return b, err
	}
	if b.pkg == "" || b.test == "" {
		return b, errors.New("it names no package or no test")
	}
	if len(b.edits) == 0 || slices.ContainsFunc(b.edits, func(e edit) bool { return len(e.changes) == 0 }) {
		return b, errors.New("it changes nothing")
	}
	return b, nil
}

// line takes in one line of a seeded bug after the first.
func (b *bug) line(line string, c *change, flush func() error) (err error) {
	key, value, _ := strings.Cut(line, ": ")
	switch {
	case line == "":
	case line == "...":
		return flush()
	case line[0] == '-':
		c.old = append(c.old, line[1:])
	case line[0] == '+':
		c.new = append(c.new, line[1:])
	case line[0] == ' ':
		c.old = append(c.old, line[1:])
		c.new = append(c.new, line[1:])
	case key == "package":
		b.pkg = value
	case key == "test":
		b.test = value
	case key == "schedules":
		b.schedules, err = strconv.Atoi(value)
	case key == "in":
		if err := flush(); err != nil {
			return err
		}
		place, name, _ := strings.Cut(value, " ")
		b.edits = append(b.edits, edit{place: place, name: name})
	default:
		return fmt.Errorf("%q is nothing that a seeded bug consists of", line)
	}
	return err
}

// apply returns the changed files of the tree below root, by their paths.
func (b bug) apply(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range b.edits {
		if err := e.apply(root, files); err != nil {
			return nil, fmt.Errorf("in %s: %w", strings.TrimSpace(e.place+" "+e.name), err)
		}
	}
	return files, nil
}

// apply changes one file: as it is in files, else as it is in the tree below root.
func (e edit) apply(root string, files map[string]string) error {
	paths := []string{e.place}
	if info, err := os.Stat(filepath.Join(root, e.place)); err != nil {
		return errors.New("no such folder or file")
	} else if info.IsDir() {
		if e.name == "" {
			return errors.New("a folder without the name of a declaration")
		}
		if paths, err = sources(root, e.place); err != nil {
			return err
		}
	}
	found := ""
	for _, p := range paths {
		text, ok := files[p]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, p))
			if err != nil {
				return err
			}
			text = string(b)
		}
		lines := strings.Split(text, "\n")
		first, last := 0, len(lines)
		if !strings.Contains(text, e.name[strings.LastIndexByte(e.name, '.')+1:]) {
			continue // parsing all files of a package takes ten times as long
		}
		if e.name != "" {
			var err error
			if first, last, err = span(p, text, e.name); err != nil {
				return err
			}
		}
		if first == last {
			continue
		}
		if found != "" {
			return fmt.Errorf("both %s and %s have it: name the file", found, p)
		}
		found = p
		part := lines[first:last]
		for _, c := range e.changes {
			var err error
			if part, err = c.apply(part); err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
		}
		files[p] = strings.Join(slices.Concat(lines[:first], part, lines[last:]), "\n")
	}
	if found == "" {
		return errors.New("no such declaration")
	}
	return nil
}

// sources returns the files of the package in dir without its tests.
func sources(root, dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	var all []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			all = append(all, filepath.ToSlash(filepath.Join(dir, e.Name())))
		}
	}
	return all, err
}

// span returns the lines of the declaration of name with its comment: from first,
// counted from 0, to before last. Both are 0 if the file does not have it.
func span(path, text, name string) (first, last int, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range f.Decls {
		if !slices.Contains(names(d), name) {
			continue
		}
		from, to := fset.Position(start(d)).Line-1, fset.Position(d.End()).Line
		if last == 0 {
			first = from
		} else if name != "init" {
			return 0, 0, errors.New("more than one declaration has the name")
		}
		last = to
	}
	return first, last, nil
}

// start returns the position of a declaration's comment, or the position of the
// declaration if it has none.
func start(d ast.Decl) token.Pos {
	var doc *ast.CommentGroup
	switch d := d.(type) {
	case *ast.FuncDecl:
		doc = d.Doc
	case *ast.GenDecl:
		doc = d.Doc
	}
	if doc != nil {
		return doc.Pos()
	}
	return d.Pos()
}

// names returns the names that a declaration declares. A method has its type before
// it. All names of a group stand for the group.
func names(d ast.Decl) (all []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return []string{receiver(d.Recv.List[0].Type) + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				all = append(all, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					all = append(all, n.Name)
				}
			}
		}
	}
	return all
}

// receiver returns the name of a receiver's type, without star and parameters.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// apply replaces the old lines by the new ones. It returns an error unless lines has the old lines
// in exactly one place.
func (c change) apply(lines []string) ([]string, error) {
	at := -1
	for i := 0; i+len(c.old) <= len(lines); i++ {
		if !slices.EqualFunc(lines[i:i+len(c.old)], c.old, sameText) {
			continue
		}
		if at >= 0 {
			return nil, fmt.Errorf("two places have the line %q: say more of the lines around it", strings.TrimSpace(c.old[0]))
		}
		at = i
	}
	if at < 0 {
		return nil, fmt.Errorf("no place has the line %q, with those that follow it", strings.TrimSpace(c.old[0]))
	}
	return slices.Concat(lines[:at], c.new, lines[at+len(c.old):]), nil
}

func sameText(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }
