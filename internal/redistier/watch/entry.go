package watch

import (
	"strconv"
	"strings"

	"github.com/strata-cache/strata/internal/redistier/layout"
	"github.com/strata-cache/strata/internal/resp"
	"github.com/strata-cache/strata/remote"
)

// Entry is one key of one cache, and how to reach the server.
type Entry struct {
	Ask   Ask
	Names *layout.Names
	Key   string
}

// Acquired is the answer to a request for a lease.
type Acquired struct {
	Grant remote.Grant
	// Wait is in ms.
	Wait int64
	// State and Value are null if there is none.
	State, Value resp.Value
	// Late says that nobody waits for the answer any more, by the server's
	// clock.
	Late bool
}

// TooLate is the answer to a request that came too late. A caller that gets it all
// the same, because a clock was set, asks again.
// It is read-only.
var TooLate = Acquired{Grant: remote.Busy, Wait: 1, Late: true}

// Request asks for a lease. Times are in ms, Latest is of the server's clock.
type Request struct {
	Token string
	// Life is how long the lease is to last, Latest until when it may be given.
	Life, Latest int64
	Word         string
	// ID is that of the value that counts as stale; zero is none.
	ID uint64
}

// lease and hold are such rights and holds of life ms as they are stored, token
// is a right that is given with a drop.
func lease(token string, now, life int64) string { return token + " " + hold(now, life) }

func token(token string, till int64) string { return token + " " + strconv.FormatInt(till, 10) }

func hold(now, life int64) string {
	return strconv.FormatInt(now+life, 10) + " " + strconv.FormatInt(life, 10)
}

// onHold is what is left of a hold, and whether that is less than what is stored
// says: the server's clock was set back since, and the hold begins anew.
func onHold(s string, now int64) (left int64, setBack bool) {
	till, asked, _ := strings.Cut(s, " ")
	left, most := number(till)-now, number(asked)
	return max(0, min(left, most)), left > most
}

// leased is what is left of a lease, and who has it. One of which more is left
// than was given, by more than a second, is over: the clock was set back since.
func leased(s string, now int64) (left int64, holder string) {
	holder, rest, _ := strings.Cut(s, " ")
	till, whole, _ := strings.Cut(rest, " ")
	if left = number(till) - now; left > number(whole)+1000 {
		left = 0
	}
	return max(0, left), holder
}

// expire lets the entry live for life, at least.
func (t *tx) expire(entry string, pttl, life int64) {
	if pttl < life {
		t.writes.Add("PEXPIRE", entry, life)
	}
}

// Acquire asks for a lease. A request that is carried out late, because the server
// stood still between its read and its write, leaves one all the same.
func (e Entry) Acquire(q Request) (a Acquired, err error) {
	n, entry := e.Names, e.Names.Entry(e.Key)
	err = run(e.Ask, []string{entry}, func(t *tx) error {
		r, err := t.read(func(b *Batch) {
			b.Add("HMGET", entry, n.State, n.Lease, "h", n.Awaited, n.Value)
			b.Add("PTTL", entry)
			b.Add("TIME")
		})
		if err != nil {
			return err
		}
		f, now := fields(r[0], 5), Time(r[2])
		if now > q.Latest {
			a = TooLate
			return nil
		}
		a = Acquired{State: f[0]}
		s, ok := layout.ParseState(f[0].Bytes(), q.Word)
		left, holder := leased(text(f[1]), now)
		held, setBack := onHold(text(f[2]), now)
		if setBack {
			t.writes.Add("HSET", entry, "h", hold(now, held))
		}
		switch {
		case held > 0:
			a.Grant, a.Wait = remote.OnHold, held
		case ok && s.Fresh > now && s.Word == q.Word && s.ID != q.ID:
			a.Grant, a.Value = remote.Free, f[4]
		case left > 0 && holder != q.Token:
			a.Grant, a.Wait = remote.Busy, left
			if f[3].Kind() == resp.Null {
				t.writes.Add("HSET", entry, n.Awaited, 1)
			}
		default:
			a.Grant, a.Value = remote.Granted, f[4]
			if f[3].Kind() != resp.Null && holder != q.Token {
				t.writes.Add("HDEL", entry, n.Awaited)
			}
			t.writes.Add("HSET", entry, n.Lease, lease(q.Token, now, q.Life))
			t.expire(entry, -1, max(r[1].Int(), q.Life)) // as in Put
		}
		return nil
	})
	return a, err
}

