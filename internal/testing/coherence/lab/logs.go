package lab

import (
	"log/slog"
	"strings"
	"sync"
)

// TextLogger returns a logger that writes to w.
func TextLogger(w *LogText) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// LogText is the text of a logger. Caches log in the background too.
type LogText struct {
	mu   sync.Mutex // guards below
	text strings.Builder
}

// Write implements io.Writer.
func (l *LogText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text since the start, or the last Reset.
func (l *LogText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Len is the length of String.
func (l *LogText) Len() int { return len(l.String()) }

// Reset empties the text.
func (l *LogText) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}
