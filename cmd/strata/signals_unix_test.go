//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asCommand is the variable that makes the program of the tests the command.
const asCommand = "STRATA_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command is the command as a process of its own.
func command(t *testing.T, before ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(before, self)
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Env = append(os.Environ(), asCommand+"=1")
	return c
}

// running is a demo that serves its stage.
type running struct {
	c     *exec.Cmd
	text  *os.File // its standard error
	redis string   // the address of its redis-server, empty if it has none
	page  string   // the address of its page
	tmp   string   // the folder for its temporary files
}

// runStage starts a demo, and waits until it serves.
func runStage(t *testing.T, before ...string) *running {
	t.Helper()
	r := &running{c: command(t, before...), tmp: t.TempDir()}
	r.c.Args = append(r.c.Args, "demo", "--ui", "--addr", "127.0.0.1:0")
	r.c.Env = append(r.c.Env, "TMPDIR="+r.tmp)
	text, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { text.Close() })
	r.text, r.c.Stderr = text, in
	if err := r.c.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	t.Cleanup(func() {
		_ = r.c.Process.Kill() // it has ended, unless the test has failed
		_ = r.c.Wait()
	})
	said := ""
	for lines := bufio.NewScanner(text); lines.Scan(); {
		said += lines.Text() + "\n"
		_, addr, _ := strings.Cut(lines.Text(), "redis-server on ")
		r.redis += addr
		if _, url, ok := strings.Cut(lines.Text(), "stage   http://"); ok {
			r.page, _, _ = strings.Cut(url, "/")
		}
		if lines.Text() == "until Ctrl-C" {
			return r
		}
	}
	t.Fatalf("the demo does not serve: %s", said)
	return nil
}

// listens reports whether a server listens at an address.
func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// leavesNothing waits for the end of the demo, and fails the test if its status is another one, or if a
// server or a file of the demo remains.
func (r *running) leavesNothing(t *testing.T, status int) {
	t.Helper()
	if err := r.c.Wait(); r.c.ProcessState.ExitCode() != status {
		t.Errorf("the demo has ended with %v, want status %d", err, status)
	}
	if r.redis != "" && listens(r.redis) {
		t.Error("its redis-server still runs")
	}
	if left, err := os.ReadDir(r.tmp); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

func TestDemoThatASignalEndsLeavesNothing(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(s) {
				t.Skip("the tests run where this signal is ignored, as nohup has it")
			}
			r := runStage(t)
			if r.redis != "" && !listens(r.redis) {
				t.Error("no redis-server runs")
			}
			if err := r.c.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			r.leavesNothing(t, succeeded)
		})
	}
}

func TestDemoWithoutAReaderEndsAndLeavesNothing(t *testing.T) {
	r := runStage(t)
	r.text.Close() // as when the parent process has ended
	r.leavesNothing(t, failed)
}

// TestCommandWithoutAReaderFails: standard output is a pipe whose other end is closed, as in "strata demo | true".
func TestCommandWithoutAReaderFails(t *testing.T) {
	for _, args := range []string{"version", "--version", "--help", "help demo", "demo --serve --l2 none --addr 127.0.0.1:0"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := command(t)
			c.Args = append(c.Args, words(args)...)
			c.Env = append(c.Env, "TMPDIR="+t.TempDir())
			out, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			out.Close()
			defer in.Close()
			c.Stdout = in
			if err := c.Run(); c.ProcessState == nil || c.ProcessState.ExitCode() != failed {
				t.Errorf("%v, want status %d", err, failed)
			}
		})
	}
}

// TestRedisServerEndsWithAKilledDemo: nothing is left to end it otherwise.
func TestRedisServerEndsWithAKilledDemo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux alone ends a process with its parent")
	}
	r := runStage(t)
	if r.redis == "" {
		t.Skip("the demo has started no redis-server")
	}
	_ = r.c.Process.Kill()
	_ = r.c.Wait() // it was killed
	for end := time.Now().Add(20 * time.Second); listens(r.redis); {
		if time.Now().After(end) {
			t.Fatal("its redis-server still runs")
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestNohupHolds starts the demo with SIGHUP ignored, as nohup does.
func TestNohupHolds(t *testing.T) {
	r := runStage(t, "/bin/sh", "-c", `trap "" HUP; exec "$0" "$@"`)
	if err := r.c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range 20 { // a signal that ends it would have done so
		if !listens(r.page) {
			t.Fatal("the demo has ended")
		}
		<-time.After(20 * time.Millisecond)
	}
	_ = r.c.Process.Signal(syscall.SIGTERM)
	r.leavesNothing(t, succeeded)
}

// TestOutputWithoutAReaderIsAnErrorWithoutText: scripts write "strata … | head".
func TestOutputWithoutAReaderIsAnErrorWithoutText(t *testing.T) {
	c := command(t)
	c.Args = append(c.Args, "version")
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	defer out.Close()
	var text strings.Builder
	c.Stdout, c.Stderr = out, io.Writer(&text)
	exit, ok := errors.AsType[*exec.ExitError](c.Run())
	if !ok || exit.ExitCode() != failed || text.String() != "" {
		t.Errorf("%v, %q", exit, text.String())
	}
}

// TestCommandWithoutAReaderEnds has commands that write little, or nothing before their end: a load would go on
// for its whole duration.
func TestCommandWithoutAReaderEnds(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"caches":[]}`)
	}))
	t.Cleanup(page.Close)
	for name, args := range map[string][]string{
		"load":         {"load", page.URL, "--plain", "--rate", "10", "--duration", "1h"},
		"seldom top":   {"top", page.URL, "--plain", "--every", "1h"},
		"frequent top": {"top", page.URL, "--plain", "--every", "100ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := command(t)
			c.Args = append(c.Args, args...)
			reader, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			c.Stdout, c.Stderr = out, io.Writer(&text)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			out.Close()
			reader.Close()
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			select {
			case err := <-ended:
				exit, ok := errors.AsType[*exec.ExitError](err)
				if !ok || exit.ExitCode() != failed || strings.Contains(text.String(), "strata:") {
					t.Errorf("%v, %q", err, text.String())
				}
			case <-time.After(30 * time.Second):
				_ = c.Process.Kill()
				t.Error("it goes on")
			}
		})
	}
}

// TestPipeWithoutAWriterEndsWithTheCommand names a pipe in place of a file: its opening does not return.
func TestPipeWithoutAWriterEndsWithTheCommand(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"load", "http://127.0.0.1:1/", "-d", "@" + pipe},
		{"load", "curl", "http://127.0.0.1:1/", "-d", "@" + pipe},
		{"demo", "--script", pipe},
	} {
		ctx, interrupt := context.WithTimeout(t.Context(), 50*time.Millisecond)
		ended := make(chan int, 1)
		go func() {
			status, _, _ := call(ctx, args...)
			ended <- status
		}()
		select {
		case status := <-ended:
			if status != succeeded {
				t.Errorf("%s: status %d", args[0], status)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s goes on", args[0])
		}
		interrupt()
		// Ends the goroutine that opens the pipe.
		if w, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = w.Close()
		}
	}
}

// TestInterruptedTopIsNoFailure: also with --once, at a page that does not answer.
func TestInterruptedTopIsNoFailure(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(page.Close)
	for _, how := range []string{"--once", "--plain"} {
		ctx, interrupt := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if status, out, errs := call(ctx, "top", page.URL, how); status != succeeded || out != "" || errs != "" {
			t.Errorf("%s: status %d, %q, %q", how, status, out, errs)
		}
		interrupt()
	}
}
