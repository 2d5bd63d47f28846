package mcmeta_test

import (
	"bytes"
	"testing"

	"github.com/strata-cache/strata/internal/mcmeta"
)

// TestServersReadRequestsAsTheyAreMeant: each operation, as a meta command and in classic form.
func TestServersReadRequestsAsTheyAreMeant(t *testing.T) {
	for op := mcmeta.OpGet; op <= mcmeta.OpDecr; op++ {
		for _, meta := range []bool{true, false} {
			q := mcmeta.Request{
				Op: op, Key: mcmeta.Key{Text: "key"}, Meta: meta, Opaque: 7, Flags: 3, Expiry: 60, CAS: 12, Delta: 5,
				Makes: true, First: 40, Value: []byte("value"),
			}
			r := mcmeta.NewReader(bytes.NewReader(append(q.AppendAll(nil), mcmeta.NoOp...)), mcmeta.Limits{})
			c, err := r.ReadCommand()
			if err != nil || c.Refusal != "" || c.Name != op.Name(meta) {
				t.Fatalf("%v: %+v, %v", op, c, err)
			}
			key := c.Key
			if len(c.Args) > 0 {
				key = c.Args[0]
			}
			if string(key) != "key" || op.Stores() != (string(c.Data) == "value") {
				t.Errorf("%s: key %q, value %q", c.Name, key, c.Data)
			}
			if next, err := r.ReadCommand(); next.Name != "mn" || err != nil {
				t.Errorf("%s: behind it %+v, %v", c.Name, next, err)
			}
			if meta {
				flagsOf(t, op, c.Flags)
			}
		}
	}
}

// flagsOf checks the flags of a meta command.
func flagsOf(t *testing.T, op mcmeta.Op, f mcmeta.Flags) {
	t.Helper()
	for letter, want := range map[byte]bool{
		'O': true,
		'v': op <= mcmeta.OpGat || op >= mcmeta.OpIncr,
		'T': op == mcmeta.OpGat || op == mcmeta.OpTouch || op >= mcmeta.OpSet && op <= mcmeta.OpCAS,
		'F': op >= mcmeta.OpSet && op <= mcmeta.OpCAS,
		'C': op == mcmeta.OpCAS,
		'M': op == mcmeta.OpAdd || op == mcmeta.OpReplace || op == mcmeta.OpAppend || op == mcmeta.OpPrepend || op == mcmeta.OpDecr,
		'D': op >= mcmeta.OpIncr, 'N': op >= mcmeta.OpIncr, 'J': op >= mcmeta.OpIncr,
	} {
		if f.Has(letter) != want {
			t.Errorf("%s (%d): flag %c is there: %v, in %q", op.Name(true), op, letter, !want, f)
		}
	}
	if n, _ := f.Uint('J'); f.Has('J') && n != 40 {
		t.Errorf("first number %d", n)
	}
}
