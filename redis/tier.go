package redis

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strata-cache/strata/remote"
)

// Lanes is the number of slices that the keys of a cache are divided into.
// Each has one sequence of drops, and lives in one slot of a cluster.
const Lanes = 1024

// maxTierKey is the longest key of a cache, in bytes, that a Tier takes. Redis
// would take more; a key that long is a value that went astray.
const maxTierKey = 64 << 10

// Tier keeps a cache's entries in Redis. It is a [remote.Tier] with all
// optional abilities, shared by any number of caches: each binds its own part
// by its name.
//
// An entry is a hash, so that one command reads a value with its state, one
// drop removes the values of all types, and a life can be changed without
// sending the value again:
//
//	strata:{name:lane}=key    v<schema>  the sealed value
//	                          s<schema>  fresh until, left until (ms of the server's clock), id, word
//	                          l<schema>  lease: token, until
//	                          t          token of the last drop: token, until
//	                          h          hold: until
//	strata:{name:lane}lane    c          sequence of the lane's drops
//	strata:{name}word         epoch, count
//
// The word changes when everything is dropped at once. A value whose state has
// another word is absent. An instance asks for the word when it has not for a
// second, together with whatever it reads then.
//
// The server must allow EVAL and EVALSHA. What the Tier cannot read is absent
// and counted.
type Tier struct {
	c       *Client
	scripts *scripts
	foreign *atomic.Uint64
	space   remote.Space
	names   names
	word    *wordHolder
	words   *wordHolders
}

// names are the parts of key names that do not change.
type names struct {
	lane, word, channel    string
	value, state           string
	schema, dropped, faded string
	all                    string
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
	schema := strconv.FormatUint(s.Schema, 16)
	from := strconv.FormatUint(s.Instance, 16)
	b := *t
	b.space = s
	b.word = t.words.of(s.Name)
	b.names = names{
		lane:    "strata:{" + s.Name + ":",
		word:    "strata:{" + s.Name + "}word",
		channel: channelOf(s.Name),
		value:   "v" + schema,
		state:   "s" + schema,
		schema:  schema,
		dropped: messageHead(remote.Dropped, from),
		faded:   messageHead(remote.Expired, from),
		all:     messageHead(remote.AllDropped, from) + "0 0 ",
	}
	return &b
}

// Announces is true: a drop and its announcement are one step.
func (t *Tier) Announces() bool { return true }

// Foreign is the number of values that were there but not readable as an
// entry. The count is shared by all parts of the tier.
func (t *Tier) Foreign() uint64 { return t.foreign.Load() }

// laneOf returns the lane of a key.
func laneOf(key string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % Lanes)
}

// entryKey is the name of the hash that holds key.
func (t *Tier) entryKey(key string) string {
	return t.names.lane + strconv.Itoa(laneOf(key)) + "}=" + key
}

// laneKey is the name of the hash that holds a lane's sequence, in the slot of
// the lane's entries.
func (t *Tier) laneKey(lane int) string {
	return t.names.lane + strconv.Itoa(lane) + "}lane"
}

func tooLong(key string) error {
	if len(key) > maxTierKey {
		return remote.ErrKeyTooLong
	}
	return nil
}

// newToken returns a token that is not zero.
func newToken() uint64 { return rand.Uint64() | 1 }

func base16(n uint64) string { return strconv.FormatUint(n, 16) }

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
		r := t.c.Do(ctx, "HMGET", t.entryKey(keys[0]), t.names.value, t.names.state)
		h, err := t.held(r, w)
		if err != nil {
			return nil, err
		}
		return []remote.Held{h}, nil
	}
	return t.getMany(ctx, keys, ask, w)
}

// getMany reads any number of keys, and the word if ask is set, in one round
// trip.
func (t *Tier) getMany(ctx context.Context, keys []string, ask bool, w *word) ([]remote.Held, error) {
	p := t.c.Pipeline()
	sent := time.Now()
	if ask {
		p.Eval(t.scripts.word, []string{t.names.word}, base16(newToken()))
	}
	for _, k := range keys {
		p.Add("HMGET", t.entryKey(k), t.names.value, t.names.state)
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
			return nil, err
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
	s, ok := parseState(text)
	if !ok {
		t.foreign.Add(1)
		return remote.Held{}, nil
	}
	now := w.now(time.Now())
	if s.word != w.text || s.left <= now {
		return remote.Held{}, nil
	}
	h := remote.Held{
		ID:    remote.ID(s.id),
		Fresh: max(0, time.Duration(s.fresh-now)*time.Millisecond),
		Left:  time.Duration(s.left-now) * time.Millisecond,
		Soft:  s.fresh == 0,
	}
	if value.IsNull() {
		return h, nil
	}
	h.Data, err = value.Bytes()
	return h, err
}

// state is what an entry knows of a value. Times are in ms of the server's
// clock.
type state struct {
	fresh, left int64
	id          uint64
	word        string
}

func parseState(s string) (st state, ok bool) {
	fresh, s, ok1 := strings.Cut(s, " ")
	left, s, ok2 := strings.Cut(s, " ")
	id, word, ok3 := strings.Cut(s, " ")
	if !ok1 || !ok2 || !ok3 || word == "" {
		return st, false
	}
	var errs [3]error
	st.fresh, errs[0] = strconv.ParseInt(fresh, 10, 53)
	st.left, errs[1] = strconv.ParseInt(left, 10, 53)
	st.id, errs[2] = strconv.ParseUint(id, 16, 64)
	st.word = word
	ok = errs == [3]error{} && st.fresh >= 0 && st.left >= 0 && st.id != 0
	return st, ok
}

func wrongType(err error) bool {
	var refused *Error
	// A script that meets the wrong type reports it in its own words.
	return errors.As(err, &refused) && (refused.Code == "WRONGTYPE" || strings.Contains(refused.Message, "WRONGTYPE"))
}
