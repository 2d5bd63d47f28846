package meta_test

import (
	"bytes"
	"testing"

	"github.com/strata-cache/strata/internal/memcached/meta"
)

// TestServersReadRequestsAsTheyAreMeant: each operation, as a meta command and in classic form.
func TestServersReadRequestsAsTheyAreMeant(t *testing.T) {
	for op := meta.OpGet; op <= meta.OpDecr; op++ {
		for _, isMeta := range []bool{true, false} {
			q := meta.Request{
				Op: op, Key: meta.Key{Text: "key"}, Meta: isMeta, Opaque: 7, Flags: 3, Expiry: 60, CAS: 12, Delta: 5,
				Makes: true, First: 40, Value: []byte("value"),
			}
			r := meta.NewReader(bytes.NewReader(append(q.AppendAll(nil), meta.NoOp...)), meta.Limits{})
			c, err := r.ReadCommand()
			if err != nil || c.Refusal != "" || c.Name != op.Name(isMeta) {
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
			if isMeta {
				flagsOf(t, op, c.Flags)
			}
		}
	}
}

// flagsOf checks the flags of a meta command.
func flagsOf(t *testing.T, op meta.Op, f meta.Flags) {
	t.Helper()
	for letter, want := range map[byte]bool{
		'O': true,
		'v': op <= meta.OpGat || op >= meta.OpIncr,
		'T': op == meta.OpGat || op == meta.OpTouch || op >= meta.OpSet && op <= meta.OpCAS,
		'F': op >= meta.OpSet && op <= meta.OpCAS,
		'C': op == meta.OpCAS,
		'M': op == meta.OpAdd || op == meta.OpReplace || op == meta.OpAppend || op == meta.OpPrepend || op == meta.OpDecr,
		'D': op >= meta.OpIncr, 'N': op >= meta.OpIncr, 'J': op >= meta.OpIncr,
	} {
		if f.Has(letter) != want {
			t.Errorf("%s (%d): flag %c is there: %v, in %q", op.Name(true), op, letter, !want, f)
		}
	}
	if n, _ := f.Uint('J'); f.Has('J') && n != 40 {
		t.Errorf("first number %d", n)
	}
}
