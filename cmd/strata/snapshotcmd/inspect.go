package snapshotcmd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/strata-cache/strata/internal/dump"
)

// inspectCommand is `strata snapshot inspect`.
type inspectCommand struct {
	From     string `arg:"" help:"File, - for the standard input, or URL of an instance's snapshot handler."`
	ShowKeys bool   `help:"Show keys in place of hashes of them. They may be personal data."`
	asking
}

// Run runs the command. What comes before a damage is shown all the same.
func (c *inspectCommand) Run(s *Streams) error {
	h, err := c.check()
	if err != nil {
		return err
	}
	in, err := open(s, c.From, h, c.Stall)
	if err != nil {
		return err
	}
	defer in.Close()
	v := view{showKeys: c.ShowKeys}
	failed := walk(s.Ctx, in, func(h dump.Header) { v.header = h }, v.record)
	if v.header.Version == 0 {
		return failed
	}
	if err := v.write(s.Out); err != nil {
		return err
	}
	return failed
}

// view collects what is shown of a snapshot, in a bounded amount of memory for each cache.
type view struct {
	showKeys bool
	header   dump.Header
	sections []*contents
}

// contents are the contents of one cache.
type contents struct {
	dump.Section
	counts                    dump.Counts
	negative, expired, tagged int
	whole                     bool // its counts are right
	ages, lives               *hdrhistogram.Histogram
	forever                   int // entries without an end
	hottest, largest          []sample
}

// sample is one entry that is shown.
type sample struct {
	key  string
	size int
	uses int
	left time.Duration
}

// samples is the number of entries that are shown of each kind.
const samples = 10

// longest is the longest time that is told apart, in seconds.
const longest = 100 * 365 * 24 * 3600

func (v *view) record(r *dump.Record) error {
	if r.Kind == dump.KindSection {
		v.sections = append(v.sections, &contents{
			Section: *r.Section, ages: hdrhistogram.New(1, longest, 2), lives: hdrhistogram.New(1, longest, 2),
		})
		return nil
	}
	c := v.sections[r.Index]
	switch r.Kind {
	case dump.KindKey:
		c.add(sample{key: v.name(r.Key)}, len(r.Key))
	case dump.KindEntry:
		c.addEntry(v.name(r.Entry.Key), r.Entry)
	case dump.KindDrop:
		c.counts.Drops++
	case dump.KindSectionEnd:
		c.counts, c.whole = r.Counts, true
	}
	return nil
}

// name is how a key is shown.
func (v *view) name(key []byte) string {
	if v.showKeys {
		return shown(string(key))
	}
	sum := sha256.Sum256(key)
	return "#" + hex.EncodeToString(sum[:6])
}

func (c *contents) addEntry(name string, e *dump.Entry) {
	c.add(sample{key: name, size: len(e.Value), uses: e.Uses, left: e.Left}, len(e.Key)+len(e.Value))
	if e.NotFound {
		c.negative++
	}
	if e.Expired {
		c.expired++
	}
	if len(e.Tags) > 0 {
		c.tagged++
	}
	if e.Age >= 0 {
		record(c.ages, e.Age)
	}
	if e.Left == dump.Forever {
		c.forever++
	} else {
		record(c.lives, e.Left)
	}
}

// record counts a time in seconds.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	// Within the bounds there is no error.
	_ = h.RecordValue(min(max(0, int64(d/time.Second)), longest))
}

func (c *contents) add(one sample, bytes int) {
	c.counts.Entries++
	c.counts.Bytes += uint64(bytes)
	if len(c.hottest) < samples {
		c.hottest = append(c.hottest, one)
	}
	at, _ := slices.BinarySearchFunc(c.largest, one, func(a, b sample) int { return b.size - a.size })
	if at < samples {
		c.largest = slices.Insert(c.largest, at, one)
		c.largest = c.largest[:min(len(c.largest), samples)]
	}
}

// write writes all that was collected.
func (v *view) write(w io.Writer) error {
	h := &v.header
	mode := "values"
	if h.Mode == dump.Keys {
		mode = "keys only"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "format\tversion %d, %s\n", h.Version, mode)
	fmt.Fprintf(t, "created\t%s, %s ago\n", h.Created.UTC().Format(time.RFC3339), age(time.Since(h.Created)))
	fmt.Fprintf(t, "stream\t%d of %d, snapshot %x\n", h.Stream+1, h.Streams, h.ID)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range v.sections {
		if err := c.write(w, h.Mode); err != nil {
			return err
		}
	}
	return nil
}

func (c *contents) write(w io.Writer, mode dump.Mode) error {
	end := ""
	if !c.whole {
		end = ", and its end is missing"
	}
	fmt.Fprintf(w, "\ncache %s\n", shown(c.Name))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  values\tcodec %s, fingerprint %016x\n", shown(c.Codec), c.Fingerprint)
	fmt.Fprintf(t, "  entries\t%s, %s%s\n", number(int(c.counts.Entries)), size(int64(c.counts.Bytes)), end)
	if mode == dump.Values {
		fmt.Fprintf(t, "  of these\t%s negative, %s expired, %s with tags\n", number(c.negative), number(c.expired), number(c.tagged))
		fmt.Fprintf(t, "  ages\t%s\n", spread(c.ages))
		fmt.Fprintf(t, "  lives left\t%s, %s without end\n", spread(c.lives), number(c.forever))
		fmt.Fprintf(t, "  drops\t%s meanwhile, %s entries left out by the writer\n", number(int(c.counts.Drops)), number(int(c.counts.Skipped)))
		fmt.Fprintf(t, "  position\t%s\n", position(c.Position))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := writeSamples(w, "hottest", c.hottest, mode); err != nil || mode == dump.Keys {
		return err
	}
	return writeSamples(w, "largest", c.largest, mode)
}

// position tells whether a position is known.
func position(p []byte) string {
	if p == nil {
		return "not known: without L2, or its bus was silent"
	}
	return "known"
}

// writeSamples writes a list of entries.
func writeSamples(w io.Writer, title string, all []sample, mode dump.Mode) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "  %s\n", title)
	for _, one := range all {
		if mode == dump.Keys {
			fmt.Fprintf(t, "\t  %s\n", one.key)
			continue
		}
		fmt.Fprintf(t, "\t%s\tused %d\tleft %s\t  %s\n", size(int64(one.size)), one.uses, age(one.left), one.key)
	}
	return t.Flush()
}

// spread is the middle and the ends of times.
func spread(h *hdrhistogram.Histogram) string {
	if h.TotalCount() == 0 {
		return "not known"
	}
	at := func(p float64) string { return age(time.Duration(h.ValueAtPercentile(p)) * time.Second) }
	return fmt.Sprintf("median %s, 90 %% up to %s, longest %s", at(50), at(90), age(time.Duration(h.Max())*time.Second))
}

// age is a time for people.
func age(d time.Duration) string {
	switch {
	case d == dump.Forever:
		return "for ever"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
