package kit

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// Hasty is ctx with a deadline after d that seems far until it has passed. It stands for a
// call that runs late, after an event of the same instant.
func Hasty(ctx context.Context, d time.Duration) context.Context {
	return hasty{ctx, time.Now().Add(d)}
}

type hasty struct {
	context.Context
	until time.Time
}

// Deadline implements context.Context.
func (h hasty) Deadline() (time.Time, bool) {
	if time.Now().Before(h.until) {
		return h.until.Add(time.Hour), true
	}
	return h.until, true
}

// Dial is the DialContext of the options of a client.
type Dial = func(ctx context.Context, network, addr string) (net.Conn, error)

// NoRoute is a Dial that fails when its time is over.
func NoRoute(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, errors.New("no route to the host")
}

// LostAfter returns dial with connections that fail, like ones closed by the peer, d after they
// were opened.
func LostAfter(d time.Duration, dial Dial) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if err == nil {
			time.AfterFunc(d, func() { nc.Close() })
		}
		return mute{nc}, err
	}
}

// mute is a connection that fails like one closed by the peer.
type mute struct{ net.Conn }

// Read implements net.Conn.
func (m mute) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	return n, err
}
