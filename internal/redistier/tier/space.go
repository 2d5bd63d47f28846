package tier

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/redistier/plain"
	"github.com/strata-cache/strata/internal/redistier/words"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

var errLost = errors.New("redis: tier: what is kept of a name space does not last")

// Doubt makes all operations that begin from now on ask for the word anew.
func (t *Tier) Doubt() { t.word.Doubt(time.Now()) }

// fits reports whether w was asked for after the last connection was opened, so
// that what has been read can be judged by it.
func (t *Tier) fits(w *words.Word) bool { return w.Opened == t.srv.Opened() }

// question returns a word to be filled in by the answer to a question that is
// sent now.
func (t *Tier) question() *words.Word {
	return &words.Word{Opened: t.srv.Opened(), Asked: time.Now()}
}

// appendSpace appends a call of a script about a name space, with further
// arguments behind those that all of them have.
func (t *Tier) appendSpace(dst []byte, head string, further ...string) []byte {
	known := t.word.Known()
	if known == nil {
		known = &words.Word{}
	}
	dst = appendStrings(appendCall(dst, head, 7+len(further)), t.names.Word, t.names.Tags)
	dst = resp.AppendString(appendHex(dst, nonce()), known.Epoch)
	dst = appendUint(appendUint(dst, known.Drops), known.Expiries)
	return appendStrings(appendUint(dst, known.Clock), further...)
}

// onSpace runs one of the scripts about a name space, or does the same without,
// and returns the word from then.
func (t *Tier) onSpace(ask plain.Ask, s *script, further []string, without func(plain.Space, *words.Word) error) (*words.Word, error) {
	w := t.question()
	if t.scripted() {
		v, err := runOver(ask, s, func(dst []byte, head string) []byte {
			return t.appendSpace(dst, head, further...)
		})
		if err != nil {
			return nil, err
		}
		if !t.forbids(v) {
			return t.answered(w, v)
		}
	}
	err := without(plain.Space{Ask: ask, Names: &t.names, Nonce: layout.Hex(nonce()), Known: t.word.Known()}, w)
	if err != nil {
		return nil, err
	}
	return t.keep(w), nil
}

// keep completes a word that was answered.
func (t *Tier) keep(w *words.Word) *words.Word {
	w.Heard = time.Now()
	w.Spell()
	t.word.Answered(w)
	return w
}

func (t *Tier) askWord(ask plain.Ask) (*words.Word, error) {
	return t.onSpace(ask, t.scripts.word, nil, plain.Space.Look)
}

// answered fills in w with what a script about a name space has answered, and
// keeps it.
func (t *Tier) answered(w *words.Word, v resp.Value) (*words.Word, error) {
	if err := refusal(v); err != nil {
		return nil, err
	}
	var n [4]int64
	i := 0
	for e := range v.Elems() {
		switch {
		case i == 0:
			w.Epoch = string(e.Bytes())
		case i <= len(n) && e.Kind() == resp.Int && e.Int() >= 0:
			n[i-1] = e.Int()
		default:
			return nil, errAnswer
		}
		i++
	}
	if i != 1+len(n) || w.Epoch == "" {
		return nil, errAnswer
	}
	w.Drops, w.Expiries, w.Clock, w.Server = uint64(n[0]), uint64(n[1]), uint64(n[2]), n[3]
	return t.keep(w), nil
}

// clock returns a word that knows the server's clock, however old the rest is.
func (t *Tier) clock(ctx context.Context) (*words.Word, error) {
	const known = time.Minute // clocks drift little in it
	if w := t.word.Known(); w != nil && t.fits(w) && time.Since(w.Heard) < known {
		return w, nil
	}
	return t.current(ctx)
}

// current returns a word that is young enough, asking for it if need be.
func (t *Tier) current(ctx context.Context) (*words.Word, error) {
	ask, w := t.word.Due(time.Now(), t.srv.Opened())
	if !ask {
		return w, nil
	}
	_, w, err := t.read(ctx, true, w, func(*plain.Batch) {})
	return w, err
}

// read sends what add queues, which only reads, together with the question for
// the word if ask is set or a connection is opened meanwhile. It returns a word
// by which the replies can be judged.
func (t *Tier) read(ctx context.Context, ask bool, w *words.Word, add func(*plain.Batch)) (replies []resp.Value, judge *words.Word, err error) {
	err = t.srv.Together(ctx, true, func(send plain.Ask) (err error) {
		if !ask {
			var b plain.Batch
			add(&b)
			if replies, err = send(&b); err != nil || t.fits(w) {
				return err
			}
		}
		replies, w, err = t.readWithWord(send, add)
		return err
	})
	if err != nil {
		t.word.Answered(nil)
	}
	return replies, w, t.cleanWord(ctx, err)
}

