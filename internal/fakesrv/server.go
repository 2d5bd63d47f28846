// Package fakesrv is a small model of a Redis server for tests without a
// network. It is built from the server's side of internal/resp and reached
// over internal/netsim, so it can be taken into a synctest bubble and be made
// to misbehave.
//
// It models what the tests of package redis use and no more: strings with
// lives, the greeting, transactions, publish and subscribe, and scripts as Go
// functions. What
// scripts really do is tested against a real server.
package fakesrv

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/netsim"
	"github.com/strata-cache/strata/internal/resp"
)

// ErrRefused is what Dial returns while the server is down.
var ErrRefused = errors.New("fakesrv: connection refused")

// Handler answers one command by appending to s.Out.
type Handler func(s *Session, args [][]byte)

// Server is a model server. Its exported fields are set before the first Dial.
type Server struct {
	// Old servers know RESP2 only and answer HELLO with an error.
	Old bool
	// Username and Password are demanded if Password is set.
	Username, Password string
	// Window is that of the connections; see netsim.Pair.
	Window int
	// OnDial, if set, is called with the client's end of the n-th connection,
	// counted from zero, before anything is sent. It can set faults.
	OnDial func(n int, client *netsim.Conn)
	// Gate, if set, is asked before each command is carried out. It reports
	// whether it has answered it.
	Gate func(s *Session, name string, args [][]byte) bool

	sessions sync.WaitGroup

	mu       sync.Mutex // guards below
	handlers map[string]Handler
	scripts  map[string]Handler // by text, whether the server has seen it or not
	known    map[string]Handler // by digest
	open     map[*Session]struct{}
	dbs      map[int]map[string]entry
	dials    int
	down     bool
	calls    map[string]int
}

type entry struct {
	value   string
	expires time.Time
}

// New returns a server that is up and empty.
func New() *Server {
	s := &Server{
		handlers: map[string]Handler{},
		scripts:  map[string]Handler{},
		known:    map[string]Handler{},
		open:     map[*Session]struct{}{},
		dbs:      map[int]map[string]entry{},
		calls:    map[string]int{},
	}
	s.addCommands()
	return s
}

// Handle sets the handler of a command, in place of the model's own, and
// returns the one before.
func (s *Server) Handle(name string, h Handler) (before Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = strings.ToUpper(name)
	before = s.handlers[name]
	s.handlers[name] = h
	return before
}

// Script says what the script with this text does. Its arguments are those
// behind the number of keys. The server still wants to be sent the text first.
func (s *Server) Script(text string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[text] = h
}

// Dials is the number of connections opened so far, refused ones included.
func (s *Server) Dials() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials
}

// Calls is how often a command was called.
func (s *Server) Calls(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[name]
}

// Open is the number of connections that are open.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Dial opens a connection. It has the form of redis.Options.DialContext.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, server := netsim.Pair(s.Window)
	ss := &Session{srv: s, conn: server, writing: make(chan struct{}, 1), subs: map[string]bool{}}
	s.mu.Lock()
	n := s.dials
	s.dials++
	if s.down {
		s.mu.Unlock()
		return nil, ErrRefused
	}
	s.open[ss] = struct{}{}
	s.sessions.Go(ss.serve)
	s.mu.Unlock()
	if s.OnDial != nil {
		s.OnDial(n, client)
	}
	return client, nil
}

// Stop resets all connections and refuses new ones until Start.
func (s *Server) Stop() {
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
	s.Drop()
}

// Start accepts connections again.
func (s *Server) Start() {
	s.mu.Lock()
	s.down = false
	s.mu.Unlock()
}

// Drop resets all connections.
func (s *Server) Drop() {
	s.mu.Lock()
	var all []*Session
	for ss := range s.open {
		all = append(all, ss)
	}
	s.mu.Unlock()
	for _, ss := range all {
		ss.conn.Reset()
	}
}

// Say sends bytes over all connections, unasked.
func (s *Server) Say(raw string) {
	s.mu.Lock()
	var all []*Session
	for ss := range s.open {
		all = append(all, ss)
	}
	s.mu.Unlock()
	for _, ss := range all {
		_ = ss.send([]byte(raw))
	}
}

