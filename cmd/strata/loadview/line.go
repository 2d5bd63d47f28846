package loadview

import (
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
)

// look is the set of styles.
type look struct {
	plain, title, faint, good, moved, bad, worse, bar lipgloss.Style
}

// newLook returns styles with colours of the terminal's palette, or without colours.
func newLook(colours bool) look {
	plain := lipgloss.NewStyle()
	l := look{
		plain: plain, title: plain.Bold(true), faint: plain.Faint(true),
		good: plain, moved: plain, bad: plain, worse: plain, bar: plain,
	}
	if colours {
		l.good, l.moved, l.bad = plain.Foreground(lipgloss.Green), plain.Foreground(lipgloss.Cyan), plain.Foreground(lipgloss.Yellow)
		l.worse, l.bar = plain.Foreground(lipgloss.Red), plain.Foreground(lipgloss.Blue)
	}
	return l
}

// of returns the style of a status code.
func (l *look) of(code int) lipgloss.Style {
	switch {
	case code == failures || code >= 500:
		return l.worse
	case code >= 400:
		return l.bad
	case code >= 300:
		return l.moved
	case code == others:
		return l.plain
	}
	return l.good
}

// line is a line of the screen. Every character is one column wide.
type line []span

// span is text in one style.
type span struct {
	text  string
	style lipgloss.Style
}

// render returns the line, cut to a width.
func (l line) render(width int) string {
	var b strings.Builder
	for i, s := range l {
		n := utf8.RuneCountInString(s.text)
		// A text that fills the line is cut as well if another follows, so that the sign of the cut
		// is seen.
		if n > width || n == width && i < len(l)-1 && l[i+1:].columns() > 0 {
			b.WriteString(s.style.Render(cut(s.text, width)))
			break
		}
		if s.text != "" {
			b.WriteString(s.style.Render(s.text))
		}
		width -= n
	}
	return b.String()
}

func (l line) columns() (n int) {
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

// cut returns the first columns of a text, and a sign that the text continues.
func cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	runes := []rune(text)
	return string(runes[:min(len(runes), width-1)]) + "…"
}

// left pads text to a width, or cuts it.
func left(text string, width int) string {
	if n := utf8.RuneCountInString(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	return cut(text, width)
}

// right is left, aligned right.
func right(text string, width int) string {
	if n := utf8.RuneCountInString(text); n <= width {
		return strings.Repeat(" ", width-n) + text
	}
	return cut(text, width)
}

// bar returns a bar of v of the width, from 0 to 1, in eighths of a column. A value above 0
// can be seen.
func bar(v float64, width int) string {
	eighths := int(min(max(v, 0), 1)*float64(8*max(0, width)) + 0.5)
	if v > 0 && width > 0 {
		eighths = max(eighths, 1)
	}
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// spark returns a chart of one column for each value. A value above 0 can be seen.
func spark(values []float64, most float64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, v := range values {
		if v <= 0 || most <= 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(levels[min(int(v/most*float64(len(levels))), len(levels)-1)])
	}
	return b.String()
}
