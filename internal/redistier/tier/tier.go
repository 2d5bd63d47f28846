// Package tier decides what is stored in Redis, and what is read from it is
// worth: package redis has its face, package layout the forms.
package tier

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/redistier/plain"
	"github.com/strata-cache/strata/internal/redistier/words"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// maxKey is the longest key or tag in bytes. Redis would take more; a key that
// long is a value that went astray.
const maxKey = 64 << 10

// Server is how a [Tier] reaches its server. Errors are about connections; what
// the server answers, errors too, is a reply.
type Server interface {
	// Send sends one command, which put appends, and returns the reply. If it
	// may have been sent it is not sent again.
	Send(ctx context.Context, put func([]byte) []byte) (resp.Value, error)
	// Read is Send for a command about key that may be sent twice.
	Read(ctx context.Context, put func(dst []byte, key string) []byte, key string) (resp.Value, error)
	// Together gives f one connection for several round trips. If twice is set
	// and a connection was lost before its first reply, f gets another one.
	Together(ctx context.Context, twice bool, f func(plain.Ask) error) error
	// Opened is how many connections have been opened, before their first use.
	Opened() uint64
	// MaxValue is the size of the largest value that can be read.
	MaxValue() int
}

// Tier is the part of a store that belongs to one instance of a cache. Errors
// that the server answered with are a [*plain.Refusal].
type Tier struct {
	srv     Server
	scripts *scripts
	words   *words.Holders

	names   layout.Names
	word    *words.Holder
	foreign *atomic.Uint64
	get     func(dst []byte, key string) []byte // appendGet, made once
}

// New returns a tier without a name.
func New(srv Server) *Tier {
	t := &Tier{srv: srv, scripts: newScripts(), words: &words.Holders{}}
	return t.Bind(remote.Space{})
}

// Bind returns the part of the store that belongs to s.
func (t *Tier) Bind(s remote.Space) *Tier {
	b := *t
	b.foreign = new(atomic.Uint64)
	b.word = t.words.Of(s.Name)
	b.names = layout.NewNames(s)
	b.get = b.appendGet
	return &b
}

// Foreign is the number of values that were unreadable or not ours.
func (t *Tier) Foreign() uint64 { return t.foreign.Load() }

func tooLong(keys ...string) error {
	for _, k := range keys {
		if len(k) > maxKey {
			return remote.ErrKeyTooLong
		}
	}
	return nil
}

// nonce returns a random number that is not zero.
func nonce() uint64 { return rand.Uint64() | 2 }

// newLease and newToken draw tokens for leases and for drops. The lowest bit
// tells which, and so which script stores under them.
func newLease() uint64 { return nonce() | 1 }
func newToken() uint64 { return nonce() &^ 1 }

func isLease(token uint64) bool { return token&1 == 1 }

// millis is d in milliseconds, at least one if d is positive.
func millis(d time.Duration) int64 {
	if d > 0 && d < time.Millisecond {
		return 1
	}
	return d.Milliseconds()
}

// Get reads values with their states.
func (t *Tier) Get(ctx context.Context, keys []string) ([]remote.Held, error) {
	if err := tooLong(keys...); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	ask, w := t.word.Due(time.Now(), t.srv.Opened())
	if len(keys) == 1 && !ask {
		v, err := t.srv.Read(ctx, t.get, keys[0])
		if err != nil {
			return nil, err
		}
		if t.fits(w) {
			h, err := t.held(v, w)
			return []remote.Held{h}, err
		}
		ask = true
	}
	replies, w, err := t.read(ctx, ask, w, func(b *plain.Batch) {
		for _, k := range keys {
			b.Text, b.N = t.appendGet(b.Text, k), b.N+1
		}
	})
	if err != nil {
		return nil, err
	}
	held := make([]remote.Held, len(keys))
	for i, v := range replies {
		if held[i], err = t.held(v, w); err != nil {
			return nil, err
		}
	}
	return held, nil
}

func (t *Tier) appendGet(dst []byte, key string) []byte {
	dst = append(dst, "*4\r\n$5\r\nHMGET\r\n"...)
	dst = t.appendEntry(dst, key)
	dst = resp.AppendString(dst, t.names.Value)
	return resp.AppendString(dst, t.names.State)
}

// held makes sense of a value with its state, as HMGET answers.
func (t *Tier) held(v resp.Value, w *words.Word) (remote.Held, error) {
	if err := refusal(v); err != nil {
		if wrongType(err) {
			t.foreign.Add(1)
			return remote.Held{}, nil
		}
		return remote.Held{}, err
	}
	var value, state resp.Value
	i := 0
	for e := range v.Elems() {
		switch i {
		case 0:
			value = e
		case 1:
			state = e
		}
		i++
	}
	return t.open(value, state, w), nil
}

// open makes sense of a value and its state.
func (t *Tier) open(value, state resp.Value, w *words.Word) remote.Held {
	if state.Kind() == resp.Null {
		return remote.Held{}
	}
	s, ok := layout.ParseState(state.Bytes(), w.Text)
	if !ok {
		t.foreign.Add(1)
		return remote.Held{}
	}
	h := s.Held(w.Text, w.Now(time.Now()))
	if !h.Absent() && value.Kind() == resp.Bulk {
		h.Data = value.Bytes()
	}
	return h
}

// wrongType reports whether err says that there is something of another type
// under a key. A script says it in its own words.
func wrongType(err error) bool {
	if err == nil {
		return false
	}
	var refused *plain.Refusal
	return errors.As(err, &refused) && strings.Contains(refused.Text, "WRONGTYPE")
}

// clean removes from a key what is none of ours, because it is not of this type.
func (t *Tier) clean(ctx context.Context, kind, key string) error {
	_, err := t.either(ctx, t.scripts.clean, func(dst []byte, head string) []byte {
		return appendStrings(appendCall(dst, head, 2), key, kind)
	}, func(ask plain.Ask) (bool, error) { return true, plain.Clean(ask, key, kind) })
	return err
}

// either runs a script that answers with 1 or 0, or does the same without.
func (t *Tier) either(ctx context.Context, s *script, c call, without func(plain.Ask) (bool, error)) (yes bool, err error) {
	if t.scripted() {
		v, err := t.run(ctx, s, c)
		if err == nil {
			err = refusal(v)
		}
		if err == nil && v.Kind() != resp.Int {
			err = errAnswer
		}
		if !t.forbids(v) {
			return v.Int() == 1, err
		}
	}
	err = t.srv.Together(ctx, true, func(ask plain.Ask) (err error) {
		yes, err = without(ask)
		return err
	})
	return yes, err
}
