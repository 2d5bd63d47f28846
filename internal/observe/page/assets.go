package page

import (
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strconv"
)

// common has the files of all pages: the style sheet, functions for scripts, and uPlot,
// which draws charts, with its licence.
//
//go:embed assets
var common embed.FS

// Assets are the files of one page by their names.
type Assets struct {
	files map[string][]byte
}

// NewAssets returns the files that all pages share (page.css, page.js, icon.svg, uplot.js, uplot.css,
// uplot-LICENSE.txt) with the files of own, a folder of an embed.FS.
func NewAssets(own fs.FS) (*Assets, error) {
	a := &Assets{files: map[string][]byte{}}
	for name, file := range map[string]string{
		"page.css": "assets/page.css", "page.js": "assets/page.js", "icon.svg": "assets/icon.svg",
		"uplot.js": "assets/uplot/uplot.js", "uplot.css": "assets/uplot/uplot.css", "uplot-LICENSE.txt": "assets/uplot/LICENSE",
	} {
		body, err := fs.ReadFile(common, file)
		if err != nil {
			return nil, err
		}
		a.files[name] = body
	}
	names, err := fs.Glob(own, "*.*")
	for _, name := range names {
		if a.files[name], err = fs.ReadFile(own, name); err != nil {
			break
		}
	}
	return a, err
}

// Serve answers with the file of a name.
func (a *Assets) Serve(w http.ResponseWriter, name string) {
	body, ok := a.files[name]
	if !ok {
		Fail(w, http.StatusNotFound, errNoFile)
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the client is gone
}

var errNoFile = errors.New("strata: the page has no such file")

// contentTypes does not ask the machine for its types, as package mime does. With nosniff,
// a browser runs a script of another type not at all.
var contentTypes = map[string]string{ // read-only
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}
