package carrier_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/internal/snapshot/carrier"
)

// foreign is a context of another package: one derived from it costs a goroutine until it is cancelled.
type foreign struct {
	context.Context //nolint:containedctx // a context itself
	done            chan struct{}
}

func (f foreign) Done() <-chan struct{} { return f.done }

// down is the way to an instance that does not answer.
type down struct{}

func (down) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("down") }

// TestInstanceThatDoesNotAnswerCostsTheContextNothing: a program may ask many instances under one context, which
// lives as long as the program.
func TestInstanceThatDoesNotAnswerCostsTheContextNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := foreign{context.Background(), make(chan struct{})}
		defer close(ctx.done)
		before := runtime.NumGoroutine()
		for _, scheme := range []string{"http", "\x00"} { // the second one makes no request
			_, err := carrier.Pull(ctx, carrier.Request{
				Client: &http.Client{Transport: down{}}, URL: &url.URL{Scheme: scheme, Host: "instance"}, Stall: time.Second,
			})
			if err == nil {
				t.Error("there is an answer")
			}
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%d goroutines follow the context", n-before)
		}
	})
}
