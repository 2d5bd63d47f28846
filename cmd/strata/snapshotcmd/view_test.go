package snapshotcmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // read-only

func TestTextsOfWideCharactersKeepToTheirColumns(t *testing.T) {
	for _, text := range []string{strings.Repeat("漢", 44), strings.Repeat("a漢", 44), strings.Repeat("a", 60), strings.Repeat("😀", 23), strings.Repeat("e\u0301", 60)} {
		if n := lipgloss.Width(shown(text, maxKey)); n > maxKey || n < maxKey-1 {
			t.Errorf("a key takes %d columns of %d: %s", n, maxKey, shown(text, maxKey))
		}
		var b strings.Builder
		writeFact(&b, shown(text, 20), strings.Repeat("漢漢 ", 40))
		for line := range strings.Lines(b.String()) {
			if n := lipgloss.Width(line); n > columns {
				t.Errorf("a line has %d columns: %s", n, line)
			}
		}
	}
	if text := strings.Repeat("漢", maxKey/2); shown(text, maxKey) != text {
		t.Errorf("a key that fits is cut: %s", shown(text, maxKey))
	}
}

// written returns a snapshot of two caches with entries of all kinds.
func written(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := format.NewWriter(&b, format.Header{Created: created, Mode: format.Values, ID: [16]byte([]byte("0123456789abcdef"))})
	for _, s := range []format.Section{
		{Name: "users", Space: "shop", Codec: "json", Fingerprint: 0x1122334455667788, Position: []byte("here")},
		{Name: "ev\x1b[2Jil\u202e", Codec: "gob\n"},
	} {
		if _, err := w.Section(s); err != nil {
			t.Fatal(err)
		}
	}
	for i, e := range []format.Entry{
		{Key: []byte("once"), Value: []byte(`{"a": 1,` + "\n" + `"b":"` + "\x7f\u009b\u202e\U000e0001ä" + `"}`), Fresh: time.Hour, Left: 2 * time.Hour, Weight: 1, Age: time.Minute},
		{Key: []byte("hot"), Value: []byte(`null`), Fresh: format.Forever, Left: format.Forever, Weight: 7, Age: format.Unknown, Uses: 3, Tags: []string{"t", "ü"}},
		{Key: []byte("\xff\xfe"), Value: []byte("{\"\xff\":1}"), Fresh: -time.Second, Left: 30 * time.Minute, Weight: 1, Age: 90 * time.Minute, Expired: true, Tags: []string{"\xff"}},
		{Key: nil, NotFound: true, Fresh: time.Millisecond, Left: time.Millisecond, Weight: 1, Age: 3 * time.Minute, Uses: 1},
	} {
		if err := w.Entry(i/4, &e, func(dst []byte) ([]byte, error) { return append(dst, e.Value...), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Drop(0, "gone", true); err != nil {
		t.Fatal(err)
	}
	if err := w.DropAll(1, false); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const inspected = `format   version 1, values
created  2026-01-02T03:04:05Z, 1h0m ago
stream   1 of 1, snapshot 30313233343536373839616263646566

cache users
  values      codec json, fingerprint 1122334455667788
  namespace   shop
  entries     4, 48 B
  of these    1 negative, 1 expired, 2 with tags
  ages        median 1h3m, 90 % up to 2h30m, longest 2h30m
  lives left  median 1h0m, 90 % up to 1h0m, longest 1h0m
  ended       2, and 1 have no end
  drops       1 meanwhile, 0 entries left out by the writer
  position    known
  hottest
     4 B  used 3  left for ever  hot
     0 B  used 1      has ended  ""
    28 B  used 0      left 1h0m  once
     7 B  used 0      has ended  "\xff\xfe"
  largest
    28 B  used 0      left 1h0m  once
     7 B  used 0      has ended  "\xff\xfe"
     4 B  used 3  left for ever  hot
     0 B  used 1      has ended  ""

cache "ev\x1b[2Jil\u202e"
  values      codec "gob\n", fingerprint 0000000000000000
  entries     0, 0 B
  of these    0 negative, 0 expired, 0 with tags
  ages        none is known
  lives left  none is known
  ended       0, and 0 have no end
  drops       1 meanwhile, 0 entries left out by the writer
  position    not known: without L2, or its bus was silent
`

// look is the text of inspect at an hour after the creation.
func look(t *testing.T, snapshot []byte) (string, error) {
	t.Helper()
	v := view{showKeys: true, now: created.Add(time.Hour)}
	failed := walk(t.Context(), bytes.NewReader(snapshot), v.begin, v.record)
	var out strings.Builder
	if err := v.write(&out, failed); err != nil {
		t.Fatal(err)
	}
	return out.String(), failed
}

func TestInspectionCountsTimesFromNowAndPutsTheMostUsedFirst(t *testing.T) {
	if out, err := look(t, written(t)); err != nil || out != inspected {
		t.Errorf("%v\n%s\nwant\n%s", err, out, inspected)
	}
}

func TestInspectionOfADamagedSnapshotSaysWhere(t *testing.T) {
	whole := written(t)
	end := bytes.Index(whole, []byte("hot")) // in the frame of entries
	damaged := bytes.Clone(whole)
	damaged[end] ^= 1
	for name, b := range map[string][]byte{"damaged": damaged, "cut": whole[:end]} {
		out, err := look(t, b)
		if err == nil || !strings.Contains(out, "\nerror    frame 4 at byte ") || strings.Count(out, "its end is missing") != 2 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

const listed = `{"cache":"users","key":"once","value":{"a":1,"b":"\u007f\u009b\u202e\udb40\udc01ä"},"fresh_s":3600,"left_s":7200,"age_s":60,"weight":1}
{"cache":"users","key":"hot","value":null,"tags":["t","ü"],"weight":7,"uses":3}
{"cache":"users","key_base64":"//4=","value_base64":"eyL/IjoxfQ==","fresh_s":-1,"left_s":1800,"age_s":5400,"tags_base64":["/w=="],"expired":true,"weight":1}
{"cache":"users","key":"","fresh_s":0.001,"left_s":0.001,"age_s":180,"not_found":true,"weight":1,"uses":1}
{"cache":"users","key":"gone","dropped":true}
{"cache":"ev\u001b[2Jil\u202e","dropped":true,"all":true}
`

func TestJSONLKeepsAllBytesAndSendsNoneThatATerminalObeys(t *testing.T) {
	var out bytes.Buffer
	command := jsonlCommand{From: "-", asking: asking{Stall: time.Second}}
	if err := command.Run(&Streams{Ctx: t.Context(), In: bytes.NewReader(written(t)), Out: &out, Err: io.Discard}); err != nil || out.String() != listed {
		t.Errorf("%v\n%s\nwant\n%s", err, &out, listed)
	}
}

// A small file may claim many caches. Each takes little memory.
func TestInspectionOfManyCachesTakesLittleMemory(t *testing.T) {
	var b bytes.Buffer
	w := format.NewWriter(&b, format.Header{Created: created, Mode: format.Values})
	for i := range format.MaxSections {
		if _, err := w.Section(format.Section{Name: fmt.Sprint(i), Position: make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range format.MaxSections {
		if err := w.Entry(i, &format.Entry{Key: []byte("k"), Left: time.Hour}, func(dst []byte) ([]byte, error) { return dst, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	v := view{now: created}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if err := walk(t.Context(), &b, v.begin, v.record); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if mb := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; mb > 48 {
		t.Errorf("%d MiB for %d caches", mb, len(v.sections))
	}
	runtime.KeepAlive(&v)
}

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "0123456789"
		begun := time.Now()
		r := &paced{Reader: iotest.HalfReader(strings.NewReader(strings.Repeat(text, 100))), ctx: t.Context(), rate: 100}
		if b, err := io.ReadAll(r); err != nil || len(b) != 1000 || time.Since(begun) != 10*time.Second {
			t.Errorf("%d bytes after %v, %v", len(b), time.Since(begun), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		slow := &paced{Reader: strings.NewReader(text), ctx: ctx, rate: 1}
		if _, err := io.ReadAll(slow); err != context.Canceled {
			t.Error(err)
		}
	})
}
