package redis

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/wire/pool"
)

// Errors of transactions, in the chain of the error of a call.
var (
	// ErrChanged is in the chain if a key watched by [Client.Watch] has changed:
	// nothing was executed.
	ErrChanged = errors.New("redis: transaction: a watched key has changed")
	// ErrAborted is in the chain if the server refused a command, or the
	// transaction: nothing was executed. The [*Error] is in the chain too.
	ErrAborted = errors.New("redis: transaction: aborted")
)

// transact sends b and gives the replies to t.
func (c *conn) transact(b *resp.Batch, t *resp.Transaction) error {
	// A proxy may refuse MULTI, and carry out the commands. So the reply to MULTI alone is no reason to
	// repeat the transaction.
	repeatable := c.repeatable
	c.repeatable, *t = false, resp.Transaction{N: t.N}
	err := c.converse(b, func() error {
		// Only the reply to EXEC is kept. The others say QUEUED, and need no memory of their own.
		read := c.borrow
		if t.AtExec() {
			read = c.read
		}
		v, err := read()
		if err != nil {
			return err
		}
		if t.AtExec() {
			// A connection that may still be in a transaction must not serve another call.
			c.entered = c.staysEntered(v)
		}
		if err = t.Hear(v); err != nil {
			return readError(err)
		}
		return nil
	})
	if err == nil && repeatable && refusesUser(t) {
		err = &ConnError{Op: "read", Err: pool.ErrRefused}
	}
	return err
}

// refusesUser reports whether the server has refused all of t, because it does not know the user of the connection.
func refusesUser(t *resp.Transaction) bool {
	for i, r := range t.Refused {
		if r.I != i-1 || !disowned(r.Text) {
			return false
		}
	}
	return t.Outcome == resp.Aborted && len(t.Refused) > t.N
}

// staysEntered reports whether the server may still be in a transaction, or watch
// keys, after this reply to EXEC.
func (c *conn) staysEntered(v resp.Value) bool {
	if v.Kind() != resp.Error {
		return false
	}
	switch serverError(v.Bytes()).Code {
	case "EXECABORT":
		return false
	case "ERR": // there was none
		return c.entered
	}
	return true // old servers only refuse
}

// leaves learns from the replies to commands whether the server may be in a transaction, or watch
// keys, after them. Only commands that begin with WATCH or MULTI bring it there.
func (c *conn) leaves(text []byte, replies []resp.Value) {
	if _, first, _ := bytes.Cut(text, []byte("\r\n")); !c.entered && !bytes.HasPrefix(first, []byte(bulkWatch)) && !bytes.HasPrefix(first, []byte(bulkMulti)) {
		return
	}
	for _, v := range replies {
		var name string
		switch _, name, text = resp.CutCommand(text); name {
		case "WATCH", "MULTI":
			c.entered = c.entered || v.Kind() != resp.Error
		case "EXEC", "DISCARD":
			c.entered = c.staysEntered(v)
		case "UNWATCH":
			c.entered = c.entered && !v.OK() // in a transaction it is only queued
		}
	}
}

// The names of commands that enter, as they are sent.
const (
	bulkWatch = "$5\r\nWATCH\r\n"
	bulkMulti = "$5\r\nMULTI\r\n"
)

// outcome returns the replies of a transaction, or its error.
func outcome(t *resp.Transaction) ([]Reply, error) {
	switch t.Outcome {
	case resp.Changed:
		return nil, ErrChanged
	case resp.Loose: // wrapped, it would say that a repetition is safe
		return nil, errors.New("redis: transaction: commands were executed one by one: " + serverError(t.Refused[0].Text).Error())
	// The replies say which commands were at fault. None of them was executed.
	case resp.Aborted:
		// A command without a refusal of its own was not executed either, and says so.
		replies := make([]Reply, t.N)
		for i := range replies {
			replies[i].err = ErrAborted
		}
		for _, r := range t.Refused {
			if r.I >= 0 && r.I < t.N {
				replies[r.I].err = serverError(r.Text)
			}
		}
		return replies, fmt.Errorf("%w: %w", ErrAborted, serverError(t.Refused[0].Text))
	}
	replies := make([]Reply, 0, t.N)
	for e := range t.Values.Elems() {
		replies = append(replies, newReply(e))
	}
	return replies, nil
}
