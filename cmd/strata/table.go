package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// screen is the width, in columns, that texts keep to.
const screen = 80

// table is text in columns: the first aligned left, the others right. Words of a head
// with line feeds between them stand below each other. A row of one cell spans all
// columns.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the table with two spaces between columns and none at line ends.
func (t *table) write(w io.Writer) error {
	lines := append(t.headLines(), t.rows...)
	widths := make([]int, len(t.head))
	for _, l := range lines {
		// A row of one cell may be longer than any column, and must not widen the first.
		if len(l) == 1 {
			continue
		}
		for i, cell := range l {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, l := range lines {
		if len(l) == 1 {
			b.WriteString(strings.Join(wrap(l[0], screen), "\n") + "\n")
			continue
		}
		b.WriteString(align(l, widths) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// align returns a line of cells.
func align(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if i == 0 {
			b.WriteString(cell + pad)
		} else {
			b.WriteString("  " + pad + cell)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// headLines returns the lines of the head, aligned at the bottom.
func (t *table) headLines() [][]string {
	most := 0
	for _, h := range t.head {
		most = max(most, 1+strings.Count(h, "\n"))
	}
	lines := make([][]string, most)
	for i := range lines {
		lines[i] = make([]string, len(t.head))
	}
	for column, h := range t.head {
		words := strings.Split(h, "\n")
		for i, word := range words {
			lines[most-len(words)+i][column] = word
		}
	}
	return lines
}

// facts is text in two columns, both aligned left. Long texts have several lines.
type facts [][2]string

func (f facts) write(w io.Writer) error {
	width := 0
	for _, l := range f {
		width = max(width, utf8.RuneCountInString(l[0]))
	}
	var b strings.Builder
	for _, l := range f {
		name := l[0]
		for _, line := range wrap(l[1], screen-width-2) {
			b.WriteString(name + strings.Repeat(" ", width-utf8.RuneCountInString(name)) + "  " + line + "\n")
			name = ""
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap splits a text at spaces into lines of at most width columns. A longer word has a
// line of its own.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
