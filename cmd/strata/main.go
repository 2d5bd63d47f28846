// Command strata shows and measures caches.
//
//	strata demo       a service with and without a cache, under load
//	strata load URL   a load generator for any URL
//
// It exits with 0 if all went well or was interrupted, with 2 if it was called
// wrongly, and with 1 if it could not do what it was asked. Results go to
// standard output, all else to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once the first signal has been heard, the next one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the command without its process. It returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := execute(&environment{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}, args)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "strata: "+oneLine(err))
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	return 1
}

// oneLine is the text of an error, which may have been joined of several.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
