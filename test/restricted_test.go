//go:build unix

package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// fewArguments is the bound of a command on some hosted servers.
const fewArguments = 3999

// restricted are servers that permit less than Redis does. The server does not know
// commands that were renamed away.
var restricted = []struct { // read-only
	name    string
	without string
	// start returns another server than a Redis without some commands. An error
	// says why it cannot be had.
	start func(t *testing.T) (addr string, err error)
	// warning is a part of the only warning of Probe; empty: there is none. down
	// says that L2 does nothing: each instance loads for itself. Where connections
	// are refused, warning is a part of the error of Probe.
	warning string
	down    bool
}{
	{name: "nothing is missing"},
	{name: "no CONFIG, INFO", without: "CONFIG INFO", warning: "INFO is not permitted"},
	{name: "no HELLO, CLIENT", without: "HELLO CLIENT"},
	{name: "no CLUSTER, ROLE", without: "CLUSTER ROLE"},
	{name: "no scripts", without: "EVAL EVALSHA SCRIPT FUNCTION FCALL", warning: "scripts are not permitted"},
	{name: "no engine for scripts", start: withoutLua, warning: "scripts are not permitted"},
	{name: "no EVAL, WATCH", without: "EVAL EVALSHA WATCH", warning: "neither scripts nor WATCH", down: true},
	{name: "no PUBLISH", without: "PUBLISH", warning: "PUBLISH is not permitted", down: true},
	{name: "twemproxy", start: twemproxy, warning: "redis: greet: EOF", down: true},
}

// TestRestrictedServers prints a row for each server. No command has more
// arguments than the strictest server takes.
func TestRestrictedServers(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, row := range restricted {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // it waits most of the time
			addr := ""
			if row.start != nil {
				var err error
				if addr, err = row.start(t); err != nil {
					t.Skip(err)
				}
			} else {
				addr = withoutCommands(t, strings.Fields(row.without)).Addr
			}
			var most atomic.Int64
			o := redis.Options{Addr: addr, Timeout: patience, DialContext: countArguments(&most)}
			warnings := probe(t, o)
			one := row.warning != "" && len(warnings) == 1 && strings.Contains(warnings[0], row.warning)
			if !one && len(warnings)+len(row.warning) > 0 {
				t.Errorf("Probe warns of %q; want one sentence with %q", warnings, row.warning)
			}
			loads := useBoth(t, o, row.down)
			if most.Load() > fewArguments {
				t.Errorf("a command has %d arguments", most.Load())
			}
			t.Logf("| %-22s | L2 %-5t | %d loads | at most %d arguments | %s |", row.name, !row.down, loads, most.Load(), strings.Join(warnings, "; "))
			if !row.down && !testing.Short() {
				stratatest.TestTier(t, func(t *testing.T) (remote.Tier, func(time.Duration)) {
					return redis.NewTier(client(t, o)), pause
				})
			}
		})
	}
}

// withoutCommands starts a server that does not know some commands.
func withoutCommands(t *testing.T, commands []string) *servers.Redis {
	t.Helper()
	var args []string
	for _, c := range commands {
		args = append(args, "--rename-command", c, "")
	}
	return servers.StartRedis(t, args...)
}

// withoutLua starts a server and unloads its engine, which only Valkey can.
func withoutLua(t *testing.T) (string, error) {
	program, err := servers.Program("redis-server", "redis-server")
	if err != nil {
		return "", err
	}
	version, err := exec.Command(program, "--version").Output()
	if err != nil || !strings.HasPrefix(string(version), "Valkey server v=9") {
		return "", fmt.Errorf("the engine for scripts can be unloaded from Valkey 9.1, not from this: %.40s", version)
	}
	r := servers.StartRedis(t, "--enable-module-command", "yes")
	if err := r.Client(t, patiently).Do(t.Context(), "MODULE", "UNLOAD", "lua").Err(); err != nil {
		return "", fmt.Errorf("the engine for scripts was not unloaded: %w", err)
	}
	return r.Addr, nil
}

