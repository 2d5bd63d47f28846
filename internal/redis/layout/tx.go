// The work of the scripts is done by WATCH, MULTI
// and EXEC on servers that do not permit scripts. An operation reads under
// WATCH, decides by package entryrules, and writes by EXEC in two round trips
// or three. The stored form is the same.
//
// Invariant: the server executes the writes of an operation only if no key that
// the operation has read was changed meanwhile; else the operation is tried
// again.

package layout

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/strata-cache/strata/internal/redis/resp"
)

// ErrContended is returned when other writers of a key were faster too often.
var ErrContended = errors.New("redis: tier: too many writers of one key without scripts")

// ErrNoTransactions is returned where a server permits neither scripts nor the
// commands of this package.
var ErrNoTransactions = errors.New("redis: tier: the server permits neither scripts nor WATCH, MULTI and EXEC: nothing can be stored or dropped")

// maxTries is the number of attempts at an operation. In each round of attempts
// at a key one of the writers succeeds.
const maxTries = 256

// Ask sends commands over one connection, always the same, in one round trip,
// and returns their replies. Its errors are about the connection.
type Ask func(*Batch) ([]resp.Value, error)

// Batch collects commands.
type Batch struct {
	// Text has the commands in the form in which they are sent. N is their
	// number.
	Text []byte
	N    int
}

// Add queues a command. Its arguments have the types that resp.AppendArg takes.
func (b *Batch) Add(args ...any) {
	text, err := resp.AppendCommand(b.Text, args...)
	if err != nil {
		panic(err) // an argument of a type that no command here has
	}
	b.Text, b.N = text, b.N+1
}

// Refusal is an error reply of the server.
type Refusal struct {
	// Text is the code and the message.
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// check returns the first error among replies.
func check(replies ...resp.Value) error {
	for _, v := range replies {
		if v.Kind() == resp.Error {
			return &Refusal{string(v.Bytes())}
		}
	}
	return nil
}

// Forbidden reports whether a reply means that the server does not know a
// command, or does not permit it to the user. command is in lower case, and may
// be the beginning of several.
func Forbidden(v resp.Value, command string) bool {
	if v.Kind() != resp.Error {
		return false
	}
	code, text, _ := strings.Cut(strings.ToLower(string(v.Bytes())), " ")
	return code == "noperm" && strings.Contains(text, "'"+command) || code == "err" && strings.HasPrefix(text, "unknown command")
}

// NoScripts reports whether a reply to a script means that the server runs no
// scripts, or none for this user. A server without an engine for scripts
// answers NOSCRIPT to a digest; to a text it answers "ERR Could not find
// scripting engine 'lua'" (Valkey) or "ERR This instance has Lua scripting
// support disabled" (Garnet).
func NoScripts(v resp.Value) bool {
	if Forbidden(v, "eval") {
		return true
	}
	code, text, _ := strings.Cut(string(v.Bytes()), " ")
	return v.Kind() == resp.Error && code == "ERR" && strings.Contains(text, "scripting")
}

// Transactions returns ErrNoTransactions if the server does not permit
// transactions. They are tried on key, which is not changed.
func Transactions(ask Ask, key string) error {
	var b Batch
	b.Add("WATCH", key)
	b.Add("MULTI")
	b.Add("EXEC")
	b.Add("UNWATCH")
	replies, err := ask(&b)
	for i, command := range []string{"watch", "multi", "exec"} {
		if err == nil && Forbidden(replies[i], command) {
			err = ErrNoTransactions
		}
	}
	return err
}

// tx is one attempt at an operation.
type tx struct {
	ask     Ask
	watch   []any // nil once it was sent
	watched bool
	writes  Batch
}

// run tries f, which reads and queues writes, until the server executes the
// writes: it does once no other client has changed the keys in between. An f
// that queues no writes only reads.
func run(ask Ask, keys []string, f func(*tx) error) error {
	watch := []any{"WATCH"}
	for _, k := range keys {
		watch = append(watch, k)
	}
	for range maxTries {
		t := &tx{ask: ask, watch: watch}
		err := f(t)
		var refused *Refusal
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		// There is nothing to write. The keys are unwatched, so that the connection can serve other
		// calls.
		if err != nil || t.writes.N == 0 {
			return errors.Join(err, t.unwatch())
		}
		if done, err := t.exec(); done || err != nil {
			return err
		}
	}
	return ErrContended
}

// read sends the commands that the function add queues, and returns the replies. The commands must
// not write.
func (t *tx) read(add func(*Batch)) ([]resp.Value, error) {
	replies, err := t.look(add)
	if err == nil {
		err = check(replies...)
	}
	return replies, err
}

// look is read that leaves errors of the server in the replies.
func (t *tx) look(add func(*Batch)) ([]resp.Value, error) {
	var b Batch
	// WATCH goes out in front of the first reads: what they find cannot change unnoticed.
	if !t.watched {
		b.Add(t.watch...)
	}
	add(&b)
	replies, err := t.ask(&b)
	if err != nil {
		return nil, err
	}
	if !t.watched {
		t.watched = true
		if Forbidden(replies[0], "watch") {
			return nil, ErrNoTransactions
		}
		if err := check(replies[0]); err != nil {
			return nil, err
		}
		replies = replies[1:]
	}
	return replies, nil
}

func (t *tx) unwatch() error {
	var b Batch
	b.Add("UNWATCH")
	_, err := t.ask(&b)
	return err
}

// exec executes the writes, unless a key was changed since it was read.
func (t *tx) exec() (done bool, err error) {
	var b Batch
	b.Add("MULTI")
	b.Text, b.N = append(b.Text, t.writes.Text...), b.N+t.writes.N
	b.Add("EXEC")
	replies, err := t.ask(&b)
	if err != nil {
		return false, err
	}
	results := replies[len(replies)-1]
	if Forbidden(replies[0], "multi") || Forbidden(results, "exec") {
		return false, ErrNoTransactions
	}
	if err := check(replies...); err != nil {
		return false, err // the error of the first refused command: EXEC does nothing then
	}
	// A command may fail while the transaction is executed, for instance because a key has another
	// type.
	for v := range results.Elems() {
		if err := check(v); err != nil {
			return false, err
		}
	}
	return results.Kind() == resp.Array, nil
}

// fields returns the first n elements of a reply.
func fields(v resp.Value, n int) []resp.Value {
	all := slices.AppendSeq(make([]resp.Value, 0, n), v.Elems())
	for len(all) < n {
		all = append(all, resp.Value{})
	}
	return all
}

// text returns the text of a reply, or nothing.
func text(v resp.Value) string { return string(v.Bytes()) }

// Clock parses a tag clock. It reports false for everything else.
func Clock(v resp.Value) (uint64, bool) {
	n, err := strconv.ParseUint(string(v.Bytes()), 10, 53)
	return n, err == nil
}

// Time is the server's time in ms, from the reply of TIME.
func Time(v resp.Value) int64 {
	f := fields(v, 2)
	return number(text(f[0]))*1000 + number(text(f[1]))/1000
}

// number parses a number of at most as many digits as Lua numbers hold;
// everything else is zero.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 53)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
