package rules_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// The indexes. Each names all pages of the guide by their titles, and the
// first one all files in docs.
var indexes = []string{"docs/README.md", "docs/guide/README.md"} // read-only

// Limits of pages for reading from begin to end. Words are counted as by wc -w. The length
// of lines is bounded, so that long lines do not evade the bound on their number. Rows of
// tables may be longer, because a row is a line.
const (
	maxReadmeLines  = 150
	maxPageWords    = 1200
	maxLineOfReadme = 140
	maxRowOfReadme  = 160
)

func TestPagesAreListedByTheirTitles(t *testing.T) {
	small := map[string]string{
		"docs/guide/README.md": "[Why?](a.md)",
		"docs/README.md":       "[Guide](guide/README.md) [Why?](guide/a.md) [b](b.md)",
		"docs/guide/a.md":      "# Why?\n", "docs/b.md": "# B\n",
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

func TestReadmeAndPagesOfTheGuideAreShort(t *testing.T) {
	words := strings.Repeat("word ", 20) + "\n"
	for text, wrong := range map[string]int{
		"# Short\n| " + strings.Repeat("a", maxLineOfReadme) + " |\n": 0,
		strings.Repeat("\n", maxReadmeLines+1):                        1,
		strings.Repeat(words, maxPageWords/20+1):                      1,
		strings.Repeat("a", maxLineOfReadme+1) + "\n":                 1,
		"| " + strings.Repeat("a", maxRowOfReadme) + " |\n":           1,
	} {
		if errs := checkLength("README.md", text); len(errs) != wrong {
			t.Errorf("the rule says %q of %.40q", errs, text)
		}
	}
	long := strings.Repeat(words, maxPageWords/20+1)
	if errs := checkLength("docs/guide/a.md", long); len(errs) != 1 {
		t.Errorf("the rule says %q of a long page", errs)
	}
	if errs := checkLength("docs/decisions.md", long); len(errs) != 0 {
		t.Errorf("the rule says %q of a reference", errs)
	}
	for p, text := range readPages(t) {
		for _, err := range checkLength(p, text) {
			t.Errorf("%s: %s", p, err)
		}
	}
}

// checkLength counts the words, and for the README the lines and their lengths.
func checkLength(p, text string) (errs []string) {
	if p != "README.md" && path.Dir(p) != "docs/guide" {
		return nil
	}
	if n := len(strings.Fields(text)); n > maxPageWords {
		errs = append(errs, fmt.Sprintf("%d words, at most %d: make two pages of it", n, maxPageWords))
	}
	if p != "README.md" {
		return errs
	}
	if n := strings.Count(text, "\n"); n > maxReadmeLines {
		errs = append(errs, fmt.Sprintf("%d lines, at most %d", n, maxReadmeLines))
	}
	for line := range strings.Lines(text) {
		most := maxLineOfReadme
		if strings.HasPrefix(line, "|") {
			most = maxRowOfReadme
		}
		if !regexp.MustCompile(`^(!?\[)+`).MatchString(line) && utf8.RuneCountInString(strings.TrimSpace(line)) > most {
			errs = append(errs, fmt.Sprintf("a line of more than %d characters: %.50s…", most, line))
		}
	}
	return errs
}

func TestLinksOfPagesLead(t *testing.T) {
	small := map[string]string{"docs/a.md": "# Part\n## Part\n", "docs/a.png": ""}
	read := func(file string) (string, bool) { text, ok := small[file]; return text, ok }
	const good = "`docs/a.md`\n# Some *Title*, or `two`\n[a](../docs/a.md), [b](https://example.org), [c](#some-title-or-two)\n```\n[x](nowhere)\n```\n" +
		"[d](a.md#part), [e](a.md#part-1), <img src=\"a.png\" alt=\"\">, [f][g]\n\n[g]: a.md#part\n"
	if errs := checkLinks("docs/b.md", good, read); len(errs) > 0 {
		t.Errorf("the rule objects to good links: %v", errs)
	}
	for _, bad := range []string{
		"[a](docs/a.md)", "[a](#none)", "![a](a.svg)", "see `internal/gone`", "in `gone.go`", "[a](a.md#none)", "[a](a.md#part-2)",
		"<img src=\"b.png\">", "<a href='b.md'>b</a>", "[f][h]", "[f][g]\n\n[g]: b.md\n", "[a](https://" + modulePath + "/blob/main/docs/b.md)",
	} {
		if len(checkLinks("docs/b.md", bad, read)) == 0 {
			t.Errorf("the rule accepts %q", bad)
		}
	}
	for p, text := range readPages(t) {
		for _, err := range checkLinks(p, text, onDisk) {
			t.Errorf("%s: %s", p, err)
		}
	}
}

// onDisk reads a file. A folder has no text.
func onDisk(p string) (text string, ok bool) {
	if _, err := os.Stat(p); err != nil {
		return "", false
	}
	b, _ := os.ReadFile(p)
	return string(b), true
}

// checkLinks follows the links of page p to files and to headings, and looks for the files
// and folders that it names in backquotes.
func checkLinks(p, text string, read func(string) (string, bool)) (errs []string) {
	text = withoutCode(text)
	for _, to := range linksOf(text) {
		to = strings.TrimPrefix(to, "https://"+modulePath+"/blob/main/") // as from alerts, which other rules check
		to, anchor, _ := strings.Cut(to, "#")
		file, target := path.Join(path.Dir(p), to), text
		if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
			continue
		}
		if to != "" {
			var ok bool
			if target, ok = read(file); !ok {
				errs = append(errs, "there is no "+file)
				continue
			}
		}
		if anchor != "" && strings.HasSuffix(file, ".md") || to == "" {
			if !slices.Contains(anchors(target), "#"+anchor) {
				errs = append(errs, fmt.Sprintf("there is no heading #%s in %s", anchor, file))
			}
		}
	}
	for _, m := range regexp.MustCompile(`\]\[([^]]+)\]`).FindAllStringSubmatch(withoutSpans(text), -1) {
		if !strings.Contains(text, "\n["+m[1]+"]: ") {
			errs = append(errs, "there is no line ["+m[1]+"]:")
		}
	}
	for _, m := range regexp.MustCompile("`((?:internal|testdata|docs|scripts)/[\\w./-]+|[\\w/]+\\.go)`").FindAllStringSubmatch(text, -1) {
		if _, ok := read(m[1]); !ok && path.Base(m[1]) != "main.go" && path.Base(m[1]) != "main_test.go" {
			errs = append(errs, "there is no "+m[1])
		}
	}
	return errs
}

// linksOf returns the targets of the links and pictures of a page.
func linksOf(text string) (all []string) {
	for _, m := range regexp.MustCompile(`\]\(([^)\s]*)\)|(?m:^\[[^]]+\]: (\S+))|(?:src|href)=["']([^"']*)["']`).FindAllStringSubmatch(withoutSpans(text), -1) {
		all = append(all, m[1]+m[2]+m[3])
	}
	return all
}

// withoutSpans returns a text without the code in backquotes, because links in code do not count.
func withoutSpans(text string) string {
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "``")
}

