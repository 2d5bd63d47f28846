package snapshotcmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/snapshotcmd"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// instance returns a cache with n entries and the URL of its handler.
func instance(t *testing.T, n int) (*strata.Cache[string, string], string) {
	t.Helper()
	c, err := strata.New(stratatest.Plain(strata.Options[string, string]{Name: "users", TTL: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	for i := range n {
		if err := c.Set(t.Context(), "k"+strconv.Itoa(i), strings.Repeat("v", i)); err != nil {
			t.Fatal(err)
		}
	}
	h := snapshot.Handler(snapshot.HandlerOptions{AllowPut: true, Authorize: func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer t" }}, c)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return c, s.URL
}

const authorised = "--header=Authorization: Bearer t"

// call runs the command.
func call(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return callWith(t, t.Context(), strings.NewReader(stdin), args...)
}

// callWith runs the command with a context.
func callWith(t *testing.T, ctx context.Context, stdin io.Reader, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var g snapshotcmd.Command
	p, err := kong.New(&g)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := p.Parse(args)
	if err != nil {
		return "", "", err
	}
	var out, log bytes.Buffer
	err = parsed.Run(&snapshotcmd.Streams{Ctx: ctx, In: stdin, Out: &out, Err: &log})
	for _, text := range []string{out.String(), log.String()} {
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(line); n > 81 && args[0] != "jsonl" && args[0] != "get" {
				t.Errorf("%v: a line of %d columns: %s", args, n-1, line)
			}
		}
	}
	return out.String(), log.String(), err
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestGetAndPutMoveACache(t *testing.T) {
	_, from := instance(t, 100)
	path := filepath.Join(t.TempDir(), "file")
	if _, log, err := call(t, "", "get", from, path, authorised); err != nil || !strings.HasPrefix(log, "100 entries, ") {
		t.Fatal(log, err)
	}
	for _, source := range []string{path, "-", from} {
		c, to := instance(t, 0)
		args := []string{"put", source, to, authorised}
		if source == from {
			args = append(args, "--from-header=Authorization: Bearer t")
		}
		out, _, err := call(t, read(t, path), args...)
		if err != nil || c.Len() != 100 || !regexp.MustCompile(`(?m)^ +100 +100 +0 +0 +0 +0 +users$`).MatchString(out) {
			t.Errorf("%s: %d entries, %v\n%s", source, c.Len(), err, out)
		}
	}
	few, _, err := call(t, "", "get", from, authorised, "--max", "7")
	if err != nil {
		t.Fatal(err)
	}
	_, to := instance(t, 0)
	for _, args := range [][]string{{"put", "-", to, authorised}, {"inspect", "-"}} {
		if out, _, err := call(t, few, args...); err != nil || !strings.Contains(out, "93 beyond the largest number") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	out, _, err := call(t, "", "get", from, authorised, "--max", "7", "--keys")
	if err != nil {
		t.Fatal(err)
	}
	if lines, _, err := call(t, out, "jsonl", "-"); err != nil || strings.Count(lines, "\n") != 7 || strings.Contains(lines, "value") {
		t.Errorf("%v\n%s", err, lines)
	}
}

func TestGetReplacesNoFileByHalfASnapshot(t *testing.T) {
	_, from := instance(t, 100)
	whole, _, err := call(t, "", "get", from, authorised)
	if err != nil {
		t.Fatal(err)
	}
	damaged := []byte(whole)
	damaged[len(damaged)/2] ^= 4
	for name, answer := range map[string]string{"cut": whole[:len(whole)-1], "damaged": string(damaged), "nothing": "", "page": "<html>"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.strata.snapshot")
			_, _ = w.Write([]byte(answer))
		}))
		defer s.Close()
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := call(t, "", "get", s.URL, path); err == nil || read(t, path) != "old" {
			t.Errorf("%s: %v, the file is %.20q", name, err, read(t, path))
		}
	}
	if _, _, err := call(t, "", "get", from, filepath.Join(t.TempDir(), "new")); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("without a header: %v", err)
	}
}

func TestInspectShowsCountsAndHidesKeys(t *testing.T) {
	c, from := instance(t, 50)
	if err := c.Expire(t.Context(), "k3"); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), "evil\x1b[2J", "x", strata.WithTags("tag")); err != nil {
		t.Fatal(err)
	}
	file, _, err := call(t, "", "get", from, authorised)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := call(t, file, "inspect", "-")
	if err != nil || strings.Contains(out, "k49") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"version 1, values", "cache users", "codec string", "51, ", "1 with tags", "not known", " 49 B ", "median 59m59s"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, err = call(t, file, "inspect", "--show-keys", "-")
	if err != nil || !strings.Contains(out, "  k49\n") || strings.Contains(out, "\x1b") {
		t.Errorf("%v\n%q", err, out)
	}
	out, _, err = call(t, file[:len(file)-40], "inspect", "-")
	if err == nil || !strings.Contains(err.Error(), "ends early") || !strings.Contains(out, "its end is missing") {
		t.Errorf("of a cut file: %v\n%s", err, out)
	}
	if out, _, err = call(t, "no snapshot at all", "inspect", "-"); err == nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestJSONLHasALineForEachEntry(t *testing.T) {
	c, from := instance(t, 2)
	if err := c.SetNotFound(t.Context(), "none", strata.WithTTL(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(t.Context(), "\xff", "\xfe", strata.WithTags("tag")); err != nil {
		t.Fatal(err)
	}
	out, _, err := call(t, "", "jsonl", from, authorised)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]map[string]any{}
	for text := range strings.Lines(out) {
		var l map[string]any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		key, _ := l["key"].(string)
		lines[key] = l
	}
	switch {
	case len(lines) != 4 || lines["k1"]["value"] != "v" || lines["k1"]["cache"] != "users":
	case lines["none"]["not_found"] != true || lines["none"]["value"] != nil:
	case lines[""]["key_base64"] != "/w==" || lines[""]["value_base64"] != "/g==":
	default:
		return
	}
	t.Errorf("%s", out)
}

func TestWrongArgumentsAreErrors(t *testing.T) {
	_, from := instance(t, 1)
	for _, args := range [][]string{
		{"get"},
		{"get", "file"},
		{"get", "ftp://x"},
		{"get", from, "--max=-1"},
		{"get", from, "--stall=0s"},
		{"get", from, "--header=nothing"},
		{"get", from, "--header=a: b\r\nc: d"},
		{"put", "-"},
		{"put", "-", "host:80"},
		{"put", "/no/such/file", from},
		{"put", "-", from, "--from-header=x"},
		{"inspect"},
		{"inspect", "/no/such/file"},
		{"inspect", t.TempDir()},
		{"jsonl", from},
	} {
		if out, _, err := call(t, "", args...); err == nil || out != "" {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
}

// TestHeaderForASourceThatIsNoInstanceIsAnError: it would be ignored.
func TestHeaderForASourceThatIsNoInstanceIsAnError(t *testing.T) {
	_, url := instance(t, 3)
	whole, _, err := call(t, "", "get", url, authorised)
	if err != nil {
		t.Fatal(err)
	}
	for flag, args := range map[string][]string{
		"--from-header": {"put", "-", url, authorised, "--from-header=a: b"},
		"--header":      {"inspect", "-", "--header=a: b"},
		"--header ":     {"jsonl", "-", "--header=a: b"},
	} {
		if out, _, err := call(t, whole, args...); err == nil || !strings.HasPrefix(err.Error(), strings.TrimSpace(flag)+" ") || out != "" {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
}

// TestHostOfAHeaderIsSent: a proxy before several instances chooses by it, and package net/http takes it from elsewhere.
func TestHostOfAHeaderIsSent(t *testing.T) {
	_, url := instance(t, 1)
	whole, _, err := call(t, "", "get", url, authorised)
	if err != nil {
		t.Fatal(err)
	}
	hosts := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts <- r.Method + " " + r.Host
		w.Header().Set("Content-Type", "application/vnd.strata.snapshot")
		_, _ = w.Write([]byte(whole))
	}))
	defer s.Close()
	for want, args := range map[string][]string{
		"GET a.example": {"get", s.URL, "--header=host: a.example"},
		"PUT b.example": {"put", "-", s.URL, "--header=Host: b.example"},
		"GET c.example": {"put", s.URL, "http://127.0.0.1:1", "--from-header=Host: c.example"},
	} {
		_, _, _ = call(t, whole, args...) // the answer to a PUT is none
		if got := <-hosts; got != want {
			t.Errorf("%q: %s", args, got)
		}
	}
}

// TestQueryThatCannotBeReadIsAnError: without its parameters, among them a token or a mode, it would be another request.
func TestQueryThatCannotBeReadIsAnError(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer s.Close()
	for _, query := range []string{"?mode=keys;max=10", "?token=s3cret%", "?token=s3cret%zz"} {
		_, _, err := call(t, "", "get", s.URL+query)
		if err == nil || !strings.Contains(err.Error(), "query") || strings.Contains(err.Error(), "s3cret") || asked != 0 {
			t.Errorf("%s: %v, %d requests", query, err, asked)
		}
	}
}
