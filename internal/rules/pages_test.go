package rules_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Lines of documents, in a thousand, that may hold a word which stands for a
// subject that is not named. Titles that are questions are not counted.
const maxRiddlesOfDocuments = 15

// The indexes. Each names all pages of the guide by their titles, and the
// first one all files in docs.
var indexes = []string{"docs/README.md", "docs/guide/README.md", "README.md"} // read-only

func TestPagesAreListedByTheirTitles(t *testing.T) {
	small := map[string]string{
		"README.md": "[Why?](docs/guide/a.md)", "docs/guide/README.md": "[Why?](a.md)",
		"docs/README.md":  "[Guide](guide/README.md) [Why?](guide/a.md) [b](b.md)",
		"docs/guide/a.md": "# Why?\n", "docs/b.md": "# B\n",
	}
	if errs := checkIndexes(small, slices.Collect(maps.Keys(small))); len(errs) > 0 {
		t.Errorf("the rule objects to good indexes: %v", errs)
	}
	for _, index := range indexes {
		bad := maps.Clone(small)
		bad[index] = strings.Replace(bad[index], "[Why?]", "[why]", 1)
		if errs := checkIndexes(bad, slices.Collect(maps.Keys(bad))); len(errs) == 0 {
			t.Errorf("the rule accepts another title in %s", index)
		}
	}
	if errs := checkIndexes(small, append(slices.Collect(maps.Keys(small)), "docs/read.svg")); len(errs) == 0 {
		t.Error("the rule accepts a file that docs/README.md does not list")
	}
	for _, err := range checkIndexes(readPages(t), filesBelow(t, "docs", "")) {
		t.Error(err)
	}
}

// checkIndexes wants a link to each file in docs from docs/README.md, and links
// to each page of the guide, with its title as text, from all indexes.
func checkIndexes(pages map[string]string, files []string) (errs []string) {
	for _, p := range files {
		if rel, ok := strings.CutPrefix(p, "docs/"); ok && rel != "README.md" && !strings.Contains(pages[indexes[0]], "]("+rel+")") {
			errs = append(errs, fmt.Sprintf("%s: list %s in a row with one line about it", indexes[0], rel))
		}
		if path.Dir(p) != "docs/guide" || path.Base(p) == "README.md" {
			continue
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(pages[p], "# "), "\n")
		for _, index := range indexes {
			rel, _ := filepath.Rel(path.Dir(index), p)
			if link := "[" + title + "](" + filepath.ToSlash(rel) + ")"; !strings.Contains(pages[index], link) {
				errs = append(errs, fmt.Sprintf("%s: name the page by its title: %s", index, link))
			}
		}
	}
	return errs
}

func TestLinksOfPagesLead(t *testing.T) {
	exists := func(file string) bool { return file == "docs/a.md" }
	const good = "`docs/a.md`\n# Some *Title*, or `two`\n[a](../docs/a.md), [b](https://example.org), [c](#some-title-or-two)\n```\n[x](nowhere)\n```\n"
	if errs := checkLinks("docs/b.md", good, exists); len(errs) > 0 {
		t.Errorf("the rule objects to good links: %v", errs)
	}
	for _, bad := range []string{"[a](docs/a.md)", "[a](#none)", "![a](a.svg)", "see `internal/gone`", "in `gone.go`"} {
		if len(checkLinks("docs/b.md", bad, exists)) == 0 {
			t.Errorf("the rule accepts %q", bad)
		}
	}
	onDisk := func(p string) bool { _, err := os.Stat(p); return err == nil }
	for p, text := range readPages(t) {
		for _, err := range checkLinks(p, text, onDisk) {
			t.Errorf("%s: %s", p, err)
		}
	}
}

