package envelope_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/cache/envelope"
)

func TestTagsComeBackWithTheirClock(t *testing.T) {
	for _, tags := range [][]string{nil, {""}, {"a"}, {"a", "b\x00", strings.Repeat("t", envelope.MaxTag)}, slices.Repeat([]string{"t"}, envelope.MaxTags)} {
		b := append(envelope.AppendTags(envelope.Begin(nil), 1<<63, tags), "payload"...)
		envelope.Seal(b, "k", 7, envelope.Tagged)
		body, flags, err := envelope.Open(b, "k", 7)
		if err != nil || flags != envelope.Tagged {
			t.Fatalf("Open: flags %d, %v", flags, err)
		}
		clock, got, payload, ok := envelope.CutTags(body)
		if !ok || clock != 1<<63 || !slices.Equal(got, tags) || string(payload) != "payload" {
			t.Errorf("CutTags(%q) = %d, %q, %q, %v", tags, clock, got, payload, ok)
		}
	}
}

func TestTagsThatAreNoneAreRefused(t *testing.T) {
	good := envelope.AppendTags(nil, 300, []string{"tag"})
	for n := range good {
		if _, _, _, ok := envelope.CutTags(good[:n]); ok {
			t.Errorf("%d of %d bytes were taken for tags", n, len(good))
		}
	}
	tooMany := envelope.AppendTags(nil, 1, slices.Repeat([]string{"t"}, envelope.MaxTags+1))
	tooLong := envelope.AppendTags(nil, 1, []string{strings.Repeat("t", envelope.MaxTag+1)})
	for _, b := range [][]byte{tooMany, tooLong, bytes.Repeat([]byte{0xff}, 20), {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}} {
		if _, tags, _, ok := envelope.CutTags(b); ok {
			t.Errorf("%.20x was taken for the tags %.20q", b, tags)
		}
	}
}

func FuzzCutTags(f *testing.F) {
	f.Add(envelope.AppendTags(nil, 1, []string{"a", "b"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		clock, tags, payload, ok := envelope.CutTags(b)
		if !ok {
			return
		}
		again := append(envelope.AppendTags(nil, clock, tags), payload...)
		c, ts, p, ok := envelope.CutTags(again)
		if !ok || c != clock || !slices.Equal(ts, tags) || !bytes.Equal(p, payload) {
			t.Fatalf("%x: %d %q %x, then %d %q %x", b, clock, tags, payload, c, ts, p)
		}
	})
}
