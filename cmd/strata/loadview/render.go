package loadview

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// narrow is the width below which the view has fewer columns and shorter texts.
const narrow = 64

// View draws the view.
func (m *model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen = true
	return v
}

// screen returns height lines of at most width columns.
func (m *model) screen() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	lines := m.lines()
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.render(m.width)
	}
	return strings.Join(texts, "\n")
}

// lines returns the lines of the screen: the facts, then, as far as they fit, the histogram
// and the chart, and the keys at the bottom.
func (m *model) lines() []line {
	facts, table, keys := m.facts(), m.table(), m.keys()
	free := m.height - len(facts) - len(table) - 1
	if free < 0 {
		return m.fewest(append(append(facts, table...), keys))
	}
	gap := func(part []line) []line { return part }
	if m.height >= 20 {
		gap = func(part []line) []line { return append([]line{nil}, part...) }
		free -= 4 // and one above the keys
	}
	// The chart gets its few lines first, and the histogram what is left: it can be merged to any
	// number of bars.
	chart := m.chart(min(free, 6))
	free -= len(chart)
	all := append(facts, gap(table)...)
	if free >= 3 {
		all = append(all, gap(m.histogram(min(free, 17)))...)
	}
	if len(chart) > 0 {
		all = append(all, gap(chart)...)
	}
	for len(all) < m.height-1 {
		all = append(all, nil)
	}
	return append(all, keys)
}

// fewest returns the most important lines, as many as a low screen has room for.
func (m *model) fewest(all []line) (kept []line) {
	// On a low screen the title is left out first, then the head and the whole run of the table,
	// the requests done, the keys. The latencies of now are left out last.
	unimportant := []int{0, 7, 5, 4, 8, 1, 3, 2, 6}
	for i, l := range all {
		if !slices.Contains(unimportant[:len(all)-m.height], i) {
			kept = append(kept, l)
		}
	}
	return kept
}

// facts returns the five lines about the run and its settings.
func (m *model) facts() []line {
	p, s, l := &m.now, m.now.Settings, &m.look
	state, style := "running", l.good
	switch {
	case p.Elapsed >= m.duration:
		state, style = "ending", l.bad
	case s.Paused:
		state, style = "paused", l.bad
	}
	space := max(0, m.width-len("strata load  ")-len(state)-2)
	title := line{{"strata load  ", l.title}, {left(m.target, space), l.plain}, {"  " + state, style}}

	perSecond, unlimited := rate(s.Rate)+" requests/s", s.Rate == 0
	if unlimited {
		perSecond = "no limit"
	}
	if m.width < narrow {
		return []line{
			title, m.time(),
			{{"rate ", l.faint}, {perSecond, l.title}, {", now " + rate(m.past.rate()), l.plain}},
			{{"at once ", l.faint}, {count(int64(s.Concurrency)), l.title}, {", now " + count(p.Running), l.plain}, {behind(p, ", "), l.bad}},
			{{"done ", l.faint}, {count(p.Done), l.plain}, {failed(p, ", "), l.worse}},
		}
	}
	const column = 25
	return []line{
		title, m.time(),
		{{"rate     ", l.faint}, {left(perSecond, column), l.title}, {"now " + rate(m.past.rate()) + " requests/s", l.plain}},
		{
			{"at once  ", l.faint},
			{left("up to "+count(int64(s.Concurrency)), column), l.title},
			{"now " + count(p.Running), l.plain},
			{behind(p, ", and "), l.bad},
		},
		{{"done     ", l.faint}, {left(count(p.Done), column), l.plain}, {failed(p, ""), l.worse}},
	}
}

// behind tells the requests that wait.
func behind(p *load.Progress, before string) string {
	if p.Behind == 0 {
		return ""
	}
	return before + count(p.Behind) + " behind"
}

// failed tells the errors.
func failed(p *load.Progress, before string) string {
	switch p.Errors {
	case 0:
		return ""
	case 1:
		return before + "1 error"
	}
	return before + count(p.Errors) + " errors"
}