// Value is what Put stores. Times are in ms.
type Value struct {
	Token, Word, Nonce string
	Fresh, Left        int64
	Data               []byte
	Drops              bool // also under a lease
}

// Put stores a value under a lease or a token.
func (e Entry) Put(v Value) (stored bool, err error) {
	n, entry, lane := e.Names, e.Names.Entry(e.Key), e.Names.Lane(e.Key)
	err = run(e.Ask, []string{entry, lane}, func(t *tx) error {
		r, err := t.read(func(b *Batch) {
			b.Add("HMGET", entry, n.Lease, "t", "h", n.Awaited)
			b.Add("GET", lane)
			b.Add("HLEN", entry)
			b.Add("PTTL", entry)
			b.Add("TIME")
		})
		if err != nil {
			return err
		}
		f, now := fields(r[0], 4), Time(r[4])
		holder, _ := right(text(f[0]))
		written, till := right(text(f[1]))
		awaited := f[3].Kind() != resp.Null
		held, _ := onHold(text(f[2]), now)
		fields, ttl := r[2].Int(), r[3].Int()
		leased := holder == v.Token && held == 0
		if written == v.Token && till > now {
			till, leased, v.Drops = 0, true, true // the token is used up
		}
		switch {
		case leased && v.Drops: // of all schemas
			t.dropped(n, e.Key, false, text(r[1]), v.Nonce, held)
			ttl, fields = t.empty(entry, held, token(written, till), till, now), 0
		case leased:
			t.ended(n, e.Key, awaited)
			if fields == 1 || fields == 2 && awaited {
				ttl = -1 // the key goes with them
			}
		default:
			stored = false
			return nil
		}
		stored = true
		if v.Left <= 0 {
			t.writes.Add("HDEL", entry, n.Value, n.State)
			return nil
		}
		if fields > 3 {
			if err := t.sweep(entry, now); err != nil {
				return err
			}
		}
		t.writes.Add("HSET", entry, n.Value, v.Data, n.State, state(now+v.Fresh, now+v.Left, v.Token, v.Word))
		if fields > 3 { // the sweep may have taken the key, and its end, with it
			t.expire(entry, -1, max(ttl, v.Left))
			return nil
		}
		t.expire(entry, ttl, v.Left)
		return nil
	})
	return stored, err
}

// empty takes everything out of an entry but a hold and a token of a drop that
// last, and returns for how long it lives then.
func (t *tx) empty(entry string, held int64, token string, till, now int64) (ttl int64) {
	t.writes.Add("DEL", entry)
	ttl = -1
	for _, f := range []struct {
		name  string
		value string
		until int64
	}{{"h", hold(now, held), now + held}, {"t", token, till}} {
		if f.until > now {
			t.writes.Add("HSET", entry, f.name, f.value)
			t.expire(entry, ttl, f.until-now)
			ttl = max(ttl, f.until-now)
		}
	}
	return ttl
}

func state(fresh, left int64, id, word string) string {
	return strconv.FormatInt(fresh, 10) + " " + strconv.FormatInt(left, 10) + " " + id + " " + word
}

// dropped gives the lane of key another word and announces a drop.
func (t *tx) dropped(n *layout.Names, key string, soft bool, was, nonce string, hold int64) {
	count, _, _ := strings.Cut(was, ".")
	w, ok := layout.ParseLaneWord(was)
	if !ok || len(count) > 13 {
		was, w.Count = "0.0", 0
	}
	is := strconv.FormatUint(w.Count+1, 10) + "." + nonce
	t.writes.Add("SET", n.Lane(key), is)
	t.writes.Add("PUBLISH", n.Channel, n.Dropped(key, soft)+was+" "+is+" "+strconv.FormatInt(hold, 10)+" "+key)
}

