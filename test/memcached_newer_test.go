//go:build unix

package test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/servers"
	"github.com/strata-cache/strata/memcached"
	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest"
)

// TestNewerMemcachedDoesWhatTheOlderDoes has a server that takes CAS numbers of the
// client's choice.
func TestNewerMemcachedDoesWhatTheOlderDoes(t *testing.T) {
	m := servers.StartNewerMemcached(t)
	c := m.Client(t)
	if able, err := c.Abilities(t.Context()); err != nil || !able.Meta || !able.OwnCAS {
		t.Fatalf("%+v, %v", able, err)
	}
	t.Logf("memcached %s", m.Version(t.Context(), c))
	itemsOfMemcached(t, m)
}

// TestMemcachedTierConformsOnANewerServer runs the checks of every Tier with CAS numbers
// of its own.
func TestMemcachedTierConformsOnANewerServer(t *testing.T) {
	m := servers.StartNewerMemcached(t)
	c := m.Client(t)
	stratatest.TestTier(t, func(*testing.T) (remote.Tier, func(time.Duration)) {
		return memcached.NewTier(c), time.Sleep // the server's time passes by itself
	})
}

// TestNewerMemcachedKeepsTheNumbersOfATier reads an item of a Tier: its number is random.
func TestNewerMemcachedKeepsTheNumbersOfATier(t *testing.T) {
	m := servers.StartNewerMemcached(t)
	c := m.Client(t)
	tier := memcached.NewTier(c)
	var before uint64
	for i := range 10 {
		if _, err := tier.Acquire(t.Context(), []remote.Request{{Key: fmt.Sprint("k", i)}}, time.Minute); err != nil {
			t.Fatal(err)
		}
		item, err := c.Get(t.Context(), fmt.Sprint("strata:47DEQpj8HBSa-_TImW-5JA:kk", i))
		if err != nil || item.CAS < 1<<63 || item.CAS == before || item.CAS == before+1 {
			t.Errorf("number %d after %d, %v", item.CAS, before, err)
		}
		before = item.CAS
	}
}

// TestMemcachedTierRefusesTwemproxy has a proxy without meta commands before the server.
func TestMemcachedTierRefusesTwemproxy(t *testing.T) {
	m := servers.StartMemcached(t)
	addr := startTwemproxy(t, m.Addr)
	c, err := memcached.New(memcached.Options{Servers: []string{addr}, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if able, err := c.Abilities(t.Context()); err != nil || able.Meta {
		t.Fatalf("%+v, %v", able, err)
	}
	if err := c.Set(t.Context(), memcached.Item{Key: "k", Value: []byte("v")}); err != nil {
		t.Error(err)
	}
	if v, err := c.AppendGet(t.Context(), nil, "k"); string(v) != "v" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	tier := memcached.NewTier(c)
	if _, err := tier.Get(t.Context(), []string{"k"}); !errors.Is(err, memcached.ErrClassic) {
		t.Errorf("Get: %v", err)
	}
	if _, err := tier.Probe(t.Context()); !errors.Is(err, memcached.ErrClassic) {
		t.Errorf("Probe: %v", err)
	}
}

// startTwemproxy starts a proxy before a server, and returns its address.
func startTwemproxy(t *testing.T, server string) string {
	t.Helper()
	program, err := servers.Program("nutcracker", "nutcracker", "/usr/sbin/nutcracker")
	if err != nil {
		t.Skip(err)
	}
	port := servers.Port(t)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	config := t.TempDir() + "/nutcracker.yml"
	text := fmt.Sprintf("alpha:\n  listen: %s\n  hash: fnv1a_64\n  distribution: ketama\n  servers:\n   - %s:1\n", addr, server)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stats := servers.Port(t)
	p, err := servers.Start(exec.Command(program, "-c", config, "-a", "127.0.0.1", "-s", fmt.Sprint(stats)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	err = p.Await(func() error {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	return addr
}