// time returns the line about the elapsed and the remaining time.
func (m *model) time() line {
	elapsed := min(m.now.Elapsed, m.duration)
	done := 1.0
	if m.duration > 0 {
		done = float64(elapsed) / float64(m.duration)
	}
	text := clock(elapsed) + " of " + clock(m.duration)
	after := clock(m.duration-elapsed) + " left"
	width := min(m.width-len(text)-len(after)-4, 60)
	if width < 5 {
		return line{{text + ", " + after, m.look.plain}}
	}
	full := int(done*float64(width) + 0.5)
	return line{
		{text + "  ", m.look.plain},
		{strings.Repeat("━", full), m.look.good},
		{strings.Repeat("─", width-full), m.look.faint},
		{"  " + after, m.look.plain},
	}
}

// table returns the three lines about latencies, with the columns that fit.
func (m *model) table() []line {
	type column struct {
		name string
		of   func(load.Latencies) time.Duration
	}
	columns := []column{
		{"p50", func(l load.Latencies) time.Duration { return l.P50 }},
		{"p90", func(l load.Latencies) time.Duration { return l.P90 }},
		{"p99", func(l load.Latencies) time.Duration { return l.P99 }},
		{"p99.9", func(l load.Latencies) time.Duration { return l.P999 }},
		{"max", func(l load.Latencies) time.Duration { return l.Max }},
	}
	names, width := []string{"latency", "now", "whole run"}, 10
	if m.width < narrow {
		names, width = []string{"", "now", "run"}, 9
	}
	label := utf8.RuneCountInString(names[2])
	fit := (m.width - label) / width
	// The median and the worst percentile of now are the last to go.
	for _, unimportant := range []string{"p99.9", "p90", "max"} {
		for i, c := range columns {
			if c.name == unimportant && len(columns) > fit {
				columns = append(columns[:i:i], columns[i+1:]...)
				break
			}
		}
	}
	head, now, run := left(names[0], label), left(names[1], label), left(names[2], label)
	values, whole := "", ""
	for _, c := range columns {
		head += right(c.name, width)
		values += right(latency(c.of(m.recent)), width)
		whole += right(latency(c.of(m.now.Latency)), width)
	}
	l := &m.look
	return []line{{{head, l.faint}}, {{now, l.faint}, {values, l.title}}, {{run, l.faint}, {whole, l.plain}}}
}

// histogram returns a title and at most height-1 bars.
func (m *model) histogram(height int) []line {
	buckets := merge(m.past.histogram(), height-1)
	most, sum := int64(0), int64(0)
	for _, b := range buckets {
		most, sum = max(most, b.Count), sum+b.Count
	}
	title := "latencies since the start"
	if m.past.full() {
		title = "latencies of the last " + clock(window*every)
	}
	all := []line{{{title, m.look.faint}}}
	if sum == 0 {
		return append(all, line{{"none yet", m.look.faint}})
	}
	label := 15
	if m.width < narrow {
		label = 8
	}
	for _, b := range buckets {
		width := min(m.width-label-2-9, 60)
		all = append(all, line{
			{right(rangeOf(b, label), label) + "  ", m.look.plain},
			{left(bar(float64(b.Count)/float64(most), width), max(0, width)), m.look.bar},
			{right(percent(b.Count, sum), 9), m.look.plain},
		})
	}
	return all
}

// rangeOf names a bucket.
func rangeOf(b load.Bucket, width int) string {
	switch {
	case b.From == 0 && b.To == 0:
		return "all"
	case b.To == 0:
		return "≥ " + bound(b.From)
	case b.From == 0 || width < 15:
		return "< " + bound(b.To)
	}
	return bound(b.From) + " - " + bound(b.To)
}

// merge returns the buckets with a count and the buckets between them, at most most of
// them. If there are more, few requests at both ends are counted with their neighbours,
// then buckets are merged at 1, 2 and 5, then at powers of ten.
func merge(buckets []load.Bucket, most int) []load.Bucket {
	if most <= 0 {
		return nil
	}
	var merged []load.Bucket
	// There are six bounds in each power of ten: two steps join them at 1, 2 and 5, six steps at
	// powers of ten.
	for _, step := range []int{1, 2, 6} {
		merged = trim(coarser(buckets, step))
		if len(merged) > most {
			merged = withoutEnds(merged)
		}
		if len(merged) <= most {
			return merged
		}
	}
	return fold(merged, 0, most)
}

