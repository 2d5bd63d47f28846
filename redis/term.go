package redis

import (
	"context"
	"errors"
	"net"
)

// errDeposed is the reason when a connection was closed because the sentinels have
// named another primary.
var errDeposed = errors.New("redis: the sentinels have named another primary")

// term is the time for which one server is the primary.
type term struct {
	addr string
	ctx  context.Context // ends with the term
	end  context.CancelFunc
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
