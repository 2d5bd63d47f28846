package snapshotcmd

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/dustin/go-humanize"
)

// columns is the width that texts keep to.
const columns = 80

func number(n int) string { return humanize.Comma(int64(n)) }

func size(n int64) string { return humanize.Bytes(uint64(max(0, n))) }

// shown is a text of another machine for a terminal: without control characters, and cut
// to a width in columns.
func shown(text string, width int) string {
	if len(text) > 4*width {
		text = text[:4*width] // enough of it: no character has more than four bytes
	}
	quoted := strconv.QuoteToGraphic(text)
	// A text that needs no escapes stands without quotes, unless its spaces would be lost.
	if plain := quoted[1 : len(quoted)-1]; plain == text && strings.TrimSpace(text) == text && text != "" {
		quoted = text
	}
	if lipgloss.Width(quoted) <= width {
		return quoted
	}
	// Some characters take two columns, and some none.
	for lipgloss.Width(quoted) >= width {
		_, last := utf8.DecodeLastRuneInString(quoted)
		quoted = quoted[:len(quoted)-last]
	}
	return quoted + "…"
}

// count is a number of a snapshot, which may be any.
func count(n uint64) int { return int(min(n, math.MaxInt)) }

// missing is the numbers of entries that a cache had and that its snapshot does not have.
func missing(skipped, busy, gone, beyond int, coarse bool) string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{busy, "with a write or load under way"},
		{gone, "gone when their turn came"},
		{beyond, "beyond the largest number"},
		{skipped, "that could not be encoded"},
	} {
		if p.n > 0 {
			parts = append(parts, number(p.n)+" "+p.what)
		}
	}
	text := strings.Join(parts, ", ")
	if coarse {
		text = strings.TrimPrefix(text+"; and entries that may have been dropped, as there were more drops than are told one by one", "; and ")
	}
	return text
}

// maxSentence is the largest length of a shown sentence of another machine.
const maxSentence = 500

// sentence is a sentence of another machine without control characters.
func sentence(text string) string {
	quoted := strconv.QuoteToGraphic(text[:min(len(text), maxSentence)])
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// writeFact writes a title and a text, which is indented if it has several lines.
func writeFact(w io.Writer, title, text string) {
	line := title
	for word := range strings.FieldsSeq(text) {
		if lipgloss.Width(line)+1+lipgloss.Width(word) > columns {
			fmt.Fprintln(w, line)
			line = "   "
		}
		line += " " + word
	}
	fmt.Fprintln(w, line)
}
