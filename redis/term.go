package redis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/strata-cache/strata/remote"
)

// A term is the time for which one server answers for an address, or is the primary
// that sentinels name. It is running or over. Invariant: one term runs at a time; a
// connection belongs to the term in which it was opened, and is closed at the end of
// this term; no call begins on it then. So no two connections lead to two servers, as
// far as servers tell their run.

// errDeposed is the reason for a connection closed because another server has taken
// over. It is a [remote.ErrMoved], and read-only.
var errDeposed error = deposed{}

type deposed struct{}

func (deposed) Error() string        { return "redis: another primary has taken over" }
func (deposed) Is(target error) bool { return target == remote.ErrMoved }

// term is the time for which one server is the right one.
type term struct {
	addr   string
	number uint64
	began  time.Time
	ctx    context.Context // ends with the term
	end    context.CancelFunc
	// run is the run id of the server, or empty if it is not known. terms.mu guards it.
	run string
}

// over reports whether the term is over. A connection without a term has none that
// could be over.
func (t *term) over() bool { return t != nil && t.ctx.Err() != nil }

// reason returns the reason behind an error of a connection of the term.
func (t *term) reason(err error) error {
	if errors.Is(err, net.ErrClosed) && t.over() {
		return errDeposed
	}
	return err
}

// terms are the terms of one address, or of one name that sentinels know. The zero
// value has had none.
type terms struct {
	mu  sync.Mutex // guards below
	now *term      // nil before the first
}

// present returns the term that runs, or nil.
func (s *terms) present() *term {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// number returns the number of the term that runs, or zero.
func (s *terms) number() uint64 {
	if t := s.present(); t != nil {
		return t.number
	}
	return 0
}

// untold reports whether no server has told its run in the present term.
func (s *terms) untold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now == nil || s.now.run == ""
}

// begin begins a term, and ends the one before.
func (s *terms) begin(addr string) *term {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beginLocked(addr)
}

func (s *terms) beginLocked(addr string) *term {
	t := &term{addr: addr, number: 1, began: time.Now()}
	t.ctx, t.end = context.WithCancel(context.Background())
	if old := s.now; old != nil {
		t.number = old.number + 1
		defer old.end()
	}
	s.now = t
	return t
}

// first returns the term that runs, or begins the first one.
func (s *terms) first(addr string) *term {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.beginLocked(addr)
	}
	return s.now
}

// meet returns the term of a connection dialled at the given time to a server with the
// given run: the present term, or a new one for another server. Without a run it is
// the present term. It returns nil if the dial began in an earlier term, because it
// may lead to the earlier server.
func (s *terms) meet(dialled time.Time, run string) *term {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.now
	switch {
	case run == "" || run == t.run:
	case t.run == "":
		t.run = run
	case dialled.Before(t.began):
		return nil
	default:
		t = s.beginLocked(t.addr)
		t.run = run
	}
	return t
}

// errUnproven says that the server which has confirmed an operation may have lost its
// place. It is a [remote.ErrMoved], and as good as a refusal.
type errUnproven struct{ error }

func (e errUnproven) Unwrap() error { return e.error }

// Is makes it both.
func (errUnproven) Is(target error) bool {
	return target == remote.ErrMoved || target == remote.ErrRefused
}

// unproven returns the error of an operation confirmed in a term that may be over.
func unproven(err error) error { return &ConnError{Op: "read", Sent: true, Err: errUnproven{err}} }

// holds returns an error if the term with a number is over. Zero stands for the time
// before the first term.
func (s *terms) holds(_ context.Context, number uint64) error {
	if s.number() != max(number, 1) {
		return unproven(errDeposed)
	}
	return nil
}
