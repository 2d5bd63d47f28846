package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
	"github.com/strata-cache/strata/snapshot"
)

// small returns a snapshot of a few entries of all forms, one of a length.
func small(t testing.TB, long int) []byte {
	t.Helper()
	users, products := alone(t, "users", 30), alone(t, "products", 5)
	must(t, users.Set(t.Context(), "long", strings.Repeat("x", long), strata.WithTags("tag", "other")))
	must(t, users.SetNotFound(t.Context(), "none", strata.WithTTL(time.Hour)))
	must(t, users.Expire(t.Context(), "k7"))
	var file bytes.Buffer
	_, err := snapshot.Write(t.Context(), &file, snapshot.Options{}, users, products)
	must(t, err)
	return file.Bytes()
}

// restored reads a snapshot into new caches, and fails if they hold anything that the
// snapshot of small does not.
func restored(t testing.TB, file []byte) (snapshot.Report, error) {
	t.Helper()
	users, products := alone(t, "users", 0), alone(t, "products", 0)
	defer func() { _, _ = users.Close(t.Context()), products.Close(t.Context()) }()
	r, err := snapshot.Read(t.Context(), bytes.NewReader(file), snapshot.Options{}, users, products)
	held := holds(t, users, 30)
	if v, ok := users.Get(t.Context(), "long"); ok {
		held++
		if v != strings.Repeat("x", 70_000) {
			t.Fatalf("the long value is another one of %d bytes", len(v))
		}
	}
	if all := users.Len(); all > held+1 { // k7 is expired
		t.Fatalf("%d entries, of which %d are known", all, held)
	}
	if all := products.Len(); all != holds(t, products, 5) {
		t.Fatalf("%d products, of which %d are known", all, holds(t, products, 5))
	}
	return r, err
}

func TestCutSnapshotServesItsBeginAndSaysSo(t *testing.T) {
	file, last := small(t, 70_000), 0
	if r, err := restored(t, file); err != nil || r.Warm() != 37 {
		t.Fatalf("the whole snapshot: %+v, %v", r, err)
	}
	step := 1 + len(file)/200 // internal/snapshot/format tries every length
	for n := 0; n < len(file); n += step {
		r, err := restored(t, file[:n])
		if err == nil || r.Warm() < last {
			t.Fatalf("%d of %d bytes: %+v, %v", n, len(file), r, err)
		}
		last = r.Warm()
	}
	if last == 0 {
		t.Error("no part of the snapshot serves")
	}
}

func TestFlippedBitsAreFoundAndNothingBehindThemIsUsed(t *testing.T) {
	file, flips := small(t, 70_000), 300 // internal/snapshot/format tries 10 000
	r := rand.New(rand.NewPCG(1, 2))
	for range flips {
		at, bit := r.IntN(len(file)), byte(1)<<r.IntN(8)
		file[at] ^= bit
		if _, err := restored(t, file); err == nil {
			t.Fatalf("byte %d is flipped by %02x, and nobody says so", at, bit)
		}
		file[at] ^= bit
	}
}

// walks counts the records for which a cache looks through L1, and ends the call with the first one.
type walks struct {
	n   int
	end func()
}

func (w *walks) add() { w.n++; w.end() }

// walked is a cache that is counted by walks.
type walked struct {
	users
	*walks
}

func (w walked) Inside() strata.Inside {
	return strata.Inside(transfer.NewParts(nil, walkedSource{transfer.Parts(w.users.Inside()).Source(), w.walks}))
}

type walkedSource struct {
	transfer.Source
	*walks
}

func (s walkedSource) Restore(ctx context.Context, taken *transfer.Taken) (transfer.Restore, error) {
	r, err := s.Source.Restore(ctx, taken)
	return walkedRestore{r, s.walks}, err
}

type walkedRestore struct {
	transfer.Restore
	*walks
}

func (r walkedRestore) DropAll() { r.add() }

func (r walkedRestore) Learn([]byte) (bool, error) { r.add(); return true, nil }

func TestEndOfACallEndsAFrameOfDrops(t *testing.T) {
	for name, record := range map[string]func(*format.Writer) error{
		"drops of everything": func(w *format.Writer) error { return w.DropAll(0, false) },
		"logs":                func(w *format.Writer) error { return w.Log(0, []byte{0}) },
	} {
		c := alone(t, "users", 1)
		rec, err := format.NewReader(bytes.NewReader(saved(t, c)), format.Limits{}).Next()
		must(t, err)
		var b bytes.Buffer
		w := format.NewWriter(&b, format.Header{Created: time.Now(), Mode: format.Values})
		_, err = w.Section(*rec.Section)
		must(t, err)
		for range 100 {
			must(t, record(w))
		}
		must(t, w.Close())
		ctx, cancel := context.WithCancel(t.Context())
		seen := &walks{end: cancel}
		if _, err := snapshot.Read(ctx, &b, snapshot.Options{}, walked{c, seen}); !errors.Is(err, context.Canceled) || seen.n != 1 {
			t.Errorf("%s: after the end of the call L1 is looked through %d times, %v", name, seen.n-1, err)
		}
	}
}

// FuzzRestore reads anything into caches that hold entries. None of these may change.
func FuzzRestore(f *testing.F) {
	f.Add(small(f, 10))
	users, products := alone(f, "users", 1000), alone(f, "products", 10)
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := snapshot.Read(t.Context(), bytes.NewReader(file), snapshot.Options{}, users, products)
		if err == nil && r.Bytes != int64(len(file)) {
			t.Errorf("%d of %d bytes are a whole snapshot", r.Bytes, len(file))
		}
		if v, ok := users.Get(t.Context(), "k999"); v != "v999" || !ok {
			t.Errorf("k999 is %q, %v", v, ok)
		}
	})
}
