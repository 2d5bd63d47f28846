package snapshot_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/snapshot"
)

// TestReadEndsWithinItsTimeThoughItsSourceHangs reads from a pipe into which a part of a snapshot is written, and then nothing.
func TestReadEndsWithinItsTimeThoughItsSourceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := saved(t, alone(t, "users", 20_000))
		from, to := io.Pipe()
		defer to.Close()
		go to.Write(whole[:len(whole)*3/4])
		c, begun := alone(t, "users", 0), time.Now()
		r, err := snapshot.Read(t.Context(), from, snapshot.Options{Within: time.Minute}, c)
		if took := time.Since(begun); !errors.Is(err, snapshot.ErrTime) || took != time.Minute || r.Warm() == 0 || c.Len() != r.Warm() {
			t.Errorf("%v after %v, %d entries: %+v", err, took, c.Len(), r)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if r := recover(); r != errBroken {
				t.Errorf("a reader that panics: %v", r)
			}
		}()
		_, _ = snapshot.Read(t.Context(), panicking{}, snapshot.Options{}, alone(t, "users", 0))
	})
}

var errBroken = errors.New("broken")

// panicking is a reader that panics.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic(errBroken) }
