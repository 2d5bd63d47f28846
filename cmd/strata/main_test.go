package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata/cmd/strata/hello"
)

// output is a writer that lets a test wait for a text.
type output struct {
	mu      sync.Mutex // guards below
	text    strings.Builder
	awaited string
	seen    chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	if o.seen != nil && strings.Contains(o.text.String(), o.awaited) {
		close(o.seen)
		o.seen = nil
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// call runs the command to its end, for at most a minute.
func call(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var out, errs output
	status = run(ctx, args, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

// listen returns an address in use.
func listen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestMistakesAreOneLine(t *testing.T) {
	taken := listen(t)
	for _, tt := range []struct {
		name   string
		args   string
		status int
		text   string
	}{
		{"no command", "", 2, `expected one of "demo", "load", "top", "snapshot", "version", ...`},
		{"unknown command", "dmeo", 2, "unexpected argument dmeo"},
		{"snapshot of no URL", "snapshot get host:80", 2, "http://"},
		{"snapshot of a bad URL", "snapshot get http://u:secret@127.0.0.1:port/", 2, "port"},
		{"snapshot to a bad URL", "snapshot put - http://u:secret@127.0.0.1:port/", 2, "port"},
		{"snapshot with a bad header", "snapshot get http://127.0.0.1:1/ --header secret", 2, "--header"},
		{"snapshot with a bad rate", "snapshot get http://127.0.0.1:1/ --rate fast", 2, "--rate"},
		{"warm start without serving", "demo --warm-from http://h/snapshot", 2, "--warm-from needs --serve"},
		{"warm start from a bad query", "demo --serve --warm-from http://127.0.0.1:1/snapshot?token=secret;x", 2, "--warm-from: the query"},
		{"warm start from a bad URL", "demo --serve --warm-from http://u:secret@127.0.0.1:port/", 2, "--warm-from: the URL cannot be parsed"},
		{"snapshot without a server", "snapshot get http://u:secret@127.0.0.1:1/", 1, "127.0.0.1:1: connect: connection refused"},
		{"unknown flag", "demo --grop 5", 2, "unknown flag --grop"},
		{"not a number", "demo --group ten", 2, "--group"},
		{"not a time", "demo --duration 5", 2, "--duration"},
		{"zero group", "demo --group -5", 2, "group"},
		{"negative rate", "demo --rate=-1", 2, "rate"},
		{"several at once", "demo --rate=-1 --concurrency 0", 2, "rate"},
		{"address without port", "demo --addr localhost", 2, "--addr"},
		{"bad port", "demo --addr 127.0.0.1:http2", 2, "--addr"},
		{"unknown mode", "demo --modes fast", 2, "none, naive, strata, restarted, warm-keys, warm-transfer"},
		{"filled without a limit", "demo --modes strata,fill", 2, "--modes: fill needs --memory-limit"},
		{"no size", "demo --memory-limit lots", 2, `--memory-limit: "lots" is no size`},
		{"little memory", "demo --memory-limit 1MiB", 2, "--memory-limit: 1.0 MiB are less than 64 MiB"},
		{"memory beyond all", "demo --memory-limit 9EB", 2, "--memory-limit"},
		{"stage with no size", "demo --ui --memory-limit=-1", 2, "--memory-limit"},
		{"mode twice", "demo --modes none,none", 2, "none is named twice"},
		{"restarted before strata", "demo --modes restarted,strata", 2, "must come after"},
		{"no ttl", "demo --ttl 0s", 2, "strata: --ttl: 0s is less than 1ms"},
		{"no groups", "demo --group 0", 2, "strata: --group: 0 is not positive"},
		{"a bound below none", "demo --origin-conns=-2", 2, "strata: --origin-conns: -2 is less than -1"},
		{"bad origin", "demo --addr 127.0.0.1:0 --origin mysql://u:secret@h/db", 2, "--origin"},
		{"bad origin URL", "demo --addr 127.0.0.1:0 --origin postgres://u:secret@h:port/db", 2, "--origin"},
		{"bad L2", "demo --addr 127.0.0.1:0 --l2 memory", 2, "--l2"},
		{"L2 port out of range", "demo --addr 127.0.0.1:0 --l2 redis://localhost:99999", 2, "--l2"},
		{"no keys at all", "demo --addr 127.0.0.1:0 --cardinality 0", 2, "--cardinality"},
		{"load's port out of range", "load http://127.0.0.1:99999", 2, "port"},
		{"help with an unknown command", "help dmeo", 2, "unexpected argument dmeo"},
		{"version of something", "version demo", 2, "unexpected argument demo"},
		{"bad memcached URL", "demo --l2 memcached://u:secret@h:port", 2, "--l2"},
		{"path of a memcached", "demo --l2 memcached://127.0.0.1/secret", 2, "path behind a host"},
		{"the same memcached twice", "demo --l2 memcached://127.0.0.1:1,127.0.0.1:1", 2, "--l2"},
		{"unknown parameter of a memcached", "demo --l2 memcached://127.0.0.1:1?colour=secret", 2, "--l2"},
		{"another L2", "demo --l2 etcd://127.0.0.1:1", 2, "memcached://HOST:PORT,HOST:PORT"},
		{"memcached away", "demo --addr 127.0.0.1:0 --l2 memcached://127.0.0.1:1", 1, "127.0.0.1:1"},
		{"bad L2 URL", "demo --addr 127.0.0.1:0 --l2 redis://u:secret@h:port", 2, "--l2"},
		{"stage that exits", "demo --ui --exit", 2, "--ui and --script exclude"},
		{"stage with connections", "demo --ui --origin-conns 2", 2, "--origin-conns"},
		{"stage with a rate", "demo --ui --rate 5", 2, "--rate"},
		{"stage with modes", "demo --ui --modes none", 2, "--modes"},
		{"service with a rate", "demo --serve --rate 5000", 2, "--rate"},
		{"stage without L2", "demo --ui --l2 none", 2, "--l2"},
		{"stage with a cluster", "demo --ui --l2 redis://127.0.0.1:1?cluster=true", 2, "--l2"},
		{"stage with L2 away", "demo --ui --addr 127.0.0.1:0 --l2 redis://:secret@127.0.0.1:1", 1, "127.0.0.1:1"},
		{"no script", "demo --script /nowhere/at-all", 2, "--script"},
		{"bad script", "demo --script main.go", 2, "--script: script: line 1"},
		{"exit and serve", "demo --exit --serve", 2, "exclude each other"},
		{"port taken", "demo --addr " + taken, 1, taken + " is in use; choose another address with --addr"},
		{"origin away", "demo --addr 127.0.0.1:0 --origin postgres://u:secret@127.0.0.1:1/db?sslmode=disable", 1, "127.0.0.1:1: connection refused"},
		{"L2 away", "demo --addr 127.0.0.1:0 --l2 redis://:secret@127.0.0.1:1", 1, "127.0.0.1:1"},
		{"load without URL", "load", 2, "<url>"},
		{"load of another scheme", "load ftp://u:secret@127.0.0.1/", 2, "http"},
		{"load of a bad URL", "load http://u:secret@127.0.0.1:port/", 2, "url"},
		{"load with a bad header", "load http://127.0.0.1:1/ -H nothing", 2, "--header"},
		{"load with a header of two lines", "load http://127.0.0.1:1/ -H A:b\nC:d", 2, "--header"},
		{"load with a bad method", "load http://127.0.0.1:1/ -X G@T", 2, "method"},
		{"load without the file", "load http://127.0.0.1:1/ -d @/nowhere", 2, "--data"},
		{"load without concurrency", "load http://127.0.0.1:1/ --concurrency 0", 2, "concurrency"},
		{"load without a server", "load http://127.0.0.1:1/", 1, "127.0.0.1:1: connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, stdout, stderr := call(t.Context(), words(tt.args)...)
			if status != tt.status || stdout != "" {
				t.Errorf("status %d, stdout %q; want %d and nothing", status, stdout, tt.status)
			}
			if !strings.HasPrefix(stderr, "strata: ") || strings.Index(stderr, "\n") != len(stderr)-1 {
				t.Errorf("not one line: %q", stderr)
			}
			if !strings.Contains(stderr, tt.text) || strings.Contains(stderr, "secret") {
				t.Errorf("%q does not say %q", stderr, tt.text)
			}
		})
	}
}

// TestFlagsAreCheckedBeforeAPortIsBound names an address in use together with each
// wrong flag: the error is about the flag.
func TestFlagsAreCheckedBeforeAPortIsBound(t *testing.T) {
	taken := listen(t)
	for _, wrong := range []string{
		"--modes fast", "--modes ", "--origin mysql://h/db", "--origin postgres://h:port/db", "--origin-conns=-2", "--origin-latency=-1s",
		"--l2 memory", "--l2 redis://h:port", "--l2 redis://h/x", "--l2 memcached://h:port", "--l2 memcached://h/x",
		"--ttl 1ns", "--max-entries 0", "--cardinality 0", "--group 0", "--rate=-1", "--concurrency 0", "--duration 0s",
	} {
		status, stdout, stderr := call(t.Context(), append([]string{"demo", "--addr", taken}, words(wrong)...)...)
		if status != 2 || stdout != "" || strings.Contains(stderr, "is in use") {
			t.Errorf("%s: status %d, stdout %q, stderr %q", wrong, status, stdout, stderr)
		}
	}
}

// words splits at single spaces, so that a word may have a line feed.
func words(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, " ")
}

func TestHelpFitsTheScreen(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, args := range [][]string{{"--help"}, {"demo", "--help"}, {"load", "-h"}, {"help"}, {"snapshot", "-h"}, {"help", "snapshot", "get"}, {"help", "snapshot", "put"}, {"help", "snapshot", "inspect"}, {"help", "snapshot", "jsonl"}, {"help", "demo"}, {"help", "help"}, {"version", "-h"}} {
		status, stdout, stderr := call(t.Context(), args...)
		if status != 0 || stderr != "" || !strings.Contains(stdout, "Usage: strata") {
			t.Errorf("%v: status %d, %q, %q", args, status, stdout, stderr)
		}
		for line := range strings.Lines(stdout) {
			if len(line) > 81 {
				t.Errorf("%v: line of %d columns: %s", args, len(line), line)
			}
		}
	}
}

func TestHelpOfACommandIsThatOfItsFlag(t *testing.T) {
	for _, command := range []string{"", "demo", "load", "version", "help"} {
		_, flag, _ := call(t.Context(), append(words(command), "--help")...)
		status, help, stderr := call(t.Context(), append([]string{"help"}, words(command)...)...)
		if status != 0 || stderr != "" || help != flag {
			t.Errorf("help %s: status %d, stderr %q, stdout\n%s\nwant\n%s", command, status, stderr, help, flag)
		}
	}
}

func TestVersionNamesBuildAndPlatform(t *testing.T) {
	status, stdout, stderr := call(t.Context(), "version")
	for _, args := range []string{"--version", "demo --version", "load --version --group 5"} {
		if s, flag, errs := call(t.Context(), words(args)...); s != 0 || errs != "" || flag != stdout {
			t.Errorf("%s: status %d, stderr %q, stdout %q; want %q", args, s, errs, flag, stdout)
		}
	}
	if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "strata ") || !strings.HasSuffix(stdout, ", "+platform+"\n") {
		t.Errorf("status %d, stderr %q, stdout %q", status, stderr, stdout)
	}
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}
	for _, tt := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "strata (unknown version), no commit known, " + platform},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "strata v1.2.3, no commit known, " + platform},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: commit}, "strata (devel), commit abc, " + platform},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: append(commit, debug.BuildSetting{Key: "vcs.modified", Value: "true"})}, "strata (devel), commit abc with changes, " + platform},
	} {
		if got := version(tt.info); got != tt.want {
			t.Errorf("version is %q; want %q", got, tt.want)
		}
	}
}

