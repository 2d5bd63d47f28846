package snapshotcmd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/strata-cache/strata/cmd/strata/snapshotcmd"
)

// serve serves f, and ends the requests that still wait when the test is over.
func serve(t *testing.T, f func(w http.ResponseWriter, r *http.Request, over <-chan struct{})) string {
	t.Helper()
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f(w, r, over) }))
	t.Cleanup(func() {
		close(over)
		s.Close()
	})
	return s.URL
}

// halting serves b and then nothing more, but keeps the connection. It calls sent after b.
func halting(t *testing.T, b string, sent func()) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, _ *http.Request, over <-chan struct{}) {
		w.Header().Set("Content-Type", "application/vnd.strata.snapshot")
		_, _ = io.WriteString(w, b)
		_ = http.NewResponseController(w).Flush()
		sent()
		<-over
	})
}

// taken is a snapshot of n entries.
func taken(t *testing.T, n int) string {
	t.Helper()
	_, from := instance(t, n)
	whole, _, err := call(t, "", "get", from, authorised)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// gone is an output without a reader.
type gone struct{}

var errGone = errors.New("no reader")

func (gone) Write([]byte) (int, error) { return 0, errGone }

// TestLinesWithoutAReaderEndTheCommand has a source that goes on: "strata snapshot jsonl … | head" must not
// read a long snapshot to its end.
func TestLinesWithoutAReaderEndTheCommand(t *testing.T) {
	whole := taken(t, 1000)
	endless, end := io.Pipe()
	defer end.Close()
	var g snapshotcmd.Command
	p, err := kong.New(&g)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := p.Parse([]string{"jsonl", "-"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	in := io.MultiReader(strings.NewReader(whole[:len(whole)-100]), endless)
	err = parsed.Run(&snapshotcmd.Streams{Ctx: ctx, In: in, Out: gone{}, Err: io.Discard})
	if !errors.Is(err, errGone) || ctx.Err() != nil {
		t.Errorf("%v, and the context: %v", err, ctx.Err())
	}
}

// The entries that came are in use, and the instance says how many.
func TestPutOfABrokenSourceReportsTheEntriesBeforeThat(t *testing.T) {
	whole := taken(t, 1000) // several frames
	cut := whole[:len(whole)-100]
	damaged := []byte(whole)
	damaged[len(whole)-100] ^= 1
	for _, tt := range []struct{ name, stdin, from, want string }{
		{"cut", cut, "-", "ends early"},
		{"damaged", string(damaged), "-", "wrong checksum"},
		{"stalled", "", halting(t, cut, func() {}), "no bytes have come for 300ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, to := instance(t, 0)
			out, _, err := call(t, tt.stdin, "put", tt.from, to, authorised, "--stall=300ms")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
			if n := c.Len(); n == 0 || n == 1000 || !strings.Contains(out, fmt.Sprintf(" %d  ", n)) {
				t.Errorf("%d entries are in use, and the report is\n%s", n, out)
			}
		})
	}
}

func TestPutToAnInstanceThatRefusesSaysWhy(t *testing.T) {
	large := taken(t, 2000) // more than the buffers of a connection
	_, refuses := instance(t, 0)
	deaf := serve(t, func(_ http.ResponseWriter, _ *http.Request, over <-chan struct{}) { <-over })
	_, keysFrom := instance(t, 5)
	keys, _, err := call(t, "", "get", keysFrom, authorised, "--keys")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, stdin, to, header, want string }{
		{"not authorised", large, refuses, "X: y", "status 403"},
		{"takes no bytes", large, deaf, authorised[len("--header="):], "no sign of life for 300ms"},
		{"keys only", keys, refuses, authorised[len("--header="):], "keys only"},
		{"no snapshot", "<html>", refuses, authorised[len("--header="):], "not a snapshot"},
		{"nothing", "", refuses, authorised[len("--header="):], "ends early"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, _, err := call(t, tt.stdin, "put", "-", tt.to, "--header="+tt.header, "--stall=300ms")
			if err == nil || !strings.Contains(err.Error(), tt.want) || out != "" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// An instance with caches of its own choice has no way to the terminal.
func TestReportOfAHostileInstanceIsPlainText(t *testing.T) {
	evil := strings.Repeat(`\u001b[2J\u202e\n `, 50)
	for _, status := range []int{200, 422} {
		to := serve(t, func(w http.ResponseWriter, r *http.Request, _ <-chan struct{}) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"Caches":[{"Name":"%[1]s","Refused":"%[1]s","Suspect":"%[1]s"}],"Error":"%[1]s","Rest":"%[1]s"}`, evil)
		})
		out, log, err := call(t, taken(t, 3), "put", "-", to)
		if err == nil || out == "" {
			t.Fatal(err, out)
		}
		if all := out + log + err.Error(); strings.ContainsAny(all, "\x1b\u202e") {
			t.Errorf("%q", all)
		}
	}
}

func TestInterruptionLeavesNothingHalf(t *testing.T) {
	whole := taken(t, 1000)
	for _, args := range [][]string{{"get", "URL", "FILE"}, {"put", "URL", "TO"}, {"inspect", "URL"}, {"jsonl", "URL"}, {"inspect", "-"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			in, feed := io.Pipe()
			defer feed.Close()
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, to := instance(t, 0)
			names := strings.NewReplacer("URL", halting(t, whole[:len(whole)/2], interrupt), "FILE", file, "TO", to)
			for i := range args {
				args[i] = names.Replace(args[i])
			}
			if args[1] == "-" { // nothing reads a standard input that nothing is typed into
				interrupt()
			}
			_, _, err := callWith(t, ctx, in, append(args, authorised)...)
			if err == nil || !strings.HasPrefix(err.Error(), "interrupted: ") {
				t.Error(err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 || read(t, file) != "old" {
				t.Errorf("%v are left, the file is %q", left, read(t, file))
			}
		})
	}
}
