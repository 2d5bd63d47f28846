package guard

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// mostBytes bounds what is read of a file about cgroups.
	mostBytes = 1 << 20
	// mostLevels bounds the ancestors of a cgroup that are looked at.
	mostLevels = 64
	// A limit below leastLimit, in which no Go program runs, is a lie. From noLimit on it is
	// none: cgroups of version 1 have the largest number of pages in place of the word max.
	leastLimit, noLimit = 1 << 20, 1 << 60
)

// groupLimit returns the smallest memory limit of the cgroups of this process and of their ancestors,
// as far as they can be seen; 0 for none. files is the root of the file system. A file that is missing, or
// that cannot be understood, sets no limit. ok is whether any file said whether there is one.
func groupLimit(files fs.FS) (limit int64, ok bool) {
	paths := parseGroups(readFile(files, "proc/self/cgroup"))
	for _, m := range parseMounts(readFile(files, "proc/self/mountinfo")) {
		p, in := paths[m.controller]
		if !in {
			continue
		}
		for _, dir := range ancestors(m, p) {
			n, said := limitOf(files, m.controller, dir)
			limit, ok = smaller(limit, n), ok || said
		}
	}
	return limit, ok
}

// smaller returns the smaller one of two limits, of which 0 is none.
func smaller(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// The kinds of cgroups that have memory limits, by the names of their controllers.
const (
	version1 = "memory"
	version2 = ""
)

// limitOf returns the limit of one cgroup. Version 1 also tells the smallest limit of all ancestors,
// seen or not.
func limitOf(files fs.FS, controller, dir string) (limit int64, ok bool) {
	if controller == version2 {
		return parseLimit(readFile(files, path.Join(dir, "memory.max")))
	}
	limit, ok = parseLimit(readFile(files, path.Join(dir, "memory.limit_in_bytes")))
	for line := range bytes.Lines(readFile(files, path.Join(dir, "memory.stat"))) {
		if text, is := bytes.CutPrefix(line, []byte("hierarchical_memory_limit ")); is {
			n, said := parseLimit(text)
			limit, ok = smaller(limit, n), ok || said
		}
	}
	return limit, ok
}

// readFile returns the begin of a file; nothing if it cannot be read.
func readFile(files fs.FS, name string) []byte {
	f, err := files.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(f, mostBytes))
	if err != nil {
		return nil
	}
	return data
}

// parseLimit returns the limit in a file, 0 for none, and whether the file can be understood.
func parseLimit(text []byte) (limit int64, ok bool) {
	word := string(bytes.TrimSpace(text))
	n, err := strconv.ParseUint(word, 10, 64)
	switch {
	case word == "max" || err == nil && n >= noLimit:
		return 0, true
	case err != nil || n < leastLimit:
		return 0, false
	}
	return int64(n), true
}

// parseGroups returns the paths of a process in the trees of cgroups, by their kinds. Lines are
// "4:memory:/a/b" and "0::/a/b".
func parseGroups(text []byte) map[string]string {
	paths := map[string]string{}
	for line := range bytes.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(parts) < 3 {
			continue
		}
		if parts[0] == "0" && parts[1] == "" {
			paths[version2] = parts[2]
		} else if slices.Contains(strings.Split(parts[1], ","), version1) {
			paths[version1] = parts[2]
		}
	}
	return paths
}

// mount is a tree of cgroups in the file system. root is the cgroup at its top.
type mount struct{ controller, root, dir string }

// parseMounts returns the trees of cgroups that are mounted. Lines are
// "31 23 0:28 /root /dir rw,relatime shared:1 - cgroup2 cgroup2 rw".
func parseMounts(text []byte) (all []mount) {
	for line := range bytes.Lines(text) {
		before, after, ok := strings.Cut(string(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		m := mount{root: unescape(fields[3]), dir: unescape(fields[4])}
		switch {
		case kind[0] == "cgroup2":
			m.controller = version2
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), version1):
			m.controller = version1
		default:
			continue
		}
		all = append(all, m)
	}
	return all
}

// unescape replaces the codes that mountinfo has for spaces and the like.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace // read-only

// ancestors returns the directories of a cgroup and of its ancestors below the top of a mount, without the
// slash at the begin. In a namespace of its own a process may see no more than the top.
func ancestors(m mount, group string) (dirs []string) {
	top := strings.TrimPrefix(path.Clean("/"+m.dir), "/")
	below, ok := strings.CutPrefix(path.Clean("/"+group), path.Clean("/"+m.root))
	if !ok || strings.HasPrefix(group, "/..") {
		below = ""
	}
	for below = path.Clean("/" + below); below != "/" && len(dirs) < mostLevels; below = path.Dir(below) {
		dirs = append(dirs, path.Join(top, below))
	}
	return append(dirs, path.Join(top, "."))
}