// platform is the end of every version.
var platform = runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH // read-only

// The whole command with a small load: real HTTP, a real database and a real L2
// protocol.
func TestDemoComparesAndExits(t *testing.T) {
	status, stdout, stderr := call(t.Context(), strings.Fields(
		"demo --exit --addr 127.0.0.1:0 --rate 100 --group 25 --cardinality 100 --concurrency 50 --duration 1s")...)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	checkWidth(t, stdout)
	rows := map[string][]string{}
	for line := range strings.Lines(stdout) {
		// Two durations have a space before the unit. A later table may have as many fields.
		if f := strings.Fields(line); len(f) == 11 && rows[f[0]] == nil {
			rows[f[0]] = f
		}
	}
	// 100 requests for 4 keys. On a busy machine the end of the schedule may be
	// missed, and L2 may time out.
	const queries, l1Hits, l2Hits, shared, errors = 6, 7, 8, 9, 10
	for _, tt := range []struct {
		phase       string
		cell        int
		least, most int
	}{
		{"none", queries, 50, 100},
		{"none", l1Hits, 0, 0},
		{"none", errors, 0, 0},
		{"naive", queries, 4, 100},
		{"naive", l2Hits, 0, 0},
		{"naive", shared, 0, 0},
		{"naive", errors, 0, 0},
		{"strata", queries, 2, 6},
		{"strata", errors, 0, 0},
		// Keys read before the bus was connected may be read once more.
		{"restarted", queries, 0, 2},
		{"restarted", l2Hits, 2, 8},
		{"restarted", errors, 0, 0},
		{"warm-keys", queries, 0, 2},
		{"warm-keys", errors, 0, 0},
		{"warm-transfer", queries, 0, 2},
		{"warm-transfer", errors, 0, 0},
	} {
		if rows[tt.phase] == nil {
			t.Fatalf("no row %s:\n%s", tt.phase, stdout)
		}
		n, err := strconv.Atoi(rows[tt.phase][tt.cell])
		if err != nil || n < tt.least || n > tt.most {
			t.Errorf("cell %d of %s is not between %d and %d:\n%s", tt.cell, tt.phase, tt.least, tt.most, stdout)
		}
	}
}

