package rules_test

import (
	"fmt"
	"go/doc"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layoutTitle is the heading above the table of folders in
// docs/architecture.md.
const layoutTitle = "## Where things live"

func TestLayoutTableIsTheTree(t *testing.T) {
	tree := map[string]string{".": "is a cache", "redis": "is a client", "bench": ""}
	exists := func(p string) bool { return tree[p] != "" || p == "bench" || p == "docs" }
	const head = layoutTitle + "\n\n| path | contents |\n|---|---|\n"
	const good = head + "| `.` | a cache |\n| `redis` | a client |\n| `bench` | ratios |\n| `docs/` | pages |\n\n## Other\n\n| `gone` |\n"
	if errs := checkLayout(good, tree, exists); len(errs) > 0 {
		t.Errorf("the rule objects to a good table: %v", errs)
	}
	for bad, want := range map[string]string{
		"no table": "there is no table",
		strings.Replace(good, "| `redis` | a client |\n", "", 1):            "add the row | `redis` | is a client |",
		strings.Replace(good, "| `bench` | ratios |\n", "", 1):              "add the row | `bench` |",
		strings.Replace(good, "`bench`", "`bench`, `bench/rig`", 1):         "remove `bench/rig`",
		strings.Replace(good, "| `bench`", "| `redis` | x |\n| `bench`", 1): "`redis` is named twice",
		strings.Replace(good, "| ratios |", "| |", 1):                       "`bench`: say what it contains",
	} {
		if errs := checkLayout(bad, tree, exists); !slices.ContainsFunc(errs, func(e string) bool { return strings.Contains(e, want) }) {
			t.Errorf("%q: the rule says %q, not %q", bad, errs, want)
		}
	}
	onDisk := func(p string) bool { _, err := os.Stat(p); return err == nil }
	for _, err := range checkLayout(readText(t, "docs/architecture.md"), foldersOf(readTree(t)), onDisk) {
		t.Error("docs/architecture.md: " + err)
	}
}

// foldersOf returns the folders that the table must name: the packages that users
// import, each with the synopsis of its package comment, the wings of internal, and the
// nested modules, each as one.
func foldersOf(files []source) map[string]string {
	folders := map[string]string{}
	for _, s := range files {
		dir := s.dir()
		if m := module(s.path); m != "" {
			dir = m
		} else if wing, ok := roomOf(dir); ok {
			dir = wing
		} else if strings.Contains(dir, "/internal/") {
			continue // its owner has the row
		}
		if s.file.Doc != nil && dir == s.dir() && !s.test() {
			words := strings.SplitN(new(doc.Package).Synopsis(s.file.Doc.Text()), " ", 3) // Package name does …
			folders[dir] = words[len(words)-1]
		} else if _, known := folders[dir]; !known {
			folders[dir] = ""
		}
	}
	return folders
}

// roomOf returns the wing of internal that dir lies below.
func roomOf(dir string) (wing string, ok bool) {
	parts := strings.SplitN(dir, "/", 3)
	if len(parts) < 3 || parts[0] != "internal" {
		return "", false
	}
	return parts[0] + "/" + parts[1], true
}

func TestEachWingListsItsRooms(t *testing.T) {
	wing := func(doc string) map[string]string {
		return map[string]string{"internal/wire/doc.go": doc + "package wire", "internal/wire/pool/a.go": "package pool", "internal/wire/mux/a_test.go": "package mux"}
	}
	if errs := checkRooms(parseAll(t, wing("// Package wire is.\n//\n//   - pool: it\n//   - mux: that\n"))); len(errs) > 0 {
		t.Errorf("the rule objects to a good list: %v", errs)
	}
	for _, bad := range []string{"", "// Package wire is.\n//\n//   - pool: it\n", "// Package wire is.\n//\n//   - pool: it\n//   - mux: that\n//   - gone: x\n", "// Package wire is.\n//\n//   - pool: it\n//   - mux:\n"} {
		if len(checkRooms(parseAll(t, wing(bad)))) == 0 {
			t.Errorf("the rule accepts %q", bad)
		}
	}
	for _, err := range checkRooms(readTree(t)) {
		t.Error(err)
	}
}

// checkRooms compares the list of rooms in the comment of each wing with the tree.
func checkRooms(files []source) (errs []string) {
	listed, there := map[string]bool{}, map[string]bool{}
	item := regexp.MustCompile(`(?m)^ *- ([a-z0-9/]+): \S`)
	for _, s := range files {
		if _, ok := roomOf(s.dir()); ok {
			there[s.dir()] = true
		} else if path.Dir(s.dir()) == "internal" && s.file.Doc != nil {
			for _, m := range item.FindAllStringSubmatch(s.file.Doc.Text(), -1) {
				listed[s.dir()+"/"+m[1]] = true
			}
		}
	}
	for dir := range there {
		if wing, _ := roomOf(dir); !listed[dir] {
			errs = append(errs, fmt.Sprintf("%s/doc.go: say what the room %s contains", wing, strings.TrimPrefix(dir, wing+"/")))
		}
	}
	for dir := range listed {
		if !there[dir] {
			errs = append(errs, fmt.Sprintf("%s: a wing lists a room that does not exist", dir))
		}
	}
	slices.Sort(errs)
	return errs
}

// checkLayout compares the table of text with the tree: it names each of
// folders once, and nothing that does not exist.
func checkLayout(text string, folders map[string]string, exists func(string) bool) (errs []string) {
	named := map[string]bool{}
	for _, row := range layoutRows(text) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[0], -1) {
			p := path.Clean(m[1])
			if named[p] {
				errs = append(errs, fmt.Sprintf("`%s` is named twice", p))
			}
			if named[p] = true; !exists(p) {
				errs = append(errs, fmt.Sprintf("remove `%s` from the table of folders: there is no such folder", p))
			}
			if row[1] == "" {
				errs = append(errs, fmt.Sprintf("`%s`: say what it contains", p))
			}
		}
	}
	if len(named) == 0 {
		return append(errs, fmt.Sprintf("there is no table under %q", layoutTitle))
	}
	for p, synopsis := range folders {
		if !named[p] {
			errs = append(errs, fmt.Sprintf("under %q add the row | `%s` | %s |", layoutTitle, p, synopsis))
		}
	}
	slices.Sort(errs)
	return errs
}

// layoutRows returns the first two cells of each row of the table of folders.
func layoutRows(text string) (rows [][2]string) {
	_, section, _ := strings.Cut("\n"+text, "\n"+layoutTitle+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		rows = append(rows, [2]string{cells[1], strings.TrimSpace(cells[2])})
	}
	return rows
}