// withoutEnds folds the fastest requests, at most 1 %, and the slowest, at most 0.2 %.
func withoutEnds(buckets []load.Bucket) []load.Bucket {
	sum := int64(0)
	for _, b := range buckets {
		sum += b.Count
	}
	first, last := 0, len(buckets)
	for n := buckets[0].Count; n <= sum/100; n += buckets[first].Count {
		first++
	}
	for n := buckets[last-1].Count; n <= sum/500; n += buckets[last-1].Count {
		last--
	}
	return fold(buckets, first, last)
}

// fold returns buckets[first:last] with the counts of all.
func fold(buckets []load.Bucket, first, last int) []load.Bucket {
	folded := slices.Clone(buckets[first:last])
	for _, b := range buckets[:first] {
		folded[0].From = 0
		folded[0].Count += b.Count
	}
	for _, b := range buckets[last:] {
		folded[len(folded)-1].To = 0
		folded[len(folded)-1].Count += b.Count
	}
	return folded
}

// coarser merges step buckets into one. The first bucket is below the first power of ten.
func coarser(buckets []load.Bucket, step int) (merged []load.Bucket) {
	for i, b := range buckets {
		if n := len(merged); i > 0 && (i-1)%step != 0 {
			merged[n-1].Count += b.Count
			merged[n-1].To = b.To
			continue
		}
		merged = append(merged, b)
	}
	return merged
}

// trim removes empty buckets at both ends.
func trim(buckets []load.Bucket) []load.Bucket {
	for len(buckets) > 0 && buckets[0].Count == 0 {
		buckets = buckets[1:]
	}
	for len(buckets) > 0 && buckets[len(buckets)-1].Count == 0 {
		buckets = buckets[:len(buckets)-1]
	}
	return buckets
}

// chart returns a title and at most height-1 lines of answers by status code over time.
func (m *model) chart(height int) []line {
	if height < 2 {
		return nil
	}
	const number = 11
	longest, numbers := 23, 2*number
	if m.width < narrow {
		longest, numbers = 6, number
	}
	// The names of the codes have to be known before the width of their column, and so of the bars,
	// is. Hence the series are built twice.
	all := m.past.chart(m.now, 0, height-1)
	label := 0
	for _, s := range all {
		label = max(label, utf8.RuneCountInString(nameOf(s.code, longest)))
	}
	label += 2
	width := max(0, m.width-label-numbers)
	all, most := m.past.chart(m.now, width, height-1), 0.0
	for _, s := range all {
		for _, v := range s.values {
			most = max(most, v)
		}
	}
	head := right("total", number)
	title := "answers per second"
	if numbers > number {
		head = right("now", number) + head
	}
	lines := []line{{{left(title, max(0, m.width-numbers)), m.look.faint}, {head, m.look.faint}}}
	if len(all) == 0 {
		return append(lines, line{{"none yet", m.look.faint}})
	}
	for _, s := range all {
		text := right(count(s.total), number)
		if numbers > number {
			text = right(rate(s.now)+"/s", number) + text
		}
		style := m.look.of(s.code)
		lines = append(lines, line{
			{left(nameOf(s.code, longest), label), style},
			{left(spark(s.values, most), width), style},
			{text, m.look.plain},
		})
	}
	return lines
}

// nameOf names a status code in at most width columns.
func nameOf(code, width int) string {
	name := strconv.Itoa(code)
	switch {
	case code == failures:
		name = "errors"
	case code == others:
		name = "others"
	case width > len("200 OK"):
		name = strings.TrimSpace(name + " " + http.StatusText(code))
	}
	if utf8.RuneCountInString(name) > width {
		return cut(name, width)
	}
	return name
}

// keys returns the line of the keys, or a note about the last one.
func (m *model) keys() line {
	if m.note != "" {
		return line{{m.note, m.look.bad}}
	}
	p := "p pause"
	if m.now.Settings.Paused {
		p = "p go on"
	}
	for _, text := range []string{
		"↑↓ rate  ←→ at once  shift: twice, half  0 no limit  " + p + "  q quit",
		"↑↓ rate  ←→ at once  " + p + "  q quit",
		"↑↓ rate  ←→ at once  q quit",
		"↑↓ ←→ p q",
	} {
		if utf8.RuneCountInString(text) <= m.width {
			return line{{text, m.look.faint}}
		}
	}
	return line{{"q quit", m.look.faint}}
}
