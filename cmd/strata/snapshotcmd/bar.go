package snapshotcmd

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// bar shows how far a snapshot is. Without a terminal it writes one line at the end.
type bar struct {
	to       io.Writer
	begun    time.Time
	entries  int64
	bytes    int64
	shown    *progressbar.ProgressBar // nil without a terminal
	byBytes  bool                     // the length is known, so it is the measure
	lastMove time.Time
}

// barEvery is the time between two changes of the bar.
const barEvery = 100 * time.Millisecond

func newBar(to io.Writer, of *source) *bar {
	b := &bar{to: to, begun: time.Now(), byBytes: of.bytes > 0 || of.entries <= 0}
	if !isTerminal(to) || os.Getenv("TERM") == "dumb" {
		return b
	}
	most := of.bytes
	if !b.byBytes {
		most = of.entries
	}
	if most <= 0 {
		most = -1 // a spinner
	}
	b.shown = progressbar.NewOptions64(most,
		progressbar.OptionSetWriter(to), progressbar.OptionSetWidth(25), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(b.rate()),
	)
	return b
}

// rate is the text beside the bar.
func (b *bar) rate() string {
	perSecond := float64(b.bytes) / max(time.Since(b.begun).Seconds(), 1e-3)
	text := fmt.Sprintf("%s, %s/s", size(b.bytes), size(int64(perSecond)))
	if b.entries > 0 {
		text = humanize.Comma(b.entries) + " entries, " + text
	}
	return text
}

// read counts the bytes of r.
func (b *bar) read(r io.Reader) io.Reader { return &counted{r, b} }

type counted struct {
	io.Reader
	bar *bar
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bar.bytes += int64(n)
	c.bar.move()
	return n, err
}

// record counts a record.
func (b *bar) record(r *format.Record) error {
	if r.Kind == format.KindEntry || r.Kind == format.KindKey {
		b.entries++
	}
	return nil
}

// check reads a whole snapshot, and shows how far it is.
func (b *bar) check(ctx context.Context, r io.Reader) error {
	return walk(ctx, r, func(format.Header) {}, b.record)
}

// move moves the bar, if it is time.
func (b *bar) move() {
	if b.shown == nil || time.Since(b.lastMove) < barEvery {
		return
	}
	b.lastMove = time.Now()
	b.shown.Describe(b.rate())
	done := b.entries
	if b.byBytes {
		done = b.bytes
	}
	if most := b.shown.GetMax64(); most > 0 {
		done = min(done, most-1) // the end is told by end
	}
	_ = b.shown.Set64(done) // it is for the eyes only
}

// end removes the bar, and writes the last line.
func (b *bar) end() {
	b.remove()
	if b.bytes == 0 {
		return // the error says it all
	}
	fmt.Fprintf(b.to, "%s in %s\n", b.rate(), time.Since(b.begun).Round(time.Millisecond))
}

// remove removes the bar. An interruption may have left its character behind it.
func (b *bar) remove() {
	if b.shown == nil {
		return
	}
	_ = b.shown.Finish()
	fmt.Fprint(b.to, "\r\x1b[K")
}
