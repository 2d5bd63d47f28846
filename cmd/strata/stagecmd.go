package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/admin"
	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/stage"
	"github.com/strata-cache/strata/cmd/strata/telemetry"
	"github.com/strata-cache/strata/internal/observe/page"
	"github.com/strata-cache/strata/redis"
)

// stageFlags are the flags of `strata demo` for the stage, for its memory, and for sending its spans and metrics
// to a collector.
type stageFlags struct {
	OTLP   string `name:"otlp" help:"Send spans and metrics of the caches to a collector, by OTLP over HTTP, such as http://127.0.0.1:4318." placeholder:"URL"`
	Memory string `name:"memory-limit" help:"Memory of the process, such as 256MiB: GOMEMLIMIT, and the limit of a guard that evicts while the heap is too large. The mode fill needs it; the default of the stage is 256MiB." placeholder:"SIZE"`
	UI     bool   `name:"ui" help:"Instead of a comparison, show two instances, the origin and L2 under load on one page, to break, mend and restart them. Prints its URL."`
	Script string `help:"Replay actions from a file on that stage, and print a line each second; with --ui on its page, too." placeholder:"FILE" type:"existingfile"`
}

// leastMemory is what the demo needs without its caches.
const leastMemory = 64 << 20

// memoryLimit parses --memory-limit. usual is the limit without the flag.
func (f *stageFlags) memoryLimit(usual int64) (int64, error) {
	if f.Memory == "" {
		return usual, nil
	}
	n, err := humanize.ParseBytes(f.Memory)
	if err != nil || n > 1<<50 {
		return 0, fmt.Errorf("--memory-limit: %q is no size such as 256MiB", f.Memory)
	}
	if n < leastMemory {
		return 0, fmt.Errorf("--memory-limit: %s are less than %s", humanize.IBytes(n), humanize.IBytes(leastMemory))
	}
	return int64(n), nil
}

// limitMemory sets the limit of the memory of the process for the collector, unless it is 0. The limit ends with undo.
func limitMemory(limit int64) (undo func()) {
	if limit == 0 {
		return func() {}
	}
	before := debug.SetMemoryLimit(limit)
	return func() { debug.SetMemoryLimit(before) }
}

// runStage is `strata demo` with --ui or --script.
func (d *demoCommand) runStage(e *environment) error {
	o, script, err := d.stageOptions(e.ctx)
	if err != nil && e.ctx.Err() != nil {
		return nil // it has waited for the script
	}
	if err != nil {
		return usageError{err}
	}
	var listener net.Listener
	// The address is taken first: if it is in use, no server is started in vain.
	if d.Stage.UI {
		if listener, err = d.listen(e.ctx); err != nil {
			return err
		}
		defer listener.Close()
	}
	sent, err := d.openTelemetry(e)
	if err != nil {
		return err
	}
	defer sent.close(e)
	defer limitMemory(o.MemoryLimit)()
	o.Tracer, o.Token = sent.tracer(), page.NewToken()
	s, err := stage.New(e.ctx, o)
	if err != nil {
		return orInterrupted(e.ctx, err)
	}
	defer s.Close()
	// The caches of both instances have the same name inside, so the collector gets names that tell
	// them apart.
	names, services := s.Instances()
	var caches []telemetry.Source
	for i, name := range names {
		caches = append(caches, services[i].Cache("hello on "+name))
	}
	if err := sent.watch(e.ctx, caches...); err != nil {
		return err
	}
	if !d.Stage.UI {
		return s.Play(e.ctx, script, e.stdout)
	}
	return d.serveStage(e, listener, s, script, o.Token)
}

// maxScriptBytes is a little more than the longest script.
const maxScriptBytes = 1 << 20

