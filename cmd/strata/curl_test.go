package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/strata-cache/strata/cmd/strata/stage"
)

// recorder keeps one line for each different request of a server.
type recorder struct {
	mu    sync.Mutex // guards below
	lines []string
}

func (rec *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	line := fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Authorization"), " ", r.Header["Content-Type"], " ", string(body))
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if !slices.Contains(rec.lines, line) {
		rec.lines = append(rec.lines, line)
	}
	if r.URL.Path == "/old" {
		http.Redirect(w, r, "/new", http.StatusFound)
	}
}

// TestLoadTakesACommandLineOfCurl pastes command lines in one word and in several, with flags of the
// load before and behind.
func TestLoadTakesACommandLineOfCurl(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{"in quotes", []string{"curl -X PUT 'URL/p?a=1' \\\n  -H 'Authorization: Bearer s3cret' --data-raw $'it\\'s'", "--cardinality", "1"}, []string{
			"PUT /p?a=1 Bearer s3cret [application/x-www-form-urlencoded] it's",
		}},
		{"in words", []string{"--group", "2", "curl", "-sS", "-u", "me:s3cret", "--json", "{}", "URL/p"}, []string{
			"POST /p Basic bWU6czNjcmV0 [application/json] {}",
		}},
		{"with numbers", []string{" curl URL/{i} -d {i} -H Content-Type:", "--cardinality", "2", "--group", "5"}, []string{"POST /0  [] 0", "POST /1  [] 1"}},
		{"with redirects", []string{"curl", "-L", "URL/old"}, []string{"GET /old  [] ", "GET /new  [] "}},
		{"without", []string{"curl", "URL/old"}, []string{"GET /old  [] "}},
		{"without a body", []string{"URL/p", "--data", ""}, []string{"POST /p  [] "}},
		{"by a value", []string{"--data", "curl", "URL/p"}, []string{"POST /p  [application/x-www-form-urlencoded] curl"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got recorder
			server := httptest.NewServer(&got)
			defer server.Close()
			args := []string{"load", "--rate", "20", "--duration", "1s"} // long enough for a busy machine
			for _, a := range tt.args {
				args = append(args, strings.ReplaceAll(a, "URL", server.URL))
			}
			status, stdout, stderr := call(t.Context(), args...)
			if status != 0 || stderr != "" || !strings.Contains(stdout, " requests in") || strings.Contains(stdout, "s3cret") {
				t.Errorf("status %d, stderr %q, stdout\n%s", status, stderr, stdout)
			}
			// On a busy machine a request may overtake another one.
			if slices.Sort(got.lines); !slices.Equal(got.lines, slices.Sorted(slices.Values(tt.want))) {
				t.Errorf("%q, want %q", got.lines, tt.want)
			}
		})
	}
}

// TestInsecureCurlBelievesEveryCertificate puts a load on a server whose certificate no authority
// has signed.
func TestInsecureCurlBelievesEveryCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(&recorder{})
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it sees that clients break off
	server.StartTLS()
	defer server.Close()
	for option, want := range map[string]int{"-k": succeeded, "-s": failed} {
		status, stdout, stderr := call(t.Context(), "load", "--rate", "10", "--duration", "300ms", "curl", option, server.URL)
		if status != want || strings.Contains(stderr, "no request succeeded") != (want == failed) {
			t.Errorf("%s: status %d, stderr %q, stdout\n%s", option, status, stderr, stdout)
		}
	}
}

func TestBadCommandLinesOfCurlAreOneLine(t *testing.T) {
	for _, tt := range []struct {
		args []string
		text string
	}{
		{[]string{"curl"}, "the command has no URL"},
		{[]string{"curl http://h -x http://secret"}, "does not know -x of curl"},
		{[]string{"curl", "http://h", "--rate", "secret"}, "does not know --rate of curl; its own flags stand outside"},
		{[]string{"curl http://h http://secret"}, "more than one URL"},
		{[]string{"curl http://h -H authorization:", "Bearer", "secret"}, "in quotes that it does not have itself"},
		{[]string{"http://h", "http://u:secret@h"}, "want one URL"},
		{[]string{"curl ftp://u:secret@h"}, "neither http:// nor https://"},
		{[]string{"curl 'http://secret"}, "line 1, column 6"},
		{[]string{"curl http://h -H 'A: secret'", "-H", "B: secret"}, "--method, --header and --data are those of the curl command"},
		{[]string{"curl http://h -X G@T"}, "method"},
		{[]string{"--data", "curl"}, "<url>"},
	} {
		status, stdout, stderr := call(t.Context(), append([]string{"load"}, tt.args...)...)
		if status != misused || stdout != "" || !strings.HasPrefix(stderr, "strata: ") || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, tt.text) || strings.Contains(stderr, "secret") {
			t.Errorf("%v: status %d, stdout %q, stderr %q", tt.args, status, stdout, stderr)
		}
	}
}

// TestStageTakesTheTimesOfItsFlags: also those that are the defaults of the comparison.
func TestStageTakesTheTimesOfItsFlags(t *testing.T) {
	for _, tt := range []struct {
		flags        string
		ttl, latency time.Duration
	}{
		{"", stage.DefaultTTL, 0},
		{" --ttl 3m --origin-latency 0s", 3 * time.Minute, -1},
		{" --ttl 7s --origin-latency 9ms", 7 * time.Second, 9 * time.Millisecond},
	} {
		var g grammar
		p, err := kong.New(&g)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(strings.Fields("demo --ui" + tt.flags)); err != nil {
			t.Fatal(err)
		}
		if o, _, err := g.Demo.stageOptions(t.Context()); err != nil || o.TTL != tt.ttl || o.Latency != tt.latency {
			t.Errorf("%q: %v, %v, %v", tt.flags, o.TTL, o.Latency, err)
		}
	}
}
