// Package words keeps what an instance knows of its name spaces: the word that
// decides which values are absent or stale, the tag clock, and the server's
// clock, which judges lives; in a cluster, of each server that holds lanes too.
package words

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Age is how old an instance lets its knowledge become, and so how late it
// notices, at the latest, that another one has dropped everything.
const Age = time.Second

// Word is what a server has said of a name space. It is not changed once it is
// in a [Holder].
type Word struct {
	// Epoch, Drops, Expiries and Clock are those of the name space.
	Epoch                  string
	Drops, Expiries, Clock uint64
	// Text is the part that values carry.
	Text string
	// Server is the server's clock in ms at some time between Asked, when the
	// question was sent, and Heard, when the answer was there.
	Server       int64
	Asked, Heard time.Time
	// Opened is how many connections had been opened when it was sent.
	Opened uint64
}

// Spell sets Text.
func (w *Word) Spell() { w.spell("") }

// spell sets Text, with more behind the epoch.
func (w *Word) spell(more string) {
	b := make([]byte, 0, len(w.Epoch)+len(more)+8)
	b = append(append(append(b, w.Epoch...), more...), '.')
	b = append(strconv.AppendUint(b, w.Drops, 10), '.')
	w.Text = string(strconv.AppendUint(b, w.Expiries, 10))
}

// Now is the server's clock in ms when the local one shows t. It is never
// behind the real one by more than the clocks drift in [Age], and ahead of it
// by no more than a round trip: lives end early rather than late.
func (w *Word) Now(t time.Time) int64 {
	return w.Server + t.Sub(w.Asked).Milliseconds() + 1
}

// Past is the server's clock in ms when the local one shows t, or a time before
// it, by no more than a round trip: what is stored to end then ends early
// rather than late.
func (w *Word) Past(t time.Time) int64 {
	return w.Server + t.Sub(w.Heard).Milliseconds() - 1
}

// supersedes reports whether w is to replace old. What a server counts only
// grows within an epoch; of two epochs the one asked for last is believed.
func (w *Word) supersedes(old *Word) bool {
	switch {
	case old == nil:
		return true
	case w.Epoch == old.Epoch && w.Drops != old.Drops:
		return w.Drops > old.Drops
	case w.Epoch == old.Epoch && w.Expiries != old.Expiries:
		return w.Expiries > old.Expiries
	case w.Epoch == old.Epoch && w.Clock != old.Clock:
		return w.Clock > old.Clock
	}
	return !w.Asked.Before(old.Asked)
}

// Holder keeps the newest word of one name space and sees to it that one
// caller at a time asks for a newer one. The zero Holder knows none.
type Holder struct {
	word   atomic.Pointer[Word]
	doubts atomic.Pointer[time.Time] // words that were asked for before it are not used
	asking atomic.Bool
}

// Known returns the word, or nil.
func (h *Holder) Known() *Word { return h.word.Load() }

// Due returns the word, and whether the caller is to ask for it: because it is
// old and nobody else does, because there is none or it is much too old, or
// because it was asked for before it was doubted, or before the last of opened
// connections was opened, which may lead to another server. Who is to ask calls
// Answered afterwards.
func (h *Holder) Due(now time.Time, opened uint64) (ask bool, w *Word) {
	w = h.word.Load()
	if w == nil || w.Opened != opened {
		return true, w
	}
	if d := h.doubts.Load(); d != nil && !w.Asked.After(*d) {
		return true, w
	}
	age := now.Sub(w.Asked)
	if age < Age {
		return false, w
	}
	return age > 2*Age || h.asking.CompareAndSwap(false, true), w
}

// Answered keeps the answer to a question, unless it is nil or a newer one is
// known.
func (h *Holder) Answered(w *Word) {
	if w != nil {
		h.keep(w)
	}
	h.asking.Store(false)
}

func (h *Holder) keep(w *Word) {
	for {
		old := h.word.Load()
		if !w.supersedes(old) || h.word.CompareAndSwap(old, w) {
			return
		}
	}
}

// Doubt makes all questions that Due is asked after the time now ask anew.
func (h *Holder) Doubt(now time.Time) {
	for {
		old := h.doubts.Load()
		if old != nil && old.After(now) || h.doubts.CompareAndSwap(old, &now) {
			return
		}
	}
}

// Holders are those of all name spaces that a process uses on one server.
type Holders struct {
	mu   sync.Mutex // guards below
	held map[string]*Holder
}

// Of returns the holder for a name.
func (h *Holders) Of(name string) *Holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.held[name]
	if w == nil {
		if h.held == nil {
			h.held = map[string]*Holder{}
		}
		w = &Holder{}
		h.held[name] = w
	}
	return w
}
