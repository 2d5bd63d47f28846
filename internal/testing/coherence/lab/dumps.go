package lab

import (
	"testing"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/snapshot/format"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// EntriesOf collects the entries that c gives away in one of parts shares.
func EntriesOf(t *testing.T, c *strata.Cache[string, int64], part, parts int) (all map[string]format.Entry, position []byte) {
	t.Helper()
	d, err := transfer.Parts(c.Inside()).Source().Dump(t.Context(), part, parts)
	Must(t, err)
	defer d.Close()
	all = make(map[string]format.Entry)
	for e, value := range d.Entries() {
		one := *e
		one.Key = []byte(string(e.Key))
		if one.Value, err = value(nil); err != nil {
			t.Error(err)
		}
		all[string(e.Key)] = one
	}
	return all, d.Position()
}

// RestoreOf returns the way into c for the entries of a snapshot.
func RestoreOf(t *testing.T, c *strata.Cache[string, int64]) transfer.Restore {
	t.Helper()
	r, err := transfer.Parts(c.Inside()).Source().Restore(t.Context(), new(transfer.Taken))
	Must(t, err)
	t.Cleanup(r.Close)
	return r
}
