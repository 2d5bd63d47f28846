package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// alteration is a mechanical change of one function: whether its tests notice it tells how closely they look.
type alteration struct {
	file string // relative to the repository
	name string // of the function or method
	line int
	from int // the begin and the end of the old text, in bytes
	to   int
	old  string
	text string
}

// swapped are operators and what they become, read-only. A comparison loses or gains its boundary;
// a negated condition is an alteration of its own.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// alterations returns the alterations of the functions in a file: conditions negated, operators
// swapped, calls, assignments and increments left out.
func alterations(file, text string) (all []alteration, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		d, ok := d.(*ast.FuncDecl)
		if !ok || d.Body == nil {
			continue
		}
		add := func(from, to token.Pos, by string) {
			a, b := fset.Position(from).Offset, fset.Position(to).Offset
			all = append(all, alteration{file, names(d)[0], fset.Position(from).Line, a, b, text[a:b], by})
		}
		source := func(n ast.Node) string { return text[fset.Position(n.Pos()).Offset:fset.Position(n.End()).Offset] }
		ast.Inspect(d.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				add(n.Cond.Pos(), n.Cond.End(), "!("+source(n.Cond)+")")
			case *ast.BinaryExpr:
				if by, ok := swapped[n.Op]; ok {
					add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), by.String())
				}
			case *ast.ExprStmt:
				add(n.Pos(), n.End(), "")
			case *ast.IncDecStmt:
				add(n.Pos(), n.End(), "")
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					add(n.Pos(), n.End(), "")
				}
			}
			return true
		})
	}
	return all, nil
}

// generic tries alterations of the packages in some folders, at most most of each and chosen at
// random, against the tests of these packages. It prints those that no test notices. An
// alteration that changes nothing for users is among them: a reader decides.
func generic(folders []string, most, jobs int) error {
	s, done, err := newSession()
	if err != nil {
		return err
	}
	defer done()
	for _, dir := range folders {
		if err := s.alter(os.Stdout, path.Clean(filepath.ToSlash(dir)), most, jobs); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// alter tries alterations of one package.
func (s *session) alter(w io.Writer, dir string, most, jobs int) error {
	paths, err := sources(s.source, dir)
	if err != nil {
		return err
	}
	tree := filepath.Join(s.dir, strings.ReplaceAll(dir, "/", "_"))
	if err := s.copy(tree, s.files...); err != nil {
		return err
	}
	v := &variants{root: tree, put: map[string][]insertion{}}
	var all []alteration
	for _, p := range paths {
		text, err := os.ReadFile(filepath.Join(s.source, p))
		if err != nil {
			return err
		}
		these, err := alterations(p, string(text))
		if err != nil {
			return err
		}
		all = append(all, these...)
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tried := 0
	for i, a := range all {
		if tried == most {
			break
		}
		text, err := os.ReadFile(filepath.Join(s.source, a.file))
		if err != nil {
			return err
		}
		put, err := variant(i+1, a.name, string(text), string(text[:a.from])+a.text+string(text[a.to:]))
		if errors.Is(err, errNoVariant) {
			continue
		} else if err != nil {
			return err
		}
		tried++
		v.insert(map[string][]insertion{a.file: put})
	}
	if err := v.write(); err != nil {
		return err
	}
	binary := tree + ".test"
	if out, err := s.compile(tree, dir, binary, nil); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	begin := time.Now()
	if out, err := s.run(tree, dir, binary, 0, ".", "-test.short"); err != nil {
		return errors.New("its tests fail without an alteration: " + failure(out))
	}
	// A loop that does not end any more is noticed, too.
	s.limit = strconv.Itoa(int(10*time.Since(begin).Seconds()) + 10)

	numbers := make(chan int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	noticed, total := 0, 0
	for range jobs {
		wg.Go(func() {
			for n := range numbers {
				_, err := s.run(tree, dir, binary, n, ".", "-test.short", "-test.failfast")
				mu.Lock()
				if total++; err != nil {
					noticed++
				} else {
					a := all[n-1]
					by := a.text
					if by == "" {
						by = "nothing"
					}
					fmt.Fprintf(w, "%s:%d: %s: %s became %s\n", a.file, a.line, a.name, strings.Join(strings.Fields(a.old), " "), strings.Join(strings.Fields(by), " "))
				}
				mu.Unlock()
			}
		})
	}
	for n := range v.bugs() {
		numbers <- n
	}
	close(numbers)
	wg.Wait()
	fmt.Fprintf(w, "%s: %d of %d alterations noticed\n", dir, noticed, total)
	return nil
}
