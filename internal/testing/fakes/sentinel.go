package fakes

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/strata-cache/strata/internal/redis/resp"
)

// WatchedRedis is a model of servers that sentinels watch under the name mymaster. Each
// sentinel has its own view of them. A server is identified by its port, 7000 and
// up, a sentinel by 26000 and up.
type WatchedRedis struct {
	Servers, Sentinels []*Redis
	// Answer, if set, is called for each SENTINEL command with the index of the
	// sentinel. It reports whether it has replied itself.
	Answer func(i int, s *RedisSession, args [][]byte) bool

	mu    sync.Mutex // guards below; never held over a lock of a server
	views []view     // of each sentinel
	roles []string   // of each server
}

// view is the knowledge of one sentinel: the primary and its epoch.
type view struct {
	primary string
	epoch   int
}

// NewWatchedRedis returns servers and sentinels. The first server is the primary, and all
// sentinels name it.
func NewWatchedRedis(servers, sentinels int) *WatchedRedis {
	w := &WatchedRedis{views: make([]view, sentinels), roles: make([]string, servers)}
	for i := range servers {
		w.roles[i] = "slave"
		s := NewRedis()
		s.Handle("ROLE", func(ss *RedisSession, _ [][]byte) { ss.Out = append(resp.AppendArray(ss.Out, 1), w.role(i)...) })
		s.Gate = func(ss *RedisSession, name string, _ [][]byte) bool {
			refused := name == "SET" && !w.primary(i)
			if refused {
				ss.Error("READONLY You can't write against a read only replica.")
			}
			return refused
		}
		w.Servers = append(w.Servers, s)
	}
	for i := range sentinels {
		w.views[i] = view{w.Addr(0), 1}
		s := NewRedis()
		s.Handle("HELLO", func(ss *RedisSession, args [][]byte) { ss.unknown(args) })
		s.Handle("SENTINEL", func(ss *RedisSession, args [][]byte) { w.answer(i, ss, args) })
		w.Sentinels = append(w.Sentinels, s)
	}
	w.roles[0] = "master"
	return w
}

// Addr returns the address of a server.
func (w *WatchedRedis) Addr(i int) string {
	return net.JoinHostPort("10.0.0."+strconv.Itoa(i), port(i))
}

// SentinelAddr returns the address of a sentinel.
func (w *WatchedRedis) SentinelAddr(i int) string {
	return net.JoinHostPort("10.0.1."+strconv.Itoa(i), strconv.Itoa(26000+i))
}

// Dial opens a connection to the server or sentinel at addr.
func (w *WatchedRedis) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	for i, s := range w.Sentinels {
		if addr == w.SentinelAddr(i) {
			return s.Dial(ctx, network, addr)
		}
	}
	for i, s := range w.Servers {
		if strings.HasSuffix(addr, ":"+port(i)) {
			return s.Dial(ctx, network, addr)
		}
	}
	return nil, ErrRefused
}

// Close stops all servers and sentinels.
func (w *WatchedRedis) Close() {
	for _, s := range append(w.Servers, w.Sentinels...) {
		s.Close()
	}
}

// Role sets the role that a server has by its own account: master or slave.
func (w *WatchedRedis) Role(i int, role string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.roles[i] = role
}

func (w *WatchedRedis) role(i int) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return resp.AppendString(nil, w.roles[i])
}

func (w *WatchedRedis) primary(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.roles[i] == "master"
}

// Name makes a sentinel name a server as the primary, without telling of it.
func (w *WatchedRedis) Name(sentinel, server, epoch int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.views[sentinel] = view{w.Addr(server), epoch}
}

// Tell makes a sentinel name a server as the primary, and tell of it.
func (w *WatchedRedis) Tell(sentinel, server, epoch int) {
	w.Name(sentinel, server, epoch)
	w.Sentinels[sentinel].Publish("+switch-master", "mymaster 10.0.0.0 7000 10.0.0."+strconv.Itoa(server)+" "+port(server))
}

// answer handles SENTINEL.
func (w *WatchedRedis) answer(i int, s *RedisSession, args [][]byte) {
	if w.Answer != nil && w.Answer(i, s, args) {
		return
	}
	w.mu.Lock()
	v := w.views[i]
	w.mu.Unlock()
	host, port, _ := net.SplitHostPort(v.primary)
	known := len(args) == 3 && string(args[2]) == "mymaster"
	var words []string
	switch sub := strings.ToUpper(string(args[1])); {
	case sub == "MASTER" && !known:
		s.Error("ERR No such master with that name")
		return
	case sub == "MASTER":
		words = []string{"name", "mymaster", "ip", host, "port", port, "config-epoch", strconv.Itoa(v.epoch), "quorum", "2"}
	case sub == "GET-MASTER-ADDR-BY-NAME" && !known:
		s.Out = append(s.Out, "*-1\r\n"...)
		return
	case sub == "GET-MASTER-ADDR-BY-NAME":
		words = []string{host, port}
	default:
		s.unknown(args)
		return
	}
	s.Out = resp.AppendArray(s.Out, len(words))
	for _, word := range words {
		s.Bulk(word)
	}
}
