package snapshotcmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

// jsonlCommand is `strata snapshot jsonl`.
type jsonlCommand struct {
	From string `arg:"" help:"File, - for the standard input, or URL of an instance's snapshot handler."`
	asking
}

// line is an entry, or a drop, as an object of JSON. Fields that say nothing are left out.
type line struct {
	Cache string `json:"cache"`
	// Key is the name of the key. A name in invalid UTF-8 is in KeyBytes instead.
	Key      *string `json:"key,omitempty"`
	KeyBytes []byte  `json:"key_base64,omitempty"`
	// Value is a value in JSON, or a text. Any other value is in ValueBytes.
	Value      any    `json:"value,omitempty"`
	ValueBytes []byte `json:"value_base64,omitempty"`
	// FreshSeconds and LeftSeconds are lives from the creation of the snapshot on; they
	// are left out if they do not end.
	FreshSeconds *float64 `json:"fresh_s,omitempty"`
	LeftSeconds  *float64 `json:"left_s,omitempty"`
	AgeSeconds   *float64 `json:"age_s,omitempty"`
	// Tags are the tags. If one of them is invalid UTF-8, all are in TagsBytes instead.
	Tags      []string `json:"tags,omitempty"`
	TagsBytes [][]byte `json:"tags_base64,omitempty"`
	NotFound  bool     `json:"not_found,omitempty"`
	Expired   bool     `json:"expired,omitempty"`
	Weight    int64    `json:"weight,omitempty"`
	Uses      int      `json:"uses,omitempty"`
	// Dropped says that the key, or with All every key of the cache, was dropped while
	// the snapshot was written.
	Dropped bool `json:"dropped,omitempty"`
	All     bool `json:"all,omitempty"`
}

// Run runs the command.
func (c *jsonlCommand) Run(s *Streams) error {
	r, err := c.check()
	if err != nil {
		return err
	}
	in, err := open(s, c.From, r)
	if err != nil {
		return s.orInterrupted(err, "nothing has come")
	}
	defer in.Close()
	log := s.Err
	if isTerminal(s.Out) {
		log = io.Discard // a bar would stand between the lines
	}
	bar := newBar(log, in)
	defer bar.remove()
	out := bufio.NewWriter(s.Out)
	to := json.NewEncoder(&escaping{out})
	to.SetEscapeHTML(false)
	var sections []format.Section
	failed := walk(s.Ctx, bar.read(in), func(format.Header) {}, func(r *format.Record) error {
		_ = bar.record(r) // it returns nil
		switch r.Kind {
		case format.KindSection:
			// Records name their cache by its place in this list.
			sections = append(sections, format.Section{Name: r.Section.Name, Codec: r.Section.Codec})
			return nil
		case format.KindSectionEnd, format.KindLog, format.KindLeft:
			return nil
		}
		return to.Encode(lineOf(&sections[r.Index], r))
	})
	// All lines before a damage are written, before the damage is told.
	if err := out.Flush(); err != nil {
		return err
	}
	return s.orInterrupted(failed, "a part was written")
}

// escaping is a writer of JSON that escapes the characters that may be commands to a terminal.
type escaping struct{ to *bufio.Writer }

func (e *escaping) Write(b []byte) (int, error) {
	rest := b
	for len(rest) > 0 {
		n := bytes.IndexFunc(rest, isUnsafe)
		if n < 0 {
			n = len(rest)
		}
		// Its error ends the command: a snapshot may be long, and its source slow.
		if _, err := e.to.Write(rest[:n]); err != nil {
			return 0, err
		}
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
		r, width := utf8.DecodeRune(rest)
		rest = rest[width:]
		if r <= 0xffff {
			fmt.Fprintf(e.to, `\u%04x`, r)
			continue
		}
		high, low := utf16.EncodeRune(r)
		fmt.Fprintf(e.to, `\u%04x\u%04x`, high, low)
	}
	return len(b), nil
}

// isUnsafe reports whether r, which stands in a text of JSON, is better escaped.
func isUnsafe(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }

// lineOf is the line of a record.
func lineOf(of *format.Section, r *format.Record) *line {
	l := &line{Cache: of.Name}
	switch r.Kind {
	case format.KindKey:
		l.setKey(r.Key)
	case format.KindDrop:
		l.Dropped, l.All = true, r.Drop.All
		if !l.All {
			l.setKey(r.Drop.Name)
		}
	case format.KindEntry:
		e := r.Entry
		l.setKey(e.Key)
		l.setValue(of.Codec, e)
		l.FreshSeconds, l.LeftSeconds = lasting(e.Fresh), lasting(e.Left)
		if e.Age >= 0 {
			l.AgeSeconds = lasting(e.Age)
		}
		l.setTags(e.Tags)
		l.NotFound, l.Expired, l.Weight, l.Uses = e.NotFound, e.Expired, e.Weight, e.Uses
	}
	return l
}

// setKey sets the field for a key. JSON has no form for bytes that are no text.
func (l *line) setKey(key []byte) {
	if utf8.Valid(key) {
		text := string(key)
		l.Key = &text
	} else {
		l.KeyBytes = key
	}
}

func (l *line) setTags(tags []string) {
	if !slices.ContainsFunc(tags, func(t string) bool { return !utf8.ValidString(t) }) {
		l.Tags = tags
		return
	}
	for _, t := range tags {
		l.TagsBytes = append(l.TagsBytes, []byte(t))
	}
}

// setValue shows the values of codecs with a form that other programs read.
func (l *line) setValue(codec string, e *format.Entry) {
	switch {
	case e.NotFound:
	case codec == "json" && utf8.Valid(e.Value) && json.Valid(e.Value):
		l.Value = json.RawMessage(e.Value)
	case codec == "string" && utf8.Valid(e.Value):
		l.Value = string(e.Value)
	default:
		l.ValueBytes = e.Value
	}
}

// lasting is a time in seconds, nil if it does not end.
func lasting(d time.Duration) *float64 {
	if d == format.Forever {
		return nil
	}
	s := d.Seconds()
	return &s
}
