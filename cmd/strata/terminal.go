package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/mattn/go-isatty"
)

// liveLine is one line of a terminal that is overwritten. Without a terminal it
// writes nothing.
type liveLine struct {
	w  io.Writer
	on bool

	mu    sync.Mutex // guards dirty
	dirty bool
}

func newLiveLine(w io.Writer) *liveLine {
	return &liveLine{w: w, on: isTerminal(w) && os.Getenv("TERM") != "dumb"}
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// show replaces the line.
func (l *liveLine) show(text string) {
	if !l.on {
		return
	}
	l.mu.Lock()
	l.dirty = true
	l.mu.Unlock()
	fmt.Fprint(l.w, "\r\x1b[K"+text)
}

// clear empties the line.
func (l *liveLine) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dirty {
		fmt.Fprint(l.w, "\r\x1b[K")
	}
	l.dirty = false
}