// ended removes the lease and announces that if somebody waits for it.
func (t *tx) ended(n *layout.Names, key string, awaited bool) {
	t.writes.Add("HDEL", n.Entry(key), n.Lease, n.Awaited)
	if awaited {
		t.writes.Add("PUBLISH", n.Channel, n.Ended+key)
	}
}

// states reads the names of all fields of an entry, and the states among them.
func (t *tx) states(entry string) (all []string, states map[string]string, err error) {
	r, err := t.read(func(b *Batch) { b.Add("HKEYS", entry) })
	if err != nil {
		return nil, nil, err
	}
	var names []string
	ask := []any{"HMGET", entry}
	for v := range r[0].Elems() {
		name := text(v)
		all = append(all, name)
		if strings.HasPrefix(name, "s") {
			names, ask = append(names, name), append(ask, name)
		}
	}
	if len(names) == 0 {
		return all, nil, nil
	}
	r, err = t.read(func(b *Batch) { b.Add(ask...) })
	if err != nil {
		return nil, nil, err
	}
	states = map[string]string{}
	for i, v := range fields(r[0], len(names))[:len(names)] {
		states[names[i]] = text(v)
	}
	return all, states, nil
}

// sweep removes values whose life is over: they would live on with the key.
func (t *tx) sweep(entry string, now int64) error {
	_, states, err := t.states(entry)
	for name, s := range states {
		if st, ok := layout.ParseState([]byte(s), ""); !ok || st.Left <= now {
			t.writes.Add("HDEL", entry, name, "v"+name[1:])
		}
	}
	return err
}

// Loss is how Drop drops. Times are in ms; Token is empty if none is wanted.
type Loss struct {
	Soft         bool
	Token, Nonce string
	Life, Hold   int64
	// Left is for how long values are kept after a soft drop; 0 for as long as they
	// were to be.
	Left int64
}

// Drop makes the key absent or stale for all schemas.
func (e Entry) Drop(d Loss) error {
	n, entry, lane := e.Names, e.Names.Entry(e.Key), e.Names.Lane(e.Key)
	return run(e.Ask, []string{entry, lane}, func(t *tx) error {
		r, err := t.read(func(b *Batch) {
			b.Add("HGET", entry, "h")
			b.Add("GET", lane)
			b.Add("PTTL", entry)
			b.Add("TIME")
		})
		if err != nil {
			return err
		}
		now, pttl := Time(r[3]), r[2].Int()
		if d.Soft {
			emptied, err := t.soften(entry, now, d.Left)
			if err != nil {
				return err
			}
			if emptied {
				pttl = -1
			}
			if d.Left > 0 && pttl > d.Left {
				pttl = d.Left
				t.writes.Add("PEXPIRE", entry, pttl)
			}
		} else {
			t.writes.Add("DEL", entry)
			pttl = -1
		}
		held, _ := onHold(text(r[0]), now)
		need := max(held, d.Hold)
		if need > 0 { // a hold is never shortened
			t.writes.Add("HSET", entry, "h", hold(now, need))
		}
		t.dropped(n, e.Key, d.Soft, text(r[1]), d.Nonce, need)
		if d.Token != "" {
			t.writes.Add("HSET", entry, "t", token(d.Token, now+d.Life))
			need = max(need, d.Life)
		}
		if need > 0 {
			// What was taken out may have taken the key, and its end, with it.
			t.expire(entry, -1, max(pttl, need))
		}
		return nil
	})
}

// soften makes all values of an entry stale, to be kept for most more unless that
// is zero, and voids all rights. It reports whether nothing is left of it then, its
// end included.
func (t *tx) soften(entry string, now, most int64) (emptied bool, err error) {
	all, states, err := t.states(entry)
	if err != nil {
		return false, err
	}
	emptied = true
	t.writes.Add("HDEL", entry, "t")
	for _, name := range all {
		switch name[:min(1, len(name))] {
		case "t":
		case "l", "w":
			t.writes.Add("HDEL", entry, name)
		case "s":
			emptied = false
			if rest, ok := softened(states[name], now, most); ok {
				t.writes.Add("HSET", entry, name, rest)
			}
		default:
			emptied = false
		}
	}
	return emptied, nil
}