// anchors returns the addresses of the headings of a page. The second of two equal ones
// has a number.
func anchors(text string) (all []string) {
	times := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(withoutCode(text), -1) {
		slug := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		slug = "#" + strings.ReplaceAll(slug, " ", "-")
		if n := times[slug]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", slug, n))
		} else {
			all = append(all, slug)
		}
		times[slug]++
	}
	return all
}

func TestFilesNamePagesThatExist(t *testing.T) {
	small := map[string]string{"docs/a.md": "# Part\n"}
	read := func(file string) (string, bool) { text, ok := small[file]; return text, ok }
	if errs := checkMentions("// See docs/a.md#part.", read); len(errs) > 0 {
		t.Errorf("the rule objects to a page that exists: %v", errs)
	}
	for _, bad := range []string{"// See docs/b.md.", "# blob/main/docs/a.md#none"} {
		if len(checkMentions(bad, read)) == 0 {
			t.Errorf("the rule accepts %q", bad)
		}
	}
	files := []string{"Makefile", ".ci/run"}
	for _, ext := range []string{".go", ".yml", ".yaml", ".json", ".stage", ".html", ".js"} {
		files = append(files, filesBelow(t, ".", ext)...)
	}
	for _, p := range files {
		if strings.HasPrefix(p, "test/rules/") || strings.HasPrefix(p, "internal/testing/kit/") || strings.HasPrefix(p, "test/release/") {
			continue // their small trees have other pages
		}
		for _, err := range checkMentions(readText(t, p), onDisk) {
			t.Errorf("%s: %s", p, err)
		}
	}
}

// checkMentions looks for the pages that other files name.
func checkMentions(text string, read func(string) (string, bool)) (errs []string) {
	for _, m := range regexp.MustCompile(`\b(docs/[\w/-]+\.md)(#[\w-]+)?`).FindAllStringSubmatch(text, -1) {
		if page, ok := read(m[1]); !ok || m[2] != "" && !slices.Contains(anchors(page), m[2]) {
			errs = append(errs, "there is no "+m[0])
		}
	}
	return errs
}

