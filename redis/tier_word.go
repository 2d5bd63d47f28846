package redis

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/redis/internal/layout"
)

// wordAge is how old an instance lets its knowledge of the word become, and so
// how late it notices, at the latest, that another one has dropped everything.
const wordAge = time.Second

// word is what an instance knows of its name space, and of the server's clock.
// It is not changed once made.
type word struct {
	text   string // epoch and count
	server int64  // the server's clock, in ms, at some time after local
	local  time.Time
}

// now is the server's clock in ms when the local one shows t. It is never
// behind the real one by more than the clocks drift in wordAge, and ahead of
// it by no more than a round trip: lives end early rather than late.
func (w *word) now(t time.Time) int64 {
	return w.server + t.Sub(w.local).Milliseconds() + 1
}

// wordHolder keeps the newest word of one name space and sees to it that one
// caller at a time asks for a newer one.
type wordHolder struct {
	word   atomic.Pointer[word]
	doubts atomic.Pointer[time.Time] // words that were asked for before it are not used
	asking atomic.Bool
}

// wordHolders are those of all name spaces that a process uses on one Tier.
type wordHolders struct {
	mu   sync.Mutex // guards below
	held map[string]*wordHolder
}

func (h *wordHolders) of(name string) *wordHolder {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.held[name]
	if w == nil {
		w = &wordHolder{}
		h.held[name] = w
	}
	return w
}

// Doubt makes all operations that begin from now on ask for the word anew.
func (t *Tier) Doubt() {
	now := time.Now()
	t.word.doubts.Store(&now)
}

// due returns the word, and whether the caller is to ask for it: because it is
// old and nobody else does, or because there is none or it is much too old.
// Who is to ask calls asked afterwards.
func (h *wordHolder) due(now time.Time) (ask bool, w *word) {
	w = h.word.Load()
	if w == nil {
		return true, nil
	}
	if d := h.doubts.Load(); d != nil && !w.local.After(*d) {
		return true, w
	}
	age := now.Sub(w.local)
	if age < wordAge {
		return false, w
	}
	return age > 2*wordAge || h.asking.CompareAndSwap(false, true), w
}

// asked keeps the answer, unless there is none or a newer one is known.
func (h *wordHolder) asked(w *word) {
	if w != nil {
		h.keep(w)
	}
	h.asking.Store(false)
}

func (h *wordHolder) keep(w *word) {
	for {
		old := h.word.Load()
		if old != nil && old.local.After(w.local) {
			return
		}
		if h.word.CompareAndSwap(old, w) {
			return
		}
	}
}

// wordArgs are a nonce and, if a word is known, its epoch and count.
func (t *Tier) wordArgs() []any {
	args := []any{layout.Hex(newToken())}
	if w := t.word.word.Load(); w != nil {
		epoch, count, _ := strings.Cut(w.text, ".")
		args = append(args, epoch, count)
	}
	return args
}

// current returns a word that is young enough, asking for it if need be.
func (t *Tier) current(ctx context.Context) (*word, error) {
	ask, w := t.word.due(time.Now())
	if !ask {
		return w, nil
	}
	sent := time.Now()
	w, err := parseWord(t.c.Eval(ctx, t.scripts.word, []string{t.names.Word}, t.wordArgs()...), sent)
	t.word.asked(w)
	return w, t.cleanWord(ctx, err)
}

// cleanWord removes what is under the word's key if err says that it is
// somebody else's: the next question makes a new one. It returns err.
func (t *Tier) cleanWord(ctx context.Context, err error) error {
	if wrongType(err) {
		t.foreign.Add(1)
		_ = t.clean(ctx, t.names.Word) // if it fails the next question does too
	}
	return err
}

// DropAll makes everything in the space absent for all instances: for this one
// at once, for others when they ask for the word next.
func (t *Tier) DropAll(ctx context.Context) error {
	sent := time.Now()
	r := t.c.Eval(ctx, t.scripts.dropAll, []string{t.names.Word}, layout.Hex(newToken()), t.names.Channel, t.names.AllDropped())
	w, err := parseWord(r, sent)
	if err != nil {
		return err
	}
	// As of now, so that it is newer than the answer to any question that was
	// asked before.
	now := time.Now()
	w.server, w.local = w.now(now), now
	t.word.keep(w)
	return nil
}

// parseWord reads the reply of the scripts about the word, which was asked for
// at the time sent.
func parseWord(r Reply, sent time.Time) (*word, error) {
	if err := r.Err(); err != nil {
		return nil, err
	}
	var epoch string
	var numbers [2]int64
	for i, e := range r.All() {
		var err error
		switch i {
		case 0:
			epoch, err = e.String()
		case 1, 2:
			numbers[i-1], err = e.Int()
		}
		if err != nil {
			return nil, err
		}
	}
	return &word{text: epoch + "." + strconv.FormatInt(numbers[0], 10), server: numbers[1], local: sent}, nil
}
