package bus

import (
	"errors"
	"slices"
	"strings"

	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
)

// Prove publishes a message on a channel, if the server takes writes.
// The transaction begins with PERSIST of a key that does not exist, which
// changes nothing and takes no memory. A server that takes no writes refuses
// it, and with it the whole transaction.
//
// A server that refuses it for another reason, such as a full disk, is trusted
// without the proof. DISCARD comes first then: old servers stay in a transaction of which they refuse
// the EXEC, and would take the message for a part of it.
//
// Only a number is the answer to a message. In a transaction that another call has left behind,
// commands are answered by QUEUED.
func Prove(ask layout.Ask, key, channel, text string) error {
	var b layout.Batch
	b.Add("MULTI")
	b.Add("PERSIST", key)
	b.Add("PUBLISH", channel, text)
	b.Add("EXEC")
	replies, err := ask(&b)
	if err != nil {
		return err
	}
	var refused *layout.Refusal
	if err = published(replies); !errors.As(err, &refused) || !believed(refused.Text) {
		return err
	}
	b = layout.Batch{}
	b.Add("DISCARD")
	b.Add("PUBLISH", channel, text)
	if replies, err = ask(&b); err != nil {
		return err
	}
	return published(replies[1:])
}

// errNotPublished is the reason if PUBLISH was answered by something else than a number.
var errNotPublished = errors.New("redis: bus: the server has answered a message by no number: it may be in a transaction of another call")

// published returns an error unless the last reply is to PUBLISH, by itself or as the last result of a
// transaction, and none refuses a command.
func published(replies []resp.Value) error {
	var last resp.Value
	for _, v := range replies {
		if last = v; v.Kind() == resp.Error {
			return &layout.Refusal{Text: string(v.Bytes())}
		}
	}
	if last.Kind() == resp.Array {
		return published(slices.Collect(last.Elems()))
	}
	if last.Kind() != resp.Int {
		return errNotPublished
	}
	return nil
}

// believed reports whether a server that has refused a write for this reason may
// still be the primary.
func believed(refused string) bool {
	code, _, _ := strings.Cut(refused, " ")
	switch code {
	case "MASTERDOWN", "LOADING", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN":
		return false
	}
	return !layout.TakesNoWrites(refused)
}