func TestPagesNameMetricsThatExist(t *testing.T) {
	const small = "| `strata_reads_total` | tier | reads |\n"
	if errs := checkMetrics("`strata_reads_total`, `strata_reads` ", small); len(errs) != 1 {
		t.Errorf("the rule says %q", errs)
	}
	all := readText(t, "docs/guide/metrics.md")
	for p, text := range readPages(t) {
		if p == "CHANGELOG.md" {
			continue // it names metrics of the past
		}
		for _, err := range checkMetrics(text, all) {
			t.Errorf("%s: %s", p, err)
		}
	}
}

// checkMetrics wants each metric that a page names in the table of all.
func checkMetrics(text, all string) (errs []string) {
	for _, m := range regexp.MustCompile("`(strata_\\w+)`").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(all, "`"+m[1]+"`") {
			errs = append(errs, "there is no metric "+m[1])
		}
	}
	return errs
}

// withoutCode returns the text of a page without its blocks of code.
func withoutCode(text string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
}

// TestReadmeWorksInAnEmptyDirectory follows the README as a reader would. Nothing is
// downloaded: the root module depends on no other.
func TestReadmeWorksInAnEmptyDirectory(t *testing.T) {
	text := readText(t, "README.md")
	if len(kit.Programs(text)) != 1 || !strings.Contains(text, "It prints:\n\n```\n") {
		t.Fatal("README.md: a program with its output behind it is wanted")
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	start, _, _ := strings.Cut(text, "\n## With Redis\n")
	reader := kit.Reader{Tree: root, Env: []string{"GOPROXY=off", "GOWORK=off"}}
	reader.Follow(t, start)
}

// TestReadmeNamesTheTestsOfCI wants the README to name the command with which .ci/run tests.
func TestReadmeNamesTheTestsOfCI(t *testing.T) {
	m := regexp.MustCompile(`(?m)^make .*test.*$`).FindString(readText(t, ".ci/run"))
	if m == "" || !strings.Contains(readText(t, "README.md"), "\n"+m+" ") {
		t.Errorf("README.md does not name %q, which .ci/run runs", m)
	}
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

// TestDocumentsUsePlainWords holds pages to the bounds of comments.
func TestDocumentsUsePlainWords(t *testing.T) {
	if lines, hits := wordyLines("# Who asks?\n\nWhoever asks.\n[What is it?](a.md)\n| [Who?](b.md) | it |\nA word.\n", riddle); lines != 4 || hits != 1 {
		t.Fatalf("counted %d of %d lines", hits, lines)
	}
	for _, w := range wordy {
		lines, hits, worst := 0, 0, ""
		for p, text := range readPages(t) {
			l, h := wordyLines(text, w.words)
			if lines, hits = lines+l, hits+h; h > 0 {
				worst += fmt.Sprintf("\n%4d of %4d in %s", h, l, p)
			}
		}
		if hits*1000 > w.most*lines {
			t.Errorf("%d of %d lines say %s; at most %d of 1000%s", hits, lines, w.name, w.most, worst)
		}
	}
}

// wordyLines counts the lines of a page, and the lines with some words. Titles that ask a
// question are left out, also as texts of links.
func wordyLines(text string, words *regexp.Regexp) (lines, hits int) {
	text = regexp.MustCompile(`\[[^]]*\?\]\(|(?m)^#.*\?$`).ReplaceAllString(text, "")
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		lines++
		if words.MatchString(line) {
			hits++
		}
	}
	return lines, hits
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
	if got := findRetired(commentsOf(parseAll(t, one("a.go", "// Package a keeps a memo.\npackage a\n\nvar memo = `a memo`"))[0]), words); len(got) != 1 {
		t.Fatalf("found %q in the comment of a file", got)
	}
	for _, s := range readTree(t) {
		for _, w := range findRetired(commentsOf(s), words) {
			t.Errorf("%s: a comment says %q, which is not used: see the last table of docs/glossary.md", s.path, w)
		}
	}
}

// commentsOf returns the text of all comments of a file.
func commentsOf(s source) string {
	var all strings.Builder
	for _, g := range s.file.Comments {
		all.WriteString(g.Text() + "\n")
	}
	return all.String()
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
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, w := range words {
		if hasWord(text, strings.ToLower(w)) {
			found = append(found, w)
		}
	}
	return found
}

// hasWord reports whether text has a word that is no part of a longer name. A regular expression for
// each word took forty times as long.
func hasWord(text, word string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789_-"
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		before, end := from+i-1, from+i+len(word)
		if (before < 0 || strings.IndexByte(letters, text[before]) < 0) && (end == len(text) || strings.IndexByte(letters, text[end]) < 0) {
			return true
		}
		from = end
	}
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

// filesBelow returns the files below dir with names that end in ext.
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
