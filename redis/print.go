package redis

import (
	"fmt"
	"io"
	"log/slog"
)

// The types of this package print and log themselves without credentials, for
// every verb, and without looking into memory that other goroutines use.

// Format implements [fmt.Formatter].
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// Format implements [fmt.Formatter] by String.
func (s Sentinel) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// String describes the client without credentials.
func (c *Client) String() string { return "redis.Client" + c.o.LogValue().String() }

// GoString is String.
func (c *Client) GoString() string { return c.String() }

// Format implements [fmt.Formatter] by String.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue implements slog.LogValuer. It leaves credentials out.
func (c *Client) LogValue() slog.Value { return c.o.LogValue() }

// String describes the bus without credentials.
func (b *Bus) String() string { return "redis.Bus" + b.c.o.LogValue().String() }

// GoString is String.
func (b *Bus) GoString() string { return b.String() }

// Format implements [fmt.Formatter] by String.
func (b *Bus) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, b.String()) }

// LogValue implements slog.LogValuer. It leaves credentials out.
func (b *Bus) LogValue() slog.Value { return b.c.o.LogValue() }

// Format implements [fmt.Formatter]: it writes the name of the type.
func (t *Tier) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redis.Tier") }

// Format implements [fmt.Formatter]: it writes the name of the type.
func (s *Subscription) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redis.Subscription") }

// Format implements [fmt.Formatter]: it writes the name of the type.
func (p *Pipeline) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redis.Pipeline") }

// Format implements [fmt.Formatter]: it writes the name of the type.
func (s *Stream) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redis.Stream") }

// Format implements [fmt.Formatter]: it writes the name of the type.
func (t *Tx) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redis.Tx") }
