package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table is text in columns: the first aligned left, the others right. A row of
// one cell spans all columns.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the table with two spaces between columns and none at line ends.
func (t *table) write(w io.Writer) error {
	lines := append([][]string{t.head}, t.rows...)
	widths := make([]int, len(t.head))
	for _, l := range lines {
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
			b.WriteString(l[0] + "\n")
			continue
		}
		for i, cell := range l {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString(cell + pad)
			} else {
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// facts is text in two columns, both aligned left.
type facts [][2]string

func (f facts) write(w io.Writer) error {
	width := 0
	for _, l := range f {
		width = max(width, utf8.RuneCountInString(l[0]))
	}
	var b strings.Builder
	for _, l := range f {
		b.WriteString(l[0] + strings.Repeat(" ", width-utf8.RuneCountInString(l[0])) + "  " + l[1] + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
