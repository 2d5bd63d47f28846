package tier_test

import (
	"context"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/redis/tier"
	"github.com/strata-cache/strata/remote"
)

// TestValueThatTheCallerHasIsLeftOut has a server with the value 7, and with several texts
// in the field for the IDs that the value had before.
func TestValueThatTheCallerHasIsLeftOut(t *testing.T) {
	const null = "$-1\r\n"
	for name, c := range map[string]struct {
		earlier string
		known   remote.ID
		same    bool
	}{
		"the value":                 {null, 7, true},
		"another":                   {null, 5, false},
		"extended":                  {bulk("7 5"), 5, true},
		"extended thrice":           {bulk("7 3 a 5"), 5, true},
		"extended, another":         {bulk("7 3 a 5"), 6, false},
		"a part of a number":        {bulk("7 55"), 5, false},
		"of the value before":       {bulk("8 5"), 5, false},
		"of the value before, too":  {bulk("5 7"), 5, false},
		"damaged":                   {bulk("7  5x 5"), 5, true},
		"damaged, and another":      {bulk("seven 5"), 5, false},
		"empty":                     {bulk(""), 5, false},
		"a number that is too long": {bulk("7 12345678901234567"), 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			values, states := 0, 0
			s := &stub{answer: func(command string) string {
				switch {
				case isNamespace(command):
					return stateE
				case strings.HasSuffix(command, " s1 e1"):
					states++
					return "*2\r\n" + entryE + c.earlier
				}
				values++
				_, key, _ := strings.Cut(command, "=")
				return "*2\r\n" + bulk(key[:1]) + entryE
			}}
			one := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
			keys := []string{"a", "b", "c"}
			held, err := one.Get(context.Background(), keys, c.known, 0, c.known)
			if err != nil {
				t.Fatal(err)
			}
			for i, same := range []bool{c.same, false, c.same} {
				if h := held[i]; h.Same != same || (h.Data == nil) != same || !same && string(h.Data) != keys[i] || h.ID != 7 || h.Fresh <= 0 {
					t.Errorf("key %d: %+v, want Same: %t", i, h, same)
				}
			}
			if want := map[bool]int{true: 1, false: 3}[c.same]; values != want || states != 2 {
				t.Errorf("%d values and %d states read, want %d and 2", values, states, want)
			}
			if _, err := one.Get(context.Background(), []string{"a", "b"}, 7); err != nil || states != 2 {
				t.Errorf("with too few IDs: %v, %d states read", err, states)
			}
		})
	}
}

// TestSameIsNoValueThatIsGone has a server with the ID of a value past its life, or from
// before a drop of everything.
func TestSameIsNoValueThatIsGone(t *testing.T) {
	for _, state := range []string{"900 900 7 e.0.0", "90000 90000 7 e.1.0", "90000 90000 7 f.0.0", "nonsense"} {
		s := &stub{answer: func(command string) string {
			switch {
			case isNamespace(command):
				return stateE
			case strings.HasSuffix(command, " s1 e1"):
				return "*2\r\n" + bulk(state) + "$-1\r\n"
			}
			t.Errorf("%s: %q was sent", state, command)
			return "*2\r\n$-1\r\n$-1\r\n"
		}}
		one := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
		if held, err := one.Get(context.Background(), []string{"k"}, 7); err != nil || !held[0].Absent() || held[0].Same {
			t.Errorf("%s: %+v, %v; want absent", state, held, err)
		}
	}
}
