// Package embedded starts a Redis inside of this process, for a demo on a machine without
// a redis-server.
package embedded

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Start starts a server on a free port of this machine, and returns its address. stop ends
// the server, and returns when it has ended.
func Start() (addr string, stop func(), err error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return "", nil, err
	}
	s := m.Server()
	// The hook comes before the server's own answer.
	s.SetPreHook(info(s))
	done := make(chan struct{})
	var clock sync.WaitGroup
	clock.Go(func() { runClock(done, m) })
	return m.Addr(), func() {
		close(done)
		clock.Wait()
		m.Close()
	}, nil
}

// info answers INFO. The server's own answer would read counts from a field that is nil after
// Close, and end the process.
func info(s *server.Server) server.Hook {
	return func(p *server.Peer, cmd string, args ...string) bool {
		if !strings.EqualFold(cmd, "INFO") {
			return false
		}
		clients := fmt.Sprintf("# Clients\r\nconnected_clients:%d\r\n", s.ClientsLen())
		stats := fmt.Sprintf("# Stats\r\ntotal_connections_received:%d\r\ntotal_commands_processed:%d\r\n", s.TotalConnections(), s.TotalCommands())
		switch {
		case len(args) == 0:
			p.WriteBulk(clients + stats)
		case strings.EqualFold(args[0], "clients"):
			p.WriteBulk(clients)
		case strings.EqualFold(args[0], "stats"):
			p.WriteBulk(stats)
		default:
			p.WriteError("ERR this server knows nothing about the section")
		}
		return true
	}
}

// runClock advances the clock of the server, which does not do so itself.
func runClock(done <-chan struct{}, m *miniredis.Miniredis) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	last := time.Now()
	for {
		select {
		case <-done:
			return
		case now := <-t.C:
			// Without this no TTL would ever end: entries, leases and holds would stay for ever.
			m.FastForward(now.Sub(last))
			last = now
		}
	}
}
