package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/redis/bus"
	"github.com/strata-cache/strata/internal/redis/layout"
	"github.com/strata-cache/strata/internal/redis/resp"
)

// TestMessageCountsAsPublishedOnlyIfItWas answers MULTI, PERSIST, PUBLISH and EXEC, and then DISCARD and
// PUBLISH if they follow.
func TestMessageCountsAsPublishedOnlyIfItWas(t *testing.T) {
	const queued, full, nested = "+QUEUED +QUEUED ", "-OOM_full", "-ERR_MULTI_calls_can_not_be_nested "
	for name, c := range map[string]struct {
		answers []string
		err     string // empty: it was published
	}{
		"executed":                                 {[]string{"+OK " + queued + "*2 :0 :1"}, ""},
		"a replica":                                {[]string{"+OK -READONLY_you +QUEUED -EXECABORT_no"}, "READONLY"},
		"full, without a transaction":              {[]string{"+OK " + full + " +QUEUED -EXECABORT_no", "-ERR_DISCARD_without_MULTI :1"}, ""},
		"full, and the transaction goes on":        {[]string{"+OK " + queued + full, "+OK :0"}, ""},
		"full, and nothing ends the transaction":   {[]string{"+OK " + queued + full, "-NOPERM_discard +QUEUED"}, "no number"},
		"in a transaction of another call":         {[]string{nested + queued + full, "+OK :0"}, ""},
		"in a transaction that nothing ends":       {[]string{nested + queued + full, "-NOPERM_discard +QUEUED"}, "no number"},
		"a watched key has changed":                {[]string{"+OK " + queued + "*-1"}, "no number"},
		"refused within the transaction":           {[]string{"+OK " + queued + "*2 :0 -NOPERM_publish", "-ERR_DISCARD_without_MULTI -NOPERM_publish"}, "NOPERM"},
		"refused by a replica within":              {[]string{"+OK " + queued + "*2 -READONLY_you :1"}, "READONLY"},
		"answered as if no transaction was meant":  {[]string{"+OK " + queued + "+OK"}, "no number"},
		"refused with and without the transaction": {[]string{"-NOPERM_multi :0 -NOPERM_publish -NOPERM_exec", "-NOPERM_discard -NOPERM_publish"}, "NOPERM"},
	} {
		rest := c.answers
		err := bus.Prove(func(b *layout.Batch) (replies []resp.Value, err error) {
			if len(rest) == 0 {
				return nil, errors.New("one batch too many")
			}
			texts := strings.Fields(rest[0])
			rest = rest[1:]
			for len(texts) > 0 {
				n := 1
				if texts[0] == "*2" {
					n = 3
				}
				raw := strings.ReplaceAll(strings.Join(texts[:n], "\r\n")+"\r\n", "_", " ")
				replies, texts = append(replies, resp.Parse([]byte(raw))), texts[n:]
			}
			if len(replies) != b.N {
				t.Errorf("%s: %d commands and %d replies", name, b.N, len(replies))
			}
			return replies, nil
		}, "key", "channel", "")
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || len(rest) > 0 {
			t.Errorf("%s: %v; want %q, with %d batches left", name, err, c.err, len(rest))
		}
	}
}
