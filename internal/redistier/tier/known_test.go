package tier_test

import (
	"context"
	"strings"
	"testing"

	"github.com/strata-cache/strata/internal/redistier/tier"
	"github.com/strata-cache/strata/remote"
)

// TestValueIsReadWhereTheServerDoesNotRunTheScriptThatLeavesItOut has a server that has
// stopped to run scripts, and one that has lost them in the middle of a batch.
func TestValueIsReadWhereTheServerDoesNotRunTheScriptThatLeavesItOut(t *testing.T) {
	const value = "*2\r\n$1\r\nv\r\n" + entryE
	for name, refusal := range map[string]string{
		"forbidden": "-NOPERM User u has no permissions to run the 'eval' command\r\n",
		"lost":      "-NOSCRIPT No matching script. Please use EVAL.\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			reads, refuses := 0, false
			s := &stub{answer: func(command string) string {
				switch {
				case isNamespace(command):
					return stateE
				case strings.HasPrefix(command, "EVAL") && !refuses:
					return "*2\r\n:1\r\n" + entryE
				case strings.HasPrefix(command, "EVAL"):
					return refusal
				}
				reads++
				return value
			}}
			one := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
			get := func() []remote.Held {
				held, err := one.Get(context.Background(), []string{"a", "b", "c"}, 7, 0, 7)
				if err != nil {
					t.Fatal(err)
				}
				return held
			}
			held := get()
			for i, same := range []bool{true, false, true} {
				if h := held[i]; h.Same != same || (h.Data == nil) != same || h.ID != 7 || h.Fresh <= 0 {
					t.Errorf("key %d: %+v, want Same: %t", i, h, same)
				}
			}
			if reads != 1 {
				t.Errorf("%d values read, want that which is not known", reads)
			}
			refuses = true
			for _, h := range get() {
				if h.Same || string(h.Data) != "v" || h.ID != 7 {
					t.Errorf("refused: %+v, want the value", h)
				}
			}
		})
	}
}

// TestSameIsNoValueThatIsGone has a server say "the same" of values that are over, or from
// before a drop of everything.
func TestSameIsNoValueThatIsGone(t *testing.T) {
	for _, state := range []string{"900 900 7 e.0.0", "90000 90000 7 e.1.0", "90000 90000 7 f.0.0", "nonsense"} {
		s := &stub{answer: func(command string) string {
			if isNamespace(command) {
				return stateE
			}
			return "*2\r\n:1\r\n" + bulk(state)
		}}
		one := tier.New(s, 0, nil).Bind(remote.Space{Name: "n", Schema: 1})
		if held, err := one.Get(context.Background(), []string{"k"}, 7); err != nil || !held[0].Absent() || held[0].Same {
			t.Errorf("%s: %+v, %v; want absent", state, held, err)
		}
	}
}
