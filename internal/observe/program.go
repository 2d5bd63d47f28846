// The program: its main module, and the version of the module strata in it.

package observe

import (
	"runtime/debug"
	"strings"
	"sync"
)

// ModuleVersion is the version of the module strata in this program, or "unknown".
var ModuleVersion = sync.OnceValue(func() string { // read-only
	const path = "github.com/strata-cache/strata"
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(b.Deps, &b.Main) {
		if m.Path == path && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
})

// MainModule is the path of the main module of this program. It is empty if the module is unknown,
// and for a test: then nothing follows from it.
func MainModule() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return mainOf(b)
}

// mainOf is Main for a build.
func mainOf(b *debug.BuildInfo) string {
	if strings.HasSuffix(b.Path, ".test") {
		return ""
	}
	return b.Main.Path
}
