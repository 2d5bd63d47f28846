package origin_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/cmd/strata/origin"
)

func open(t *testing.T, o origin.Options) *origin.Origin {
	t.Helper()
	or, err := origin.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := or.Close(); err != nil {
			t.Error(err)
		}
	})
	return or
}

func TestGreetSpeaksTheLanguage(t *testing.T) {
	or := open(t, origin.Options{})
	for _, tt := range []struct{ name, locale, want string }{
		{"language", "ru", "Привет, Ann!"},
		{"language of a locale", "ru-RU", "Привет, Ann!"},
		{"locale before language", "de-CH", "Grüezi, Ann!"},
		{"unknown locale", "xx-YY", "Hello, Ann!"},
		{"empty locale", "", "Hello, Ann!"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := or.Greet(t.Context(), "Ann", tt.locale)
			if err != nil || g.Text != tt.want {
				t.Errorf("Greet(%q) = %q, %v; want %q", tt.locale, g.Text, err, tt.want)
			}
			if g.Asked != 1 || g.Name != "Ann" || g.Locale != tt.locale || time.Since(g.Since).Abs() > time.Hour {
				t.Errorf("greeting is %+v", g)
			}
		})
	}
}

func TestEveryQueryIsRecorded(t *testing.T) {
	for _, conns := range []int{-1, 0, 4} {
		t.Run(strconv.Itoa(conns)+" connections", func(t *testing.T) { testRecorded(t, conns) })
	}
}

func testRecorded(t *testing.T, conns int) {
	or := open(t, origin.Options{MaxConns: conns})
	const callers, each = 8, 20
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if _, err := or.Greet(context.Background(), "Ann", "en"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	g, err := or.Greet(t.Context(), "Ann", "en")
	if err != nil || g.Asked != callers*each+1 {
		t.Errorf("asked %d times, %v; want %d", g.Asked, err, callers*each+1)
	}
	if or.Queries() != callers*each+1 || or.Failures() != 0 {
		t.Errorf("%d queries, %d failures", or.Queries(), or.Failures())
	}
}

func TestNamesAreDataNotSQL(t *testing.T) {
	or := open(t, origin.Options{})
	const name = `Robert'); DROP TABLE strata_greeting;--`
	g, err := or.Greet(t.Context(), name, "en")
	if err != nil || g.Text != "Hello, "+name+"!" {
		t.Errorf("Greet = %q, %v", g.Text, err)
	}
}

func TestClearForgets(t *testing.T) {
	or := open(t, origin.Options{})
	for _, name := range []string{"Ann", "Bob", "Ann"} {
		if _, err := or.Greet(t.Context(), name, "en"); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := or.Clear(t.Context()); n != 2 || err != nil {
		t.Errorf("Clear = %d, %v; want 2", n, err)
	}
	if g, _ := or.Greet(t.Context(), "Ann", "en"); g.Asked != 1 {
		t.Errorf("asked %d times after Clear", g.Asked)
	}
}

func TestTemporaryDatabaseIsRemoved(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	or, err := origin.Open(t.Context(), origin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(tmp); len(left) != 1 {
		t.Fatalf("%d entries in the temporary directory while open", len(left))
	}
	if err := or.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(tmp); len(left) != 0 {
		t.Errorf("%v left behind", left)
	}
}

func TestNamedFileStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?#%.db")
	for want := int64(1); want <= 2; want++ {
		or, err := origin.Open(t.Context(), origin.Options{URL: "sqlite:" + path})
		if err != nil {
			t.Fatal(err)
		}
		if g, err := or.Greet(t.Context(), "Ann", "en"); g.Asked != want || err != nil {
			t.Errorf("asked %d times, %v; want %d", g.Asked, err, want)
		}
		or.Close()
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestOpenReportsTheCauseOfAnError(t *testing.T) {
	for _, tt := range []struct {
		name, url string
		want      error
	}{
		{"unknown scheme", "mysql://secret:secret@127.0.0.1/db", origin.ErrURL},
		{"no scheme", "localhost", origin.ErrURL},
		{"no path", "sqlite:", origin.ErrURL},
		{"no host", "postgres://", origin.ErrURL},
		{"bad port", "postgres://secret:secret@127.0.0.1:port/db", origin.ErrURL},
		{"bad parameter", "postgres://secret:secret@127.0.0.1/db?sslmode=sometimes", origin.ErrURL},
		{"no listener", "postgres://secret:secret@127.0.0.1:1/db?sslmode=disable", origin.ErrUnavailable},
		{"no directory", "sqlite:/nowhere/at/all.db", origin.ErrUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := origin.Open(t.Context(), origin.Options{URL: tt.url})
			if !errors.Is(err, tt.want) {
				t.Fatalf("error is %v; want %v", err, tt.want)
			}
			if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "\n") {
				t.Errorf("error text is %q", text)
			}
		})
	}
}

func TestLatencyEndsWithTheContext(t *testing.T) {
	or := open(t, origin.Options{Latency: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := or.Greet(ctx, "Ann", "en"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	if or.Queries() != 1 || or.Failures() != 1 {
		t.Errorf("%d queries, %d failures", or.Queries(), or.Failures())
	}
}