// softened is a state that is not fresh any more, and ends within most of now
// unless that is zero. It reports false for what is no state.
func softened(s string, now, most int64) (soft string, ok bool) {
	fresh, rest, _ := strings.Cut(s, " ")
	until, rest, ok := strings.Cut(rest, " ")
	left, err := strconv.ParseInt(until, 10, 64)
	if !ok || err != nil || fresh == "" || strings.Trim(fresh, "0123456789") != "" {
		return "", false
	}
	if most > 0 {
		left = min(left, now+most)
	}
	return "0 " + strconv.FormatInt(left, 10) + " " + rest, true
}

// Extend gives the value that is held, whose id is given, a new life and the
// token as its id. Only the lives, token and word of v are looked at.
func (e Entry) Extend(v Value, id uint64) (done bool, err error) {
	n, entry := e.Names, e.Names.Entry(e.Key)
	err = run(e.Ask, []string{entry}, func(t *tx) error {
		r, err := t.read(func(b *Batch) {
			b.Add("HMGET", entry, n.Lease, n.State, "h", n.Awaited)
			b.Add("PTTL", entry)
			b.Add("TIME")
		})
		if err != nil {
			return err
		}
		f, now := fields(r[0], 4), Time(r[2])
		holder, _ := right(text(f[0]))
		held, _ := onHold(text(f[2]), now)
		s, ok := layout.ParseState(f[1].Bytes(), v.Word)
		done = ok && holder == v.Token && held == 0 && s.ID == id && s.Left > now &&
			layout.BeforeExpiries(s.Word) == layout.BeforeExpiries(v.Word)
		if !done {
			return nil
		}
		t.writes.Add("HSET", entry, n.State, state(now+v.Fresh, now+v.Left, v.Token, v.Word))
		t.expire(entry, r[1].Int(), v.Left)
		t.ended(n, e.Key, f[3].Kind() != resp.Null)
		return nil
	})
	return done, err
}

// Release gives a lease back.
func (e Entry) Release(token string) error {
	n, entry := e.Names, e.Names.Entry(e.Key)
	return run(e.Ask, []string{entry}, func(t *tx) error {
		r, err := t.read(func(b *Batch) { b.Add("HMGET", entry, n.Lease, n.Awaited) })
		if err != nil {
			return err
		}
		f := fields(r[0], 2)
		if holder, _ := right(text(f[0])); holder == token {
			t.ended(n, e.Key, f[1].Kind() != resp.Null)
		}
		return nil
	})
}

// Renew lets a lease run for life ms from now, if it is still there.
func (e Entry) Renew(token string, life int64) (kept bool, err error) {
	n, entry := e.Names, e.Names.Entry(e.Key)
	err = run(e.Ask, []string{entry}, func(t *tx) error {
		r, err := t.read(func(b *Batch) {
			b.Add("HGET", entry, n.Lease)
			b.Add("PTTL", entry)
			b.Add("TIME")
		})
		if err != nil {
			return err
		}
		holder, _ := right(text(r[0]))
		if kept = holder == token; kept {
			t.writes.Add("HSET", entry, n.Lease, lease(token, Time(r[2]), life))
			t.expire(entry, r[1].Int(), life)
		}
		return nil
	})
	return kept, err
}

// Clean removes what is under a key if it is not of this type.
func Clean(ask Ask, key, kind string) error {
	return run(ask, []string{key}, func(t *tx) error {
		r, err := t.read(func(b *Batch) { b.Add("TYPE", key) })
		if err != nil {
			return err
		}
		if is := text(r[0]); is != kind && is != "none" {
			t.writes.Add("DEL", key)
		}
		return nil
	})
}
