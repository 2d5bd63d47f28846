package redis

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/strata-cache/strata/internal/redis/bus"
	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// hearing is a connection as a subscription uses it. It is a bus.Conn.
type hearing struct{ cn *conn }

// Send implements bus.Conn.
func (h hearing) Send(args ...any) error {
	if err := h.cn.command(args); err != nil {
		return err
	}
	return h.cn.flush(true)
}

// Wait implements bus.Conn.
func (h hearing) Wait() error { return h.cn.term.reason(h.cn.r.Wait()) }

// Read implements bus.Conn.
func (h hearing) Read() (heard bus.Heard, whole bool, err error) {
	r := h.cn.r
	raw, err := r.Next()
	if raw == nil && err == nil {
		err = r.Fill()
	}
	if err == io.EOF && r.Buffered() > 0 {
		err = io.ErrUnexpectedEOF
	}
	if raw == nil || err != nil {
		return heard, false, h.cn.term.reason(err)
	}
	heard, err = bus.Hear(resp.Parse(raw).Clone())
	return heard, true, err
}

// Buffered implements bus.Conn.
func (h hearing) Buffered() int { return h.cn.r.Buffered() }

// SetDeadline implements bus.Conn.
func (h hearing) SetDeadline(t time.Time) { h.cn.SetDeadline(t) }

// Close implements bus.Conn.
func (h hearing) Close() error { return h.cn.Close() }

// listening returns the Config of a subscription. connect opens a connection for it.
func (o *Options) listening(command string, channels []string, connect func(context.Context) (bus.Conn, error)) bus.SubscriptionConfig {
	return bus.SubscriptionConfig{
		Command:     command,
		Channels:    channels,
		Connect:     connect,
		DialTimeout: o.DialTimeout,
		Backoff:     pool.Backoff,
		Refused:     func(text []byte) error { return serverError(text) },
		Broken:      lostSubscription,
		Unasked:     pool.ErrUnasked,
		Closed:      ErrClosed,
		Overflow:    errors.New("redis: subscription: events were not taken in time"),
		Connecting:  errors.New("redis: subscription: connecting"),
		Ended:       errors.New("redis: subscription: ended by the server"),
	}
}

// lostSubscription is the error for the end of a subscription's connection.
func lostSubscription(ctx context.Context, err error) error {
	if !errors.As(err, new(*ConnError)) {
		err = readError(err)
	}
	return faults.Explain(ctx, false, err)
}
