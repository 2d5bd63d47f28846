package top

import (
	"fmt"
	"strings"

	"github.com/strata-cache/strata/internal/adminapi"
)

// leastName is the width of the column of names in a narrow terminal, mostName that in a wide
// one, leastHealth the least width of the last column.
const leastName, mostName, leastHealth = 10, 28, 10

// layout is the table in a width: the columns that fit.
type layout struct {
	name, health int
	columns      []column
}

// fit leaves out columns from the right until the table fits.
func fit(width int) (l layout) {
	l.columns = columns()
	for {
		used := 0
		for _, c := range l.columns {
			used += c.width + 1
		}
		rest := width - used
		if rest >= leastName+1+leastHealth || len(l.columns) == 0 {
			l.name = max(1, min(mostName, rest-1-leastHealth))
			l.health = max(0, rest-l.name-1)
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
	return b.String() + " " + left("state", l.health)
}

// titled is the name of a cache, behind the name of its service if it has one.
func titled(i *adminapi.Info, name string) string {
	if i.Service == "" {
		return name
	}
	return i.Service + "/" + name
}

// row is the line of a cache.
func (l *layout) row(s *adminapi.Summary) string {
	var b strings.Builder
	b.WriteString(left(titled(&s.Info, s.Name), l.name))
	for _, c := range l.columns {
		b.WriteString(" " + right(c.text(c.value(s)), c.width))
	}
	return b.String() + " " + left(health(s), l.health)
}

// table is the whole table as plain text.
func table(o *adminapi.Overview, width, by int, reverse bool) string {
	l := fit(width)
	var b strings.Builder
	fmt.Fprintln(&b, strings.TrimRight(l.head(by, reverse), " "))
	for _, s := range sorted(o.Caches, by, reverse) {
		fmt.Fprintln(&b, strings.TrimRight(l.row(&s), " "))
	}
	return b.String()
}
