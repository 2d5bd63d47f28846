package carrier_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/carrier"
)

// foreign is a context of another package. It counts the contexts that are derived from it and not yet cancelled.
type foreign struct {
	context.Context //nolint:containedctx // a context itself

	done      chan struct{}
	followers int
}

func (f *foreign) Done() <-chan struct{} { return f.done }

// AfterFunc is called by package context for a derived context, and stop by a cancelled one.
func (f *foreign) AfterFunc(func()) (stop func() bool) {
	f.followers++
	return func() bool { f.followers--; return true }
}

// down is the way to an instance that does not answer.
type down struct{}

func (down) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("down") }

// TestInstanceThatDoesNotAnswerCostsTheContextNothing: a program may ask many instances under one context, which
// lives as long as the program.
func TestInstanceThatDoesNotAnswerCostsTheContextNothing(t *testing.T) {
	ctx := &foreign{Context: context.Background(), done: make(chan struct{})}
	for _, scheme := range []string{"http", "\x00"} { // the second one makes no request
		_, err := carrier.Pull(ctx, carrier.Request{
			Client: &http.Client{Transport: down{}}, URL: &url.URL{Scheme: scheme, Host: "instance"}, Stall: time.Minute,
		})
		if err == nil {
			t.Error("there is an answer")
		}
	}
	if ctx.followers != 0 {
		t.Errorf("%d contexts follow", ctx.followers)
	}
}
