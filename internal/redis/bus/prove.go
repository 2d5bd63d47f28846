package bus

import (
	"strings"

	"github.com/strata-cache/strata/internal/redis/resp"
	"github.com/strata-cache/strata/internal/redis/watch"
)

// Prove publishes a message on a channel, if the server takes writes.
// The transaction begins with PERSIST of a key that does not exist, which
// changes nothing and takes no memory. A server that takes no writes refuses
// it, and with it the whole transaction.
//
// A server that refuses it for another reason, such as a full disk, is trusted
// without the proof.
func Prove(ask watch.Ask, key, channel, text string) error {
	var b watch.Batch
	b.Add("MULTI")
	b.Add("PERSIST", key)
	b.Add("PUBLISH", channel, text)
	b.Add("EXEC")
	replies, err := ask(&b)
	if err != nil {
		return err
	}
	refused := firstError(replies)
	if refused == "" || !believed(refused) {
		return refusal(refused)
	}
	b = watch.Batch{}
	b.Add("PUBLISH", channel, text)
	if replies, err = ask(&b); err != nil {
		return err
	}
	return refusal(firstError(replies))
}

// firstError is the text of the first error among replies, or empty.
func firstError(replies []resp.Value) string {
	for _, v := range replies {
		if v.Kind() == resp.Error {
			return string(v.Bytes())
		}
	}
	return ""
}

func refusal(text string) error {
	if text == "" {
		return nil
	}
	return &watch.Refusal{Text: text}
}

// believed reports whether a server that has refused a write for this reason may
// still be the primary.
func believed(refused string) bool {
	code, _, _ := strings.Cut(refused, " ")
	switch code {
	case "MASTERDOWN", "LOADING", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN":
		return false
	}
	return !watch.TakesNoWrites(refused)
}
