package main

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/testing/fakes"
)

// serveMemcached returns the address of a model of a memcached.
func serveMemcached(t *testing.T, g fakes.Generation) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := fakes.NewMemcached()
	server.Generation = g
	t.Cleanup(func() { l.Close(); server.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go join(conn, server)
		}
	}()
	return l.Addr().String()
}

// join joins a connection with one to the model.
func join(conn net.Conn, server *fakes.Memcached) {
	defer conn.Close()
	model, err := server.Dial(context.Background(), "tcp", "")
	if err != nil {
		return
	}
	go func() {
		defer model.Close()
		_, _ = io.Copy(model, conn)
	}()
	_, _ = io.Copy(conn, model)
}

// TestDemoOnMemcachedSaysThatItHasNoBus plays the demo on a fleet of two servers. The
// restarted instance finds the greetings in L2.
func TestDemoOnMemcachedSaysThatItHasNoBus(t *testing.T) {
	fleet := serveMemcached(t, fakes.V1618) + "," + serveMemcached(t, fakes.V1638)
	status, stdout, stderr := call(t.Context(), append(strings.Fields(
		"demo --exit --addr 127.0.0.1:0 --rate 100 --group 25 --cardinality 100 --concurrency 50 --duration 1s --modes strata,restarted --l2"), "memcached://"+fleet)...)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, stderr %q", status, stderr)
	}
	checkWidth(t, stdout)
	for _, want := range []string{
		"memcached at " + strings.ReplaceAll(fleet, ",", ", "),
		"none with memcached: changes by other instances show within 2 s",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	before, after := cellsOf(stdout, "strata"), cellsOf(stdout, "restarted")
	// A busy machine does not get to all four greetings, and asks the origin for those that memcached does
	// not answer in time.
	if len(before) < 10 || len(after) < 10 || before[5] == "0" || after[7] == "0" {
		t.Errorf("the instance that has restarted did not find the greetings in L2 that were loaded before:\n%s", stdout)
	}
}

// cellsOf returns the cells of the row of a mode, without its name.
func cellsOf(table, mode string) []string {
	_, row, _ := strings.Cut(table, "\n"+mode+"   ") // the head of the output has fewer spaces
	row, _, _ = strings.Cut(row, "\n")
	return strings.Fields(row)
}

// The cap of lives in L1 is the one that the header of the output names. Package hello tests its
// effect.
func TestDemoCapsLivesInL1WithoutABus(t *testing.T) {
	d := &demoCommand{L2: "memcached://" + serveMemcached(t, fakes.V1618), Modes: []string{"strata"}}
	open, err := parseL2(d.L2)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer shared.close()
	phases, err := d.phases()
	if err != nil {
		t.Fatal(err)
	}
	if o := d.service(plan{phases: phases}, nil, shared); o.Bus != nil || o.Tier == nil || o.MemoryTTL != withoutBus {
		t.Errorf("bus %v, tier %v, a life of %v in L1; want none, one, %v", o.Bus, o.Tier, o.MemoryTTL, withoutBus)
	}
}

func TestMemcachedThatCannotHoldEntriesIsRefused(t *testing.T) {
	for g, addr := range map[fakes.Generation]string{
		fakes.Old:   serveMemcached(t, fakes.V1618) + "," + serveMemcached(t, fakes.Old),
		fakes.Proxy: serveMemcached(t, fakes.Proxy),
	} {
		status, stdout, stderr := call(t.Context(), "demo", "--addr", "127.0.0.1:0", "--exit", "--l2", "memcached://"+addr)
		if status != 1 || stdout != "" || !strings.Contains(stderr, strings.ReplaceAll(addr, ",", ", ")) || !strings.Contains(stderr, "no meta commands") {
			t.Errorf("generation %d: status %d, stdout %q, stderr %q", g, status, stdout, stderr)
		}
	}
}
