package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/strata-cache/strata"
)

// TestClearingIsRepeatedUntilL2HasConfirmedIt: an error of the origin stays one, and is told at once.
func TestClearingIsRepeatedUntilL2HasConfirmedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, broken := error(&strata.RemoteError{Op: "invalidate all", Pending: 1, Err: context.DeadlineExceeded}), errors.New("no origin")
		for _, tt := range []struct {
			name   string
			errs   []error
			want   error
			leaves bool
			calls  int
		}{
			{name: "confirmed", errs: []error{nil}, calls: 1},
			{name: "late", errs: []error{late, errors.Join(late), nil}, calls: 3},
			{name: "broken", errs: []error{late, broken}, want: broken, calls: 2},
			{name: "left", errs: []error{late}, want: late, leaves: true, calls: 1},
			{name: "dead", errs: []error{late}, want: late, calls: 50},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			err := untilConfirmed(ctx, func() error {
				if tt.leaves {
					cancel()
				}
				calls++
				return tt.errs[min(calls, len(tt.errs))-1]
			})
			cancel()
			if !errors.Is(err, tt.want) || calls != tt.calls {
				t.Errorf("%s: %v after %d calls; want %v after %d", tt.name, err, calls, tt.want, tt.calls)
			}
		}
	})
}
