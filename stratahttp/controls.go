package stratahttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/strata-cache/strata"
)

// maxHeader is the greatest length of a header, in bytes over all its values.
// The directives of a longer header are ignored.
const maxHeader = 4 << 10

// Controls returns a middleware that lets authorised requests read past caches.
// If a request asks for that and authorize allows it, the next handler gets a
// request with a context of [strata.SkipReadContext]. Caches with
// Options.ContextControls then run their Loader for this request, even if a
// value is cached, and store the result for all others. Caches without
// ContextControls ignore the context.
//
// A request asks by the directive no-cache in its Cache-Control header, or in
// Pragma if it has no Cache-Control. Browsers send these headers for a forced
// reload. If headers are given, they are used instead, with the same grammar: a
// list of directives, in upper or lower case, in any number of values. Other
// directives are ignored, and so is a header of more than 4 KiB.
//
// authorize is called only for requests that ask, in the goroutine of the
// request, and must be safe for concurrent use. A nil authorize allows no
// request. Do not allow all requests: each allowed request costs the origin a load of
// its own. If authorize panics, the request ends like one with a panicking handler, and
// the next handler does not run.
func Controls(authorize func(*http.Request) bool, headers ...string) func(http.Handler) http.Handler {
	if authorize == nil {
		return func(next http.Handler) http.Handler { return next }
	}
	headers = slices.Clone(headers)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asks(r.Header, headers) && authorize(r) {
				r = r.WithContext(strata.SkipReadContext(r.Context()))
			}
			next.ServeHTTP(w, r)
		})
	}
}

// asks reports whether a request with header h asks to read past caches.
func asks(h http.Header, headers []string) bool {
	if len(headers) > 0 {
		return slices.ContainsFunc(headers, func(name string) bool { return noCache(h.Values(name)) })
	}
	if values := h.Values("Cache-Control"); len(values) > 0 {
		return noCache(values)
	}
	return noCache(h.Values("Pragma"))
}

// noCache reports whether one of the values, each a list of directives,
// contains the directive no-cache.
func noCache(values []string) bool {
	size := 0
	for _, v := range values {
		if size += len(v) + 1; size > maxHeader {
			return false
		}
	}
	for _, list := range values {
		for directive := ""; list != ""; {
			directive, list = cut(list)
			if strings.EqualFold(strings.Trim(directive, " \t"), "no-cache") {
				return true
			}
		}
	}
	return false
}

// cut cuts list at its first comma outside of a quoted string.
func cut(list string) (directive, rest string) {
	quoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case quoted && c == '\\':
			i++ // and skip the quoted character
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return list, ""
}