// readWithWord asks for the word and sends what add queues, in one round trip
// if it is done by a script.
func (t *Tier) readWithWord(send plain.Ask, add func(*plain.Batch)) ([]resp.Value, *words.Word, error) {
	var b plain.Batch
	if t.scripted() {
		w := t.question()
		// The text itself: were it not known by its digest, what was read would
		// come before the word.
		b.Text, b.N = t.appendSpace(nil, t.scripts.word.text), 1
		add(&b)
		replies, err := send(&b)
		if err != nil {
			return nil, nil, err
		}
		if !t.forbids(replies[0]) {
			w, err = t.answered(w, replies[0])
			return replies[1:], w, err
		}
		b = plain.Batch{}
	}
	w, err := t.askWord(send)
	if err != nil {
		return nil, nil, err
	}
	if add(&b); b.N == 0 {
		return nil, w, nil
	}
	replies, err := send(&b)
	return replies, w, err
}

// cleanWord removes what is under the keys of the name space if err says that
// it is somebody else's: the next question makes a new word. It returns err.
func (t *Tier) cleanWord(ctx context.Context, err error) error {
	if wrongType(err) {
		t.foreign.Add(1)
		for _, k := range []string{t.names.Word, t.names.Tags} {
			_ = t.clean(ctx, "hash", k) // if it fails the next question does too
		}
	}
	return err
}

// DropAll makes everything in the space absent, or stale if soft.
func (t *Tier) DropAll(ctx context.Context, soft bool) error {
	field := "drops"
	if soft {
		field = "expiries"
	}
	return t.cleanWord(ctx, t.srv.Together(ctx, true, func(ask plain.Ask) error {
		_, err := t.onSpace(ask, t.scripts.dropAll, []string{field, t.names.Channel, t.names.AllDropped(soft)},
			func(s plain.Space, w *words.Word) error { return s.DropAll(w, soft) })
		return err
	}))
}

// DropTags drops tags.
func (t *Tier) DropTags(ctx context.Context, tags []string, soft bool) error {
	if err := tooLong(tags...); err != nil {
		return err
	}
	if len(tags) == 0 {
		return ctx.Err()
	}
	return t.cleanWord(ctx, t.srv.Together(ctx, true, func(ask plain.Ask) error { return t.dropTags(ask, tags, soft) }))
}

// dropTags with no tags only makes what is kept of tags if it is missing.
func (t *Tier) dropTags(ask plain.Ask, tags []string, soft bool) error {
	further := []string{"d:", t.names.Channel, t.names.TagDropped(soft), strconv.Itoa(layout.MaxTags)}
	if soft {
		further[0] = "e:"
	}
	_, err := t.onSpace(ask, t.scripts.dropTags, append(further, tags...),
		func(s plain.Space, w *words.Word) error { return s.DropTags(w, tags, soft) })
	return err
}

// Tags returns the drops of each tag. One that is not known counts as dropped
// when what is known of tags begins.
func (t *Tier) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	if err := tooLong(tags...); err != nil {
		return nil, err
	}
	if len(tags) == 0 {
		return nil, ctx.Err()
	}
	hmget := []any{"HMGET", t.names.Tags, "floor"}
	for _, tag := range tags {
		hmget = append(hmget, "d:"+tag, "e:"+tag)
	}
	for range 3 {
		due, w := t.word.Due(time.Now(), t.srv.Opened())
		replies, _, err := t.read(ctx, due, w, func(b *plain.Batch) { b.Add(hmget...) })
		if err == nil {
			err = refusal(replies[0])
		}
		if err != nil {
			return nil, t.cleanWord(ctx, err)
		}
		if known, ok := parseTags(replies[0], len(tags)); ok {
			return known, nil
		}
		err = t.srv.Together(ctx, true, func(ask plain.Ask) error { return t.dropTags(ask, nil, false) })
		if err != nil {
			return nil, t.cleanWord(ctx, err)
		}
	}
	return nil, errLost
}

