// Command strata demonstrates and measures caches.
//
//	strata demo       a service with and without a cache, under load
//	strata load URL   a load generator for any URL
//	strata top URL    the caches of a program, in a terminal
//	strata snapshot   moves entries between instances and files, and shows them
//	strata version    the version of the command
//	strata help       the commands, or with the name of a command its flags
//
// The exit status is 0 after success, and after a signal has ended a demo, a load or a
// table, 2 after an error in the arguments, and 1 after any other error: also if every
// answer that a load got was one, if a snapshot was interrupted, cut or damaged, and,
// without a text, if the output has no reader any more. Results are written to standard
// output, all other text to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/strata-cache/strata/cmd/strata/ending"
	"github.com/strata-cache/strata/cmd/strata/snapshotcmd"
)

func main() {
	os.Exit(run(ending.Signalled(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes the command and returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := execute(&environment{ctx: ctx, stdin: stdin, stdout: stdout, stderr: stderr}, args)
	if err == nil {
		return succeeded
	}
	if ending.OutputGone(err) {
		return failed
	}
	fmt.Fprintln(stderr, "strata: "+oneLine(err))
	_, ours := errors.AsType[usageError](err)
	_, theirs := errors.AsType[snapshotcmd.UsageError](err)
	if ours || theirs {
		return misused
	}
	return failed
}

// The exit statuses. docs/guide/command.md describes them.
const (
	succeeded = 0
	failed    = 1
	misused   = 2
)

// oneLine returns the text of an error, which may be joined, in one line. Characters that
// may control a terminal are escaped, because some texts come from other machines.
func oneLine(err error) string {
	return graphic(strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
}

// graphic returns text with escapes for all characters without a visible form.
func graphic(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsGraphic(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
