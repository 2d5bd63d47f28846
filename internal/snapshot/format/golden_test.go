package format_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/format"
)

var update = flag.Bool("update", false, "write golden files that are missing")

// golden are the snapshots of testdata/golden. The name of a folder is the version of
// the format.
func golden() map[string]*sample {
	sections := []format.Section{
		{Name: "users", Space: "shop", Codec: "json", Fingerprint: 0xfedcba9876543210, Position: []byte("epoch 7, 4096 lanes")},
		{Name: "größen", Position: bytes.Repeat([]byte("0123456789"), 6600)},
		{},
	}
	user := format.Entry{Key: []byte("user:1"), Value: []byte(`{"name":"Ada"}`), Fresh: 90 * time.Second, Left: 10 * time.Minute, Weight: 1, Age: format.Unknown}
	all := format.Entry{
		Key: []byte("user:2"), Value: []byte(`{"name":"Grace"}`), Fresh: -1500 * ms, Left: format.Forever, Expired: true, ID: 1<<63 + 1,
		Tags: []string{"", "team:7", "country:de"}, Weight: 1 << 40, Age: 26 * time.Hour, Uses: 3,
	}
	long := format.Entry{Key: []byte{0, 1, 0xff}, Value: bytes.Repeat([]byte("long "), 13_200), Fresh: format.Forever, Left: format.Forever, Weight: 0, Age: 0, Uses: 1}
	none := format.Entry{Key: []byte("user:3"), NotFound: true, Fresh: -2 * time.Second, Left: -ms, Weight: 1, Age: format.Unknown, Uses: 2}
	drops := []op{
		{drop: &format.Drop{Name: []byte("user:2")}},
		{drop: &format.Drop{Name: []byte("user:1"), Expire: true}},
		{section: 1, drop: &format.Drop{All: true}},
	}
	keys := []op{{key: "user:1"}, {key: ""}, {section: 2, key: strings.Repeat("k", 300)}, {key: "user:2"}, {section: 2, key: strings.Repeat("long", 16_500)}}
	values := []op{{entry: user}, {entry: all}, {section: 2, entry: none}, {flush: true}, {entry: long}, {entry: format.Entry{Weight: 1}}}
	return map[string]*sample{
		"v1/keys.snapshot":   {headerOf(format.Keys), []format.Section{sections[0], {Name: "orders"}, {}}, append(keys, drops...)},
		"v1/values.snapshot": {headerOf(format.Values), sections, append(values, drops...)},
	}
}

func goldenFile(t *testing.T, name string, s *sample) []byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		b = s.bytes(t)
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSnapshotsOfReleasedFormatsStayReadable(t *testing.T) {
	for name, s := range golden() {
		recs, shown, err := read(bytes.NewReader(goldenFile(t, name, s)), format.Limits{})
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := bySection(recs, shown, len(s.sections)), s.records(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read\n%q\nwant\n%q", name, got, want)
		}
	}
}

// TestFormatOfTheWriterIsThatOfItsVersion fails when the Writer writes other bytes than
// the golden files have. If the change is intended, increase Version, unless
// readers of this version read the new bytes as the same.
func TestFormatOfTheWriterIsThatOfItsVersion(t *testing.T) {
	for name, s := range golden() {
		if !bytes.Equal(s.bytes(t), goldenFile(t, name, s)) {
			t.Errorf("%s: the Writer writes other bytes", name)
		}
	}
}

// example is the snapshot of docs/snapshot-format.md.
func example() *sample {
	return &sample{
		header:   format.Header{Created: time.UnixMilli(1_764_000_000_000), Streams: 1, Mode: format.Values, ID: [16]byte([]byte("0123456789abcdef"))},
		sections: []format.Section{{Name: "users", Space: "shop", Codec: "json", Fingerprint: 0x1122334455667788}},
		ops: []op{
			{entry: format.Entry{Key: []byte("a"), Value: []byte("1"), Fresh: time.Second, Left: 3 * time.Second, Weight: 1, Age: format.Unknown, Uses: 2}},
			{drop: &format.Drop{Name: []byte("b")}},
		},
	}
}

func TestExampleOfTheDocumentIsASnapshot(t *testing.T) {
	page, err := os.ReadFile("../../../docs/snapshot-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "## Example\n")
	_, block, _ = strings.Cut(block, "```\n")
	block, _, _ = strings.Cut(block, "```")
	var digits strings.Builder
	for line := range strings.Lines(block) {
		columns, _, _ := strings.Cut(line, "  ")
		digits.WriteString(strings.Join(strings.Fields(columns), ""))
	}
	want := example().bytes(t)
	if got, err := hex.DecodeString(digits.String()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v: the page has\n% x, and the Writer writes\n% x", err, got, want)
	}
}
