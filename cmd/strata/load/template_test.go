package load_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// seen is one request as a server receives it.
type seen struct{ method, uri, host, header, auth, kind, body string }

func TestKeyTakesThePlaceOfThePlaceholder(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    load.Options
		want []seen // for the keys 0 and 1
	}{
		{"appended to name", load.Options{URL: "/hello?name=World&locale=ru-RU"}, []seen{
			{method: "GET", uri: "/hello?name=World0&locale=ru-RU"}, {method: "GET", uri: "/hello?name=World1&locale=ru-RU"},
		}},
		{"a parameter of its own", load.Options{URL: "/hello"}, []seen{
			{method: "GET", uri: "/hello?i=0"}, {method: "GET", uri: "/hello?i=1"},
		}},
		{"a further parameter", load.Options{URL: "/hello?a=b&surname=c"}, []seen{
			{method: "GET", uri: "/hello?a=b&surname=c&i=0"}, {method: "GET", uri: "/hello?a=b&surname=c&i=1"},
		}},
		{"path and query", load.Options{URL: "/u/{i}%2F{i}?name=x&n={i}"}, []seen{
			{method: "GET", uri: "/u/0%2F0?name=x&n=0"}, {method: "GET", uri: "/u/1%2F1?name=x&n=1"},
		}},
		{"header", load.Options{URL: "/", Header: http.Header{"X-Key": {"k{i}"}, "Host": {"other"}}}, []seen{
			{method: "GET", uri: "/", header: "k0", host: "other"}, {method: "GET", uri: "/", header: "k1", host: "other"},
		}},
		{"host", load.Options{URL: "/", Header: http.Header{"Host": {"shop{i}.example:8080"}}}, []seen{
			{method: "GET", uri: "/", host: "shop0.example:8080"}, {method: "GET", uri: "/", host: "shop1.example:8080"},
		}},
		{"body", load.Options{URL: "/", Body: "a={i}"}, []seen{
			{method: "POST", uri: "/", body: "a=0", kind: "application/x-www-form-urlencoded"},
			{method: "POST", uri: "/", body: "a=1", kind: "application/x-www-form-urlencoded"},
		}},
		{"method", load.Options{URL: "/{i}", Method: "PUT", Body: "b", Header: http.Header{"Content-Type": {"text/plain"}}}, []seen{
			{method: "PUT", uri: "/0", body: "b", kind: "text/plain"}, {method: "PUT", uri: "/1", body: "b", kind: "text/plain"},
		}},
		{"credentials", load.Options{URL: "http://u:p@target/{i}"}, []seen{
			{method: "GET", uri: "/0", auth: "Basic dTpw"}, {method: "GET", uri: "/1", auth: "Basic dTpw"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := record(t, tt.o)
			for _, want := range tt.want {
				if !slices.Contains(got, want) {
					t.Errorf("no request is %+v; there are %+v", want, got)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("%d different requests; want %d", len(got), len(tt.want))
			}
		})
	}
}

// wire is a RoundTripper that records requests as a server receives them.
type wire struct {
	mu  sync.Mutex // guards got
	got []seen
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent bytes.Buffer
	if err := r.Write(&sent); err != nil {
		return nil, err
	}
	r, err := http.ReadRequest(bufio.NewReader(&sent))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s := seen{r.Method, r.RequestURI, r.Host, r.Header.Get("X-Key"), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body)}
	if s.host == "target" {
		s.host = ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.got, s) {
		w.got = append(w.got, s)
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// record runs o with two keys and returns the distinct requests.
func record(t *testing.T, o load.Options) []seen {
	w := &wire{}
	if strings.HasPrefix(o.URL, "/") {
		o.URL = "http://target" + o.URL
	}
	o.Transport, o.Cardinality, o.Concurrency, o.Rate, o.Duration = w, 2, 1, 4, time.Second
	synctest.Test(t, func(t *testing.T) {
		res, err := load.Run(t.Context(), o)
		if err != nil || res.Failed() > 0 || res.Done != 4 {
			t.Fatalf("error %v, result %+v", err, res)
		}
	})
	return w.got
}

func TestRedirectsAreAnswers(t *testing.T) {
	server := httptest.NewServer(http.RedirectHandler("http://192.0.2.1/", http.StatusFound))
	defer server.Close()
	res, err := load.Run(t.Context(), load.Options{URL: server.URL, Concurrency: 1, Rate: 20, Duration: 200 * time.Millisecond})
	if err != nil || res.Status[http.StatusFound] != res.Done || res.Done == 0 {
		t.Errorf("error %v, result %+v", err, res)
	}
}

func TestTruncatedAnswerIsAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "half")
	}))
	defer server.Close()
	res, err := load.Run(t.Context(), load.Options{URL: server.URL, Concurrency: 1, Rate: 20, Duration: 200 * time.Millisecond})
	if err != nil || res.Errors[load.ConnectionClosed] != res.Done || res.Done == 0 || len(res.Status) != 0 {
		t.Errorf("error %v, result %+v", err, res)
	}
}

func TestValidateNamesEveryBadOption(t *testing.T) {
	good := load.Options{URL: "http://127.0.0.1/", Concurrency: 1, Duration: time.Second}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		want string
		edit func(*load.Options)
	}{
		{"no scheme", "url", func(o *load.Options) { o.URL = "127.0.0.1/" }},
		{"other scheme", "url", func(o *load.Options) { o.URL = "ftp://127.0.0.1/" }},
		{"no host", "url", func(o *load.Options) { o.URL = "http:///path" }},
		{"placeholder in host", "url", func(o *load.Options) { o.URL = "http://h{i}/" }},
		{"placeholder in port", "url", func(o *load.Options) { o.URL = "http://127.0.0.1:80{i}/" }},
		{"method", "method", func(o *load.Options) { o.Method = "G T" }},
		{"host that is not sent", "header: Host", func(o *load.Options) { o.Header = http.Header{"Host": {"shop example"}} }},
		{"no concurrency", "concurrency", func(o *load.Options) { o.Concurrency = 0 }},
		{"too much concurrency", "concurrency", func(o *load.Options) { o.Concurrency = load.MaxConcurrency + 1 }},
		{"negative cardinality", "cardinality", func(o *load.Options) { o.Cardinality = -1 }},
		{"group", "group", func(o *load.Options) { o.Group = load.MaxGroup + 1 }},
		{"rate", "rate", func(o *load.Options) { o.Rate = -1 }},
		{"duration", "duration", func(o *load.Options) { o.Duration = 0 }},
		{"timeout", "timeout", func(o *load.Options) { o.Timeout = -1 }},
		{"two at once", "duration", func(o *load.Options) { o.Duration, o.Rate = 0, -1 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			tt.edit(&o)
			err := o.Validate()
			if err == nil || !strings.Contains(err.Error(), "load: "+tt.want) {
				t.Errorf("error is %v; want one about %s", err, tt.want)
			}
		})
	}
}

func TestErrorsAboutURLsKeepPasswordsSecret(t *testing.T) {
	for _, url := range []string{"http://u:secret@127.0.0.1:port/", "ftp://u:secret@host/", "http://u:secret@h{i}/", "http://u:sec%zzret@host/"} {
		if _, err := load.ParseURL(url); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("error is %v", err)
		}
	}
}
