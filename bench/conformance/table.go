package conformance

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table is the result of a played matrix.
type Table struct {
	Scenarios []Scenario
	Libraries []Library
	// Cells has a row for each scenario with an outcome for each library.
	Cells [][]Outcome
}

// Outcome returns the outcome of the named library in the scenario with that ID.
func (t Table) Outcome(id, library string) (Outcome, bool) {
	for i, s := range t.Scenarios {
		for j, l := range t.Libraries {
			if s.ID == id && l.Name == library {
				return t.Cells[i][j], true
			}
		}
	}
	return Outcome{}, false
}

// Text writes the table with all details, a line for each cell.
func (t Table) Text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i, s := range t.Scenarios {
		fmt.Fprintf(tw, "%s  %s\n", s.ID, s.Title)
		for j, l := range t.Libraries {
			o := t.Cells[i][j]
			fmt.Fprintf(tw, "   %s\t%d/%d\t%s\t%s\n", l.Name, s.Rank(o.Grade), len(s.Scale)-1, o.Grade, o.Detail)
		}
	}
	return tw.Flush()
}

// Markdown writes the table for a README: a row for each scenario, the best
// grade of its scale in bold; below it, the story of each scenario, and its
// scale.
func (t Table) Markdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| |")
	for _, l := range t.Libraries {
		b.WriteString(" " + l.Name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(t.Libraries)) + "\n")
	for i, s := range t.Scenarios {
		fmt.Fprintf(&b, "| %s %s |", s.ID, s.Title)
		for _, o := range t.Cells[i] {
			b.WriteString(" " + s.cell(o) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\nBold is the best of a row's scale, whoever reaches it.\n\n")
	for _, s := range t.Scenarios {
		fmt.Fprintf(&b, "- **%s** %s\n  Worst to best: ", s.ID, s.Story)
		for i, g := range s.Scale {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "*%s* (%s)", g.Name, g.Why)
		}
		b.WriteString(".\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Scenario) cell(o Outcome) string {
	text := o.Grade
	if s.Best(o.Grade) {
		text = "**" + text + "**"
	}
	if s.Measured && o.Detail != "" {
		text += " (" + o.Detail + ")"
	}
	return text
}
