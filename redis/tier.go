package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/redis/internal/layout"
	"github.com/strata-cache/strata/remote"
)

// maxTierKey is the longest key of a cache, in bytes, that a Tier takes. Redis
// would take more; a key that long is a value that went astray.
const maxTierKey = 64 << 10

// Tier keeps a cache's entries in Redis. It is a [remote.Tier] with all
// optional abilities, shared by any number of caches: each binds its own part
// by its name.
//
// An entry is a hash that holds the values of all types under a key with
// their states. A read is one HMGET; all that changes something is a script,
// so that what may be stored is decided where it is stored. The package's
// internal folder layout describes both.
//
// An instance asks for the word, which changes when everything is dropped at
// once, when it has not for a second, together with whatever it reads then.
//
// The server must allow EVAL and EVALSHA. What the Tier cannot read is absent
// and counted.
type Tier struct {
	c       *Client
	scripts *scripts
	foreign *atomic.Uint64
	space   remote.Space
	names   layout.Names
	word    *wordHolder
	words   *wordHolders
}

// NewTier returns a tier on c's server. The client stays the caller's to
// close.
func NewTier(c *Client) *Tier {
	t := &Tier{c: c, scripts: newScripts(), foreign: new(atomic.Uint64), words: &wordHolders{held: map[string]*wordHolder{}}}
	return t.bind(remote.Space{})
}

// Bind returns the part of the tier that belongs to one instance of a cache.
func (t *Tier) Bind(s remote.Space) remote.Tier { return t.bind(s) }

func (t *Tier) bind(s remote.Space) *Tier {
	b := *t
	b.space = s
	b.foreign = new(atomic.Uint64)
	b.word = t.words.of(s.Name)
	b.names = layout.NewNames(s)
	return &b
}

// scripts are the layout's scripts, ready to be called by their digests.
type scripts struct {
	acquire, put, drop, extend, release, renew, word, dropAll, clean *Script
}

func newScripts() *scripts {
	return &scripts{
		acquire: NewScript(layout.Acquire),
		put:     NewScript(layout.Put),
		drop:    NewScript(layout.Drop),
		extend:  NewScript(layout.Extend),
		release: NewScript(layout.Release),
		renew:   NewScript(layout.Renew),
		word:    NewScript(layout.Word),
		dropAll: NewScript(layout.DropAll),
		clean:   NewScript(layout.Clean),
	}
}

// Announces is true: a drop and its announcement are one step.
func (t *Tier) Announces() bool { return true }

// Foreign is the number of values that were there but not readable as an
// entry, as this part of the tier has met them.
func (t *Tier) Foreign() uint64 { return t.foreign.Load() }

func tooLong(key string) error {
	if len(key) > maxTierKey {
		return remote.ErrKeyTooLong
	}
	return nil
}

// newToken returns a token that is not zero.
func newToken() uint64 { return rand.Uint64() | 1 }

// millis is d in milliseconds, at least one if d is positive.
func millis(d time.Duration) int64 {
	if d > 0 && d < time.Millisecond {
		return 1
	}
	return d.Milliseconds()
}

// Get reads values with their states by HMGET: no script.
func (t *Tier) Get(ctx context.Context, keys []string) ([]remote.Held, error) {
	for _, k := range keys {
		if err := tooLong(k); err != nil {
			return nil, err
		}
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	ask, w := t.word.due(time.Now())
	if len(keys) == 1 && !ask {
		h, err := t.held(t.getOne(ctx, keys[0]), w)
		if err != nil {
			return nil, err
		}
		return []remote.Held{h}, nil
	}
	return t.getMany(ctx, keys, ask, w)
}

// getOne is Do of the HMGET without the cost of arguments of any type, which
// is six allocations of twelve.
func (t *Tier) getOne(ctx context.Context, key string) Reply {
	return t.c.ask(ctx, "HMGET", func(cn *conn) error {
		cn.w = append(cn.w, "*4\r\n$5\r\nHMGET\r\n"...)
		cn.w = resp.AppendBulkHeader(cn.w, int64(t.names.EntryLen(key)))
		cn.w = append(t.names.AppendEntry(cn.w, key), "\r\n"...)
		cn.w = resp.AppendString(cn.w, t.names.Value)
		cn.w = resp.AppendString(cn.w, t.names.State)
		return nil
	})
}

// getMany reads any number of keys, and the word if ask is set, in one round
// trip.
func (t *Tier) getMany(ctx context.Context, keys []string, ask bool, w *word) ([]remote.Held, error) {
	p := t.c.Pipeline()
	sent := time.Now()
	if ask {
		p.Eval(t.scripts.word, []string{t.names.Word}, t.wordArgs()...)
	}
	for _, k := range keys {
		p.Add("HMGET", t.names.Entry(k), t.names.Value, t.names.State)
	}
	replies, err := p.Do(ctx)
	if err != nil {
		if ask {
			t.word.asked(nil)
		}
		return nil, err
	}
	if ask {
		w, err = parseWord(replies[0], sent)
		t.word.asked(w)
		if err != nil {
			return nil, t.cleanWord(ctx, err)
		}
		replies = replies[1:]
	}
	held := make([]remote.Held, len(keys))
	for i, r := range replies {
		if held[i], err = t.held(r, w); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// held makes sense of a reply of HMGET.
func (t *Tier) held(r Reply, w *word) (remote.Held, error) {
	if wrongType(r.Err()) {
		t.foreign.Add(1)
		return remote.Held{}, nil
	}
	var value, state Reply
	for i, e := range r.All() {
		switch i {
		case 0:
			value = e
		case 1:
			state = e
		}
	}
	if err := r.Err(); err != nil {
		return remote.Held{}, err
	}
	return t.open(value, state, w)
}

// open makes sense of a value and its state.
func (t *Tier) open(value, state Reply, w *word) (remote.Held, error) {
	if state.IsNull() {
		return remote.Held{}, nil
	}
	text, err := state.String()
	if err != nil {
		return remote.Held{}, err
	}
	s, ok := layout.ParseState(text)
	if !ok {
		t.foreign.Add(1)
		return remote.Held{}, nil
	}
	now := w.now(time.Now())
	if s.Word != w.text || s.Left <= now {
		return remote.Held{}, nil
	}
	h := remote.Held{
		ID:    remote.ID(s.ID),
		Fresh: max(0, time.Duration(s.Fresh-now)*time.Millisecond),
		Left:  time.Duration(s.Left-now) * time.Millisecond,
		Soft:  s.Fresh == 0,
	}
	if value.IsNull() {
		return h, nil
	}
	h.Data, err = value.Bytes()
	return h, err
}

func wrongType(err error) bool {
	if err == nil {
		return false
	}
	var refused *Error
	// A script that meets the wrong type reports it in its own words.
	return errors.As(err, &refused) && (refused.Code == "WRONGTYPE" || strings.Contains(refused.Message, "WRONGTYPE"))
}
