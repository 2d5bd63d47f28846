package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/net/http/httpguts"

	"github.com/strata-cache/strata/cmd/strata/curl"
	"github.com/strata-cache/strata/cmd/strata/ending"
	"github.com/strata-cache/strata/cmd/strata/load"
	"github.com/strata-cache/strata/cmd/strata/loadview"
)

// loadCommand is `strata load`.
type loadCommand struct {
	URL  string   `arg:"" name:"url" help:"Target, or a command line of curl. The number of the URL replaces {i}."`
	Curl []string `kong:"-"` // the words of a command line of curl, of which the URL is the first

	Method string   `short:"X" help:"Method (GET, with --data POST)." placeholder:"METHOD"`
	Header []string `short:"H" sep:"none" help:"Header, \"Name: value\"; repeatable." placeholder:"LINE"`
	Data   *string  `short:"d" help:"Body, or @FILE to read it from a file." placeholder:"TEXT"`

	Cardinality int           `default:"1" help:"Number of different URLs (${default})." placeholder:"N"`
	Group       int           `default:"1" help:"Requests for the same URL that start at once (${default})." placeholder:"N"`
	Rate        float64       `default:"0" help:"Requests per second, 0 for as many as the target answers (${default})." placeholder:"N"`
	Concurrency int           `default:"50" help:"Largest number of running requests (${default})." placeholder:"N"`
	Duration    time.Duration `default:"10s" help:"Time during which requests are started (${default})." placeholder:"TIME"`
	Timeout     time.Duration `default:"10s" help:"Time after which a request fails (${default})." placeholder:"TIME"`
	JSON        bool          `name:"json" help:"Write the result as JSON."`
	Plain       bool          `help:"Write a line each second instead of the live view."`
}

// Help is the text above the flags.
func (*loadCommand) Help() string {
	return `With --cardinality N, the numbers 0 to N-1 replace {i} in the URL, in header values and in the body.
Without {i}, they are appended to the query parameter name, or become a query parameter i. Each URL
is requested --group times at once, then the next one follows.

With --rate, latency counts from the scheduled start of a request, so that it includes the time for
which requests wait while the target stalls.

On a terminal, a live view shows latencies, answers and errors while the load runs. The keys up and
down change the rate, right and left the concurrency, with shift twofold; 0 removes the limit of the
rate, p pauses, and q ends the load. Requests that were due before a change keep their scheduled
start, and those that were due before a pause are still sent; a pause does not extend the duration.

With --plain, a line each second has the latencies of that second, its answers by status code, and the
share of errors: answers with status 400 and above, and requests without an answer.

The target may be a command line of curl as browsers copy it for bash: in quotes, or its words at the
end, behind the flags of strata load. Method, header and body are then those of the command; an option of
curl that strata load does not know is an error.

The exit status is 1 if every answer is an error, and 0 if some are, or if the load is interrupted.`
}

// Run runs the command.
func (l *loadCommand) Run(e *environment) error {
	// Without a reader of the result, the rest of the load would be a burden for the target, and nothing
	// else.
	ctx, end := ending.WhileRead(e.ctx, e.stdout)
	defer end()
	err := l.run(&environment{ctx: ctx, stdin: e.stdin, stdout: e.stdout, stderr: e.stderr})
	return cmp.Or(ending.Unread(ctx), err)
}

// run is Run, of which the context ends with the reader of the output, too.
func (l *loadCommand) run(e *environment) error {
	o, err := l.options(e.ctx)
	if err != nil && e.ctx.Err() != nil {
		return nil // it has waited for a file
	}
	if err != nil {
		return usageError{err}
	}
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	// A wrong address is the most frequent mistake. Without this, a user would learn of it from a
	// report full of errors, after the whole duration.
	if err := l.reach(e, o.URL); err != nil {
		return orInterrupted(e.ctx, err)
	}
	result, err := l.measure(e, o)
	if err != nil {
		return err
	}
	report := writeReport
	if l.JSON {
		report = writeJSON
	}
	if err := report(e.stdout, o, result); err != nil {
		return err
	}
	// The report comes first: the exit status is for scripts, and must not hide the numbers.
	return failure(result)
}

// measure runs the load. It shows the live view if there is a terminal for it, and else
// how far the load is.
func (l *loadCommand) measure(e *environment, o load.Options) (*load.Result, error) {
	switch {
	case l.Plain:
		o.Every = time.Second
		var f follower
		o.Progress = func(p load.Progress) { fmt.Fprintln(e.stderr, f.line(p)) }
		return load.Run(e.ctx, o)
	case isTerminal(e.stdout) && isTerminal(e.stdin) && os.Getenv("TERM") != "dumb":
		return loadview.Run(e.ctx, o, loadview.Options{
			Target:  target(o),
			Colours: os.Getenv("NO_COLOR") == "", //nolint:misspell // the name is defined by no-color.org
			In:      e.stdin, Out: e.stdout, Err: e.stderr,
		})
	}
	line := newLiveLine(e.stderr)
	defer line.clear()
	f := follower{short: true}
	o.Progress = func(p load.Progress) { line.show(f.line(p)) }
	return load.Run(e.ctx, o)
}

// failure returns an error if there were answers, and every one was an error.
func failure(r *load.Result) error {
	if r.Done == 0 || r.Failed()+r.Refused() < r.Done {
		return nil
	}
	return fmt.Errorf("load: no request succeeded: %s", describeErrors(r))
}