// twemproxy starts nutcracker before a server.
func twemproxy(t *testing.T) (string, error) {
	program, err := exec.LookPath("nutcracker")
	if err != nil {
		return "", errors.New("nutcracker, the proxy, is not installed")
	}
	port, stats := servers.Port(t), servers.Port(t)
	addr, dir := fmt.Sprint("127.0.0.1:", port), t.TempDir()
	config := fmt.Sprintf("pool:\n  listen: %s\n  redis: true\n  distribution: ketama\n  servers:\n   - %s:1\n", addr, servers.StartRedis(t).Addr)
	path := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return "", err
	}
	p, err := servers.Start(exec.Command(program, "-c", path, "-s", fmt.Sprint(stats), "-m", "16384"))
	if err != nil {
		return "", err
	}
	t.Cleanup(p.Kill)
	return addr, p.Await(func() error {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
		}
		return err
	})
}

// countArguments dials connections that note the most arguments of a command.
func countArguments(most *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		r, w := io.Pipe()
		go func() {
			commands := resp.NewReader(r, resp.Limits{})
			for {
				args, err := commands.ReadCommand()
				if err != nil {
					r.CloseWithError(io.ErrClosedPipe)
					return
				}
				for n := most.Load(); int64(len(args)) > n && !most.CompareAndSwap(n, int64(len(args))); n = most.Load() {
				}
			}
		}()
		return &counted{nc, w}, nil
	}
}

// counted is a connection that copies its commands, so that their arguments can
// be counted.
type counted struct {
	net.Conn
	copy *io.PipeWriter
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	_, _ = c.copy.Write(p[:n]) // a command in pieces is not counted
	return n, err
}

func (c *counted) Close() error {
	c.copy.Close()
	return c.Conn.Close()
}

// probe returns the warnings about a server.
func probe(t *testing.T, o redis.Options) []string {
	t.Helper()
	tier := redis.NewTier(client(t, o)).Bind(remote.Space{Name: "probe", Schema: 1})
	warnings, err := tier.(remote.Prober).Probe(t.Context())
	if err != nil {
		return []string{err.Error()}
	}
	return warnings
}

// useBoth lets two instances of a cache use a server, and returns how often both
// have loaded. down says that they can share nothing.
func useBoth(t *testing.T, o redis.Options, down bool) int64 {
	t.Helper()
	var loads, version atomic.Int64
	load := func(context.Context, string) (int64, error) {
		loads.Add(1)
		return version.Load(), nil
	}
	many := func(_ context.Context, keys []string) (map[string]int64, error) {
		m := map[string]int64{}
		for _, k := range keys {
			m[k] = version.Load()
		}
		return m, nil
	}
	a, b := restrictedCache(t, o, load), restrictedCache(t, o, load)
	read := func(c *strata.Cache[string, int64], key string) int64 {
		v, err := c.GetOrLoad(t.Context(), key, load, strata.WithTags("tag"))
		if err != nil {
			t.Error(err)
		}
		return v
	}
	drops := map[string]func() error{
		"Invalidate":     func() error { return a.Invalidate(t.Context(), "k") },
		"InvalidateTags": func() error { return a.InvalidateTags(t.Context(), "tag") },
		"InvalidateAll":  func() error { return a.InvalidateAll(t.Context()) },
	}
	for name, drop := range drops {
		read(a, "k")
		read(b, "k")
		v := version.Add(1)
		if err := drop(); (err != nil) != down {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(a, "k"); got != v {
			t.Errorf("after %s: %d, want %d", name, got, v)
		}
		for deadline := time.Now().Add(patience); !down && read(b, "k") != v; <-time.After(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the other instance does not hear of %s", name)
			}
		}
	}
	keys := make([]string, 2*fewArguments)
	for i := range keys {
		keys[i] = fmt.Sprint("many", i)
	}
	if m, err := a.GetMany(t.Context(), keys, many); err != nil || len(m) != len(keys) {
		t.Errorf("%d of %d keys: %v", len(m), len(keys), err)
	}
	for name, err := range map[string]error{
		"Invalidate": a.Invalidate(t.Context(), keys...), "InvalidateTags": a.InvalidateTags(t.Context(), keys...),
	} {
		if (err != nil) != down {
			t.Errorf("%s of many: %v", name, err)
		}
	}
	return loads.Load()
}

func restrictedCache(t *testing.T, o redis.Options, load strata.Loader[string, int64]) *strata.Cache[string, int64] {
	t.Helper()
	c := client(t, o)
	opts := stratatest.Plain(strata.Options[string, int64]{Name: "restricted", TTL: time.Hour, Loader: load})
	opts.Remote.Tier, opts.Remote.Bus, opts.Remote.Timeout = redis.NewTier(c), redis.NewBus(c), patience
	cache, err := strata.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = cache.Close(ctx) // drops may be pending
	})
	return cache
}
