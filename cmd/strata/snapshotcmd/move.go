package snapshotcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/strata-cache/strata/internal/atomicfile"
	"github.com/strata-cache/strata/internal/download"
	"github.com/strata-cache/strata/internal/dump"
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
	h, err := g.check()
	if err != nil {
		return err
	}
	from, err := g.from()
	if err != nil {
		return err
	}
	if g.File == "-" && isTerminal(s.Out) {
		return UsageError{errors.New("a snapshot is no text for a terminal: name a file")}
	}
	in, err := open(s, from, h, g.Stall)
	if err != nil {
		return err
	}
	defer in.Close()
	bar := newBar(s.Err, in)
	defer bar.end()
	if g.File == "-" {
		return fetch(s, in, bar, s.Out)
	}
	return atomicfile.Write(g.File, 0o600, func(w io.Writer) error { return fetch(s, in, bar, w) })
}

// from is the URL with the query of the flags.
func (g *getCommand) from() (string, error) {
	at, err := download.Parse(g.URL)
	if err != nil {
		return "", UsageError{err}
	}
	q := at.Query()
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

// fetch copies a snapshot to w and checks it on the way, so that a file that was cut or
// damaged replaces none.
func fetch(s *Streams, in *source, bar *bar, w io.Writer) error {
	return walk(s.Ctx, io.TeeReader(bar.read(in), w), func(dump.Header) {}, func(r *dump.Record) error {
		bar.record(r)
		return nil
	})
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
	h, err := p.check()
	if err != nil {
		return err
	}
	fromHeader, err := parseHeader("--from-header", p.FromHeader)
	if err != nil {
		return err
	}
	to, err := download.Parse(p.URL)
	if err != nil {
		return UsageError{err}
	}
	in, err := open(s, p.From, fromHeader, p.Stall)
	if err != nil {
		return err
	}
	defer in.Close()
	bar := newBar(s.Err, in)
	answer, err := send(s, bar.read(in), to, h)
	bar.end()
	if err != nil {
		return err
	}
	if err := writeReport(s.Out, &answer.Report); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// answer is the answer of an instance to a PUT.
type answer struct {
	snapshot.Report
	Error string
}

// maxAnswer is the greatest length of an answer in bytes.
const maxAnswer = 8 << 20

// send sends a snapshot.
func send(s *Streams, body io.Reader, to *url.URL, h http.Header) (*answer, error) {
	req, err := http.NewRequestWithContext(s.Ctx, http.MethodPut, to.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header = h
	client := download.NewClient()
	defer client.CloseIdleConnections()
	r, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	a := new(answer)
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusUnprocessableEntity || json.Unmarshal(text, a) != nil {
		return nil, fmt.Errorf("%s answers with status %s: %q", to.Host, r.Status, bytes.TrimSpace(text[:min(len(text), 256)]))
	}
	return a, nil
}

// writeReport writes what became of the entries of each cache.
func writeReport(w io.Writer, r *snapshot.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "entries\tstored\tfrom L2\tpresent\tabsent\tother\t  cache")
	for _, c := range r.Caches {
		other := c.Changed + c.Over + c.Full + c.Unusable + c.Passed
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n",
			number(c.Entries), number(c.Stored), number(c.Confirmed), number(c.Present), number(c.Absent), number(other), shown(c.Name))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range r.Caches {
		if c.Refused != "" {
			fmt.Fprintf(w, "%s was passed over: %s\n", shown(c.Name), c.Refused)
		}
		if c.Doubt != "" {
			fmt.Fprintf(w, "%s, in doubt: %s\n", shown(c.Name), c.Doubt)
		}
	}
	_, err := fmt.Fprintf(w, "%s in %s, %.1f MB/s\n", size(r.Bytes), r.Took.Round(time.Millisecond), r.MBPerSecond())
	return err
}

func number(n int) string { return humanize.Comma(int64(n)) }

func size(n int64) string { return humanize.Bytes(uint64(max(0, n))) }

// maxShown is the number of characters of a name that are shown.
const maxShown = 60

// shown is a text from a snapshot for a terminal: without control characters, and short.
func shown(text string) string {
	quoted := strconv.QuoteToGraphic(text)
	if plain := quoted[1 : len(quoted)-1]; plain == text {
		quoted = text
	}
	if r := []rune(quoted); len(r) > maxShown {
		quoted = string(r[:maxShown-1]) + "…"
	}
	return quoted
}
