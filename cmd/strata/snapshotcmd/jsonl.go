package snapshotcmd

import (
	"bufio"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/strata-cache/strata/internal/dump"
)

// jsonlCommand is `strata snapshot jsonl`.
type jsonlCommand struct {
	From string `arg:"" help:"File, - for the standard input, or URL of an instance's snapshot handler."`
	asking
}

// line is an entry, or a drop, as an object of JSON. Fields that say nothing are left out.
type line struct {
	Cache string `json:"cache"`
	// Key is the name of the key, or KeyBytes if that is no text.
	Key      string `json:"key,omitempty"`
	KeyBytes []byte `json:"key_base64,omitempty"`
	// Value is a value that is JSON or a text, ValueBytes any other one.
	Value      any    `json:"value,omitempty"`
	ValueBytes []byte `json:"value_base64,omitempty"`
	// FreshSeconds and LeftSeconds are lives from the creation of the snapshot on; they
	// are left out if they do not end.
	FreshSeconds *float64 `json:"fresh_s,omitempty"`
	LeftSeconds  *float64 `json:"left_s,omitempty"`
	AgeSeconds   *float64 `json:"age_s,omitempty"`
	Tags         []string `json:"tags,omitempty"`
	NotFound     bool     `json:"not_found,omitempty"`
	Expired      bool     `json:"expired,omitempty"`
	Weight       int64    `json:"weight,omitempty"`
	Uses         int      `json:"uses,omitempty"`
	// Dropped says that the key, or with All every key of the cache, was dropped while
	// the snapshot was written.
	Dropped bool `json:"dropped,omitempty"`
	All     bool `json:"all,omitempty"`
}

// Run runs the command.
func (c *jsonlCommand) Run(s *Streams) error {
	h, err := c.check()
	if err != nil {
		return err
	}
	in, err := open(s, c.From, h, c.Stall)
	if err != nil {
		return err
	}
	defer in.Close()
	out := bufio.NewWriter(s.Out)
	to := json.NewEncoder(out)
	to.SetEscapeHTML(false)
	var sections []dump.Section
	failed := walk(s.Ctx, in, func(dump.Header) {}, func(r *dump.Record) error {
		if r.Kind == dump.KindSection {
			sections = append(sections, *r.Section)
			return nil
		}
		if r.Kind == dump.KindSectionEnd {
			return nil
		}
		return to.Encode(lineOf(&sections[r.Index], r))
	})
	if err := out.Flush(); err != nil {
		return err
	}
	return failed
}

// lineOf is the line of a record.
func lineOf(of *dump.Section, r *dump.Record) *line {
	l := &line{Cache: of.Name}
	switch r.Kind {
	case dump.KindKey:
		l.setKey(r.Key)
	case dump.KindDrop:
		l.Dropped, l.All = true, r.Drop.All
		l.setKey(r.Drop.Name)
	case dump.KindEntry:
		e := r.Entry
		l.setKey(e.Key)
		l.setValue(of.Codec, e)
		l.FreshSeconds, l.LeftSeconds = lasting(e.Fresh), lasting(e.Left)
		if e.Age >= 0 {
			l.AgeSeconds = lasting(e.Age)
		}
		l.Tags, l.NotFound, l.Expired, l.Weight, l.Uses = e.Tags, e.NotFound, e.Expired, e.Weight, e.Uses
	}
	return l
}

func (l *line) setKey(key []byte) {
	if utf8.Valid(key) {
		l.Key = string(key)
	} else {
		l.KeyBytes = key
	}
}

// setValue shows values of the codecs whose form others read.
func (l *line) setValue(codec string, e *dump.Entry) {
	switch {
	case e.NotFound:
	case codec == "json" && json.Valid(e.Value):
		l.Value = json.RawMessage(e.Value)
	case codec == "string" && utf8.Valid(e.Value):
		l.Value = string(e.Value)
	default:
		l.ValueBytes = e.Value
	}
}

// lasting is a time in seconds, nil if it does not end.
func lasting(d time.Duration) *float64 {
	if d == dump.Forever {
		return nil
	}
	s := d.Seconds()
	return &s
}
