package admin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/observe"
)

func post(target, body string) *http.Request { return local("POST", target, body) }

func form(target string, v url.Values) *http.Request {
	r := local("POST", target, v.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	return r
}

func TestActionsReachTheCache(t *testing.T) {
	for want, r := range map[string]*http.Request{
		"invalidate key a:1":    post("/api/invalidate", `{"name":"users","key":"a:1"}`),
		"expire key a:1":        post("/api/invalidate", `{"name":"users","key":"a:1","soft":true}`),
		"invalidate tags x|y":   post("/api/tags", `{"name":"users","tags":["x","y"]}`),
		"expire tags x":         post("/api/tags", `{"name":"users","tags":["x"],"soft":true}`),
		"invalidate all":        post("/api/all", `{"name":"users"}`),
		"expire all":            post("/api/all", `{"name":"users","soft":true}`),
		"invalidate key <ü&=>":  form("/api/invalidate", url.Values{"name": {"users"}, "key": {"<ü&=>"}}),
		"expire key 7":          form("/api/invalidate", url.Values{"name": {"users"}, "key": {"7"}, "soft": {"true"}}),
		"invalidate tags a,b|c": form("/api/tags", url.Values{"name": {"users"}, "tags": {"a,b", "c"}, "soft": {"false"}}),
		"invalidate key true":   form("/api/invalidate", url.Values{"name": {"users"}, "key": {"true"}}),
		"tune MaxEntries=5 MaxWeight=9 TTL=1m30s StaleWhileRevalidate=1s StaleOnError=0s Off=true": post("/api/tune",
			`{"name":"users","maxEntries":5,"maxWeight":9,"ttl":"1m30s","staleWhileRevalidate":"1s","staleOnError":"none","off":true}`),
		"tune TTL=" + strata.NoExpiry.String(): post("/api/tune", `{"name":"users","ttl":"none"}`),
		"tune MaxEntries=7 Off=false":          form("/api/tune", url.Values{"name": {"users"}, "maxEntries": {"7"}, "off": {"false"}}),
		"invalidate key ":                      post("/api/invalidate", `{"name":"users","key":""}`),
		"invalidate key \u2028\"":              post("/api/invalidate", "{\"name\":\"users\",\"key\":\"\u2028\\\"\"}"),
	} {
		f, other := &fake{name: "users"}, &fake{name: "other"}
		o := answer[api.Outcome](t, pageOf(t, Options{}, other, f), r)
		if got := f.called(); !slices.Equal(got, []string{want}) || len(other.called()) != 0 {
			t.Errorf("%s: calls %q, of the other %q", want, got, other.called())
		}
		if !o.OK || o.Did == "" || o.Error != "" || strings.Contains(o.Did, "expired") != strings.HasPrefix(want, "expire") {
			t.Errorf("%s: %+v", want, o)
		}
	}
}

func TestOutcomeSaysWhatL2AndTheBusDid(t *testing.T) {
	f := &fake{name: "users", info: observe.Info{L2: "*redis.Tier", Bus: "*redis.Bus"}, err: errors.New("strata: users: L2 has not confirmed")}
	f.stats.Pending, f.stats.BreakerOpen, f.stats.Connected = 4, true, false
	p := pageOf(t, Options{}, f)
	o := answer[api.Outcome](t, p, post("/api/all", `{"name":"users"}`))
	if o.OK || o.Did != "" || o.Error != f.err.Error() || !o.HasL2 || !o.HasBus || o.Connected || !o.BreakerOpen || o.Pending != 4 {
		t.Errorf("%+v", o)
	}
	f.with(func(f *fake) { f.err, f.stats.Pending, f.stats.BreakerOpen, f.stats.Connected = nil, 0, false, true })
	o = answer[api.Outcome](t, p, post("/api/all", `{"name":"users"}`))
	if !o.OK || o.Error != "" || !o.Connected || o.BreakerOpen || o.Pending != 0 {
		t.Errorf("%+v", o)
	}
}

func TestBadActionsChangeNothing(t *testing.T) {
	f := &fake{name: "users"}
	p := pageOf(t, Options{}, f)
	many := `["` + strings.Repeat(`a","`, api.MaxTags) + `a"]`
	for name, c := range map[string]struct {
		r    *http.Request
		want int
	}{
		"no body":            {post("/api/all", ""), 400},
		"empty":              {post("/api/all", " "), 400},
		"no JSON":            {post("/api/all", "name=users"), 400},
		"unknown field":      {post("/api/all", `{"name":"users","all":true}`), 400},
		"key for all":        {post("/api/all", `{"name":"users","key":"k"}`), 400},
		"two values":         {post("/api/all", `{"name":"users"}{}`), 400},
		"no UTF-8":           {post("/api/invalidate", "{\"name\":\"users\",\"key\":\"\xff\"}"), 400},
		"key is a number":    {post("/api/invalidate", `{"name":"users","key":7}`), 400},
		"long key":           {post("/api/invalidate", `{"name":"users","key":"`+strings.Repeat("a", api.MaxKey+1)+`"}`), 400},
		"soft is a word":     {post("/api/invalidate", `{"name":"users","key":"k","soft":"yes"}`), 400},
		"no tags":            {post("/api/tags", `{"name":"users"}`), 400},
		"empty tag":          {post("/api/tags", `{"name":"users","tags":[""]}`), 400},
		"many tags":          {post("/api/tags", `{"name":"users","tags":`+many+`}`), 400},
		"long tag":           {post("/api/tags", `{"name":"users","tags":["`+strings.Repeat("a", api.MaxKey+1)+`"]}`), 400},
		"large body":         {post("/api/invalidate", `{"name":"users","key":"`+strings.Repeat("a", 1<<20)+`"}`), 413},
		"large form":         {form("/api/invalidate", url.Values{"key": {strings.Repeat("a", 1<<20)}}), 413},
		"form: twice":        {form("/api/invalidate", url.Values{"name": {"users"}, "key": {"a", "b"}}), 400},
		"form: no UTF-8":     {form("/api/invalidate", url.Values{"name": {"users"}, "key": {"\xff"}}), 400},
		"form: soft":         {form("/api/all", url.Values{"name": {"users"}, "soft": {`true,"key":"x"`}}), 400},
		"form: unknown":      {form("/api/all", url.Values{"name": {"users"}, "x": {"y"}}), 400},
		"form: half a byte":  {local("POST", "/api/all", "name=%"), 400},
		"another type":       {typed("text/plain"), 400},
		"no type":            {typed(""), 400},
		"several parts":      {typed("multipart/form-data; boundary=x"), 400},
		"name of no cache":   {post("/api/all", `{"name":"Users"}`), 404},
		"name in the query":  {post("/api/all?name=users", `{}`), 404},
		"deep JSON":          {post("/api/all", strings.Repeat("[", 60000)), 400},
		"tune: text":         {post("/api/tune", `{"name":"users","maxEntries":"5"}`), 400},
		"tune: fraction":     {post("/api/tune", `{"name":"users","maxEntries":1.5}`), 400},
		"tune: large":        {post("/api/tune", `{"name":"users","maxEntries":9223372036854775808}`), 400},
		"tune: unknown":      {post("/api/tune", `{"name":"users","entries":5}`), 400},
		"array":              {post("/api/all", `[]`), 400},
		"null is no cache":   {post("/api/all", `null`), 404},
		"form to other site": {crossSite(), 403},
	} {
		if status, body := ask(p, c.r); status != c.want || !strings.HasPrefix(body, `{"error":"`) {
			t.Errorf("%s: %d %.100s, want %d", name, status, body, c.want)
		}
	}
	if got := f.called(); len(got) != 0 {
		t.Errorf("calls %q", got)
	}
}

func typed(kind string) *http.Request {
	r := post("/api/all", `{"name":"users"}`)
	r.Header.Set("Content-Type", kind)
	return r
}

func crossSite() *http.Request {
	r := form("/api/all", url.Values{"name": {"users"}})
	r.Header.Set("Origin", "http://evil.example")
	return r
}

func TestReadOnlyPageDoesNothing(t *testing.T) {
	f := &fake{name: "users"}
	p := pageOf(t, Options{ReadOnly: true}, f)
	for path, body := range map[string]string{
		"/api/all": `{"name":"users"}`, "/api/invalidate": `{"name":"users","key":"k"}`, "/api/tags": `{"name":"users","tags":["x"]}`,
		"/api/tune": `{"name":"users","off":true}`,
	} {
		if status, answer := ask(p, post(path, body)); status != 403 || !strings.Contains(answer, "read-only") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if got := f.called(); len(got) != 0 {
		t.Errorf("calls %q", got)
	}
	if o := answer[api.Overview](t, p, local("GET", "/api/caches", "")); !o.ReadOnly {
		t.Error("the answer does not say that the page is read-only")
	}
}

// TestNothingWithoutATokenByDefault asks a page with default options for each of its addresses
// without the token: from this machine, from another one, through a proxy, and with a guessed
// token.
func TestNothingWithoutATokenByDefault(t *testing.T) {
	f := &fake{name: "users"}
	p := Handler(f)
	defer p.Close()
	targets := []*http.Request{
		local("GET", "/", ""), local("GET", "/x", ""), local("GET", "/assets/page.css", ""), local("GET", "/api/caches", ""), local("GET", "/api/cache?name=users", ""),
		local("GET", "/api/stream", ""), local("GET", "/api/explain?name=users&key=k", ""), post("/api/all", `{"name":"users"}`),
		post("/api/tune", `{"name":"users","off":true}`), post("/api/invalidate", `{"name":"users","key":"k"}`), post("/api/tags", `{"name":"users","tags":["x"]}`),
	}
	for _, r := range targets {
		for name, change := range map[string]func(*http.Request){
			"this machine": func(*http.Request) {},
			"peer":         func(r *http.Request) { r.RemoteAddr = "192.0.2.1:1" },
			"host":         func(r *http.Request) { r.Host = "rebound.example" },
			"proxy":        func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.1") },
			"guess":        func(r *http.Request) { r.URL.RawQuery += "&token=" + testToken },
		} {
			r := r.Clone(t.Context())
			r.Header.Del("Authorization")
			change(r)
			if status, body := ask(p, r); status != 403 || !strings.Contains(body, "token") || strings.Contains(body, "users") {
				t.Errorf("%s, %s: %d %s", r.URL, name, status, body)
			}
		}
	}
	if got := f.called(); len(got) != 0 {
		t.Errorf("calls %q", got)
	}
	open := pageOf(t, Options{Authorize: func(r *http.Request) bool { return r.Header.Get("Token") == "right" }}, f)
	r := local("GET", "/api/caches", "")
	r.RemoteAddr, r.Host = "192.0.2.1:1", "admin.example"
	if status, _ := ask(open, r); status != 403 {
		t.Errorf("without a token: %d", status)
	}
	r.Header.Set("Token", "right")
	if status, _ := ask(open, r); status != 200 {
		t.Errorf("with the token: %d", status)
	}
}

// TestAddressWithTheTokenIsInTheLogOnce opens a page of a program that sets no options.
func TestAddressWithTheTokenIsInTheLogOnce(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var log strings.Builder
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	p := Handler(&fake{name: "users"})
	defer p.Close()
	if log.Len() != 0 {
		t.Errorf("a page that nobody opens logs %s", log.String())
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/strata/", p)
	for range 3 {
		r := local("GET", "/debug/strata/", "")
		r.Host = "evil.example"
		if status, _ := ask(mux, r); status != 403 {
			t.Errorf("without the token: %d", status)
		}
	}
	_, rest, _ := strings.Cut(log.String(), "http://localhost")
	address, _, _ := strings.Cut(rest, `"`)
	if strings.Count(log.String(), "\n") != 1 || !strings.HasPrefix(address, "/debug/strata/?token=") || strings.Contains(log.String(), "evil") {
		t.Fatalf("the log is %s", log.String())
	}
	r := httptest.NewRequest("GET", strings.Replace(address, "/?", "/api/caches?", 1), nil)
	if status, body := ask(mux, r); status != 200 || !strings.Contains(body, "users") {
		t.Errorf("with the token of the log: %d %s", status, body)
	}
}

func TestOptionsThatDecideNothingPanic(t *testing.T) {
	for name, o := range map[string]Options{
		"short": {Token: "secret"}, "both": {Token: testToken, Authorize: func(*http.Request) bool { return true }},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || strings.Contains(fmt.Sprint(p), "secret") {
					t.Errorf("%s: %v", name, p)
				}
			}()
			New(o, &fake{name: "users"})
		}()
	}
}

// TestRefusedTuningIsAnOutcome tunes with values that the page or the cache refuses. The answer is
// an Outcome with the reason, as for a tried action.
func TestRefusedTuningIsAnOutcome(t *testing.T) {
	f := &fake{name: "users"}
	p := pageOf(t, Options{}, f)
	for body, want := range map[string]string{
		`{"name":"users"}`: "no option", `{"name":"users","ttl":"soon"}`: "ttl is a duration",
		`{"name":"users","off":true,"staleOnError":"","staleWhileRevalidate":"5"}`: "staleWhileRevalidate is a duration",
	} {
		if o := answer[api.Outcome](t, p, post("/api/tune", body)); o.OK || !strings.Contains(o.Error, want) {
			t.Errorf("%s: %+v", body, o)
		}
	}
	if got := f.called(); len(got) != 0 {
		t.Errorf("calls %q", got)
	}
	f.err = errors.New("strata: tune: TTL: 1ns is less than 1ms")
	if o := answer[api.Outcome](t, p, post("/api/tune", `{"name":"users","ttl":"1ns"}`)); o.OK || o.Error != f.err.Error() {
		t.Errorf("%+v", o)
	}
}

func TestExplainNamesInstancesThatDoNotAnswer(t *testing.T) {
	f := &fake{name: "users", answers: []observe.Explanation{
		{Instance: "one", Here: true, Answered: true, Verdict: "L1 answers.", L1: "fresh", L1Fresh: time.Second, L2: "none", Tags: []string{"t"}},
		{Instance: "two", Took: time.Second},
	}}
	p := pageOf(t, Options{}, f)
	x := answer[api.Explained](t, p, local("GET", "/api/explain?name=users&key="+url.QueryEscape("a b<"), ""))
	if x.Key != "a b<" || x.Error != "" || len(x.Instances) != 2 || x.Instances[1].Answered || x.Instances[1].Instance != "two" || x.Instances[0].L1Fresh != time.Second || x.Instances[1].Tags == nil {
		t.Errorf("%+v", x)
	}
	if got := f.called(); !slices.Equal(got, []string{"explain a b<"}) {
		t.Errorf("calls %q", got)
	}
	f.with(func(f *fake) { f.err, f.answers = observe.ErrNoText, nil })
	if x := answer[api.Explained](t, p, local("GET", "/api/explain?name=users&key=k", "")); x.Error != observe.ErrNoText.Error() || x.Instances == nil {
		t.Errorf("%+v", x)
	}
}

func TestExplanationsAtTheSameTimeAreBounded(t *testing.T) {
	f := &fake{name: "users", hold: make(chan struct{})}
	p := pageOf(t, Options{}, f)
	var all sync.WaitGroup
	for range maxActions {
		all.Go(func() { ask(p, local("GET", "/api/explain?name=users&key=k", "")) })
	}
	for len(p.actions) < maxActions {
		<-time.After(time.Millisecond)
	}
	if status, _ := ask(p, local("GET", "/api/explain?name=users&key=k", "")); status != 503 {
		t.Errorf("one more explanation: %d", status)
	}
	if status, _ := ask(p, post("/api/all", `{"name":"users"}`)); status != 503 || len(f.called()) > 0 {
		t.Errorf("one more action: %d, %q", status, f.called())
	}
	close(f.hold)
	all.Wait()
	if status, _ := ask(p, local("GET", "/api/explain?name=users&key=k", "")); status != 200 {
		t.Errorf("when they have ended: %d", status)
	}
}

func TestQueriesAreBounded(t *testing.T) {
	p := pageOf(t, Options{}, &fake{name: "users"})
	for _, q := range []string{
		"samples=-1", "samples=301", "samples=x", "samples=1e2", "samples=1&samples=2", "after=-1", "after=9007199254740993", "after=99999999999999999999", "samples=%zz",
	} {
		if status, body := ask(p, local("GET", "/api/cache?name=users&"+q, "")); status != 400 {
			t.Errorf("%s: %d %s", q, status, body)
		}
	}
	for _, target := range []string{
		"/api/explain?name=users&key=" + strings.Repeat("a", api.MaxKey+1), "/api/explain?name=users&key=%ff", "/api/explain?name=users&key=a&key=b",
		"/api/cache?name=" + strings.Repeat("a", maxName+1), "/api/cache?name=users&name=users", "/api/stream?name=%ff",
	} {
		if status, body := ask(p, local("GET", target, "")); status != 400 {
			t.Errorf("%.60s: %d %s", target, status, body)
		}
	}
	if status, _ := ask(p, local("GET", "/api/explain?name=users&key="+strings.Repeat("%61", 1<<14), "")); status != 414 {
		t.Errorf("long address: %d", status)
	}
}

// FuzzForm compares a form with its values: an action gets those, or none.
func FuzzForm(f *testing.F) {
	for _, text := range []string{"name=users&key=k", "key=a&key=b", "soft=true", "soft=true,%22key%22:%22x%22", "tags=a", "%", "key=%ff", "NAME=x&name=y", "soft=null"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := post("/", text)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		var b api.Key
		if read(r, &b) != nil {
			return
		}
		values, err := url.ParseQuery(text)
		if err != nil {
			t.Fatalf("%q is accepted: %v", text, err)
		}
		folded := map[string]string{}
		for name, all := range values {
			name = strings.ToLower(name)
			if _, twice := folded[name]; twice || len(all) != 1 {
				return // which of two names counts is of no matter
			}
			folded[name] = all[0]
		}
		if b.Name != folded["name"] || b.Key != folded["key"] || b.Soft && strings.TrimSpace(folded["soft"]) != "true" {
			t.Fatalf("%q becomes %+v", text, b)
		}
	})
}
