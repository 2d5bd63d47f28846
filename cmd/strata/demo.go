package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/strata-cache/strata/cmd/strata/ending"
	"github.com/strata-cache/strata/cmd/strata/hello"
	"github.com/strata-cache/strata/cmd/strata/load"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/cmd/strata/telemetry"
	"github.com/strata-cache/strata/internal/observe/page"
	"github.com/strata-cache/strata/internal/wire"
)

// demoCommand is `strata demo`.
type demoCommand struct {
	Addr  string   `default:"127.0.0.1:8008" help:"Address to serve on (${default})." placeholder:"HOST:PORT"`
	Modes []string `default:"none,naive,strata,restarted,warm-keys,warm-transfer" help:"Modes to compare, in this order; without the flag none, naive, strata, restarted, warm-keys and warm-transfer. There is also fill, which fills the memory. The service stays in the last one." placeholder:"MODES"`
	Exit  bool     `help:"Exit after the comparison."`

	servingFlags
	Stage stageFlags `embed:""`

	Origin        string         `default:"sqlite" help:"Database: sqlite (a temporary file), sqlite:PATH or postgres://..." placeholder:"URL"`
	OriginConns   int            `help:"Largest number of connections to the database, -1 for no bound. The default is 1 for SQLite and no bound for PostgreSQL." placeholder:"N"`
	OriginLatency *time.Duration `help:"Time added to each query (0s; with --ui or --script 20ms)." placeholder:"TIME"`
	L2            string         `name:"l2" default:"embedded" help:"Store that instances share: embedded (a Redis in this process), none, redis://HOST:PORT or memcached://HOST:PORT,... (${default})." placeholder:"URL"`
	TTL           *time.Duration `name:"ttl" help:"Time for which greetings are fresh (3m; with --ui or --script 30s)." placeholder:"TIME"`
	MaxEntries    int            `default:"10000" help:"Largest number of greetings in the memory of strata (${default})." placeholder:"N"`

	Cardinality int           `default:"10000" help:"Number of different URLs (${default})." placeholder:"N"`
	Group       int           `default:"100" help:"Requests for the same URL that start at once (${default}). With 1 no loads are shared, and each first read costs a look-up in L2." placeholder:"N"`
	Rate        float64       `default:"5000" help:"Requests per second, 0 for as many as the service answers (${default}). With 0, the factor between none and strata is shown below the table." placeholder:"N"`
	Concurrency int           `default:"200" help:"Largest number of running requests (${default})." placeholder:"N"`
	Duration    time.Duration `default:"5s" help:"Time of load in each mode (${default})." placeholder:"TIME"`
}

// servingFlags are flags of a demo that serves and compares nothing.
type servingFlags struct {
	Serve    bool   `help:"Serve without a comparison."`
	WarmFrom string `help:"With --serve: take over the entries of another demo before the service listens. The address is that of its snapshot, with its token." placeholder:"URL"`
}

// Help is the text above the flags.
func (*demoCommand) Help() string {
	return `Each greeting is composed and recorded by a database query. The load is the same in each mode.
Beside it, 10,000 keys that were loaded together expire without and with jitter, unless the comparison is
short. The tables are written to standard output. After them the service runs until a signal ends it
(SIGINT, SIGTERM or SIGHUP), or until its output is a pipe without a reader. It leaves no process and no
file behind.`
}

// AfterApply refuses flags that this demo would ignore. The parser calls it.
func (d *demoCommand) AfterApply(at *kong.Context) error {
	ofLoad := []string{"cardinality", "group", "rate", "concurrency", "duration"}
	switch {
	case d.Stage.UI || d.Stage.Script != "":
		return noFlag(at, "--ui and --script have a load and two services of their own", append(ofLoad, "modes", "origin-conns", "max-entries"))
	case d.Serve:
		return noFlag(at, "--serve sends no load", ofLoad)
	}
	return nil
}

