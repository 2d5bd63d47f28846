package stage

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/observe/page"
)

// files are the page itself, its script and its style.
//
//go:embed assets
var files embed.FS

// Page is the http.Handler of the page of a Stage, at "/".
type Page struct {
	stage   *Stage
	assets  *page.Assets
	streams page.Streams
	handler http.Handler
}

// Page returns the page, which answers requests with Options.Token. Close it before its server.
func (s *Stage) Page() (*Page, error) {
	own, err := fs.Sub(files, "assets")
	if err != nil {
		return nil, err
	}
	p := &Page{stage: s}
	if p.assets, err = page.NewAssets(own); err != nil {
		return nil, err
	}
	p.handler = page.Guard(http.HandlerFunc(p.route), page.Options{Token: s.o.Token})
	return p, nil
}

// Close ends all streams of the page.
func (p *Page) Close() { p.streams.Close() }

// ServeHTTP answers a request for the page, one of its files, the state, or an action.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

var (
	errNoPage = errors.New("strata: there is no such page")
	errMethod = errors.New("strata: an action is posted, all else is got")
)

func (p *Page) route(w http.ResponseWriter, r *http.Request) {
	// An address that a browser follows must not act on the stage: actions need a POST, which the
	// guard checks for its origin.
	if post := r.Method == http.MethodPost; post != (r.URL.Path == "/api/do") {
		page.Fail(w, http.StatusMethodNotAllowed, errMethod)
		return
	}
	switch name, isAsset := strings.CutPrefix(r.URL.Path, "/assets/"); {
	case isAsset:
		p.assets.Serve(w, name)
	case r.URL.Path == "/":
		p.assets.Serve(w, "index.html")
	case r.URL.Path == "/api/do":
		p.do(w, r)
	case r.URL.Path == "/api/state":
		p.state(w, r)
	case r.URL.Path == "/api/stream":
		p.stream(w, r)
	default:
		page.Fail(w, http.StatusNotFound, errNoPage)
	}
}

// after returns the time in the query of a request, from which samples are wanted.
func after(r *http.Request) (int64, error) {
	return page.QueryOf(r).Number("after", 0, 1<<53, 0)
}

func (p *Page) state(w http.ResponseWriter, r *http.Request) {
	from, err := after(r)
	if err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	page.Write(w, p.stage.State(r.Context(), from))
}

// stream sends the state twice a second, each time with the new samples and the marks since
// the sample before. The reader knows marks by their numbers.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	from, err := after(r)
	if err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	p.streams.Serve(w, r, time.Second/2, func(ctx context.Context) any {
		s := p.stage.State(ctx, from)
		for _, x := range s.Samples {
			from = max(from, x.At)
		}
		return s
	})
}

// do does the action of a request.
func (p *Page) do(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Action string `json:"action"`
	}
	if err := page.ReadJSON(r, &ask); err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	// A text that is no action is the fault of the client, and is told by the status. An action
	// that fails is a result, such as an L2 that does not answer, and has status 200.
	if _, _, err := parse(ask.Action); err != nil {
		page.Fail(w, http.StatusBadRequest, err)
		return
	}
	said, err := p.stage.Do(r.Context(), ask.Action)
	page.Write(w, struct {
		OK   bool   `json:"ok"`
		Said string `json:"said"`
	}{err == nil, said})
}