// options converts the flags to load.Options.
func (l *loadCommand) options(ctx context.Context) (load.Options, error) {
	o := load.Options{
		Method:      l.Method,
		URL:         l.URL,
		Header:      http.Header{},
		Cardinality: l.Cardinality,
		Group:       l.Group,
		Rate:        l.Rate,
		Concurrency: l.Concurrency,
		Duration:    l.Duration,
		Timeout:     l.Timeout,
	}
	set := func(o *load.Options) error { return l.request(ctx, o) }
	if words, ok, err := l.pasted(); err != nil {
		return o, err
	} else if ok {
		set = func(o *load.Options) error { return l.requestOfCurl(ctx, words, o) }
	}
	err := set(&o)
	if !strings.Contains(o.URL, "://") {
		o.URL = "http://" + o.URL // like curl
	}
	return o, err
}

// request sets the header and the body of the flags.
func (l *loadCommand) request(ctx context.Context, o *load.Options) error {
	for _, line := range l.Header {
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		// The HTTP client would refuse such a field with each request. Here it is an error of the
		// command line.
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return errors.New(`--header: want "Name: value"`)
		}
		o.Header.Add(name, value)
	}
	if l.Data == nil {
		return nil
	}
	if o.Body = *l.Data; o.Method == "" {
		o.Method = http.MethodPost // with an empty body, too
	}
	if file, ok := strings.CutPrefix(o.Body, "@"); ok {
		body, err := readFile(ctx, file, maxBody)
		if err != nil {
			return fmt.Errorf("--data: %w", err)
		}
		o.Body = body
	}
	return nil
}

// pasted returns the words of a command line of curl, behind its name, if the target is one.
func (l *loadCommand) pasted() (words []string, ok bool, err error) {
	if l.Curl != nil {
		return l.Curl, true, nil
	}
	text := strings.TrimSpace(l.URL)
	// The word curl alone is the name of a host.
	if name, _, _ := strings.Cut(strings.Join(strings.Fields(text), " "), " "); name != curlName || text == curlName {
		return nil, false, nil
	}
	words, err = curl.Words(text)
	if err != nil {
		return nil, false, err
	}
	return words[1:], true, nil
}

// requestOfCurl sets the request of a command line of curl.
func (l *loadCommand) requestOfCurl(ctx context.Context, words []string, o *load.Options) error {
	if l.Method != "" || len(l.Header) > 0 || l.Data != nil {
		return errors.New("--method, --header and --data are those of the curl command")
	}
	r, err := curl.Parse(words, func(name string) (string, error) { return readFile(ctx, name, maxBody) })
	if err != nil {
		return err
	}
	o.Method, o.URL, o.Header, o.Body, o.Insecure, o.Follow = r.Method, r.URL, r.Header, r.Body, r.Insecure, r.Follow
	if r.Timeout > 0 {
		o.Timeout = r.Timeout
	}
	return nil
}

// curlName is the word with which a command line of curl begins.
const curlName = "curl"

// splitCurl cuts off the words of a command line of curl behind strata load and its own flags: they
// belong to curl, and not to strata.
func splitCurl(k *kong.Kong, args []string) (own, ofCurl []string) {
	if len(args) == 0 || args[0] != "load" {
		return args, nil
	}
	// The parser of flags would take the options of curl for its own, so the words are looked
	// through before it. The value of an own flag may be the word curl.
	for i := 1; i < len(args); i++ {
		switch {
		case args[i] == curlName:
			return args[:i+1], append([]string{}, args[i+1:]...)
		case !strings.HasPrefix(args[i], "-"):
			return args, nil // a URL, or a command line in one word
		case wantsValue(k, args[i]):
			i++
		}
	}
	return args, nil
}

// wantsValue reports whether the word behind a flag of strata load is its value.
func wantsValue(k *kong.Kong, flag string) bool {
	for _, n := range k.Model.Children {
		for _, f := range n.Flags {
			if n.Name == "load" && !f.IsBool() && (flag == "--"+f.Name || f.Short != 0 && flag == "-"+string(f.Short)) {
				return true
			}
		}
	}
	return false
}

// maxBody bounds a body from a file, which each running request sends from memory.
const maxBody = 16 << 20

// readFile reads a file of at most so many bytes, until ctx ends: the file may be a pipe, of which the
// opening waits for a writer, and no call of the operating system ends with a context.
func readFile(ctx context.Context, name string, most int64) (text string, err error) {
	done := make(chan struct{})
	var b []byte
	var failed error
	go func() {
		defer close(done)
		b, failed = readAll(name, most+1)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return "", context.Cause(ctx) // the goroutine ends with the process
	}
	// One byte beyond the limit was read, to tell a file of this length from a longer one.
	if failed == nil && int64(len(b)) > most {
		failed = fmt.Errorf("%s is larger than %s", name, bytes(most))
	}
	return string(b), failed
}

// readAll reads the first bytes of a file.
func readAll(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// reach checks that the target accepts connections.
func (l *loadCommand) reach(e *environment, rawURL string) error {
	u, err := load.ParseURL(rawURL)
	if err != nil {
		return usageError{err}
	}
	address := addressOf(u)
	dialer := net.Dialer{Timeout: min(l.Timeout, 5*time.Second)}
	conn, err := dialer.DialContext(e.ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("load: %s: %w", address, innermost(err))
	}
	return conn.Close()
}

// addressOf returns the host and port to dial for a URL.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// innermost removes the address from an error of package net: the wrappers
// repeat it.
func innermost(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	return err
}

func writeJSON(w io.Writer, o load.Options, r *load.Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(newReport(o, r))
}
