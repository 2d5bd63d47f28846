package top

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	"github.com/strata-cache/strata/admin/api"
)

// column is one number of the table.
type column struct {
	head  string
	width int
	value func(*api.Summary) float64 // NaN if it is not known
	text  func(float64) string
}

// columns are the columns of the table, behind the name.
func columns() []column {
	perSecond := func(f func(api.Answers) float64) func(*api.Summary) float64 {
		return func(s *api.Summary) float64 {
			if s.Latest == nil {
				return math.NaN()
			}
			return f(s.Latest.Answers)
		}
	}
	share := func(f func(api.Answers) float64) func(*api.Summary) float64 {
		return perSecond(func(a api.Answers) float64 { return 100 * f(a) / a.Total() })
	}
	return []column{
		{"reads/s", 8, perSecond(api.Answers.Total), number},
		{"L1 %", 6, share(func(a api.Answers) float64 { return a.L1 }), percent},
		{"L2 %", 6, share(func(a api.Answers) float64 { return a.L2 }), percent},
		{"loads/s", 8, perSecond(func(a api.Answers) float64 { return a.Loaded }), number},
		{"fails/s", 8, func(s *api.Summary) float64 {
			if s.Latest == nil {
				return math.NaN()
			}
			return s.Latest.Errors
		}, number},
		{"load p99", 9, func(s *api.Summary) float64 { return known(float64(s.Numbers.Loads.P99)) }, span},
		{"entries", 8, func(s *api.Summary) float64 { return float64(s.Numbers.Memory.Entries) }, number},
		{"full %", 7, func(s *api.Summary) float64 { return full(&s.Numbers.Memory) }, percent},
		{"shared", 7, func(s *api.Summary) float64 {
			l := &s.Numbers.Loads
			return 100 * float64(l.Waiters) / float64(l.Waiters+l.OK+l.NotFound+l.NotModified+l.Errors+l.Panics)
		}, percent},
		{"saved/s", 9, func(s *api.Summary) float64 {
			if s.Latest == nil {
				return math.NaN()
			}
			return float64(s.Latest.Saved) / api.Interval.Seconds()
		}, span},
	}
}

// full is the used share of L1, in percent of the bound with the larger share. It is NaN without a
// bound.
func full(m *api.Memory) float64 {
	share := math.NaN()
	if m.MaxEntries > 0 {
		share = 100 * float64(m.Entries) / float64(m.MaxEntries)
	}
	if m.MaxWeight > 0 {
		weight := 100 * float64(m.Weight) / float64(m.MaxWeight)
		if math.IsNaN(share) || weight > share {
			share = weight
		}
	}
	return share
}

// states are short texts about the troubles of a cache and of its surroundings.
func states(s *api.Summary) (all []string) {
	n := &s.Numbers
	if n.Memory.Off {
		all = append(all, "cache is off")
	}
	// A guard that evicts does its work. One without anything left to evict cannot help any more.
	if n.Guard != nil && n.Guard.Exhausted {
		all = append(all, "no memory left to evict")
	}
	if n.Loads.Failing > 0 || n.Loads.Slow > 0 {
		all = append(all, "origin is "+originOf(&n.Loads))
	}
	l2 := "L2"
	if s.Info.L2Server != "" {
		l2 += " " + s.Info.L2Server
	}
	if n.Remote.BreakerOpen {
		all = append(all, l2+": breaker is open")
	} else {
		// If all servers are left alone, one sentence says so. Else those are named that are.
		for _, server := range n.Remote.ServersLeftAlone {
			all = append(all, "L2 "+server+": breaker is open")
		}
	}
	if n.Remote.StoringStopped {
		all = append(all, l2+" stores nothing")
	} else {
		for _, server := range n.Remote.ServersWithoutStores {
			all = append(all, "L2 "+server+" stores nothing")
		}
	}
	if s.Info.Bus != "" && !n.Bus.Connected {
		all = append(all, "bus is "+busOf(&n.Bus))
	}
	if n.Bus.Pending > 0 {
		all = append(all, counted(float64(n.Bus.Pending), "drop is pending", "drops are pending"))
	}
	return all
}

// busOf is the state of a bus. A bus may deliver messages and still count as not connected, because
// L2 does not answer: messages may have been missed then.
func busOf(b *api.Bus) string {
	switch {
	case b.Connected:
		return "connected"
	case b.Silence < silentAfter:
		return "not connected"
	}
	return "silent for " + span(float64(b.Silence))
}

// silentAfter is the time without a message after which a bus is silent.
const silentAfter = 3 * time.Second

// sorted returns the caches in the order of a column; -1 is the name. Numbers are in
// descending order, unknown ones last.
func sorted(all []api.Summary, by int, reverse bool) []api.Summary {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b api.Summary) int {
		if by < 0 {
			return cmp.Compare(a.Name, b.Name)
		}
		value := columns()[by].value
		return cmp.Compare(value(&b), value(&a)) // NaN is less than all
	})
	if reverse {
		slices.Reverse(all)
	}
	return all
}

// clock is a time in milliseconds since 1970 as the time of the day.
func clock(ms int64) string { return time.UnixMilli(ms).Format("15:04:05") }

// tail is a text in at most width columns. A longer text loses its begin, because the names of
// caches of one service often begin alike.
func tail(text string, width int) string {
	runes := []rune(clean(text, math.MaxInt))
	if len(runes) > width && width > 0 {
		return "…" + string(runes[len(runes)-width+1:])
	}
	return clean(text, width)
}

// head is a text in at most width columns. A longer text loses its end.
func head(text string, width int) string {
	runes := []rune(clean(text, math.MaxInt))
	if len(runes) > width && width > 0 {
		return string(runes[:width-1]) + "…"
	}
	return clean(text, width)
}

// clean is a text of another machine, cut to a width. It has no characters that may control a
// terminal, and none wider or narrower than one column.
func clean(text string, width int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n >= width {
			break
		}
		if !unicode.IsGraphic(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) || wide(r) || lipgloss.Width(string(r)) != 1 || r == utf8.RuneError {
			r = '?'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// wide reports whether a terminal may draw a character in two columns.
func wide(r rune) bool {
	return r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 || r >= 0xf900 && r <= 0xfaff ||
		r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 || r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f000)
}

// left is a text in a column of a width, right the same at its right edge.
func left(text string, width int) string {
	text = clean(text, width)
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

func right(text string, width int) string {
	text = clean(text, width)
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text))) + text
}
