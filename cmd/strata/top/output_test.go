package top

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fullDisk is an output on a full disk.
type fullDisk struct{}

var errFull = errors.New("no space is left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// TestOutputThatTakesNoTableEndsTheTables: to try again would be in vain, and for ever.
func TestOutputThatTakesNoTableEndsTheTables(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"caches":[]}`)
	}))
	defer page.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var said strings.Builder
	err := Run(ctx, Options{URL: page.URL, Plain: true, Every: time.Millisecond, Out: fullDisk{}, Err: &said})
	if !errors.Is(err, errFull) || said.Len() > 0 || ctx.Err() != nil {
		t.Errorf("%v, %q, and the context: %v", err, said.String(), ctx.Err())
	}
}
