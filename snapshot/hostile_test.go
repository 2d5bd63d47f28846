package snapshot_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/strata-cache/strata"
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