// noFlag returns an error with the reason if one of the flags with these names was given.
func noFlag(at *kong.Context, why string, names []string) error {
	for _, word := range at.Path { // as they were given: not the defaults
		if word.Flag != nil && slices.Contains(names, word.Flag.Name) {
			return fmt.Errorf("--%s: %s", word.Flag.Name, why)
		}
	}
	return nil
}

// Run runs the command.
func (d *demoCommand) Run(e *environment) error {
	p, err := d.check()
	if err != nil {
		return usageError{err}
	}
	// A demo whose output goes into a pipe, for instance to head, ends with the reader of the pipe:
	// the rest would have no reader.
	ctx, end := ending.WhileRead(e.ctx, e.stdout, e.stderr)
	defer end()
	err = d.run(&environment{ctx: ctx, stdin: e.stdin, stdout: e.stdout, stderr: e.stderr}, p)
	// For the demo the end of the reader is an end like a signal. For a script it is none.
	return cmp.Or(ending.Unread(ctx), err)
}

// run runs the demo until the context of e ends, or until an --exit.
func (d *demoCommand) run(e *environment, p plan) error {
	if d.Stage.UI || d.Stage.Script != "" {
		return d.runStage(e)
	}
	db, err := origin.Open(e.ctx, origin.Options{URL: d.Origin, MaxConns: d.OriginConns, Latency: orZero(d.OriginLatency)})
	if err != nil {
		return orInterrupted(e.ctx, fmt.Errorf("--origin: %w", err))
	}
	defer db.Close()
	shared, err := p.openL2(e.ctx)
	if err != nil {
		return orInterrupted(e.ctx, err)
	}
	defer shared.close()

	sent, err := d.openTelemetry(e)
	if err != nil {
		return err
	}
	defer sent.close(e)
	defer limitMemory(p.memory)()
	o := d.service(p, db, shared)
	var reports *hello.Reports
	if p.memory > 0 {
		if reports, err = hello.NewReports(p.memory); err != nil {
			return err
		}
		defer reports.Close(e.ctx)
		o.Guard = reports.Guard()
	}
	o.Tracer, o.Token = sent.tracer(), page.NewToken()
	if d.Serve {
		o.Logger = slog.New(slog.NewTextHandler(e.stderr, nil))
	}
	service, err := hello.New(o)
	if err != nil {
		return err
	}
	defer closeService(service)
	if err := sent.watch(e.ctx, service.Cache("hello")); err != nil {
		return err
	}
	// The memory is filled before the address is taken, so that the first request already meets a
	// warm cache.
	d.warm(e, service)
	listener, err := d.listen(e.ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	c := d.comparison(p, listener.Addr())
	c.reports = reports
	c.service, c.token, c.facts = service, o.Token, append(d.facts(db), shared.facts()...)
	return d.serve(e, listener, service, c)
}

// comparison returns the comparison of a service that listens on addr.
func (d *demoCommand) comparison(p plan, addr net.Addr) *comparison {
	return &comparison{load: d.options(addr), phases: p.phases, beside: newSynchrony(p.phases, d.Duration)}
}

// service returns the options of the service.
func (d *demoCommand) service(p plan, db *origin.Origin, shared *l2) hello.Options {
	return hello.Options{
		Origin: db, TTL: orZero(d.TTL), MaxEntries: d.MaxEntries,
		Tier: shared.tier, Bus: shared.bus, MemoryTTL: shared.memoryTTL, Mode: p.phases[len(p.phases)-1].mode(),
	}
}

// warm takes over the entries of --warm-from. A service that cannot have them starts cold.
func (d *demoCommand) warm(e *environment, service *hello.Service) {
	if d.WarmFrom == "" {
		return
	}
	r, err := service.TakeOver(e.ctx, d.WarmFrom)
	if e.ctx.Err() != nil {
		return
	}
	if err != nil && r.Warm() == 0 { // the log has said why
		fmt.Fprintln(e.stderr, "--warm-from: nothing was taken over: the service starts with an empty memory")
		return
	}
	fmt.Fprintf(e.stderr, "took over %s of %s in %s, before the first request\n", count(int64(r.Warm())), plural(int64(r.Entries()), "entry", "entries"), duration(r.Took))
}

// listen binds the address.
func (d *demoCommand) listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", d.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use; choose another address with --addr", d.Addr)
	}
	if err != nil {
		return nil, fmt.Errorf("--addr: %w", err)
	}
	return listener, nil
}

