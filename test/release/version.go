package main

import (
	"fmt"
	"regexp"
	"strconv"
)

// version is a version without a pre-release or build part.
type version struct{ major, minor, patch int }

var versionForm = regexp.MustCompile(`^v(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})$`) // read-only

// parseVersion reads the form v1.2.3.
func parseVersion(text string) (v version, err error) {
	m := versionForm.FindStringSubmatch(text)
	if m == nil {
		return v, fmt.Errorf("%q is not a version of the form v1.2.3", text)
	}
	for i, n := range []*int{&v.major, &v.minor, &v.patch} {
		*n, _ = strconv.Atoi(m[i+1])
	}
	return v, nil
}

func (v version) String() string { return fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch) }

// above reports whether v comes after another version.
func (v version) above(w version) bool {
	if v.major != w.major {
		return v.major > w.major
	}
	if v.minor != w.minor {
		return v.minor > w.minor
	}
	return v.patch > w.patch
}

// mayBreak reports whether v may break the API of an earlier version: by a step of the
// major version, or of the minor one before version 1.
func (v version) mayBreak(w version) bool {
	return v.major > w.major || v.major == 0 && v.minor > w.minor
}
