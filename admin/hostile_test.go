package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/observe/page"
)

// payloads are texts that become code in a page that takes them for markup.
var payloads = []string{ // read-only
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`'><svg/onload=alert(1)>`,
	`</script><script>alert(1)</script>`,
	`javascript:alert(1)`,
	`<iframe srcdoc="<script>alert(1)</script>">`,
	`{{constructor.constructor('alert(1)')()}}`,
	`<!--<img src="--><img src=x onerror=alert(1)//">`,
	"\u2028alert(1)\u2029//",
	"\";alert(1)//\\",
	"data: {}\n\nevent: x\r\n\r\ndata: <b>",
	`&lt;img src=x onerror=alert(1)&gt;`,
}

// TestHostileTextsStayText has all payloads in all places of all answers.
func TestHostileTextsStayText(t *testing.T) {
	f := &fake{}
	for i, x := range payloads {
		f.events = append(f.events, observe.Event{Number: uint64(i + 1), Level: x, Text: x})
		f.settings = append(f.settings, observe.Setting{Name: x, Value: x})
		f.hot.ByReads = append(f.hot.ByReads, observe.HotKey{Key: x})
		f.hot.ByLoadTime = append(f.hot.ByLoadTime, observe.HotKey{Key: x})
		f.answers = append(f.answers, observe.Explanation{Instance: x, Answered: true, Verdict: x, Err: x, L1: x, Tags: []string{x}})
	}
	for _, x := range payloads {
		f := &fake{name: x, events: f.events, settings: f.settings, hot: f.hot, answers: f.answers, info: observe.Info{Name: x, L2: x, Bus: x, Instance: x}}
		p := pageOf(t, Options{}, f)
		q := "name=" + url.QueryEscape(x)
		for _, r := range []*http.Request{
			local("GET", "/api/caches", ""), local("GET", "/api/cache?"+q, ""), local("GET", "/api/explain?"+q+"&key="+url.QueryEscape(x), ""),
			local("GET", "/api/cache?name=no"+url.QueryEscape(x), ""), form("/api/invalidate", url.Values{"name": {x}, "key": {x}}),
			form("/api/invalidate", url.Values{x: {x}, "name": {x}}), form("/api/tags", url.Values{"name": {x}, "tags": {x}}),
		} {
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			body := w.Body.String()
			if strings.ContainsAny(body, "<>&\u2028\u2029\r\n") || !json.Valid(w.Body.Bytes()) || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s %.200s", r.URL, w.Header().Get("Content-Type"), body)
			}
		}
		d := answer[api.Detail](t, p, local("GET", "/api/cache?"+q, ""))
		if d.Name != x || d.Events[0].Text != payloads[0] || d.Hot.ByReads[len(payloads)-1].Key != payloads[len(payloads)-1] {
			t.Errorf("%q comes out as %q", x, d.Name)
		}
	}
}

// TestPageIsWithinItsPolicy looks for markup that the policy of the page forbids, and
// for ways by which text could become markup.
func TestPageIsWithinItsPolicy(t *testing.T) {
	p := pageOf(t, Options{})
	_, html := ask(p, local("GET", "/", ""))
	for _, bad := range []string{`(?i)<script(>| [^>]*>[^<])`, `(?i)<style`, `(?i) style=`, `(?i) on[a-z]+=`, `(?i)(src|href)="(/|https?:|data:|javascript:)`} {
		if found := regexp.MustCompile(bad).FindString(html); found != "" {
			t.Errorf("the page has %q", found)
		}
	}
	for _, file := range []string{"admin.js", "page.js"} {
		status, script := ask(p, local("GET", "/assets/"+file, ""))
		if status != 200 || len(script) < 1000 {
			t.Fatalf("%s: %d, %d bytes", file, status, len(script))
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "createContextualFragment", "localStorage", "setTimeout(\""} {
			if strings.Contains(script, bad) {
				t.Errorf("%s has %s", file, bad)
			}
		}
	}
}

// stream opens a stream of a served page.
func stream(t *testing.T, ctx context.Context, at string) (status int, lines *bufio.Scanner) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines = bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 10<<20)
	return resp.StatusCode, lines
}

// event returns the next event of a stream.
func event[T any](t *testing.T, lines *bufio.Scanner) (v T) {
	t.Helper()
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("the stream has ended: %v", lines.Err())
	return v
}

func TestStreamRepeatsNothing(t *testing.T) {
	f := &fake{name: "users", events: []observe.Event{{Number: 1, Text: "one"}}}
	p := pageOf(t, Options{}, f)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(func() { p.Close() })
	_, lines := stream(t, t.Context(), server.URL+"/debug/api/stream?name=users")
	if first := event[api.Detail](t, lines); len(first.Events) != 1 || first.Name != "users" {
		t.Errorf("first %+v", first)
	}
	f.with(func(f *fake) { f.events = append(f.events, observe.Event{Number: 2, Text: "two"}) })
	second := event[api.Detail](t, lines)
	third := event[api.Detail](t, lines)
	if len(second.Events) != 1 || second.Events[0].Number != 2 || len(third.Events) != 0 {
		t.Errorf("events of the second %+v, of the third %+v", second.Events, third.Events)
	}
	if len(second.Samples)+len(third.Samples) < 1 || len(second.Samples) > 0 && len(third.Samples) > 0 && second.Samples[0].At == third.Samples[0].At {
		t.Errorf("samples of the second %+v, of the third %+v", second.Samples, third.Samples)
	}
}

// TestEventThatGrowsIsStreamedAgain: counts within a second are one event.
func TestEventThatGrowsIsStreamedAgain(t *testing.T) {
	soon := time.Now().Add(time.Hour) // a clock that is set back meanwhile must do no harm
	f := &fake{name: "users", events: []observe.Event{{Number: 1, Text: "one", At: soon}, {Number: 2, Text: "keys: 1", At: soon}}}
	p := pageOf(t, Options{}, f)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(func() { p.Close() })
	_, lines := stream(t, t.Context(), server.URL+"/debug/api/stream?name=users")
	if first := event[api.Detail](t, lines); len(first.Events) != 2 {
		t.Errorf("first %+v", first)
	}
	f.with(func(f *fake) { f.events[1].Text = "keys: 7" })
	if second := event[api.Detail](t, lines); len(second.Events) != 1 || second.Events[0].Text != "keys: 7" {
		t.Errorf("events of the second %+v", second.Events)
	}
}

func TestStreamsOfThePageAreLimitedAndEndWithClose(t *testing.T) {
	p := New(Options{Token: testToken}, &fake{name: "users"})
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	var all []*bufio.Scanner
	for range page.MaxStreams {
		status, lines := stream(t, t.Context(), server.URL+"/api/stream")
		if o := event[api.Overview](t, lines); status != 200 || len(o.Caches) != 1 {
			t.Fatalf("%d %+v", status, o)
		}
		all = append(all, lines)
	}
	if status, _ := stream(t, t.Context(), server.URL+"/api/stream?name=users"); status != 503 {
		t.Errorf("one more: %d", status)
	}
	begun := time.Now()
	if err := p.Close(); err != nil || time.Since(begun) > 5*time.Second {
		t.Errorf("Close: %v after %v", err, time.Since(begun))
	}
	for _, lines := range all {
		for lines.Scan() {
			continue
		}
		if lines.Err() != nil {
			t.Errorf("a stream is cut off: %v", lines.Err())
		}
	}
	if err := server.Config.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
