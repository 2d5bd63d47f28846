//go:build unix

package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/strata-cache/strata/redis"
)

// DownAfter is the time without an answer after which sentinels take a primary for dead.
// A failover begins up to a second later.
const DownAfter = time.Second

// PrimaryName is the name under which sentinels watch.
const PrimaryName = "mymaster"

// Watched are servers that sentinels watch: a primary and its replicas. Its methods
// are for one goroutine at a time.
type Watched struct {
	// Servers are the primary, as it was at first, and its replicas.
	Servers []*Redis

	t         testing.TB
	sentinels []*sentinel
}

// sentinel is one process.
type sentinel struct {
	addr string
	p    *Process
}

// StartWatched starts a primary with replicas, and three sentinels that watch them,
// and waits until all know each other. args are arguments of the servers.
func StartWatched(t testing.TB, replicas int, args ...string) *Watched {
	t.Helper()
	w := &Watched{t: t}
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	for i := range 1 + replicas {
		w.Servers = append(w.Servers, StartRedis(t, args...))
		if i > 0 {
			host, port, _ := net.SplitHostPort(w.Servers[0].Addr)
			w.must(w.Servers[i].Addr, "REPLICAOF", host, port)
		}
	}
	w.await("replicas follow", func() bool {
		return strings.Count(w.must(w.Servers[0].Addr, "INFO", "replication"), "state=online") == replicas
	})
	for range 3 {
		w.sentinels = append(w.sentinels, w.startSentinel())
	}
	w.await("sentinels know all", func() bool {
		for _, s := range w.sentinels {
			m := w.master(s.addr)
			if m["num-slaves"] != strconv.Itoa(replicas) || m["num-other-sentinels"] != "2" {
				return false
			}
		}
		return true
	})
	return w
}

