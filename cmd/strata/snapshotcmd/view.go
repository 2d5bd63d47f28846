package snapshotcmd

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// write writes the whole view. After a failure, the view has the part of the snapshot before it.
func (v *view) write(w io.Writer, failed error) error {
	h := &v.header
	mode := "values"
	if h.Mode == format.Keys {
		mode = "keys only"
	}
	fmt.Fprintf(w, "format   version %d, %s\n", h.Version, mode)
	created := span(v.since()) + " ago"
	if v.now.Before(h.Created) {
		created = "in the future by " + span(h.Created.Sub(v.now)) + ": a clock is wrong"
	}
	fmt.Fprintf(w, "created  %s, %s\n", h.Created.UTC().Format(time.RFC3339), created)
	fmt.Fprintf(w, "stream   %d of %d, snapshot %x\n", h.Stream+1, h.Streams, h.ID)
	if failed != nil {
		writeFact(w, "error   ", sentence(failed.Error()))
	}
	for _, c := range v.sections {
		if err := c.write(w, h.Mode); err != nil {
			return err
		}
	}
	return nil
}

func (c *contents) write(w io.Writer, mode format.Mode) error {
	end := ""
	if !c.whole {
		end = ", and its end is missing"
	}
	fmt.Fprintf(w, "\ncache %s\n", shown(c.Name, columns-6))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "  values\tcodec %s, fingerprint %016x\n", shown(c.Codec, 28), c.Fingerprint)
	if c.Space != "" && c.Space != c.Name {
		fmt.Fprintf(t, "  namespace\t%s\n", shown(c.Space, columns-14))
	}
	fmt.Fprintf(t, "  entries\t%s, %s%s\n", number(int(c.counts.Entries)), size(int64(c.counts.Bytes)), end)
	// Without values, the snapshot has no entries whose ages, lives or tags could be shown.
	if mode == format.Values {
		fmt.Fprintf(t, "  of these\t%s negative, %s expired, %s with tags\n", number(c.negative), number(c.expired), number(c.tagged))
		fmt.Fprintf(t, "  ages\t%s\n", &c.ages)
		fmt.Fprintf(t, "  lives left\t%s\n", &c.lives)
		fmt.Fprintf(t, "  ended\t%s, and %s have no end\n", number(c.over), number(c.forever))
		fmt.Fprintf(t, "  drops\t%s meanwhile, %s entries left out by the writer\n", number(int(c.counts.Drops)), number(int(c.counts.Skipped)))
		fmt.Fprintf(t, "  position\t%s\n", position(c.positioned))
	}
	if l := &c.left; *l != (format.Left{}) {
		fmt.Fprintf(t, "  missing\t%s\n", missing(0, count(l.Busy), count(l.Gone), count(l.Beyond), l.Coarse))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := writeSamples(w, "hottest", c.hottest, mode); err != nil {
		return err
	}
	return writeSamples(w, "largest", c.largest, mode)
}

// position tells whether a position is known.
func position(known bool) string {
	if !known {
		return "not known: without L2, or its bus was silent"
	}
	return "known"
}

// writeSamples writes a list of entries.
func writeSamples(w io.Writer, title string, all []sample, mode format.Mode) error {
	if len(all) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "  %s\n", title)
	for _, one := range all {
		if mode == format.Keys {
			fmt.Fprintf(t, "\t  %s\n", one.key)
			continue
		}
		left := "left " + span(one.left)
		if one.left <= 0 {
			left = "has ended"
		}
		fmt.Fprintf(t, "\t%s\tused %d\t%s\t  %s\n", size(int64(one.size)), one.uses, left, one.key)
	}
	return t.Flush()
}
