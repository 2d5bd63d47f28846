// Package ending says when a command has to end, and lets it tidy up before: after a signal, and
// after the reader of its output has gone.
package ending

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Signalled returns a context that ends with the first signal that asks the process to
// end. The command then tidies up: it ends the servers that it has started and removes its
// temporary files. A second signal ends the process at once.
func Signalled() context.Context {
	asks := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		asks = append(asks, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), asks...)
	context.AfterFunc(ctx, stop)
	// Without this a write to an output without a reader would end the process before it has tidied
	// up. With it such a write returns an error, also on a connection.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return ctx
}

// errUnread is the cause of the end of a context of WhileRead if a reader has gone.
var errUnread = errors.New("the output has no reader any more")

// OutputGone reports whether err comes from a write to a standard stream without a reader,
// as in "strata version | true", or from Unread.
func OutputGone(err error) bool {
	path, ok := errors.AsType[*fs.PathError](err)
	return errors.Is(err, errUnread) || ok && errors.Is(path, syscall.EPIPE) && (path.Path == os.Stdout.Name() || path.Path == os.Stderr.Name())
}

// Unread returns the error of a command that has ended with a context of WhileRead because a reader has
// gone. It is nil if the context has not ended, or for another reason.
func Unread(read context.Context) error {
	if errors.Is(context.Cause(read), errUnread) {
		return errUnread
	}
	return nil
}

// lookEvery is the time between two looks at the readers of the output.
const lookEvery = time.Second

// WhileRead returns a context that ends with ctx, and soon after the reader of a pipe among the
// streams has gone. A command that writes little would not notice, and run on although nothing
// is left that could end it. The caller calls end.
func WhileRead(ctx context.Context, streams ...any) (read context.Context, end func()) {
	var pipes []*os.File
	for _, s := range streams {
		if f, ok := s.(*os.File); ok && isPipe(f) {
			pipes = append(pipes, f)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if len(pipes) == 0 {
		return ctx, func() { cancel(nil) }
	}
	var looking sync.WaitGroup
	looking.Go(func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			for _, f := range pipes {
				if hungUp(f) {
					cancel(errUnread)
					return
				}
			}
		}
	})
	return ctx, func() { cancel(nil); looking.Wait() }
}

// isPipe reports whether a file is a pipe, or a socket, which some parents use in place of one.
func isPipe(f *os.File) bool {
	about, err := f.Stat()
	return err == nil && about.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0
}
