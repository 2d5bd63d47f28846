// Package admin draws caches on a page: the sources of answers, the duration of loads, the
// state of L2 and of the bus, the hottest keys, the last events, the effective options, and the state of
// one key on every instance. The page also invalidates, and changes bounds and TTLs while the
// program runs.
//
//	mux.Handle("/debug/strata/", admin.Handler(users, products))
//
// The page works below any prefix. Importing this package opens no port: the handler is part
// of a server of the program. Unless [Options].Authorize says otherwise, it answers only
// requests with a token: open the page, and the log of the program has its whole address. It never
// shows values, and shows keys only of caches with Options.ShowKeys.
//
// Beside the page there is JSON for programs: api/caches, api/cache?name=, api/stream?name=
// and api/explain?name=&key=; and api/invalidate, api/tags, api/all and api/tune, which want
// a POST.
package admin

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/observe/page"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// Cache is a cache that the page shows. A *[strata.Cache] of any types is one; other
// implementations are for tests of this module.
type Cache interface {
	// Name is the name of the cache.
	Name() string
	// Stats returns its numbers.
	Stats() strata.Stats
	// Tune changes options of it while it is in use.
	Tune(strata.Tuning) error
	// Inside has the rest.
	Inside() strata.Inside
}

// Options are the options of New. Handler uses the zero Options.
type Options struct {
	// Authorize decides which requests are answered; the others get status 403. It is called
	// for every request, at the same time, and may look at a session or a certificate. The address
	// of the peer proves nothing: behind a proxy each request comes from the proxy.
	Authorize func(*http.Request) bool
	// Token is a secret of 16 bytes or more. Without Authorize, only requests with it are answered:
	// an address that ends with ?token=, or a header "Authorization: Bearer". A browser that
	// followed such an address gets a cookie, and needs the token no more. Without both, New draws
	// a token; when the first request without it comes, the standard logger (slog.Default) writes
	// the whole address of the page, with the token, once. Over a network use TLS: the token is in
	// the request.
	Token string
	// ReadOnly refuses all actions.
	ReadOnly bool
}

// Page is an http.Handler for the page of some caches. All methods may be called at the same
// time.
type Page struct {
	caches  []*shown
	o       Options
	handler http.Handler
	assets  *page.Assets
	streams page.Streams
	history history
	actions chan struct{} // holds one for each call of a cache that runs
}

// shown is a cache with its name on the page.
type shown struct {
	name  string
	cache Cache
	panel observe.Panel
}

// maxActions is the number of explanations and actions of a page that run at the same time.
const maxActions = 8

// minToken is the length of the shortest Options.Token.
const minToken = 16

// files are the page itself, its script and its style.
//
//go:embed assets
var files embed.FS

// Handler returns a page with the default options.
func Handler(caches ...Cache) *Page { return New(Options{}, caches...) }

// New returns a page of these caches, in this order. On the page, a cache without a name is
// called "cache", and one with the name of an earlier cache gets a number behind it. A nil cache, a
// Token shorter than 16 bytes, and a Token beside Authorize are mistakes of the program,
// for which New panics.
//
// From now on the page keeps the numbers of ten minutes, and the hottest keys, so that it shows the time before
// it is opened: 200 KB for each cache at most, and a call of Stats every two seconds. A hit costs
// the same. The collection ends with Close, or when the program has no reference to the page any
// more. Close the page before its server: a server waits for streams to end.
func New(o Options, caches ...Cache) *Page {
	switch {
	case o.Token != "" && o.Authorize != nil:
		panic("admin: Options has both Authorize and Token: one of them decides")
	case o.Token != "" && len(o.Token) < minToken:
		panic(fmt.Sprintf("admin: Options.Token has less than %d bytes", minToken))
	}
	p := &Page{o: o, actions: make(chan struct{}, maxActions)}
	taken := map[string]bool{}
	for i, c := range caches {
		if c == nil {
			panic(fmt.Sprintf("admin: cache %d of %d is nil", i+1, len(caches)))
		}
		name := c.Name()
		if name == "" {
			name = "cache"
		}
		for n, first := 2, name; taken[name]; n++ {
			name = fmt.Sprintf("%s (%d)", first, n)
		}
		taken[name] = true
		p.caches = append(p.caches, &shown{name, c, transfer.Parts(c.Inside()).Panel()})
	}
	own, err := fs.Sub(files, "assets")
	if err == nil {
		p.assets, err = page.NewAssets(own)
	}
	if err != nil {
		panic(err) // a file embedded in the program is missing
	}
	p.history.start(p.caches)
	guarded := page.Options{Authorize: o.Authorize, Token: o.Token, ReadOnly: o.ReadOnly}
	if o.Token == "" && o.Authorize == nil {
		guarded.Token, guarded.Tell = page.NewToken(), tellAddress
	}
	p.handler = page.Guard(http.HandlerFunc(p.route), guarded)
	return p
}