// parseTags makes sense of the floor and the drops of n tags. It reports false
// if there is no floor. What is no number counts as missing.
func parseTags(v resp.Value, n int) (known []remote.Tag, ok bool) {
	if v.Len() != 1+2*n {
		return nil, false
	}
	known = make([]remote.Tag, n)
	var floor uint64
	i := -1
	for e := range v.Elems() {
		clock, good := plain.Clock(e)
		switch {
		case i < 0 && !good:
			return nil, false
		case i < 0:
			floor = clock
		case i%2 == 0:
			known[i/2].Dropped = max(floor, clock)
		default:
			known[i/2].Expired = clock
		}
		i++
	}
	return known, true
}

// Lane returns the lane of key.
func (t *Tier) Lane(key string) uint16 { return layout.LaneOf(key) }

// Position asks for the word and for the words of all lanes.
func (t *Tier) Position(ctx context.Context) (remote.Position, error) {
	var p remote.Position
	err := t.srv.Together(ctx, true, func(ask plain.Ask) error {
		w, err := t.askWord(ask)
		if err != nil {
			return err
		}
		p = remote.Position{Epoch: w.Epoch, Drops: w.Drops, Expiries: w.Expiries, Clock: w.Clock}
		p.Lanes, err = t.lanes(ask)
		return err
	})
	if err != nil {
		return remote.Position{}, t.cleanWord(ctx, err)
	}
	return p, nil
}

// lanes returns the words of all lanes and gives one to those that have none.
func (t *Tier) lanes(ask plain.Ask) ([]remote.Word, error) {
	mget := []any{"MGET"}
	for lane := range uint16(layout.Lanes) {
		mget = append(mget, t.names.LaneAt(lane))
	}
	var b plain.Batch // begins with commands that make words, from the second try on
	for try := range 4 {
		b.Add(mget...)
		replies, err := ask(&b)
		if err != nil {
			return nil, err
		}
		for _, v := range replies {
			if err := refusal(v); err != nil {
				return nil, err
			}
		}
		v := replies[len(replies)-1]
		if v.Len() != layout.Lanes {
			return nil, errAnswer
		}
		b = plain.Batch{}
		if found := t.parseLanes(&b, v, mget[1:], try == 0); b.N == 0 {
			return found, nil
		}
	}
	return nil, errLost
}

// parseLanes makes sense of the words of all lanes. For those that are missing
// or none, it queues what makes one.
func (t *Tier) parseLanes(b *plain.Batch, v resp.Value, keys []any, first bool) []remote.Word {
	found := make([]remote.Word, 0, len(keys))
	for e := range v.Elems() {
		w, ok := layout.ParseLaneWord(string(e.Bytes()))
		found = append(found, w)
		if ok {
			continue
		}
		set := []any{"SET", keys[len(found)-1], layout.LaneWord(remote.Word{Nonce: nonce()})}
		if first && e.Kind() == resp.Null {
			set = append(set, "NX") // another instance may be first
		} else {
			t.foreign.Add(1) // of another type, or no word
		}
		b.Add(set...)
	}
	return found
}

// Probe looks for what weakens the promises of a cache, and uses scripts again
// if they are permitted by now.
func (t *Tier) Probe(ctx context.Context) (warnings []string, err error) {
	var r []resp.Value
	err = t.srv.Together(ctx, true, func(ask plain.Ask) (err error) {
		var b plain.Batch
		b.Add("EVAL", "return 1", 0)
		b.Add("INFO", "server")
		b.Add("INFO", "replication")
		b.Add("INFO", "memory")
		b.Add("CONFIG", "GET", "maxmemory*")
		r, err = ask(&b)
		return err
	})
	if err != nil {
		return nil, err
	}
	switch err := refusal(r[0]); {
	case t.forbids(r[0]):
		warnings = append(warnings, "scripts are not permitted: what writes takes several round trips, and fails under much competition for one key")
	case err != nil:
		return nil, err
	default:
		t.scripts.forbidden.Store(false)
	}
	if plain.Authority(r[1], r[2]) == "" {
		warnings = append(warnings, "INFO is not permitted or tells too little: a failover or restart that brings older data back is not always noticed")
	}
	limit, policy := plain.Memory(r[3], r[4])
	switch kind, _, _ := strings.Cut(policy, "-"); {
	case limit <= 0:
	case kind == "allkeys":
		warnings = append(warnings, "maxmemory-policy "+policy+" may evict fences: a hold may be cut short, and everything may be doubted")
	case kind == "volatile":
		warnings = append(warnings, "maxmemory-policy "+policy+" may evict fences: a hold may be cut short")
	}
	return warnings, nil
}
