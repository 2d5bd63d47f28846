package snapshotcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/carrier"
	"github.com/strata-cache/strata/internal/wire"
	"github.com/strata-cache/strata/snapshot"
)

// getCommand is `strata snapshot get`.
type getCommand struct {
	URL  string `arg:"" name:"url" help:"URL of the instance's snapshot handler."`
	File string `arg:"" optional:"" default:"-" help:"File to replace; without it the standard output."`
	Keys bool   `help:"Keys without values."`
	Max  int    `help:"Largest number of entries of each cache, the hottest ones." placeholder:"N"`
	asking
}

// Run runs the command.
func (g *getCommand) Run(s *Streams) error {
	r, err := g.check()
	if err != nil {
		return err
	}
	from, err := g.from()
	if err != nil {
		return err
	}
	// The bytes of a snapshot may be commands to a terminal.
	if g.File == "-" && isTerminal(s.Out) {
		return UsageError{errors.New("a snapshot is no text for a terminal: name a file")}
	}
	in, err := open(s, from, r)
	if err != nil {
		return s.orInterrupted(err, "nothing has come")
	}
	defer in.Close()
	bar := newBar(s.Err, in)
	defer bar.end()
	// The snapshot is checked on its way, so that a cut or damaged one replaces no
	// file.
	fetch := func(w io.Writer) error { return bar.check(s.Ctx, io.TeeReader(bar.read(in), w)) }
	if g.File == "-" {
		return s.orInterrupted(fetch(s.Out), "a part was written")
	}
	return s.orInterrupted(carrier.WriteFile(g.File, 0o600, fetch), "no file was written or changed")
}

// from is the URL with the query of the flags.
func (g *getCommand) from() (string, error) {
	at, err := wire.ParseHTTP(g.URL)
	if err != nil {
		return "", UsageError{err}
	}
	q, err := wire.Query(at)
	if err != nil {
		return "", UsageError{err}
	}
	if g.Keys {
		q.Set("mode", "keys")
	}
	switch {
	case g.Max < 0:
		return "", UsageError{errors.New("--max must be positive")}
	case g.Max > 0:
		q.Set("max", strconv.Itoa(g.Max))
	}
	at.RawQuery = q.Encode()
	return at.String(), nil
}

// putCommand is `strata snapshot put`.
type putCommand struct {
	From       string   `arg:"" help:"File, - for the standard input, or URL of the snapshot handler of an instance."`
	URL        string   `arg:"" name:"url" help:"URL of the snapshot handler of the instance to fill."`
	FromHeader []string `help:"Header of the request to the source." placeholder:"'NAME: VALUE'" sep:"none"`
	asking
}

// Run runs the command.
func (p *putCommand) Run(s *Streams) error {
	r, err := p.check()
	if err != nil {
		return err
	}
	// The limits of time are the same for both ends. The header is not: a token of one instance
	// must not go to the other.
	from := r
	from.flag = "--from-header"
	if from.header, err = parseHeader(from.flag, p.FromHeader); err != nil {
		return err
	}
	to, err := wire.ParseHTTP(p.URL)
	if err != nil {
		return UsageError{err}
	}
	in, err := open(s, p.From, from)
	if err != nil {
		return s.orInterrupted(err, "nothing was sent")
	}
	defer in.Close()
	a, failed, err := forward(s, in, to, r)
	if err != nil {
		return s.orInterrupted(err, "the entries that were sent may be in use")
	}
	if len(a.Caches) > 0 {
		if err := writeReport(s.Out, &a.Report); err != nil {
			return err
		}
	}
	// If the source has failed, the complaint of the instance is only the consequence.
	if failed == nil && a.Error != "" {
		failed = fmt.Errorf("%s: %s", to.Host, sentence(a.Error))
	}
	return failed
}

