// Reads the documents of the repository for tests: their blocks of code, the
// commands and programs in them, and it follows a page as a reader does.

package kit

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Read returns all documents below root, by their paths from root.
func Read(root string) (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && p != root && (e.Name() == "testdata" || e.Name() == "bin" || strings.HasPrefix(e.Name(), ".")) {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(p, ".md") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		all[filepath.ToSlash(rel)] = string(text)
		return err
	})
	return all, err
}

// Block is a piece of code in a page.
type Block struct {
	// Language is the word behind the opening quotes.
	Language string
	// Before is the paragraph in front of the block.
	Before string
	// Text is the code.
	Text string
}

// Blocks returns the blocks of a page that stand between quotes.
func Blocks(page string) (all []Block) {
	end := 0
	for _, m := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatchIndex(page, -1) {
		prose := strings.Split(strings.TrimSpace(page[end:m[0]]), "\n\n")
		all = append(all, Block{Language: page[m[2]:m[3]], Before: prose[len(prose)-1], Text: page[m[4]:m[5]]})
		end = m[1]
	}
	return all
}

// Program is a file of a whole program in a page.
type Program struct{ Name, Text string }

// Programs returns the files of programs in a page. The paragraph in front of such a file
// says "Save this as `main.go`" if its name matters.
func Programs(page string) (all []Program) {
	for _, b := range Blocks(page) {
		if b.Language == "go" && strings.HasPrefix(b.Text, "package main\n") {
			all = append(all, Program{b.file("main.go"), b.Text})
		}
	}
	return all
}

// file returns the name of the file as which a reader saves the block.
func (b Block) file(otherwise string) string {
	if m := regexp.MustCompile("Save this as `([\\w.]+)`").FindStringSubmatch(b.Before); m != nil {
		return m[1]
	}
	return otherwise
}

// Commands returns the commands in a page, without their comments: the lines of blocks of
// sh, and of others that begin with a program; and the commands in the text, in backquotes.
func Commands(page string, programs []string) (all []string) {
	begins := func(line string) bool {
		first, _, _ := strings.Cut(line, " ")
		return slices.ContainsFunc(programs, func(p string) bool { return first == p || strings.HasSuffix(p, "/") && strings.HasPrefix(first, p) })
	}
	for _, b := range Blocks(page) {
		for line := range strings.Lines(strings.ReplaceAll(b.Text, "\\\n", " ")) {
			line = withoutComment(line)
			output := b.Language == "" && strings.HasPrefix(line, "strata ") // a row of a table of results
			if line != "" && (b.Language == "sh" || b.Language == "" && begins(line) && !output) {
				all = append(all, line)
			}
		}
	}
	page = regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "")
	for _, m := range regexp.MustCompile(`(?m)^ {4,}(\S.*)$`).FindAllStringSubmatch(page, -1) {
		if line := withoutComment(m[1]); begins(line) {
			all = append(all, line)
		}
	}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(page, -1) {
		if line := strings.Join(strings.Fields(m[1]), " "); begins(line) && strings.ContainsAny(line, " /") && !strings.Contains(line, "(") { // go f()
			all = append(all, line)
		}
	}
	return all
}

// withoutComment returns a line without the comment behind it.
func withoutComment(line string) string {
	return strings.TrimSpace(regexp.MustCompile(`(^|\s)#.*`).ReplaceAllString(line, ""))
}

// Steps returns the words of each command of a line, without the quotes around them, without
// redirections, and without variables set for a command.
func Steps(line string) (steps [][]string) {
	steps = [][]string{nil}
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		last := len(steps) - 1
		switch bare := m[3]; {
		case slices.Contains([]string{"&&", "||", "|", `\|`, ";", "&"}, bare):
			steps = append(steps, nil)
		case regexp.MustCompile(`^\d?[<>]`).MatchString(bare):
		case steps[last] == nil && regexp.MustCompile(`^[A-Z]+=`).MatchString(bare):
		default:
			steps[last] = append(steps[last], m[1]+m[2]+bare)
		}
	}
	return slices.DeleteFunc(steps, func(words []string) bool { return len(words) == 0 })
}
