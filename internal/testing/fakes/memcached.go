package fakes

import (
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/memcached/meta"
	"github.com/strata-cache/strata/internal/testing/netsim"
)

// Generation is the kind of server.
type Generation uint8

// The generations.
const (
	// V1618 has meta commands of today's syntax, as 1.6.18.
	V1618 Generation = iota
	// V1638 has own CAS numbers and marked deletes, as 1.6.38.
	V1638
	// V1640 also sends values only if they have changed.
	V1640
	// Old has no meta commands and answers ERROR.
	Old
	// Proxy closes the connection on meta commands, as twemproxy.
	Proxy
)

// Memcached is a model server. Its exported fields are set before the first Dial.
type Memcached struct {
	netsim.Host
	// Generation is the kind of server.
	Generation Generation
	// Password is required from clients, as "user password", if it is set.
	Password string
	// Limit is the size of the largest value. Zero means 1 MiB.
	Limit int
	// Gate, if set, is called before each command. It reports whether it has
	// replied to the command itself. SetGate changes it later.
	Gate func(s *MemcachedSession, c *meta.Command) bool

	mu    sync.Mutex // guards below
	items map[string]item
	cas   uint64
	calls map[string]int
}

type item struct {
	value   []byte
	flags   uint32
	cas     uint64
	expires time.Time
}

// NewMemcached returns an empty server that accepts connections.
func NewMemcached() *Memcached {
	s := &Memcached{items: map[string]item{}, calls: map[string]int{}}
	s.Serve = s.serve
	return s
}

// SetGate sets Gate while clients are connected.
func (s *Memcached) SetGate(gate func(s *MemcachedSession, c *meta.Command) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Gate = gate
}

// Restart ends all connections, and begins again without items, and with its first CAS
// number.
func (s *Memcached) Restart() {
	s.Stop()
	s.Forget()
	s.Start()
}

// Calls returns the number of calls of a command.
func (s *Memcached) Calls(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// Forget is Restart, but connections stay open.
func (s *Memcached) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.items)
	s.cas = 0
}

// MemcachedSession is the server's side of one connection.
type MemcachedSession struct {
	// Out holds the replies that will be sent next.
	Out []byte

	srv    *Memcached
	conn   *netsim.Conn
	authed bool
	quit   bool
}

// Hangup closes the connection after Out has been sent.
func (s *MemcachedSession) Hangup() { s.quit = true }

// Flush sends Out now.
func (s *MemcachedSession) Flush() {
	_, _ = s.conn.Write(s.Out) // serve handles a closed connection
	s.Out = s.Out[:0]
}

// Line appends a line.
func (s *MemcachedSession) Line(text string) { s.Out = meta.AppendEnd(append(s.Out, text...)) }

// Answer carries out a command.
func (s *MemcachedSession) Answer(c *meta.Command) { s.srv.carryOut(s, c) }

// limit is the size of the largest value.
func (s *Memcached) limit() int {
	if s.Limit == 0 {
		return 1 << 20
	}
	return s.Limit
}

// serve executes commands until the connection ends.
func (s *Memcached) serve(conn *netsim.Conn) {
	ss := &MemcachedSession{srv: s, conn: conn}
	r := meta.NewReader(conn, meta.Limits{Value: s.limit()})
	for !ss.quit {
		c, err := r.ReadCommand()
		if err != nil {
			return
		}
		ss.answer(&c)
		if r.Buffered() > 0 && len(ss.Out) < 4<<10 && !ss.quit {
			continue // more commands have arrived
		}
		if len(ss.Out) > 0 {
			ss.Flush()
		}
	}
}

func (s *MemcachedSession) answer(c *meta.Command) {
	s.srv.mu.Lock()
	s.srv.calls[c.Name]++
	gate := s.srv.Gate
	s.srv.mu.Unlock()
	switch {
	case s.srv.Password != "" && !s.authed:
		s.authenticate(c)
	case gate != nil && gate(s, c):
	default:
		s.srv.carryOut(s, c)
	}
}

// authenticate looks at the first command.
func (s *MemcachedSession) authenticate(c *meta.Command) {
	switch {
	case c.Name != "set":
		s.Line("CLIENT_ERROR unauthenticated")
	case string(c.Data) == s.srv.Password:
		s.authed = true
		s.Line("STORED")
	default:
		s.Line("CLIENT_ERROR authentication failure")
	}
}

// carryOut executes a command and appends its reply.
func (s *Memcached) carryOut(ss *MemcachedSession, c *meta.Command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta := len(c.Name) == 2 && strings.HasPrefix(c.Name, "m")
	switch {
	case meta && s.Generation == Proxy, c.Name == "gats" && s.Generation == Proxy:
		ss.Hangup()
	case meta && s.Generation == Old:
		ss.Line("ERROR")
	case c.Refusal != "":
		s.refuse(ss, c)
	case meta:
		s.meta(ss, c)
	default:
		s.classic(ss, c)
	}
}

// refuse answers a command that cannot be carried out. A too large value also removes
// the old one, as in memcached.
func (s *Memcached) refuse(ss *MemcachedSession, c *meta.Command) {
	if strings.HasPrefix(c.Refusal, "SERVER_ERROR") {
		delete(s.items, string(c.Key))
	}
	ss.Line(c.Refusal)
}

// find returns the item of a key. mu is held.
func (s *Memcached) find(key []byte) (item, bool) {
	it, ok := s.items[string(key)]
	if ok && !it.expires.IsZero() && !time.Now().Before(it.expires) {
		delete(s.items, string(key))
		return item{}, false
	}
	return it, ok
}

// keep stores an item under a new CAS number. mu is held.
func (s *Memcached) keep(key []byte, it item) {
	if s.cas++; it.cas == 0 {
		it.cas = s.cas
	}
	s.items[string(key)] = it
}

// until converts a time of expiry.
func until(expiry int64) time.Time {
	switch {
	case expiry == 0:
		return time.Time{}
	case expiry < 0:
		return time.Unix(1, 0)
	case expiry > meta.MaxRelative:
		return time.Unix(expiry, 0)
	}
	return time.Now().Add(time.Duration(expiry) * time.Second)
}
