// Package fakes has small models of a [Redis] and of a [Memcached] server for tests without a
// network. They use the server sides of internal/redis/resp and internal/memcached/meta, and
// connections of internal/testing/netsim. So they run in a synctest bubble, and tests can inject
// faults. A [Conversation] is the part of a real Redis server, recorded and played back.
//
// The models have only the commands that tests of the clients use. Of Redis: strings with lives,
// the greeting, transactions, publish and subscribe, and scripts as Go functions. The scripts
// themselves are tested against a real server. Of memcached: the commands of the client, as
// several generations of servers answer them.
package fakes

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/testing/netsim"
)

// ErrRefused is returned by Dial while the server is down.
var ErrRefused = netsim.ErrRefused // read-only

// RedisHandler executes one command and appends the reply to s.Out.
type RedisHandler func(s *RedisSession, args [][]byte)

// Redis is a model server. Its exported fields are set before the first Dial.
type Redis struct {
	netsim.Host
	// Old makes the server reply to HELLO with an error, like a server with RESP2
	// alone.
	Old bool
	// Username and Password are required from clients if Password is set.
	Username, Password string
	// Gate, if set, is called before each command. It reports whether it has
	// replied to the command itself. SetGate changes it later.
	Gate func(s *RedisSession, name string, args [][]byte) bool

	mu       sync.Mutex // guards below
	handlers map[string]RedisHandler
	scripts  map[string]RedisHandler // by text, also scripts that no client has sent
	known    map[string]RedisHandler // by digest
	open     map[*RedisSession]struct{}
	dbs      map[int]map[string]entry
	calls    map[string]int
}

type entry struct {
	value   string
	expires time.Time
}

// NewRedis returns an empty server that accepts connections.
func NewRedis() *Redis {
	s := &Redis{
		handlers: map[string]RedisHandler{},
		scripts:  map[string]RedisHandler{},
		known:    map[string]RedisHandler{},
		open:     map[*RedisSession]struct{}{},
		dbs:      map[int]map[string]entry{},
		calls:    map[string]int{},
	}
	s.Serve = s.serve
	s.addCommands()
	return s
}

// SetGate sets Gate while clients are connected.
func (s *Redis) SetGate(gate func(s *RedisSession, name string, args [][]byte) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Gate = gate
}

// Handle sets the handler of a command and returns the previous one.
func (s *Redis) Handle(name string, h RedisHandler) (before RedisHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = strings.ToUpper(name)
	before = s.handlers[name]
	s.handlers[name] = h
	return before
}

// Script sets the handler of the script with this text. The handler gets the
// arguments after the number of keys. As with a real server, a client must send
// the text before it can call the script by its digest.
func (s *Redis) Script(text string, h RedisHandler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[text] = h
}

// Calls returns the number of calls of a command.
func (s *Redis) Calls(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// Say sends bytes over all connections, without a command.
func (s *Redis) Say(raw string) {
	s.mu.Lock()
	var all []*RedisSession
	for ss := range s.open {
		all = append(all, ss)
	}
	s.mu.Unlock()
	for _, ss := range all {
		_ = ss.send([]byte(raw))
	}
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// RedisSession is the server's side of one connection.
type RedisSession struct {
	// Out holds the replies that will be sent next.
	Out []byte
	// RESP3 is set by HELLO 3.
	RESP3 bool
	// DB is the selected database, Name the name of the connection.
	DB   int
	Name string

	srv     *Redis
	conn    *netsim.Conn
	authed  bool
	subs    map[string]bool // guarded by srv.mu
	writing chan struct{}   // holds a token during a write
	quit    bool

	asking, readOnly bool // in a cluster
	tx               *transaction
	watched          map[string]entry // their entries at WATCH
}

// Hangup closes the connection after Out has been sent.
func (s *RedisSession) Hangup() { s.quit = true }

// Flush sends Out now.
func (s *RedisSession) Flush() {
	_ = s.send(s.Out) // serve handles a closed connection
	s.Out = s.Out[:0]
}

// Open reports whether the connection is open.
func (s *RedisSession) Open() bool {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	_, ok := s.srv.open[s]
	return ok
}

// Null appends the null of the session's protocol.
func (s *RedisSession) Null() {
	if s.RESP3 {
		s.Out = resp.AppendNull3(s.Out)
		return
	}
	s.Out = resp.AppendNull(s.Out)
}

// Error appends an error.
func (s *RedisSession) Error(text string) { s.Out = resp.AppendError(s.Out, text) }

// Status appends a status.
func (s *RedisSession) Status(text string) { s.Out = resp.AppendStatus(s.Out, text) }

// Bulk appends a string.
func (s *RedisSession) Bulk(text string) { s.Out = resp.AppendString(s.Out, text) }

// Int appends an integer.
func (s *RedisSession) Int(n int) { s.Out = resp.AppendInt(s.Out, int64(n)) }

// serve serves a connection.
func (s *Redis) serve(conn *netsim.Conn) {
	ss := &RedisSession{srv: s, conn: conn, writing: make(chan struct{}, 1), subs: map[string]bool{}}
	s.mu.Lock()
	s.open[ss] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.open, ss)
		s.mu.Unlock()
	}()
	ss.serve()
}

// serve executes commands until the connection ends.
func (s *RedisSession) serve() {
	r := resp.NewReader(s.conn, resp.Limits{})
	for !s.quit {
		args, err := r.ReadCommand()
		if err != nil {
			return
		}
		s.answer(args)
		if r.Buffered() > 0 && len(s.Out) < 4<<10 && !s.quit {
			continue // more commands have arrived
		}
		if err := s.send(s.Out); err != nil {
			return
		}
		s.Out = s.Out[:0]
	}
}

// send writes p. Concurrent calls write one after the other.
func (s *RedisSession) send(p []byte) error {
	s.writing <- struct{}{}
	_, err := s.conn.Write(p)
	<-s.writing
	return err
}

// Answer executes a command as if the client had sent it.
func (s *RedisSession) Answer(name string, args ...[]byte) {
	s.answer(append([][]byte{[]byte(name)}, args...))
}

func (s *RedisSession) answer(args [][]byte) {
	name := strings.ToUpper(string(args[0]))
	s.srv.mu.Lock()
	h := s.srv.handlers[name]
	s.srv.calls[name]++
	gate := s.srv.Gate
	s.srv.mu.Unlock()
	switch {
	case s.tx != nil && name != "EXEC" && name != "DISCARD":
		if gate != nil && gate(s, name, args) {
			s.tx.aborted = true
			return
		}
		s.tx.queue(s, h, args)
	case s.srv.Password != "" && !s.authed && name != "HELLO" && name != "AUTH":
		s.Error("NOAUTH Authentication required.")
	case gate != nil && gate(s, name, args):
	case h == nil:
		s.unknown(args)
	default:
		h(s, args)
	}
}

// unknown appends the error for an unknown command. Like a real server it
// repeats the arguments, up to 128 bytes of each.
func (s *RedisSession) unknown(args [][]byte) {
	text := "ERR unknown command '" + string(args[0]) + "', with args beginning with:"
	for _, a := range args[1:] {
		text += " '" + string(a[:min(len(a), 128)]) + "'"
	}
	s.Error(text)
}
