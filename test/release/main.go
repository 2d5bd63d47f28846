// Command release prepares a release of all modules of a repository: a changelog section,
// go.mod files with requirements that can be fetched, and a tag for each module.
//
//	scripts/release [-write] v0.1.0
//
// Two commits come of it. The first one has the tags: its modules require each other at
// the new version and replace nothing. The second one brings the replace lines of
// development back. Both are made in a clone, and every check is made there or before, so
// a refused release, or one that fails half way, leaves the repository as it was. Without
// -write a release that succeeds does so, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	flags := flag.NewFlagSet("scripts/release", flag.ExitOnError)
	dir := flags.String("C", ".", "top folder of the checkout")
	write := flags.Bool("write", false, "commit and tag")
	_ = flags.Parse(os.Args[1:])
	if flags.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: scripts/release [-write] VERSION")
		os.Exit(2)
	}
	if err := run(ctx, *dir, flags.Arg(0), *write, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scripts/release: refused:", err)
		os.Exit(1)
	}
}

// run prepares the release of a version, and with write commits and tags it.
func run(ctx context.Context, dir, name string, write bool, out io.Writer) error {
	v, err := parseVersion(name)
	if err != nil {
		return err
	}
	if v.major > 1 {
		return fmt.Errorf("%v: modules of major version %d need paths that end in /v%d", v, v.major, v.major)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	r := &repository{dir: dir, version: v}
	for _, check := range []func(context.Context) error{r.wantHistory, r.wantClean, r.readModules, r.wantNewTags, r.wantFetchable} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	scratch, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := r.wantCompatible(ctx, filepath.Join(scratch, "api")); err != nil {
		return err
	}
	p, err := r.prepare(ctx, scratch, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", p.changes)
	for _, m := range r.modules {
		fmt.Fprintf(out, "tag %-24s %s\n", m.tag(v), m.path)
	}
	if !write {
		fmt.Fprintln(out, "nothing was written: -write commits and tags")
		return nil
	}
	if err := r.publish(ctx, p); err != nil {
		return err
	}
	var tags []string
	for _, m := range r.modules {
		tags = append(tags, m.tag(v))
	}
	fmt.Fprintf(out, "to publish: git push --atomic origin HEAD %s\n", strings.Join(tags, " "))
	return nil
}
