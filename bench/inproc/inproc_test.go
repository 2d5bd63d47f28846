package inproc_test

import (
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata/bench/inproc"
)

// look plays a table at a small scale. It returns its output and its lines for benchstat.
func look(t *testing.T, play func(inproc.Options) error, o inproc.Options) (printed, rounded string) {
	t.Helper()
	var out, lines strings.Builder
	o.Rounds, o.Slice, o.Scale, o.Out, o.Rounded = 1, time.Millisecond, 200, &out, &lines
	if err := play(o); err != nil {
		t.Fatal(err)
	}
	// In a slice of a millisecond a busy machine may come to one operation, which takes more digits than a column has.
	long := regexp.MustCompile(`\d{5,}`)
	for line := range strings.Lines(long.ReplaceAllString(out.String(), "00000")) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	return out.String(), lines.String()
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

func TestHitsHaveAllTables(t *testing.T) {
	out, lines := look(t, inproc.Hits, inproc.Options{})
	has(t, out, "uint64 keys", "string keys", "\nstrata memory ", "\notter, coarse clock ", "\nsturdyc ", "strata memory / xsync.Map")
	has(t, lines, "BenchmarkHits/keys=uint64/entries=5/ttl=true/goroutines=2/lib=otter-coarse-clock 1 ")
}

func TestMixHasAllTables(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		out, lines := look(t, inproc.Mix, inproc.Options{TTL: ttl})
		has(t, out, "uint64 keys, GOMAXPROCS x goroutines 2x16", "string keys, GOMAXPROCS x goroutines 1x1", "strata memory / 128 RWMutex maps")
		has(t, lines, "BenchmarkMix/keys=string/procs=2/goroutines=16/reads=75/lib=128-RWMutex-maps 1 ")
	}
}

func TestMissesHaveAllRows(t *testing.T) {
	out, lines := look(t, inproc.Misses, inproc.Options{})
	has(t, out, "GetOrLoad, miss", "GetMany, 100 misses", "GetMany, 100 hits", "Set of an existing key", "Invalidate of an absent key")
	has(t, lines, "BenchmarkMisses/op=GetMany-100-hits/lib=otter 1 ")
}

func TestArticleHasAllRows(t *testing.T) {
	out, lines := look(t, inproc.Article, inproc.Options{})
	for _, row := range []string{
		"sync.Map", "128 maps of any", "Mutex map", "RWMutex map", "128 RWMutex maps", "ristretto",
		"xsync.Map", "go-cache", "bigcache", "freecache", "fastcache", "strata bytes", "strata memory", "otter",
	} {
		has(t, out, "\n"+row+" ")
	}
	has(t, lines, "BenchmarkArticle/permille=1/lib=fastcache 1 ")
}

func TestGCHasBothTables(t *testing.T) {
	out, _ := look(t, inproc.GC, inproc.Options{Short: true})
	has(t, out, "bytes/entry", "string, TTL", "\nsturdyc ")
}

func TestStormHasAllRows(t *testing.T) {
	out, _ := look(t, inproc.Storm, inproc.Options{Short: true})
	has(t, out, "equal low bits, read", "one hot key", "new keys, miss", "2x64", "writer of 100 hot keys")
}

func TestHitRatioIsSkippedWithoutTraces(t *testing.T) {
	for _, dir := range []string{"", t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		out, _ := look(t, inproc.HitRatio, inproc.Options{Traces: dir})
		has(t, out, "hitratio: skipped")
	}
}

// TestHitRatioCountsHits has a trace of which each key comes three times in a
// row: any policy hits two of three.
func TestHitRatioCountsHits(t *testing.T) {
	dir := t.TempDir()
	var keys []byte
	for i := range uint64(3000) {
		keys = binary.LittleEndian.AppendUint64(keys, i/3)
	}
	write(t, filepath.Join(dir, "thrice.u64.gz"), keys)
	out, _ := look(t, inproc.HitRatio, inproc.Options{Traces: dir})
	has(t, out, "thrice        5.0    66.67    66.67")
	if strings.Contains(out, "thrice        2.0") {
		t.Error("a cache of 20 entries")
	}
}

// TestHitBytesCountsHits has the same trace, with values of 300 bytes and more: each cache hits two of three.
func TestHitBytesCountsHits(t *testing.T) {
	dir := t.TempDir()
	out, _ := look(t, inproc.HitBytes, inproc.Options{Traces: dir})
	has(t, out, "bytes: skipped")
	var keys []byte
	for i := range uint64(60_000) {
		keys = binary.LittleEndian.AppendUint64(keys, i/3)
	}
	write(t, filepath.Join(dir, "thrice.u64.gz"), keys)
	out, _ = look(t, inproc.HitBytes, inproc.Options{Traces: dir})
	row := regexp.MustCompile(`thrice +1\.\d\d +66\.67 +66\.67 +\d\d\.\d\d +- +66\.67 +66\.67 +66\.67`)
	if !row.MatchString(out) {
		t.Error(out)
	}
	has(t, out, "encoded ahead")
}

func TestHitRatioFailsOnBrokenTraces(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cut.u64.gz"), []byte("0123456789"))
	if err := inproc.HitRatio(inproc.Options{Traces: dir, Out: new(strings.Builder)}); err == nil {
		t.Error("no error for a key that is cut")
	}
}

func write(t *testing.T, path string, keys []byte) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write(keys); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := inproc.Options{Rounds: 1, Slice: 1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, o := range []inproc.Options{{Slice: 1}, {Rounds: 1}, {Rounds: 1, Slice: 1, TTL: time.Second}} {
		if o.Validate() == nil {
			t.Errorf("%+v pass", o)
		}
	}
}
