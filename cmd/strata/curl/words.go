package curl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxCommand is the length of a command line in bytes.
const maxCommand = 1 << 20

// Errors of Words about the whole text.
var (
	errLong    = fmt.Errorf("curl: the command is longer than %d bytes", maxCommand)
	errNotOne  = errors.New("curl: want one command: no pipe, redirection or second command; a URL with & or ; stands in quotes")
	errWords   = errors.New("curl: a word cannot be read as bash reads it")
	errReplace = errors.New("curl: want a command without variables, substitutions, ~ and {,} outside quotes: bash replaces them, and strata load does not")
)

// Words returns the words of a command line as bash would hand them to the program: without
// quotes, and without the line breaks behind backslashes. A text that bash would replace, such as
// variables, is an error. No error holds a part of the text.
func Words(text string) ([]string, error) {
	if len(text) > maxCommand {
		return nil, errLong
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, unreadable(err)
	}
	if len(file.Stmts) != 1 {
		return nil, errNotOne
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Background || s.Negated || s.Coprocess || s.Disown || len(s.Redirs) > 0 || len(call.Assigns) > 0 {
		return nil, errNotOne
	}
	// A range of a few bytes can stand for a billion words.
	if slices.ContainsFunc(call.Args, replaced) {
		return nil, errReplace
	}
	words, err := expand.Fields(&expand.Config{Env: expand.ListEnviron()}, call.Args...)
	if err != nil {
		return nil, errWords // its own text may have a part of the word
	}
	return words, nil
}

// replaced reports whether bash would replace a part of a word.
func replaced(w *syntax.Word) (found bool) {
	if first, ok := w.Parts[0].(*syntax.Lit); ok && strings.HasPrefix(first.Value, "~") {
		return true
	}
	syntax.SplitBraces(w) // a node for braces that bash replaces, other than {i}
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case nil, *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
		default:
			found = true
		}
		return !found
	})
	return found
}

// unreadable is the error for a text that bash would not read to its end.
func unreadable(err error) error {
	if p, ok := errors.AsType[syntax.ParseError](err); ok {
		return fmt.Errorf("curl: not a command of bash: line %d, column %d: a quote that is not closed, for example", p.Pos.Line(), p.Pos.Col())
	}
	return errors.New("curl: not a command of bash")
}
