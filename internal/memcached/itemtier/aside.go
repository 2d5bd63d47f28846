package itemtier

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// aside asks a server that may not be the server of the operation which needs the
// answer. The operation can do with an older answer, so it waits for part of its time
// only. Once a server has not answered in that, no operation waits for it: one question at
// a time is under way beside them, until an answer is quick again.
type aside struct{ silent atomic.Bool }

// share is the part of an operation's time that it waits for a server that may be another
// than its own. There are two such questions.
const share = 8

// ask calls f, which asks and remembers the answer. f has ended when ask returns, unless
// the server is silent: then beside runs it.
func (a *aside) ask(ctx context.Context, beside func(what any, f func(context.Context)), f func(context.Context) error) {
	wait := age / share
	if _, end := remote.Split(ctx); !end.IsZero() {
		wait = time.Until(end) / share
	}
	if a.silent.Load() {
		beside(a, func(ctx context.Context) {
			some, cancel := context.WithTimeout(ctx, age)
			defer cancel()
			begun := time.Now()
			err := f(some)
			a.silent.Store(err != nil || time.Since(begun) > wait)
		})
		return
	}
	some, cancel := remote.WithTimeout(ctx, wait)
	defer cancel()
	if err := f(some); err != nil && ctx.Err() == nil {
		a.silent.Store(true)
	}
}
