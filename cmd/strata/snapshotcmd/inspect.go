package snapshotcmd

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// inspectCommand is `strata snapshot inspect`.
type inspectCommand struct {
	From     string `arg:"" help:"File, - for the standard input, or URL of an instance's snapshot handler."`
	ShowKeys bool   `help:"Show keys in place of hashes of them. They may be personal data."`
	asking
}

// Run runs the command. If the snapshot is damaged, it still shows the part before the damage.
func (c *inspectCommand) Run(s *Streams) error {
	r, err := c.check()
	if err != nil {
		return err
	}
	in, err := open(s, c.From, r)
	if err != nil {
		return s.orInterrupted(err, "nothing has come")
	}
	defer in.Close()
	bar := newBar(s.Err, in)
	v := view{showKeys: c.ShowKeys, now: time.Now()}
	failed := walk(s.Ctx, bar.read(in), v.begin, func(r *format.Record) error {
		_ = bar.record(r) // it returns nil
		return v.record(r)
	})
	bar.remove()
	// Without a header there is nothing to show.
	if v.header.Version == 0 {
		return s.orInterrupted(failed, "nothing has come")
	}
	failed = s.orInterrupted(failed, "this is a part of the snapshot")
	if err := v.write(s.Out, failed); err != nil {
		return err
	}
	return failed
}

// view collects the shown part of a snapshot, in a bounded amount of memory for each cache.
type view struct {
	showKeys bool
	now      time.Time
	header   format.Header
	sections []*contents
}

// contents are the contents of one cache.
type contents struct {
	format.Section
	counts            format.Counts
	left              format.Left
	negative, expired int
	tagged            int
	whole             bool // its counts are right
	positioned        bool
	ages, lives       times
	over, forever     int      // entries after their end, and entries without an end
	hottest, largest  []sample // in this order
}

// sample is one entry in the output.
type sample struct {
	key  string
	size int
	uses int
	left time.Duration
}

// samples is the number of entries of each kind in the output.
const samples = 10

// begin takes the header.
func (v *view) begin(h format.Header) { v.header = h }

// record counts one record. It keeps nothing of it but a sample.
func (v *view) record(r *format.Record) error {
	if r.Kind == format.KindSection {
		c := &contents{Section: *r.Section, positioned: r.Section.Position != nil}
		c.Position = nil // its memory is not needed
		v.sections = append(v.sections, c)
		return nil
	}
	c := v.sections[r.Index]
	switch r.Kind {
	case format.KindKey:
		c.count(len(r.Key))
		c.hottest = v.keep(c.hottest, sample{}, r.Key, byUses)
	case format.KindEntry:
		v.entry(c, r.Entry)
	case format.KindDrop:
		c.counts.Drops++
	case format.KindLeft:
		c.left = r.Left
	case format.KindSectionEnd:
		// The end has the counts of the writer, with the entries that it has left out.
		c.counts, c.whole = r.Counts, true
	}
	return nil
}

// name is how a key is shown.
func (v *view) name(key []byte) string {
	if v.showKeys {
		return shown(string(key[:min(len(key), 4*maxKey)]), maxKey)
	}
	sum := sha256.Sum256(key)
	return "#" + hex.EncodeToString(sum[:6])
}

// maxKey is the largest width of a key in the output, in columns.
const maxKey = 44

func (c *contents) count(bytes int) {
	c.counts.Entries++
	c.counts.Bytes += uint64(bytes)
}

func (v *view) entry(c *contents, e *format.Entry) {
	c.count(len(e.Key) + len(e.Value))
	if e.NotFound {
		c.negative++
	}
	if e.Expired {
		c.expired++
	}
	if len(e.Tags) > 0 {
		c.tagged++
	}
	// A snapshot has ages and lives from its creation. The view shows the present ones.
	if e.Age >= 0 {
		c.ages.add(e.Age + v.since())
	}
	one := sample{size: len(e.Value), uses: e.Uses, left: e.Left}
	if e.Left == format.Forever {
		c.forever++
	} else if one.left -= v.since(); one.left > 0 {
		c.lives.add(one.left)
	} else {
		c.over++
	}
	c.hottest = v.keep(c.hottest, one, e.Key, byUses)
	c.largest = v.keep(c.largest, one, e.Key, bySize)
}

// since is the age of the snapshot.
func (v *view) since() time.Duration { return max(0, v.now.Sub(v.header.Created)) }

func byUses(a, b sample) int { return b.uses - a.uses }

func bySize(a, b sample) int { return b.size - a.size }

// keep puts a sample into its place in all, which are the first samples in an order; a sample
// behind the last place is not kept. Of two equal samples the earlier comes first: writers begin
// with the hottest.
func (v *view) keep(all []sample, one sample, key []byte, order func(a, b sample) int) []sample {
	at := len(all)
	for at > 0 && order(one, all[at-1]) < 0 {
		at--
	}
	if at == samples {
		return all
	}
	// The name comes last: it may cost a hash, and most entries are not kept.
	one.key = v.name(key)
	all = slices.Insert(all, at, one)
	return all[:min(len(all), samples)]
}
