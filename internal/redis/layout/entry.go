// One key of a server that runs no scripts: the entry is watched and read,
// entryrules decides, and a transaction writes the difference and the message.
// Invariant: the transaction is executed only if the entry has not changed since it
// was read, and new fields are written before others are removed.

package layout

import (
	"slices"
	"strconv"
	"strings"

	"github.com/strata-cache/strata/internal/cache/entryrules"
	"github.com/strata-cache/strata/remote"
)

// Entry is one key of one cache, with the way to its server.
type Entry struct {
	Ask   Ask
	Names *Names
	Key   string
	// Nonce is for the version of the key's lane after a drop.
	Nonce string
}

// Do executes an operation: it reads the entry, lets entryrules decide, and
// writes the difference. Times of the operation are in ms, and its schema is
// the schema of Names. An Acquire that becomes late because the server stood
// still between the read and the write still grants a lease.
func (e Entry) Do(op entryrules.Operation) (a entryrules.Answer, err error) {
	keys := []string{e.Names.Entry(e.Key)}
	// A drop writes the version of the lane, too. So another drop in the lane must make this one
	// begin again.
	if needs(op).lane {
		keys = append(keys, e.Names.Lane(e.Key))
	}
	err = run(e.Ask, keys, func(t *tx) error {
		was, err := e.read(t, needs(op))
		if err != nil {
			return err
		}
		// Each attempt decides anew, by the state that it has read.
		var next entryrules.State
		next, a = entryrules.Decide(was.State, op, entryrules.Clock{Now: was.now, Slack: 1000})
		e.write(t, was, next, op, a)
		e.announce(t, was.lane, a)
		return nil
	})
	return a, err
}

// write queues the difference between the state read and the next one. New
// fields are written before old ones are removed: a hash that becomes empty
// loses its expiry.
func (e Entry) write(t *tx, was known, next entryrules.State, op entryrules.Operation, a entryrules.Answer) {
	entry := e.Names.Entry(e.Key)
	// The entry is removed first, and with it fields that this version of the program does not
	// know.
	if a.Cleared {
		t.writes.Add("DEL", entry)
		was.State = entryrules.State{}
	}
	has, wants := storedFields(was.State), storedFields(next)
	set, gone := []any{"HSET", entry}, []any{"HDEL", entry}
	// The data of a value is written only by the Put that brings it. All other operations change
	// states alone.
	if put, ok := op.(entryrules.Put); ok && a.Done && put.Left > 0 {
		set = append(set, e.Names.Value, put.Data)
	}
	for _, f := range wants {
		if !slices.Contains(has, f) {
			set = append(set, f.name, f.text)
		}
	}
	for _, f := range has {
		if slices.ContainsFunc(wants, func(w field) bool { return w.name == f.name }) {
			continue
		}
		gone = append(gone, f.name)
		// A value never outlives its state: without it the bytes could not be judged.
		if schema, ok := strings.CutPrefix(f.name, "s"); ok {
			gone = append(gone, "v"+schema)
		}
	}
	for _, command := range [][]any{set, gone} {
		if len(command) > 2 {
			t.writes.Add(command...)
		}
	}
	if next.Until > 0 && next.Until != was.Until {
		t.writes.Add("PEXPIRE", entry, next.Until-was.now)
	}
}

// announce queues the message of an answer. A drop gives the lane another
// version.
func (e Entry) announce(t *tx, lane string, a entryrules.Answer) {
	switch a.Announce {
	case remote.Ended:
		t.writes.Add("PUBLISH", e.Names.Channel, e.Names.Ended+e.Key)
	case remote.Dropped, remote.Expired:
		count, _, _ := strings.Cut(lane, ".")
		was, ok := ParseLaneVersion(lane)
		// A missing or damaged version counts as 0.0, as in the scripts. So does a count that a
		// script could not add to exactly.
		if !ok || len(count) > 13 {
			lane, was.Count = "0.0", 0
		}
		is := strconv.FormatUint(was.Count+1, 10) + "." + e.Nonce
		head := e.Names.Dropped(e.Key, a.Announce == remote.Expired)
		t.writes.Add("SET", e.Names.Lane(e.Key), is)
		t.writes.Add("PUBLISH", e.Names.Channel, head+lane+" "+is+" "+strconv.FormatInt(a.Hold, 10)+" "+e.Key)
	}
}

// CleanKey removes a key if it is not of the type kind.
func CleanKey(ask Ask, key, kind string) error {
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
