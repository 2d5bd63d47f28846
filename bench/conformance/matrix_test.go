package conformance

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Child(append(All(), fakes()...))
	m.Run()
}

// recorded holds the grades of the peers in an earlier measurement. A peer may
// have become better since. If one seems worse, the likelier cause is a wrong
// scenario that cannot tell libraries apart any more.
func recorded() map[string]map[string]string {
	return map[string]map[string]string{
		"otter": {
			"A": "second load", "B": "at its deadline", "C": "one caller panics", "D": "errors",
			"E": "NEW / NEW", "F": Hangs, "G": "a load each",
		},
		"sturdyc": {
			"A": "leader's error", "B": "waits for the load", "C": "errors", "D": emptyValue,
			"E": "OLD / OLD", "F": Hangs, "G": "a load each",
		},
		"singleflight": {
			"A": "leader's error", "B": "waits for the load", "C": "all callers panic", "D": "all callers exit",
			"E": "NEW / -", "F": Hangs, "G": "a load each",
		},
		"map + singleflight": {
			"A": "leader's error", "B": "waits for the load", "C": "all callers panic", "D": "all callers exit",
			"E": "NEW / OLD", "F": Hangs, "G": "a load each",
		},
	}
}

func TestMatrix(t *testing.T) {
	table, err := Matrix(t.Context(), All())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := table.Text(&text); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text.String())
	for i, s := range table.Scenarios {
		rank := map[string]int{}
		for j, l := range table.Libraries {
			rank[l.Name] = s.Rank(table.Cells[i][j].Grade)
		}
		for _, p := range Peers() {
			for _, own := range Own() {
				if rank[own.Name] < rank[p.Name] {
					t.Errorf("%s %s: %s is worse than %s", s.ID, s.Title, own.Name, p.Name)
				}
			}
			switch was := s.Rank(recorded()[p.Name][s.ID]); {
			case rank[p.Name] < was:
				t.Errorf("%s %s: %s is at %q and was recorded at %q", s.ID, s.Title, p.Name, s.Scale[rank[p.Name]].Name, s.Scale[was].Name)
			case rank[p.Name] > was:
				t.Logf("%s %s: %s has improved from %q to %q", s.ID, s.Title, p.Name, s.Scale[was].Name, s.Scale[rank[p.Name]].Name)
			}
		}
	}
}

// TestStrataIsAtItsBest fails if strata loses a grade that it has reached.
func TestStrataIsAtItsBest(t *testing.T) {
	for _, s := range Scenarios() {
		for _, l := range Own() {
			t.Run(s.ID+" "+l.Name, func(t *testing.T) {
				t.Parallel()
				o, err := Play(s, l)
				if err != nil {
					t.Fatal(err)
				}
				if s.ID != "G" && !s.Best(o.Grade) {
					t.Errorf("%s: %q (%s), want %q", s.Title, o.Grade, o.Detail, s.Scale[len(s.Scale)-1].Name)
				}
			})
		}
	}
}

func TestScaleTellsBadLibrariesApart(t *testing.T) {
	tests := []struct{ name, scenario, want string }{
		{"crashes", "C", Crashes},
		{"hangs", "B", Hangs},
		{"swallows", "A", emptyValue},
		{"swallows", "B", emptyValue},
		{"swallows", "C", emptyValue},
		{"swallows", "D", emptyValue},
		{"swallows", "E", "fails"},
		{"swallows", "F", emptyValue},
		{"swallows", "G", emptyValue},
		{"alone", "A", "second load"},
		{"alone", "B", "waits for the load"},
		{"alone", "C", "all callers panic"},
		{"alone", "D", "all callers exit"},
		{"alone", "E", "NEW / OLD"},
		{"alone", "F", "loads again"},
		{"alone", "G", "a load each"},
		{"breaks", "C", keyBroken},
		{"breaks", "D", keyBroken},
		{"breaks", "F", keyBroken},
		{"breaks", "G", "at most 10 loads"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.scenario, func(t *testing.T) {
			t.Parallel()
			o, err := playNamed(t, tt.scenario, tt.name)
			if err != nil {
				t.Fatal(err)
			}
			if o.Grade != tt.want {
				t.Errorf("%q (%s), want %q", o.Grade, o.Detail, tt.want)
			}
		})
	}
}

func TestMarkdownHasEveryCell(t *testing.T) {
	table := Table{Scenarios: Scenarios(), Libraries: []Library{{Name: "one"}, {Name: "two"}}}
	for _, s := range table.Scenarios {
		table.Cells = append(table.Cells, []Outcome{{Hangs, "after 4s"}, {s.Scale[len(s.Scale)-1].Name, "7 loads"}})
	}
	var b strings.Builder
	if err := table.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if lines[0] != "| | one | two |" {
		t.Errorf("head %q", lines[0])
	}
	for i, s := range table.Scenarios {
		hangs, best := Hangs, "**"+s.Scale[len(s.Scale)-1].Name+"**"
		if s.Measured {
			hangs, best = hangs+" (after 4s)", best+" (7 loads)"
		}
		if want := "| " + s.ID + " " + s.Title + " | " + hangs + " | " + best + " |"; lines[i+2] != want {
			t.Errorf("row %q, want %q", lines[i+2], want)
		}
	}
}

// playNamed plays one cell in a process of its own, as Matrix does.
func playNamed(t *testing.T, id, library string) (Outcome, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		return Outcome{}, err
	}
	scenarios, libraries := Scenarios(), fakes()
	i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.ID == id })
	j := slices.IndexFunc(libraries, func(l Library) bool { return l.Name == library })
	return playInChild(t.Context(), program, scenarios[i], libraries[j])
}
