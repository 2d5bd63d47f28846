package main

import (
	"compress/gzip"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/sim"
)

// folder writes two traces: a loop of 1000 keys, and one with too few keys.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, n := range map[string]int{"loop": 1000, "short": 10} {
		f, err := os.Create(filepath.Join(dir, name+sim.Suffix))
		if err != nil {
			t.Fatal(err)
		}
		w := gzip.NewWriter(f)
		if err := binary.Write(w, binary.LittleEndian, sim.Take(sim.Loop(n), 20_000)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTableHasTheRatiosTheMeansAndTheDifferences(t *testing.T) {
	dir := folder(t)
	var out strings.Builder
	if err := run([]string{"-traces", dir, "-policies", "lru, belady,tinylfu"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"hit ratio, percent   entries     lru  belady tinylfu\n",
		"loop                      50    0.00    4.", "loop                     150    0.00   14.",
		"mean                            0.00    9.",
		"points above tinylfu entries     lru  belady tinylfu\n", "+0.00\n",
		"short: too few distinct keys for any capacity\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestTableFits80Columns(t *testing.T) {
	var out strings.Builder
	if err := run([]string{filepath.Join(folder(t), "loop"+sim.Suffix)}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}

func TestMaxLimitsTheRequests(t *testing.T) {
	var out strings.Builder
	if err := run([]string{"-traces", folder(t), "-max", "300", "-policies", "belady"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "loop                      45    0.00\n") {
		t.Errorf("300 keys asked for once give\n%s", out.String())
	}
}

func TestWrongCommandLinesAreErrors(t *testing.T) {
	dir := folder(t)
	for want, args := range map[string][]string{
		"no traces":                {},
		"at least 0, not -1":       {"-traces", dir, "-max", "-1"},
		`unknown "mru": there are`: {"-traces", dir, "-policies", "lru,mru"},
		`"lru" is named twice`:     {"-traces", dir, "-policies", "lru,lru"},
		`unknown ""`:               {"-traces", dir, "-policies", "lru,"},
		"no such file":             {"-traces", filepath.Join(dir, "absent")},
		"absent: no such file":     {filepath.Join(dir, "absent")},
		"flag provided":            {"-size", "3"},
		"invalid value":            {"-max", "many"},
	} {
		err := run(args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
	if err := run([]string{"-h"}, io.Discard, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}
