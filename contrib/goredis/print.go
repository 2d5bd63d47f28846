package goredis

import (
	"fmt"
	"io"
	"log/slog"
)

// The types of this package print and log themselves without credentials, with any
// verb, and without reading memory that other goroutines use.

// where describes the server of a client without credentials.
func (l *link) where() slog.Value {
	o := l.rdb.Options()
	return slog.GroupValue(slog.String("addr", o.Addr), slog.Int("db", o.DB))
}

// String describes the bus without credentials.
func (b *Bus) String() string { return "goredis.Bus" + b.LogValue().String() }

// GoString is String.
func (b *Bus) GoString() string { return b.String() }

// Format implements [fmt.Formatter] by String.
func (b *Bus) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, b.String()) }

// LogValue implements slog.LogValuer. It leaves credentials out.
func (b *Bus) LogValue() slog.Value { return b.link.where() }

// String describes the tier without credentials.
func (t *Tier) String() string { return "goredis.Tier" + t.LogValue().String() }

// GoString is String.
func (t *Tier) GoString() string { return t.String() }

// Format implements [fmt.Formatter] by String.
func (t *Tier) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue implements slog.LogValuer. It leaves credentials out.
func (t *Tier) LogValue() slog.Value { return t.srv.where() }
