// Package overdue says that a caller's time is over. A timer may run late, and a connection
// may fail, or a limit of this program end, at the same instant as the caller's time.
// Invariant: after a caller's deadline its error wraps context.DeadlineExceeded, whichever
// timer ran first.
package overdue

import (
	"context"
	"time"
)

// Err is ctx.Err, and context.DeadlineExceeded from the deadline of ctx on.
func Err(ctx context.Context) error { return Reason(ctx, nil) }

// Reason returns the reason why an operation under ctx has failed with err: ctx.Err() if
// ctx has ended, context.DeadlineExceeded if its deadline has passed, else err.
func Reason(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if d, bounded := ctx.Deadline(); bounded && !time.Now().Before(d) {
		return context.DeadlineExceeded // which ctx.Err returns in a moment
	}
	return err
}