// checkLinks follows the links of page p to files, and to headings of p, and
// looks for the files and folders that it names in backquotes.
func checkLinks(p, text string, exists func(string) bool) (errs []string) {
	text = withoutCode(text)
	for _, m := range regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`).FindAllStringSubmatch(text, -1) {
		file := path.Join(path.Dir(p), m[1])
		switch {
		case strings.Contains(m[1], "://"):
		case m[1] == "" && !slices.Contains(anchors(text), m[2]):
			errs = append(errs, "there is no heading "+m[2])
		case m[1] != "" && !exists(file):
			errs = append(errs, "there is no "+file)
		}
	}
	for _, m := range regexp.MustCompile("`((?:internal|testdata|docs|scripts)/[\\w./-]+|[\\w/]+\\.go)`").FindAllStringSubmatch(text, -1) {
		if !exists(m[1]) {
			errs = append(errs, "there is no "+m[1])
		}
	}
	return errs
}

// anchors returns the addresses of the headings of a page.
func anchors(text string) (all []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		slug := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, "#"+strings.ReplaceAll(slug, " ", "-"))
	}
	return all
}

// withoutCode returns the text of a page without its blocks of code.
func withoutCode(text string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
}

func TestProgramOfTheReadmeRunsAndPrintsThat(t *testing.T) {
	program, output := readmeProgram(t, readText(t, "README.md"))
	if got := runProgram(t, program); got != output {
		t.Errorf("README.md: the program prints\n%s\nand the README says\n%s", got, output)
	}
}

// readmeProgram returns the program of the README, and the block behind it with
// its output.
func readmeProgram(t *testing.T, text string) (program, output string) {
	t.Helper()
	m := regexp.MustCompile("(?s)```go\n(package main\n.*?)```\n\nIt prints:\n\n```\n(.*?)```").FindStringSubmatch(text)
	if m == nil {
		t.Fatal("README.md: no program with its output behind it")
	}
	return m[1], m[2]
}

func runProgram(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}

func TestListOfTheAPIByTaskIsWhole(t *testing.T) {
	small := parseAll(t, map[string]string{"doc.go": "// Package strata has [New] and [Cache.Get].\npackage strata", "a.go": "package strata\nfunc New() {}\nfunc (c *Cache) Get() {}\nfunc (c *cache) Gone() {}\nvar ErrA = 1\nfunc (e *E) Error() {}"})
	if errs := checkAPIList(small); len(errs) != 1 || !strings.Contains(errs[0], "[ErrA]") {
		t.Fatalf("the rule says %q and misses ErrA alone", errs)
	}
	for _, err := range checkAPIList(readTree(t)) {
		t.Error(err)
	}
}

// checkAPIList wants a link in the comment of the root package to each function,
// error, and method of Cache and Load.
func checkAPIList(files []source) (errs []string) {
	list, names := "", []string{}
	for _, s := range files {
		if s.dir() != "." || s.test() {
			continue
		}
		list += s.file.Doc.Text()
		for _, d := range s.file.Decls {
			names = append(names, linkable(d)...)
		}
	}
	for _, name := range names {
		if !strings.Contains(list, "["+name+"]") {
			errs = append(errs, fmt.Sprintf("doc.go: the API by task lacks [%s]", name))
		}
	}
	return errs
}

// linkable returns the names in d that the list of the API names.
func linkable(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of := receiver(d)
			name = of + "." + name
			if of != "Cache" && of != "Load" {
				return nil
			}
		}
		if d.Name.IsExported() {
			names = append(names, name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
				names = append(names, v.Names[0].Name)
			}
		}
	}
	return names
}

func TestDocumentsNameTheirSubjects(t *testing.T) {
	if lines, riddles := documentRiddles("# Who asks?\n\nWhoever asks.\n[What is it?](a.md)\n| [Who?](b.md) | it |\nA word.\n"); lines != 4 || riddles != 1 {
		t.Fatalf("counted %d of %d lines", riddles, lines)
	}
	lines, riddles, worst := 0, 0, ""
	for p, text := range readPages(t) {
		l, r := documentRiddles(text)
		lines, riddles, worst = lines+l, riddles+r, worst+fmt.Sprintf("\n%4d of %4d in %s", r, l, p)
	}
	if riddles*1000 > maxRiddlesOfDocuments*lines {
		t.Errorf("%d of %d lines say who or what(ever), at most %d of 1000: name the subject%s", riddles, lines, maxRiddlesOfDocuments, worst)
	}
}

// documentRiddles counts the lines of a page, and those with a word that stands
// for a subject. Titles that are questions are left out, also as texts of links.
func documentRiddles(text string) (lines, riddles int) {
	text = regexp.MustCompile(`\[[^]]*\?\]\(|(?m)^#.*\?$`).ReplaceAllString(text, "")
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		lines++
		if riddle.MatchString(line) {
			riddles++
		}
	}
	return lines, riddles
}

func TestDocumentsUseTheWordsOfTheGlossary(t *testing.T) {
	const glossary = "| not | but |\n|---|---|\n| memo, sign of life | entry |\n\n| other | table |\n|---|---|\n| fine | x |\n"
	words := retiredWords(glossary)
	for text, want := range map[string]int{"A memo is a Sign\nof life.": 2, "A `memo`, TestMemo, memory, 1-memo-kept, fine.\n```\nmemo\n```\n": 0} {
		if got := findRetired(text, words); len(got) != want {
			t.Fatalf("found %q in %q", got, text)
		}
	}
	words = retiredWords(readText(t, "docs/glossary.md"))
	if len(words) < 5 {
		t.Fatalf("docs/glossary.md: found only the words %q that are not used", words)
	}
	for p, text := range readPages(t) {
		if p == "docs/glossary.md" {
			continue
		}
		for _, w := range findRetired(text, words) {
			t.Errorf("%s: %q is not used: see the last table of docs/glossary.md", p, w)
		}
	}
}

// retiredWords returns the first column of the table "not | but".
func retiredWords(glossary string) (words []string) {
	_, table, _ := strings.Cut(glossary, "| not | but |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		for w := range strings.SplitSeq(strings.Split(line, "|")[1], ",") {
			words = append(words, strings.TrimSpace(w))
		}
	}
	return words
}

// findRetired returns the words that text has outside of code and of longer
// names.
func findRetired(text string, words []string) (found []string) {
	text = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(withoutCode(text), "")
	text = strings.Join(strings.Fields(text), " ")
	for _, w := range words {
		if regexp.MustCompile(`(?i)(^|[^\w-])` + regexp.QuoteMeta(w) + `([^\w-]|$)`).MatchString(text) {
			found = append(found, w)
		}
	}
	return found
}

// readPages returns all documents of the repository.
func readPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, p := range filesBelow(t, ".", ".md") {
		pages[p] = readText(t, p)
	}
	return pages
}

// filesBelow returns the files below dir whose names end in ext.
func filesBelow(t *testing.T, dir, ext string) (files []string) {
	t.Helper()
	atRoot(t)
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && p != "." && (e.Name() == "testdata" || e.Name() == "bin" || strings.HasPrefix(e.Name(), ".")) {
			return filepath.SkipDir
		}
		if err == nil && !e.IsDir() && strings.HasSuffix(p, ext) {
			files = append(files, filepath.ToSlash(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
