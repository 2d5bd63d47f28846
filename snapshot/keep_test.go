package snapshot_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/snapshot"
	"github.com/strata-cache/strata/stratatest"
)

// inFile returns the keys of a file by the names of caches, and its time of creation.
func inFile(t *testing.T, path string) (keys map[string][]string, created time.Time) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	r := format.NewReader(bytes.NewReader(b), format.Limits{})
	h, err := r.Header()
	must(t, err)
	keys = map[string][]string{}
	var names []string
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return keys, h.Created
		}
		must(t, err)
		switch rec.Kind {
		case format.KindSection:
			names = append(names, rec.Section.Name)
		case format.KindKey:
			keys[names[rec.Index]] = append(keys[names[rec.Index]], string(rec.Key))
		}
	}
}

// savesKeys saves keys, and checks the numbers of those written and of those kept.
func savesKeys(t *testing.T, path string, o snapshot.Options, entries, kept int, caches ...snapshot.Cache) snapshot.Report {
	t.Helper()
	r, err := snapshot.SaveKeys(t.Context(), path, o, caches...)
	n := 0
	for _, c := range r.Caches {
		n += c.Kept
	}
	if err != nil || r.Entries() != entries || n != kept {
		t.Errorf("%+v, %v; want %d keys, %d of them kept", r, err, entries, kept)
	}
	return r
}

func TestKeysOfAGoodFileAreKeptAfterAQuietHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tier, bus, path := stratatest.NewTier(), stratatest.NewBus(), filepath.Join(t.TempDir(), "keys")
		c, _ := shared(t, tier, bus)
		fill(t, c, 2000)
		good := time.Now()
		savesKeys(t, path, snapshot.Options{}, 2000, 0, c)

		time.Sleep(2 * time.Hour) // in the bubble: all entries have ended
		savesKeys(t, path, snapshot.Options{}, 2000, 2000, c)

		time.Sleep(2 * time.Hour)
		must(t, c.Set(t.Context(), "health", "v"))
		must(t, c.Set(t.Context(), "k7", "v7"))
		savesKeys(t, path, snapshot.Options{}, 2000, 1998, c)
		got, created := inFile(t, path)
		keys := got["users"]
		if first := keys[:2]; !slices.Contains(first, "health") || !slices.Contains(first, "k7") || created.Sub(good) > time.Millisecond {
			t.Errorf("the first keys are %v, the file is of %v, not %v", first, created, good)
		}
		slices.Sort(keys)
		if n := len(slices.Compact(keys)); n != 2000 {
			t.Errorf("%d different keys", n)
		}

		// The next instance reads the values that L2 has by then.
		fill(t, c, 1500)
		second, _ := shared(t, tier, bus)
		if r, err := snapshot.WarmKeys(t.Context(), path, snapshot.Options{}, second); err != nil || r.Warm() < 1490 {
			t.Errorf("%+v, %v", r, err)
		}
		// With traffic, the keys of now are the good ones.
		savesKeys(t, path, snapshot.Options{}, 1501, 0, c)
		if _, created := inFile(t, path); time.Since(created) > time.Second {
			t.Errorf("a new file is of %v", created)
		}
	})
}

func TestKeptKeysAreGivenUpAfterAWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, path := alone(t, "users", 100), filepath.Join(t.TempDir(), "keys")
		savesKeys(t, path, snapshot.Options{}, 100, 0, c)
		for range 7*24 - 1 {
			time.Sleep(time.Hour) // in the bubble
			savesKeys(t, path, snapshot.Options{}, 100, 100, c)
		}
		time.Sleep(time.Hour + time.Second)
		savesKeys(t, path, snapshot.Options{}, 0, 0, c)
	})
}

func TestKeysAreKeptForTheCacheThatIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, idle, path := alone(t, "users", 300), alone(t, "products", 200), filepath.Join(t.TempDir(), "keys")
		savesKeys(t, path, snapshot.Options{}, 500, 0, busy, idle)
		time.Sleep(2 * time.Hour) // in the bubble
		named(t, busy, "new", 150)
		savesKeys(t, path, snapshot.Options{}, 350, 200, idle, busy)
		keys, _ := inFile(t, path)
		if len(keys["users"]) != 150 || len(keys["products"]) != 200 || !strings.HasPrefix(keys["users"][0], "new") {
			t.Errorf("%d and %d keys", len(keys["users"]), len(keys["products"]))
		}
		// The bound of now holds for kept ones, too.
		savesKeys(t, path, snapshot.Options{MaxEntries: 50}, 100, 50, busy, idle)
	})
}

func TestKeysOfFilesThatAreNoneAreNotKept(t *testing.T) {
	c, none := alone(t, "users", 100), alone(t, "users", 0)
	path, other := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "other")
	savesKeys(t, path, snapshot.Options{}, 100, 0, c)
	good, err := os.ReadFile(path)
	must(t, err)
	stranger := alone(t, "users", 100, func(o *strata.Options[string, string]) { o.Service = "billing" })
	savesKeys(t, other, snapshot.Options{}, 100, 0, stranger)
	foreign, err := os.ReadFile(other)
	must(t, err)
	for name, content := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)-1], "damaged": append([]byte("STRATA\r\n"), good[9:]...),
		"no snapshot": []byte(strings.Repeat("x", 100)), "values": saved(t, c), "another service": foreign,
	} {
		t.Run(name, func(t *testing.T) {
			writeFile(t, path, content)
			savesKeys(t, path, snapshot.Options{}, 0, 0, none)
		})
	}
	writeFile(t, path, good)
	savesKeys(t, path, snapshot.Options{}, 100, 100, none)
}

// TestKeysAreKeptIfFewerThanHalfAreLeft looks at both sides of the bound.
func TestKeysAreKeptIfFewerThanHalfAreLeft(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 11} {
		for left := range n + 1 {
			t.Run(fmt.Sprint(left, " of ", n), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "keys")
				savesKeys(t, path, snapshot.Options{}, n, 0, alone(t, "users", n))
				c := alone(t, "users", 0)
				for i := range left {
					must(t, c.Set(t.Context(), "k"+strconv.Itoa(i), "v"))
				}
				if 2*left < n {
					savesKeys(t, path, snapshot.Options{}, n, n-left, c)
				} else {
					savesKeys(t, path, snapshot.Options{}, left, 0, c)
				}
			})
		}
	}
}
