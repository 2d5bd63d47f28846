package top

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/strata-cache/strata/admin/api"
)

// leastName is the width of the column of names in a narrow terminal, mostName that in a wide
// one, leastState the least width of the last column, which the count of states needs.
const leastName, mostName, leastState = 16, 28, 11

// layout is the table in a width: the columns that fit.
type layout struct {
	width, name, state int
	columns            []column
}

// fit leaves out columns from the right until the table fits.
func fit(width int) (l layout) {
	l.width, l.columns = width, columns()
	for {
		used := 0
		for _, c := range l.columns {
			used += c.width + 1
		}
		rest := width - used
		if rest >= leastName+1+leastState || len(l.columns) == 0 {
			l.name = max(1, min(mostName, rest-1-leastState))
			l.state = max(0, rest-l.name-1)
			return l
		}
		l.columns = l.columns[:len(l.columns)-1]
	}
}

// head is the line above the rows. The column by which they are sorted is marked.
func (l *layout) head(by int, reverse bool) string {
	arrow := "▾"
	if reverse {
		arrow = "▴"
	}
	mark := func(text string, mine bool) string {
		if mine {
			return text + arrow
		}
		return text
	}
	var b strings.Builder
	b.WriteString(left(mark("cache", by < 0), l.name))
	for i, c := range l.columns {
		b.WriteString(" " + right(mark(c.head, by == i), c.width))
	}
	return b.String() + " " + left("state", l.state)
}

// titled is the name of a cache, behind the name of its service if it has one.
func titled(i *api.Info, name string) string {
	if i.Service == "" {
		return name
	}
	return i.Service + "/" + name
}

// numbers are the columns of a cache without the last one.
func (l *layout) numbers(s *api.Summary) string {
	var b strings.Builder
	b.WriteString(left(tail(titled(&s.Info, s.Name), l.name), l.name))
	for _, c := range l.columns {
		b.WriteString(" " + right(c.text(c.value(s)), c.width))
	}
	return b.String() + " "
}

// rows are the lines of a cache: one, if its states fit into the last column. Else the last
// column has their number, and lines below it have the states.
func (l *layout) rows(s *api.Summary) []string {
	all := states(s)
	text := strings.Join(all, ", ")
	switch {
	case len(all) == 0:
		return []string{l.numbers(s) + left("ok", l.state)}
	case utf8.RuneCountInString(text) <= l.state:
		return []string{l.numbers(s) + left(text, l.state)}
	}
	lines := []string{l.numbers(s) + left(counted(float64(len(all)), "problem", "problems"), l.state)}
	for _, line := range wrap(all, ", ", max(1, l.width-2)) {
		lines = append(lines, "  "+line)
	}
	return lines
}

// table is the whole table as plain text. The last column is as long as its text, since its line may be
// searched for.
func table(o *api.Overview, width, by int, reverse bool) string {
	l := fit(width)
	var b strings.Builder
	fmt.Fprintln(&b, strings.TrimRight(l.head(by, reverse), " "))
	for _, s := range sorted(o.Caches, by, reverse) {
		all := states(&s)
		if len(all) == 0 {
			all = []string{"ok"}
		}
		fmt.Fprintln(&b, l.numbers(&s)+clean(strings.Join(all, ", "), maxStates))
	}
	return b.String()
}

// maxStates is the length of the last column of a plain table.
const maxStates = 1000

// wrap joins parts, such as words, to lines of a width. A part longer than a line is divided, at
// spaces if it has any.
func wrap(parts []string, between string, width int) (lines []string) {
	line := ""
	end := func() {
		if line != "" {
			lines = append(lines, line)
		}
		line = ""
	}
	for i, p := range parts {
		p = clean(p, maxStates)
		if i < len(parts)-1 {
			p += strings.TrimRight(between, " ")
		}
		joined := p
		if line != "" {
			joined = line + between[len(strings.TrimRight(between, " ")):] + p
		}
		switch {
		case utf8.RuneCountInString(joined) <= width:
			line = joined
		case utf8.RuneCountInString(p) <= width:
			end()
			line = p
		case strings.Contains(p, " ") && between != " ":
			end()
			// The last line of the divided part stays open for the next part.
			some := wrap(strings.Split(p, " "), " ", width)
			lines, line = append(lines, some[:len(some)-1]...), some[len(some)-1]
		default:
			end()
			r := []rune(p)
			for ; len(r) > width; r = r[width:] {
				lines = append(lines, string(r[:width]))
			}
			line = string(r)
		}
	}
	end()
	return lines
}