// TestDemoFillsTheMemory compares a service beside which nothing fills the memory with one beside which reports do.
func TestDemoFillsTheMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	status, stdout, stderr := call(t.Context(), strings.Fields(
		"demo --exit --addr 127.0.0.1:0 --modes strata,fill --memory-limit 64MiB --rate 100 --cardinality 100 --duration 1s")...)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	checkWidth(t, stdout)
	told := regexp.MustCompile(`fill: [1-9][\d.]* [KM]iB of reports were stored; the process had [\d.]+ MiB of 64 MiB at most, and a live heap of [\d.]+ MiB at most, of which the guard evicts from [\d.]+ MiB on; it has evicted ([\d,]+) reports and \d+ greetings?\.?`)
	if !told.MatchString(strings.Join(strings.Fields(stdout), " ")) || !strings.Contains(stdout, "\nfill ") {
		t.Fatalf("nothing is told of the memory:\n%s", stdout)
	}
	if after := debug.SetMemoryLimit(-1); after != before {
		t.Errorf("GOMEMLIMIT is %d after the demo, and was %d", after, before)
	}
}

func TestDemoServesUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out output
	errs := output{awaited: "curl -X DELETE", seen: make(chan struct{})}
	seen, ended := errs.seen, make(chan int, 1)
	go func() {
		ended <- run(ctx, strings.Fields("demo --serve --addr 127.0.0.1:0 --modes naive"), strings.NewReader(""), &out, &errs)
	}()
	select {
	case <-seen:
	case status := <-ended:
		t.Fatalf("ended with %d: %s", status, errs.String())
	}
	text := errs.String()
	_, rest, _ := strings.Cut(text, "serving ")
	base, _, _ := strings.Cut(rest, " ")
	for _, tt := range []struct{ method, path, want string }{
		{"GET", "/hello?name=World&locale=ru-RU", `"text":"Привет, World!","asked":1`},
		{"PUT", "/mode?mode=strata", `"mode":"strata"`},
		{"GET", "/hello?name=World&locale=ru-RU", `"asked":2`},
		{"GET", "/hello?name=World&locale=ru-RU", `"asked":2`},
		{"GET", "/stats", `"origin_queries":2`},
		{"DELETE", "/hello", `{"deleted":`},
		{"GET", "/hello?name=World&locale=ru-RU", `"asked":1`},
	} {
		var status int
		var body []byte
		// L2 has 100 ms to confirm that it is cleared, which a busy machine exceeds.
		for tries := 0; tries == 0 || tt.method == "DELETE" && status == 503 && tries < 50; tries++ {
			req, _ := http.NewRequestWithContext(ctx, tt.method, base+tt.path, nil)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatalf("%s %s: %v; stderr %q", tt.method, tt.path, err, text)
			}
			status = resp.StatusCode
			body, _ = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if status != 200 || !strings.Contains(string(body), tt.want) {
			t.Errorf("%s %s: status %d, %s; want %s", tt.method, tt.path, status, body, tt.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	interrupt()
	if status := <-ended; status != 0 || out.String() != "" {
		t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
}

// serving runs a demo that serves, and returns its address, the token of its snapshot, and its messages.
func serving(t *testing.T, ctx context.Context, args string) (base, token string, errs *output) {
	t.Helper()
	errs = &output{awaited: "--warm-from 'http", seen: make(chan struct{})}
	seen, ended := errs.seen, make(chan int, 1)
	var out output
	go func() {
		ended <- run(ctx, strings.Fields("demo --serve --l2 none --addr 127.0.0.1:0 "+args), strings.NewReader(""), &out, errs)
	}()
	t.Cleanup(func() { <-ended })
	select {
	case <-seen:
	case status := <-ended:
		ended <- status
		t.Fatalf("ended with %d: %s", status, errs.String())
	}
	text := errs.String()
	_, rest, _ := strings.Cut(text, "serving ")
	base, _, _ = strings.Cut(rest, " ")
	_, rest, _ = strings.Cut(text, "token=")
	token, _, _ = strings.Cut(rest, "'")
	return base, token, errs
}

// TestDemoTakesOverTheEntriesOfAnother: a second service answers by the entries of the first one
// before it asks its own origin, and both say so. A request with the token can skip the cache.
func TestDemoTakesOverTheEntriesOfAnother(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	t.Cleanup(interrupt)
	get := func(url, header string) string {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if header != "" {
			req.Header.Set("Cache-Control", header)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	const path = "/hello?name=World&locale=ru-RU"
	first, token, firstSaid := serving(t, ctx, "")
	for _, tt := range []struct{ url, header, want string }{
		{path, "", `"asked":1`},
		{path, "no-cache", `"asked":1`}, // without the token
		{path + "&token=" + token, "", `"asked":1`},
		{path + "&token=" + token, "no-cache", `"asked":2`},
		{path, "", `"asked":2`},
	} {
		if got := get(first+tt.url, tt.header); !strings.Contains(got, tt.want) {
			t.Errorf("%s with %q: %s, want %s", tt.url, tt.header, got, tt.want)
		}
	}
	second, _, secondSaid := serving(t, ctx, "--warm-from "+first+"/snapshot?token="+token)
	if got := get(second+path, ""); !strings.Contains(got, `"asked":2`) {
		t.Errorf("the second service answers %s", got)
	}
	if got := get(second+"/stats", ""); !strings.Contains(got, `"origin_queries":0`) {
		t.Errorf("the second service: %s", got)
	}
	if text := secondSaid.String(); !strings.Contains(text, "took over 1 of 1 entry in ") || !strings.Contains(text, "entries are taken over") || strings.Contains(text, token) {
		t.Errorf("the second service says %s", text)
	}
	if text := firstSaid.String(); !strings.Contains(text, "snapshot is sent") {
		t.Errorf("the first service says %s", text)
	}
	_, _, cold := serving(t, ctx, "--warm-from "+first+"/snapshot?token=none")
	if text := cold.String(); !strings.Contains(text, "starts with an empty memory") {
		t.Errorf("a service without the token says %s", text)
	}
	http.DefaultClient.CloseIdleConnections()
	interrupt()
}

func TestDemoInterruptedUnderLoadIsClean(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var addr string
	var ended chan string
	begin := func() {
		addr, ended = listenAndFree(t), make(chan string, 1)
		var out, errs output
		args := []string{"demo", "--addr", addr, "--duration", "1h", "--rate", "100", "--modes", string(hello.None)}
		go func() { ended <- fmt.Sprint(run(ctx, args, strings.NewReader(""), &out, &errs), errs.String()) }()
	}
	begin()
	for n := 0; n < 10; { // wait until the load runs
		select {
		case got := <-ended:
			if !strings.Contains(got, "address already in use") {
				t.Fatalf("ended with %s", got)
			}
			begin() // another program has taken the free address
		case <-time.After(5 * time.Millisecond):
		}
		resp, err := http.Get("http://" + addr + "/stats")
		if err != nil {
			continue
		}
		var s hello.Stats
		err = json.NewDecoder(resp.Body).Decode(&s)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		n = int(s.Requests)
	}
	http.DefaultClient.CloseIdleConnections()
	interrupt()
	if got := <-ended; got != "0" {
		t.Errorf("status and stderr are %q", got)
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("%v left behind", left)
	}
}

// listenAndFree returns an address without a listener.
func listenAndFree(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestLoadReportsInJSON(t *testing.T) {
	var mu sync.Mutex
	got := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got[fmt.Sprint(r.Method, r.URL, r.Header.Get("Accept"), r.Header.Get("X-A"), string(body))]++
		mu.Unlock()
		if !strings.HasSuffix(r.URL.RawQuery, "0") {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("line 1\nline 2"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := call(t.Context(), "load", strings.TrimPrefix(server.URL, "http://")+"/p?name=W", "-X", "PUT",
		"-H", "accept: text/plain, */*", "-H", "X-A: b:c", "-d", "@"+file,
		"--cardinality", "2", "--group", "5", "--rate", "20", "--concurrency", "5", "--duration", "1s", "--json")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	var r struct {
		Requests int64            `json:"requests"`
		Unsent   int64            `json:"unsent"`
		Status   map[string]int64 `json:"status"`
		Errors   map[string]int64 `json:"errors"`
		Intended struct {
			P99 float64 `json:"p99"`
		} `json:"latency_from_intended_start_ms"`
	}
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	ok, teapot := r.Status["200"], r.Status["418"]
	// On a busy machine the end of the schedule may be missed.
	if r.Requests+r.Unsent != 20 || ok+teapot != r.Requests || ok < 5 || teapot < 5 || len(r.Errors) != 0 || r.Intended.P99 <= 0 {
		t.Errorf("report is %s", stdout)
	}
	for key, n := range map[string]int64{"0": ok, "1": teapot} {
		if want := "PUT/p?name=W" + key + "text/plain, */*" + "b:c" + "line 1\nline 2"; int64(got[want]) != n {
			t.Errorf("no %d × %q in %v", n, want, got)
		}
	}
}

// A script notices by the exit status that a load has measured only errors. The report
// is still written.
func TestLoadFailsIfEveryAnswerIsAnError(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		text   string
	}{
		{"all refused", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, 1, "503 Service Unavailable"},
		{"none complete", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1, "connection closed"},
		{"one success", oneSuccess(), 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			for _, format := range []string{"", "--json"} {
				args := append([]string{"load", server.URL, "--rate", "10", "--duration", "500ms"}, strings.Fields(format)...)
				status, stdout, stderr := call(t.Context(), args...)
				all := strings.Contains(stdout, ": all are errors\n")
				if status != tt.status || !strings.Contains(stderr, tt.text) || (stderr == "") != (tt.text == "") || stdout == "" || all != (format == "" && tt.status == failed) {
					t.Errorf("%s: status %d, stderr %q, stdout\n%s", format, status, stderr, stdout)
				}
			}
		})
	}
}

// oneSuccess answers every second request with an error.
func oneSuccess() http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusNotFound)
		}
	}
}

func TestPlainLoadWritesALineEachSecond(t *testing.T) {
	server := httptest.NewServer(oneSuccess())
	defer server.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	// How many answers a second has is up to the machine: the load ends after a line with answers of both kinds.
	var out output
	errs := output{awaited: " % are errors\n", seen: make(chan struct{})}
	go func(seen chan struct{}) {
		select {
		case <-seen:
			interrupt()
		case <-ctx.Done():
		}
	}(errs.seen)
	status := run(ctx, []string{"load", server.URL, "--plain", "--rate", "50", "--duration", "1m"}, strings.NewReader(""), &out, &errs)
	stdout, stderr := out.String(), errs.String()
	if status != 0 || !strings.Contains(stdout, "latency from") {
		t.Errorf("status %d, stdout\n%s", status, stdout)
	}
	for line := range strings.Lines(stderr) {
		if !strings.Contains(line, "requests/s  p50 ") || strings.Contains(line, "\x1b") {
			t.Errorf("a line is %q", line)
		}
	}
	if !strings.Contains(stderr, "200 × ") || !strings.Contains(stderr, "404 × ") || !strings.Contains(stderr, " % are errors\n") {
		t.Errorf("no status codes: %q", stderr)
	}
	if !strings.Contains(stdout, " requests: ") || !strings.Contains(stdout, " % are errors\n") {
		t.Errorf("no share of errors:\n%s", stdout)
	}
}

func TestInterruptedLoadReportsItsMeasurements(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var once sync.Once
	var n int
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n > 10 {
			once.Do(interrupt)
		}
	}))
	defer server.Close()
	status, stdout, stderr := call(ctx, "load", server.URL, "--concurrency", "1", "--duration", "1h")
	if status != 0 || stderr != "" || !strings.Contains(stdout, "(interrupted)") || !strings.Contains(stdout, "200 OK") {
		t.Errorf("status %d, stderr %q, stdout\n%s", status, stderr, stdout)
	}
}