// tellAddress writes the address of a page, which has its token, to the log of the
// program.
func tellAddress(address string) { slog.Info("admin: the page of caches is at " + address) }

// Close ends all streams of the page, and the collection of numbers. Later streams are
// refused. It returns nil, and does not close the caches.
func (p *Page) Close() error {
	p.streams.Close()
	p.history.close()
	return nil
}

// ServeHTTP answers a request for the page, for one of its files, or for JSON.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Errors of requests.
var (
	errNotFound = errors.New("admin: there is no such page")
	errPost     = errors.New("admin: an action wants a POST")
	errGet      = errors.New("admin: only actions are posted")
	errBusy     = errors.New("admin: too many actions run at the moment; try again later")
)

// route decides by the end of the path of a request: the page knows no prefix.
func (p *Page) route(w http.ResponseWriter, r *http.Request) {
	dir, name := path.Split(r.URL.Path)
	folder := path.Base(dir)
	// A prefix may have folders of these names, too: the page may be at /api/strata.
	var answer http.HandlerFunc
	if folder == "api" {
		answer = p.api(name)
	}
	switch {
	case answer != nil:
		answer(w, r)
	case r.Method == http.MethodPost:
		page.Fail(w, http.StatusMethodNotAllowed, errGet)
	case folder == "assets" && strings.Contains(name, "."):
		p.assets.Serve(w, name)
	case name == "" && strings.HasSuffix(r.URL.Path, "/"):
		p.assets.Serve(w, "index.html")
	case !strings.Contains(name, "."):
		p.toSlash(w, r)
	default:
		page.Fail(w, http.StatusNotFound, errNotFound)
	}
}

// toSlash leads to the page from its address without a slash. The address is relative:
// a proxy or a handler may have removed a prefix.
func (p *Page) toSlash(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil {
		name = path.Base(u.Path)
	}
	if name == "/" || name == "." {
		page.Fail(w, http.StatusNotFound, errNotFound)
		return
	}
	to := "./" + url.PathEscape(name) + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery // with the token, which the page needs
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// api returns the handler of requests for JSON with a name, or nil.
func (p *Page) api(name string) http.HandlerFunc {
	queries := map[string]http.HandlerFunc{
		"caches": p.serveCaches, "cache": p.serveCache, "stream": p.serveStream, "explain": p.serveExplain,
	}
	actions := map[string]http.HandlerFunc{
		"invalidate": p.invalidate, "tags": p.tags, "all": p.all, "tune": p.tune,
	}
	query, action := queries[name], actions[name]
	if query == nil && action == nil {
		return nil
	}
	return func(w http.ResponseWriter, r *http.Request) {
		post := r.Method == http.MethodPost
		switch {
		case query != nil && !post:
			query(w, r)
		case action != nil && post:
			action(w, r)
		case query != nil:
			w.Header().Set("Allow", "GET, HEAD")
			page.Fail(w, http.StatusMethodNotAllowed, errGet)
		default:
			w.Header().Set("Allow", "POST")
			page.Fail(w, http.StatusMethodNotAllowed, errPost)
		}
	}
}

// find returns the cache with this name on the page.
func (p *Page) find(name string) (*shown, int, error) {
	for i, c := range p.caches {
		if c.name == name {
			return c, i, nil
		}
	}
	return nil, 0, fmt.Errorf("admin: there is no cache %q on this page", name)
}

// begin counts a call of a cache that may take its time; nil if too many run.
func (p *Page) begin() (end func()) {
	select {
	case p.actions <- struct{}{}:
		return func() { <-p.actions }
	default:
		return nil
	}
}