// forward sends a snapshot from one place to another one. If its source fails, or is
// damaged, it still sends the part before the failure, so that the instance can use and
// report this part. It returns the failure beside the answer.
func forward(s *Streams, in *source, to *url.URL, r request) (a *answer, failed, err error) {
	ctx, cancel := context.WithCancelCause(s.Ctx)
	defer cancel(nil)
	body, sent := io.Pipe()
	bar := newBar(s.Err, in)
	var (
		reading  sync.WaitGroup
		answered atomic.Bool
	)
	reading.Go(func() {
		out := &guarded{Writer: sent, within: r.stall, cancel: cancel}
		err := bar.check(ctx, io.TeeReader(bar.read(in), out))
		if !answered.Load() && !errors.Is(err, io.ErrClosedPipe) {
			failed = err
		}
		_ = sent.CloseWithError(ctx.Err()) // it returns nil
		// All is sent. The answer is awaited under a limit of its own: cancel, which follows the
		// answer, ends the wait.
		out.within += answerWithin
		out.guard(func() { <-ctx.Done() })
	})
	a, err = send(ctx, body, to, r.header)
	// From here on, reads and writes fail because both ends are closed below. That is no failure of
	// the source.
	answered.Store(true)
	if why := context.Cause(ctx); err != nil && why != nil {
		err = fmt.Errorf("%s: %w", to.Host, why)
	}
	cancel(nil)
	_ = body.Close()
	_ = in.Close() // a read that still waits ends: the instance may have enough before the end
	reading.Wait()
	bar.end()
	return a, failed, err
}

// answerWithin is the time beyond --stall that an instance has to read the last entries
// from L2 before it answers.
const answerWithin = time.Minute

// guarded is a writer with a limit of the time for which it takes no bytes.
type guarded struct {
	io.Writer
	within time.Duration
	cancel context.CancelCauseFunc
}

func (g *guarded) Write(b []byte) (n int, err error) {
	g.guard(func() { n, err = g.Writer.Write(b) })
	return n, err
}

func (g *guarded) guard(f func()) {
	t := time.AfterFunc(g.within, func() { g.cancel(fmt.Errorf("no sign of life for %v", g.within)) })
	defer t.Stop()
	f()
}

// answer is the answer of an instance to a PUT.
type answer struct {
	snapshot.Report
	Error string
}

// maxAnswer is the greatest length of an answer in bytes.
const maxAnswer = 8 << 20

// send sends a snapshot, once the instance is willing to take it.
func send(ctx context.Context, body io.Reader, to *url.URL, h http.Header) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to.String(), body)
	if err != nil {
		return nil, wire.CleanError(err)
	}
	req.Header, req.Host = h.Clone(), h.Get("Host") // without one net/http sends the host of the URL
	req.Header.Set("Content-Type", carrier.ContentType)
	// An instance that refuses the snapshot says so before its bytes are sent, which may be many.
	req.Header.Set("Expect", "100-continue")
	client := carrier.NewClient()
	defer client.CloseIdleConnections()
	r, err := client.Do(req)
	if err != nil {
		return nil, wire.CleanError(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return nil, wire.CleanError(err)
	}
	a := new(answer)
	// Both of these have a report: 422 says that the snapshot could not be read to its end, and the
	// report tells of the part before that.
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusUnprocessableEntity || json.Unmarshal(text, a) != nil {
		return nil, carrier.Refusal(to, r, bytes.NewReader(text))
	}
	return a, nil
}

// writeReport writes a table of the entries of each cache by their outcome.
func writeReport(w io.Writer, r *snapshot.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "entries\tstored\tfrom L2\tpresent\tabsent\tother\t  cache")
	for _, c := range r.Caches {
		other := c.Changed + c.Over + c.Full + c.Unusable + c.Passed
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n",
			number(c.Entries), number(c.Stored), number(c.Confirmed), number(c.Present), number(c.Absent), number(other), shown(c.Name, 20))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range r.Caches {
		if n := c.Skipped; n > 0 || c.Missing != (snapshot.Missing{}) {
			writeFact(w, shown(c.Name, 20), "had more: "+missing(n, c.Busy, c.Gone, c.Beyond, c.Coarse))
		}
		if c.Refused != "" {
			writeFact(w, shown(c.Name, 20), "was passed over: "+sentence(c.Refused))
		}
		if c.Suspect != "" {
			writeFact(w, shown(c.Name, 20)+",", "suspect: "+sentence(c.Suspect))
		}
	}
	if r.Rest != "" {
		writeFact(w, "the rest", "was not read: "+sentence(r.Rest))
	}
	_, err := fmt.Fprintf(w, "%s in %s, %.1f MB/s\n", size(r.Bytes), r.Took.Round(time.Millisecond), r.MBPerSecond())
	return err
}