// plan is the parsed form of three flags: the phases of --modes, the opener of the store of --l2, and
// --memory-limit in bytes, 0 without it.
type plan struct {
	phases []phase
	memory int64
	openL2 opener
}

// check checks the flags beyond the grammar, before anything is opened.
func (d *demoCommand) check() (p plan, err error) {
	if d.Exit && d.Serve {
		return p, errors.New("--exit and --serve exclude each other")
	}
	if (d.Stage.UI || d.Stage.Script != "") && (d.Exit || d.Serve) {
		return p, errors.New("--ui and --script exclude --exit and --serve")
	}
	// Another demo can only be taken over by a service whose memory is not emptied again, as each
	// phase of a comparison does.
	if d.WarmFrom != "" {
		if !d.Serve {
			return p, errors.New("--warm-from needs --serve")
		}
		at, err := wire.ParseHTTP(d.WarmFrom)
		if err == nil {
			_, err = wire.Query(at)
		}
		if err != nil {
			return p, fmt.Errorf("--warm-from: %w", err)
		}
	}
	if err := d.checkAddr(); err != nil {
		return p, err
	}
	if err := d.checkNumbers(); err != nil {
		return p, err
	}
	if d.Stage.OTLP != "" {
		if err := telemetry.Check(d.Stage.OTLP); err != nil {
			return p, fmt.Errorf("--otlp: %w", err)
		}
	}
	if err := origin.CheckURL(d.Origin); err != nil {
		return p, fmt.Errorf("--origin: %w", err)
	}
	if p.openL2, err = parseL2(d.L2); err != nil {
		return p, fmt.Errorf("--l2: %w", err)
	}
	if p.memory, err = d.Stage.memoryLimit(0); err != nil {
		return p, err
	}
	p.phases, err = d.phases()
	if err == nil && p.memory == 0 && slices.Contains(p.phases, fill) {
		err = fmt.Errorf("%s needs --memory-limit", fill)
	}
	if err != nil {
		return p, fmt.Errorf("--modes: %w", err)
	}
	return p, d.checkLoad()
}

// checkAddr checks --addr.
func (d *demoCommand) checkAddr() error {
	_, port, err := net.SplitHostPort(d.Addr)
	if err != nil {
		return errors.New("--addr: want HOST:PORT")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errors.New("--addr: the port is not a number from 0 to 65535")
	}
	return nil
}

// orZero is the time of a flag, and zero without the flag, which stands for the default.
func orZero(flag *time.Duration) time.Duration {
	if flag == nil {
		return 0
	}
	return *flag
}

// checkNumbers checks numbers and times for the service.
func (d *demoCommand) checkNumbers() error {
	switch {
	case orZero(d.OriginLatency) < 0:
		return fmt.Errorf("--origin-latency: %v is negative", *d.OriginLatency)
	case d.TTL != nil && *d.TTL < time.Millisecond:
		return fmt.Errorf("--ttl: %v is less than 1ms", *d.TTL)
	case d.MaxEntries <= 0:
		return fmt.Errorf("--max-entries: %d is not positive", d.MaxEntries)
	case d.OriginConns < -1:
		return fmt.Errorf("--origin-conns: %d is less than -1", d.OriginConns)
	}
	return nil
}

// checkLoad checks the flags of the load.
func (d *demoCommand) checkLoad() error {
	// The load checks its own bounds. It wants an address, but only looks at its form.
	if err := d.options(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}).Validate(); err != nil {
		return err
	}
	// Zero means a default in load.Options.
	switch {
	case d.Cardinality == 0:
		return errors.New("--cardinality: 0 is not positive")
	case d.Group == 0:
		return errors.New("--group: 0 is not positive")
	}
	return nil
}

