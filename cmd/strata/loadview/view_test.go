package loadview

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// output is a writer that calls a function once, at the first write with a text.
type output struct {
	mu   sync.Mutex // guards below
	text bytes.Buffer
	then map[string]func()
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	for text, f := range o.then {
		if strings.Contains(o.text.String(), text) {
			delete(o.then, text)
			f()
		}
	}
	return len(p), nil
}

// show runs a load on a server of its own with a view.
func show(t *testing.T, ctx context.Context, duration time.Duration, in io.Reader, out *output) *load.Result {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(server.Close)
	var errs bytes.Buffer
	res, err := Run(ctx, load.Options{URL: server.URL, Rate: 100, Concurrency: 2, Duration: duration},
		Options{Target: server.URL, In: in, Out: out, Err: &errs})
	if err != nil || errs.Len() > 0 {
		t.Fatalf("error %v, stderr %q", err, errs.String())
	}
	return res
}

func TestViewEndsWithTheLoad(t *testing.T) {
	in, _ := io.Pipe()
	out := &output{}
	res := show(t, t.Context(), 700*time.Millisecond, in, out)
	if res.Interrupted || res.Done == 0 || res.Changes != 0 {
		t.Errorf("result is %+v", res)
	}
	if !strings.Contains(out.text.String(), "strata load") {
		t.Errorf("the view is %q", out.text.String())
	}
}

func TestKeysChangeAndEndARunningLoad(t *testing.T) {
	in, keys := io.Pipe()
	var typing sync.WaitGroup
	press := func() { typing.Go(func() { io.WriteString(keys, "\x1b[A\x1b[Cq") }) }
	out := &output{then: map[string]func(){"p50": press}}
	res := show(t, t.Context(), time.Minute, in, out)
	typing.Wait()
	if want := (load.Settings{Rate: 110, Concurrency: 3}); !res.Interrupted || res.Changes != 2 || res.Settings != want {
		t.Errorf("result is %+v", res)
	}
}

func TestEndOfTheContextEndsTheView(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, _ := io.Pipe()
	res := show(t, ctx, time.Minute, in, &output{then: map[string]func(){"p50": cancel}})
	if !res.Interrupted {
		t.Errorf("result is %+v", res)
	}
}

func TestBadOptionsAreToldBeforeTheViewBegins(t *testing.T) {
	out := &output{}
	_, err := Run(t.Context(), load.Options{URL: "http://127.0.0.1/", Concurrency: 0, Duration: time.Second}, Options{In: strings.NewReader(""), Out: out, Err: io.Discard})
	if err == nil || out.text.Len() > 0 {
		t.Errorf("error %v, output %q", err, out.text.String())
	}
}

// unreadable is an input that fails.
type unreadable struct{}

func (unreadable) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

func TestLoadOutlivesABrokenView(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer server.Close()
	var errs bytes.Buffer
	res, err := Run(t.Context(), load.Options{URL: server.URL, Rate: 100, Concurrency: 2, Duration: 300 * time.Millisecond},
		Options{Target: server.URL, In: unreadable{}, Out: &output{}, Err: &errs})
	if err != nil || res.Done == 0 || res.Interrupted {
		t.Errorf("error %v, result %+v", err, res)
	}
	if !strings.Contains(errs.String(), "the load goes on") {
		t.Errorf("stderr is %q", errs.String())
	}
}
