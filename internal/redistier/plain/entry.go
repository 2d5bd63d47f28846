package plain

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
}

// lease is a right as it is stored.
func lease(token string, till int64) string { return token + " " + strconv.FormatInt(till, 10) }

// expire lets the entry live for life, at least.
func (t *tx) expire(entry string, pttl, life int64) {
	if pttl < life {
		t.writes.Add("PEXPIRE", entry, life)
	}
}

// Acquire asks for a lease of life ms under token. The value with that id
// counts as stale; zero is none.
func (e Entry) Acquire(token string, life int64, word string, id uint64) (a Acquired, err error) {
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
		a = Acquired{State: f[0]}
		s, ok := layout.ParseState(f[0].Bytes(), word)
		holder, till := right(text(f[1]))
		hold := number(text(f[2]))
		switch {
		case hold > now:
			a.Grant, a.Wait = remote.OnHold, hold-now
		case ok && s.Fresh > now && s.Word == word && s.ID != id:
			a.Grant, a.Value = remote.Free, f[4]
		case till > now && holder != token:
			a.Grant, a.Wait = remote.Busy, till-now
			if f[3].Kind() == resp.Null {
				t.writes.Add("HSET", entry, n.Awaited, 1)
			}
		default:
			a.Grant, a.Value = remote.Granted, f[4]
			if f[3].Kind() != resp.Null && holder != token {
				t.writes.Add("HDEL", entry, n.Awaited)
			}
			t.writes.Add("HSET", entry, n.Lease, lease(token, now+life))
			t.expire(entry, -1, max(r[1].Int(), life)) // as in Put
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
		token, till := right(text(f[1]))
		hold, awaited := number(text(f[2])), f[3].Kind() != resp.Null
		fields, ttl := r[2].Int(), r[3].Int()
		leased := holder == v.Token && hold <= now
		if token == v.Token && till > now {
			till, leased, v.Drops = 0, true, true // the token is used up
		}
		switch {
		case leased && v.Drops: // of all schemas
			t.dropped(n, e.Key, false, text(r[1]), v.Nonce, max(0, hold-now))
			ttl, fields = t.empty(entry, hold, lease(token, till), till, now), 0
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
func (t *tx) empty(entry string, hold int64, token string, till, now int64) (ttl int64) {
	t.writes.Add("DEL", entry)
	ttl = -1
	for _, f := range []struct {
		name  string
		value any
		until int64
	}{{"h", hold, hold}, {"t", token, till}} {
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
			emptied, err := t.soften(entry)
			if err != nil {
				return err
			}
			if emptied {
				pttl = -1
			}
		} else {
			t.writes.Add("DEL", entry)
			pttl = -1
		}
		need := int64(0)
		if till := max(number(text(r[0])), now+d.Hold); till > now { // a hold is never shortened
			t.writes.Add("HSET", entry, "h", till)
			need = till - now
		}
		t.dropped(n, e.Key, d.Soft, text(r[1]), d.Nonce, need)
		if d.Token != "" {
			t.writes.Add("HSET", entry, "t", lease(d.Token, now+d.Life))
			need = max(need, d.Life)
		}
		if need > 0 {
			// What was taken out may have taken the key, and its end, with it.
			t.expire(entry, -1, max(pttl, need))
		}
		return nil
	})
}

// soften makes all values of an entry stale and voids all rights. It reports
// whether nothing is left of it then, its end included.
func (t *tx) soften(entry string) (emptied bool, err error) {
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
			if fresh, rest, ok := strings.Cut(states[name], " "); ok && fresh != "" && strings.Trim(fresh, "0123456789") == "" {
				t.writes.Add("HSET", entry, name, "0 "+rest)
			}
		default:
			emptied = false
		}
	}
	return emptied, nil
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
		s, ok := layout.ParseState(f[1].Bytes(), v.Word)
		done = ok && holder == v.Token && number(text(f[2])) <= now && s.ID == id && s.Left > now &&
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
			t.writes.Add("HSET", entry, n.Lease, lease(token, Time(r[2])+life))
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