// phases parses --modes. Without L2 it omits the phase warm-keys, which would show nothing.
func (d *demoCommand) phases() ([]phase, error) {
	var phases []phase
	for _, name := range d.Modes {
		p, err := parsePhase(name)
		_, isStart := starts[p]
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(phases, p):
			return nil, fmt.Errorf("%s is named twice", p)
		case isStart && !slices.Contains(phases, phase(hello.Strata)):
			return nil, fmt.Errorf("%s must come after %s", p, hello.Strata)
		case p == warmKeys && d.L2 == "none":
			continue
		}
		phases = append(phases, p)
	}
	if len(phases) == 0 {
		return nil, errors.New("the list is empty")
	}
	return phases, nil
}

// options returns the load on a service that listens on addr.
func (d *demoCommand) options(addr net.Addr) load.Options {
	return load.Options{
		URL:         baseURL(addr) + "/hello?name=World{i}&locale=ru-RU",
		Cardinality: d.Cardinality, Group: d.Group,
		Rate: d.Rate, Concurrency: d.Concurrency, Duration: d.Duration,
	}
}

// baseURL returns the URL of a listener for clients on this machine.
func baseURL(addr net.Addr) string {
	host, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// facts returns the origin of the measurement.
func (d *demoCommand) facts(db *origin.Origin) facts {
	latency := ""
	if added := orZero(d.OriginLatency); added > 0 {
		latency = ", " + duration(added) + " added to each query"
	}
	return facts{{"origin", db.String() + latency}}
}

// serve runs the server and the comparison until the command is interrupted.
func (d *demoCommand) serve(e *environment, listener net.Listener, service *hello.Service, c *comparison) error {
	server := hello.NewServer(service, log.New(io.Discard, "", 0))
	// The channel has room for the error, so that the server can end before its end is awaited.
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	err := d.present(e, baseURL(listener.Addr()), c)
	if err == nil && !d.Exit {
		select {
		case <-e.ctx.Done():
			if isTerminal(e.stderr) {
				fmt.Fprintln(e.stderr) // after the ^C
			}
		case err = <-served:
			return fmt.Errorf("serve: %w", err)
		}
	}
	// Running requests get two seconds to end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), 2*time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
	if e := <-served; err == nil && !errors.Is(e, http.ErrServerClosed) {
		err = fmt.Errorf("serve: %w", e)
	}
	return err
}

// present runs the comparison, unless --serve, and prints commands to try.
func (d *demoCommand) present(e *environment, base string, c *comparison) error {
	if !d.Serve {
		if err := c.run(e); err != nil {
			return err
		}
	}
	// Commands to try are of no use for a service that is about to end.
	if d.Exit || e.ctx.Err() != nil {
		return nil
	}
	fmt.Fprintf(e.stderr, `
serving %[1]s in mode %[2]s until Ctrl-C; try
  curl '%[1]s/hello?name=World&locale=ru-RU'
  curl -X PUT '%[1]s/mode?mode=%[3]s'
  curl %[1]s/stats
  curl %[1]s/metrics
  curl -X DELETE %[1]s/hello
  curl -H 'Cache-Control: no-cache' '%[1]s/hello?name=World&locale=ru-RU&token=%[4]s'
  strata snapshot inspect '%[1]s/snapshot?token=%[4]s'
  strata demo --serve --addr 127.0.0.1:0 --warm-from '%[1]s/snapshot?token=%[4]s'
`, base, c.service.Mode(), otherMode(c.service.Mode()), c.token)
	return nil
}

// otherMode is a mode to try next.
func otherMode(m hello.Mode) hello.Mode {
	if m == hello.Naive {
		return hello.Strata
	}
	return hello.Naive
}

func closeService(s *hello.Service) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	// The process is about to end, so an error is ignored.
	_ = s.Close(ctx)
}

// orInterrupted returns err unless it is a consequence of an interruption.
func orInterrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