// Close stops the server and waits for its goroutines.
func (s *Server) Close() {
	s.Stop()
	s.sessions.Wait()
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Session is one connection, on the server's side.
type Session struct {
	// Out is what is to be sent.
	Out []byte
	// RESP3 is set by HELLO 3.
	RESP3 bool
	// DB is the selected database, Name the name of the connection.
	DB   int
	Name string

	srv     *Server
	conn    *netsim.Conn
	authed  bool
	subs    map[string]bool // guarded by srv.mu
	writing chan struct{}   // holds a token while somebody writes
	quit    bool

	asking, readOnly bool // in a cluster
	tx               *transaction
	watched          map[string]entry // as they were
}

// Hangup closes the connection once Out was sent.
func (s *Session) Hangup() { s.quit = true }

// Flush sends Out now.
func (s *Session) Flush() {
	_ = s.send(s.Out) // who has gone is noticed by serve
	s.Out = s.Out[:0]
}

// Open reports whether the connection is open.
func (s *Session) Open() bool {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	_, ok := s.srv.open[s]
	return ok
}

// Null appends the null of the session's protocol.
func (s *Session) Null() {
	if s.RESP3 {
		s.Out = resp.AppendNull3(s.Out)
		return
	}
	s.Out = resp.AppendNull(s.Out)
}

// Error appends an error.
func (s *Session) Error(text string) { s.Out = resp.AppendError(s.Out, text) }

// Status appends a status.
func (s *Session) Status(text string) { s.Out = resp.AppendStatus(s.Out, text) }

// Bulk appends a string.
func (s *Session) Bulk(text string) { s.Out = resp.AppendString(s.Out, text) }

// Int appends an integer.
func (s *Session) Int(n int) { s.Out = resp.AppendInt(s.Out, int64(n)) }

// serve answers commands until the connection ends.
func (s *Session) serve() {
	defer func() {
		s.srv.mu.Lock()
		delete(s.srv.open, s)
		s.srv.mu.Unlock()
		s.conn.Close()
	}()
	r := resp.NewReader(s.conn, resp.Limits{})
	for !s.quit {
		args, err := r.ReadCommand()
		if err != nil {
			return
		}
		s.answer(args)
		if r.Buffered() > 0 && len(s.Out) < 4<<10 && !s.quit {
			continue // more commands are there
		}
		if err := s.send(s.Out); err != nil {
			return
		}
		s.Out = s.Out[:0]
	}
}

// send writes, one writer at a time.
func (s *Session) send(p []byte) error {
	s.writing <- struct{}{}
	_, err := s.conn.Write(p)
	<-s.writing
	return err
}

// Answer carries a command out as if it had been sent.
func (s *Session) Answer(name string, args ...[]byte) {
	s.answer(append([][]byte{[]byte(name)}, args...))
}

func (s *Session) answer(args [][]byte) {
	name := strings.ToUpper(string(args[0]))
	s.srv.mu.Lock()
	h := s.srv.handlers[name]
	s.srv.calls[name]++
	s.srv.mu.Unlock()
	switch {
	case s.tx != nil && name != "EXEC":
		if s.srv.Gate != nil && s.srv.Gate(s, name, args) {
			s.tx.aborted = true
			return
		}
		s.tx.queue(s, h, args)
	case s.srv.Password != "" && !s.authed && name != "HELLO" && name != "AUTH":
		s.Error("NOAUTH Authentication required.")
	case s.srv.Gate != nil && s.srv.Gate(s, name, args):
	case h == nil:
		s.unknown(args)
	default:
		h(s, args)
	}
}

// unknown repeats the arguments, as servers do, and no more of them.
func (s *Session) unknown(args [][]byte) {
	text := "ERR unknown command '" + string(args[0]) + "', with args beginning with:"
	for _, a := range args[1:] {
		text += " '" + string(a[:min(len(a), 128)]) + "'"
	}
	s.Error(text)
}
