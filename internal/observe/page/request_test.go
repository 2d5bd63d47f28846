package page

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestNumbersOfQueriesAreBounded(t *testing.T) {
	for query, want := range map[string]int64{
		"": 7, "n=": 7, "n=1": 1, "n=100": 100, "n=50&m=x": 50,
		"n=0": -1, "n=101": -1, "n=-1": -1, "n=1e9": -1, "n=0x10": -1, "n=+": -1, "n=9223372036854775808": -1,
		"n=99999999999999999999999999999": -1, "n=1&n=2": -1, "n=1%zz": -1, "n=NaN": -1, "n=1;n=2": -1, "n=%00": -1, "n=５": -1,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		got, err := QueryOf(r).Number("n", 1, 100, 7)
		if want >= 0 && (err != nil || got != want) || want < 0 && err == nil {
			t.Errorf("%q: %d, %v", query, got, err)
		}
	}
	if _, err := QueryOf(httptest.NewRequest("GET", "/?n=9223372036854775807", nil)).Number("n", 1, math.MaxInt64, 1); err != nil {
		t.Error(err)
	}
}

func TestTextsOfQueriesAreBounded(t *testing.T) {
	for query, ok := range map[string]bool{"k=abc": true, "": true, "k=%C3%A4": true, "k=abcd": false, "k=%FF": false, "k=a&k=b": false, "k=%": false} {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		if _, err := QueryOf(r).Text("k", 3); (err == nil) != ok {
			t.Errorf("%q: %v", query, err)
		}
	}
}

func TestBodiesAreReadStrictly(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"a":1}`: true, ` {"a":1} `: true,
		``: false, `{"a":1}x`: false, `{"a":1}{}`: false, `{"b":1}`: false, `{"a":"x"}`: false, `[`: false, "{\"a\xff\":1}": false,
		strings.Repeat("[", 20000): false,
	} {
		var v struct {
			A int `json:"a"`
		}
		err := ReadJSON(httptest.NewRequest("POST", "/", strings.NewReader(body)), &v)
		if (err == nil) != ok {
			t.Errorf("%.20q: %v", body, err)
		}
	}
}

func TestBodyThatIsTooLargeHasItsStatus(t *testing.T) {
	w := httptest.NewRecorder()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v any
		if err := ReadJSON(r, &v); err != nil {
			Fail(w, 400, err)
		}
	})
	r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(`"`+strings.Repeat("a", maxBody)+`"`))
	r.RemoteAddr = "[::1]:1"
	r.Header.Set("Authorization", "Bearer "+testToken)
	Guard(h, Options{Token: testToken}).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestAnswersAreEscapedJSON(t *testing.T) {
	w := httptest.NewRecorder()
	Write(w, map[string]string{"key": "<script>alert(1)</script>&'\u2028"})
	if body := w.Body.String(); strings.ContainsAny(body, "<>&\u2028") || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s %s", w.Header(), body)
	}
	w = httptest.NewRecorder()
	Write(w, math.NaN())
	if w.Code != 500 || w.Body.Len() == 0 {
		t.Errorf("a value that is no JSON: %d %s", w.Code, w.Body)
	}
}

func TestAssetsHaveTheirTypes(t *testing.T) {
	a, err := NewAssets(fstest.MapFS{"own.js": {Data: []byte("1")}, "index.html": {Data: []byte("2")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"page.css": "text/css", "page.js": "text/javascript", "uplot.js": "text/javascript", "uplot.css": "text/css",
		"uplot-LICENSE.txt": "text/plain", "own.js": "text/javascript", "index.html": "text/html",
	} {
		w := httptest.NewRecorder()
		a.Serve(w, name)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), want) || w.Body.Len() == 0 {
			t.Errorf("%s: %d %q, %d bytes", name, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
	}
	for _, name := range []string{"", "none.js", "../guard.go", "assets/page.css", "."} {
		w := httptest.NewRecorder()
		if a.Serve(w, name); w.Code != 404 {
			t.Errorf("%q: %d", name, w.Code)
		}
	}
}