// stageOptions checks the flags of the stage and reads its script.
func (d *demoCommand) stageOptions(ctx context.Context) (o stage.Options, script stage.Script, err error) {
	// No user waits three minutes for a stale greeting, unless the flag says so.
	o = stage.Options{Origin: d.Origin, TTL: cmp.Or(orZero(d.TTL), stage.DefaultTTL), Latency: orZero(d.OriginLatency)}
	if d.OriginLatency != nil && *d.OriginLatency == 0 {
		o.Latency = -1 // none, in place of the default
	}
	if o.MemoryLimit, err = d.Stage.memoryLimit(stage.DefaultMemoryLimit); err != nil {
		return o, script, err
	}
	switch {
	case d.L2 == "embedded":
	case strings.HasPrefix(d.L2, "redis://"):
		r, err := redis.ParseURL(d.L2)
		if err != nil {
			return o, script, fmt.Errorf("--l2: %w", err)
		}
		if r.Cluster || r.Sentinel.Primary != "" || len(r.Addrs) > 0 {
			return o, script, errors.New("--l2: the stage wants one Redis, not a cluster or sentinels")
		}
		o.Redis = r
	default:
		return o, script, errors.New("--l2: the stage wants embedded or redis://HOST:PORT, which it can cut off")
	}
	if d.Stage.Script == "" {
		return o, script, nil
	}
	text, err := readFile(ctx, d.Stage.Script, maxScriptBytes)
	if err == nil {
		script, err = stage.ParseScript([]byte(text))
	}
	if err != nil {
		err = fmt.Errorf("--script: %w", err)
	}
	return o, script, err
}

// serveStage serves the pages of the stage until the command is interrupted, or the script
// says that it ends.
func (d *demoCommand) serveStage(e *environment, listener net.Listener, s *stage.Stage, script stage.Script, token string) error {
	own, err := s.Page()
	if err != nil {
		return err
	}
	names, services := s.Instances()
	caches := make([]admin.Cache, len(names), len(names)+1)
	mux := http.NewServeMux()
	for i, name := range names {
		caches[i] = services[i].Cache("hello on " + name)
		prefix := "/" + strings.ToLower(name)
		mux.Handle(prefix+"/", http.StripPrefix(prefix, services[i]))
	}
	caches = append(caches, s.Reports().Cache())
	// One page for the caches of both instances, and one below the path of each instance for its
	// own service.
	inside := admin.New(admin.Options{Token: token}, caches...)
	mux.Handle("/debug/strata/", inside)
	mux.Handle("/", own)
	server := hello.NewServer(mux, log.New(io.Discard, "", 0))
	served := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { served <- server.Serve(listener) })
	defer serving.Wait()

	db, l2 := s.Facts()
	fmt.Fprintf(e.stderr, `origin  %s
L2      %s
stage   %[3]s/?token=%[4]s
caches  %[3]s/debug/strata/?token=%[4]s
until Ctrl-C
`, db, l2, baseURL(listener.Addr()), token)
	// The pages are closed first: their streams do not end by themselves, and Shutdown waits for
	// them.
	err = d.playOn(e, s, script, served)
	own.Close()
	inside.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), 2*time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
	return err
}

// playOn plays the script, if there is one, and waits for the end.
func (d *demoCommand) playOn(e *environment, s *stage.Stage, script stage.Script, served <-chan error) error {
	if d.Stage.Script != "" {
		if err := s.Play(e.ctx, script, e.stdout); err != nil || script.HasEnd {
			return err
		}
	}
	select {
	case <-e.ctx.Done():
		if isTerminal(e.stderr) {
			fmt.Fprintln(e.stderr) // after the ^C
		}
		return nil
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	}
}

// sending is the telemetry of a demo; its zero value sends nothing.
type sending struct{ to *telemetry.Telemetry }

// openTelemetry begins to send, if the flags name a collector.
func (d *demoCommand) openTelemetry(e *environment) (s sending, err error) {
	if d.Stage.OTLP != "" {
		s.to, err = telemetry.New(e.ctx, d.Stage.OTLP)
	}
	return s, err
}

func (s sending) tracer() strata.Tracer {
	if s.to == nil {
		return nil
	}
	return s.to.Tracer()
}

func (s sending) watch(ctx context.Context, caches ...telemetry.Source) error {
	if s.to == nil {
		return nil
	}
	return s.to.Watch(ctx, caches...)
}

// close sends the rest.
func (s sending) close(e *environment) {
	if s.to == nil {
		return
	}
	if err := s.to.Close(); err != nil {
		fmt.Fprintln(e.stderr, "strata: the collector did not take everything: "+oneLine(err))
	}
}