// startSentinel starts a sentinel.
func (w *Watched) startSentinel() *sentinel {
	w.t.Helper()
	program, err := Program("redis-server", "redis-server")
	if err != nil {
		w.t.Fatal(err)
	}
	port := Port(w.t)
	dir := w.t.TempDir()
	host, primary, _ := net.SplitHostPort(w.Servers[0].Addr)
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n", port, dir) +
		fmt.Sprintf("sentinel monitor %s %s %s 2\n", PrimaryName, host, primary) +
		fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", PrimaryName, DownAfter.Milliseconds()) +
		fmt.Sprintf("sentinel failover-timeout %s 4000\n", PrimaryName)
	path := filepath.Join(dir, "sentinel.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	s := &sentinel{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if s.p, err = Start(exec.Command(program, path, "--sentinel")); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.p.Kill)
	if err := s.p.Await(func() error { return w.ping(s.addr) }); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *Watched) ping(addr string) error {
	_, err := w.ask(addr, "PING")
	return err
}

// Client returns a client of the primary, and closes it when the test ends.
func (w *Watched) Client(t testing.TB, changes ...func(*redis.Options)) *redis.Client {
	t.Helper()
	return w.Servers[0].Client(t, append([]func(*redis.Options){w.Reach}, changes...)...)
}

// Reach sets the options that make a client find the primary through the sentinels.
func (w *Watched) Reach(o *redis.Options) {
	o.Sentinel.Primary, o.Addr, o.Addrs = PrimaryName, w.sentinels[0].addr, nil
	for _, s := range w.sentinels[1:] {
		o.Addrs = append(o.Addrs, s.addr)
	}
}

// Primary returns the server that a sentinel names.
func (w *Watched) Primary(sentinel int) int {
	w.t.Helper()
	m := w.master(w.sentinels[sentinel].addr)
	for i, s := range w.Servers {
		if s.Addr == net.JoinHostPort(m["ip"], m["port"]) {
			return i
		}
	}
	return -1
}

// AwaitPrimary waits until all given sentinels name one primary other than not, and
// returns it.
func (w *Watched) AwaitPrimary(not int, sentinels ...int) (is int) {
	w.t.Helper()
	w.await("sentinels name another primary", func() bool {
		is = w.Primary(sentinels[0])
		for _, i := range sentinels {
			if p := w.Primary(i); p == not || p != is {
				return false
			}
		}
		return strings.Contains(w.must(w.Servers[is].Addr, "INFO", "replication"), "role:master")
	})
	return is
}

// Failover makes the sentinels promote a replica while the primary is well.
func (w *Watched) Failover() error {
	_, err := w.ask(w.sentinels[0].addr, "SENTINEL", "FAILOVER", PrimaryName)
	return err
}

// Settled reports whether the first sentinel names a primary with all its replicas, and
// returns it.
func (w *Watched) Settled() (primary int, ok bool) {
	w.t.Helper()
	if primary = w.Primary(0); primary < 0 || w.master(w.sentinels[0].addr)["flags"] != "master" {
		return primary, false
	}
	text, err := w.ask(w.Servers[primary].Addr, "INFO", "replication")
	return primary, err == nil && strings.Contains(text, "role:master") && strings.Count(text, "state=online") == len(w.Servers)-1
}

// Sentinels are the addresses of the sentinels.
func (w *Watched) Sentinels() (all []string) {
	for _, s := range w.sentinels {
		all = append(all, s.addr)
	}
	return all
}

// StopSentinel pauses a sentinel, until ContinueSentinel is called.
func (w *Watched) StopSentinel(i int) {
	w.t.Helper()
	if err := w.sentinels[i].p.Stop(); err != nil {
		w.t.Fatal(err)
	}
}

// ContinueSentinel ends a pause.
func (w *Watched) ContinueSentinel(i int) { w.signal(i, syscall.SIGCONT) }

func (w *Watched) signal(i int, s syscall.Signal) {
	w.t.Helper()
	if err := w.sentinels[i].p.Signal(s); err != nil {
		w.t.Fatalf("signal %v to a sentinel: %v", s, err)
	}
}

// KillSentinel ends a sentinel.
func (w *Watched) KillSentinel(i int) { w.sentinels[i].p.Kill() }

// Deafen keeps later writes to a server from its replicas.
func (w *Watched) Deafen(i int) {
	w.t.Helper()
	w.must(w.Servers[i].Addr, "ACL", "SETUSER", "default", "-psync", "-sync")
	w.must(w.Servers[i].Addr, "CLIENT", "KILL", "TYPE", "replica")
}

// master has the fields that a sentinel reports about the primary.
func (w *Watched) master(addr string) map[string]string {
	w.t.Helper()
	words := strings.Split(w.must(addr, "SENTINEL", "MASTER", PrimaryName), "\n")
	m := map[string]string{}
	for i := 0; i+1 < len(words); i += 2 {
		m[words[i]] = words[i+1]
	}
	return m
}

// must asks a server or a sentinel, and returns the text of the reply, with a line
// for each element of an array.
func (w *Watched) must(addr string, args ...any) string {
	w.t.Helper()
	text, err := w.ask(addr, args...)
	if err != nil {
		w.t.Fatalf("%v: %v", args[:min(3, len(args))], err)
	}
	return text
}

// ask is must with an error.
func (w *Watched) ask(addr string, args ...any) (string, error) {
	c, err := redis.New(redis.Options{Addr: addr, Protocol: 2, Timeout: 10 * time.Second})
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply := c.Do(context.Background(), args...)
	if err := reply.Err(); err != nil {
		return "", err
	}
	var words []string
	for _, e := range reply.All() {
		word, _ := e.String() // callers need the elements with strings only
		words = append(words, word)
	}
	if len(words) > 0 {
		return strings.Join(words, "\n"), nil
	}
	text, err := reply.String()
	if err != nil {
		return "", nil // an integer
	}
	return text, nil
}

// await waits until ok returns true.
func (w *Watched) await(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(startTimeout); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain until %s", what)
		}
	}
}
