package rules_test

import (
	"go/ast"
	"slices"
	"strings"
)

// urlParsers are the files that parse a URL themselves, and why none of its parts gets into a text.
var urlParsers = map[string]string{ // read-only
	"internal/wire/url.go":           "the list of hosts; its errors are sentences of their own",
	"internal/wire/cleanurl.go":      "the parser of all others, and the only place that shows a URL",
	"internal/redis/resp/url.go":     "drops the parser's error",
	"memcached/options.go":           "drops the parser's error",
	"internal/observe/page/guard.go": "compares an Origin, and shows none",
	"admin/admin.go":                 "the path of a request, which goes into a header in its escaped form",
	"cmd/strata/origin/dialect.go":   "drops the parser's error",
}

func urlRules() []rule {
	return []rule{{
		name:  "URLs are shown clean",
		check: checkURLs,
		bad: []map[string]string{
			one("a.go", `package strata; import "net/url"; func f(s string) error { _, err := url.Parse(s); return err }`),
			one("cmd/strata/a.go", `package main; import "net/url"; func f(s string) { url.ParseRequestURI(s) }`),
			one("a.go", `package strata; func f() string { return u.Redacted() }`),
			one("a.go", `package strata; func f() { errors.AsType[*url.Error](err) }`),
			one("a.go", `package strata; import "net/http"; func f() error { _, err := c.Do(req); return err }`),
			one("a.go", `package strata; import "net/http"; func f() error { _, err := http.Get("http://h"); return err }`),
			one("a.go", `package strata; func f() error { return fmt.Errorf("%s is wrong", o.URL) }`),
			one("a.go", `package strata; func f() error { return fmt.Errorf("%s is wrong", u.URL.String()) }`),
			one("a.go", `package strata; func f() error { return fmt.Errorf("%s is wrong", u.String()) }`),
			one("a.go", `package strata; func f() { log.WarnContext(ctx, "is wrong", "url", rawURL) }`),
			one("a.go", `package strata; func f() { o.Logger.Info("begin", slog.String("of", c.url)) }`),
		},
		good: map[string]string{
			"a.go":      `package strata; import "net/http"; func f() error { _, err := c.Do(req); return wire.CleanError(err) }`,
			"b.go":      `package strata; func f() error { return fmt.Errorf("%s is wrong", wire.CleanURL(o.URL)) }`,
			"c.go":      `package strata; func f() error { return fmt.Errorf("%s is away", r.URL.Host) }`,
			"d.go":      `package strata; func f() error { return p.Do(ctx) }`,
			"a_test.go": `package strata; import "net/url"; func f(s string) { url.Parse(s) }`,
		},
	}}
}

// checkURLs finds places that may show a URL with its secrets.
func checkURLs(files []source) (all []finding) {
	for _, s := range files {
		if m := module(s.path); s.test() || m == "bench" || m == "test" || isTestOnly(s.dir()) {
			continue
		}
		web := false
		for _, p := range imports(s) {
			web = web || p == "net/http"
		}
		for _, d := range s.file.Decls {
			reason := false
			ast.Inspect(d, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok && (isCall(c, "wire", "CleanError") || s.path == "internal/wire/cleanurl.go") {
					reason = true
				}
				return true
			})
			ast.Inspect(d, func(n ast.Node) bool {
				if fault := unclean(n, web && !reason); fault != "" && urlParsers[s.path] == "" {
					all = append(all, found(s.path, "%s: %s: use internal/wire, whose errors have no part of a URL", s.at(n.Pos()), fault))
				}
				return true
			})
		}
	}
	return all
}

// unclean returns the fault of a node; requests says that errors of requests are not cleaned here.
func unclean(n ast.Node, requests bool) string {
	if sel, ok := n.(*ast.SelectorExpr); ok {
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "url" && sel.Sel.Name == "Error" {
			return "looks into an error of net/url"
		}
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	for _, name := range []string{"Parse", "ParseRequestURI"} {
		if isCall(call, "url", name) {
			return "parses a URL, whose error has a part of it"
		}
	}
	for _, name := range []string{"Get", "Post", "Head", "PostForm"} {
		if requests && isCall(call, "http", name) {
			return "makes a request, whose error has its URL"
		}
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		switch {
		case sel.Sel.Name == "Redacted":
			return "shows a URL with its query"
		case sel.Sel.Name == "Do" && len(call.Args) == 1 && requests && isRequest(call.Args[0]):
			return "makes a request, whose error has its URL"
		}
	}
	if writes(call) && slices.ContainsFunc(call.Args, shows) {
		return "shows a URL as it is"
	}
	return ""
}

// writes reports whether a call makes a text, an error or a line of a log of its arguments.
func writes(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, _ := sel.X.(*ast.Ident)
	return x != nil && slices.Contains([]string{"fmt", "errors", "slog"}, x.Name) ||
		slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs"}, strings.TrimSuffix(sel.Sel.Name, "Context"))
}

// isRequest reports whether an argument has a name that requests have.
func isRequest(e ast.Expr) bool {
	x, ok := e.(*ast.Ident)
	return ok && (x.Name == "r" || strings.HasPrefix(x.Name, "req"))
}

// shows reports whether an expression is a URL, or its text, by its name.
func shows(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "String" {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && (x.Name == "u" || x.Name == "at") || shows(sel.X)
	case *ast.SelectorExpr:
		return isURLName(e.Sel.Name)
	case *ast.Ident:
		return isURLName(e.Name)
	}
	return false
}

func isURLName(name string) bool {
	return slices.Contains([]string{"url", "rawurl", "baseurl"}, strings.ToLower(name))
}
