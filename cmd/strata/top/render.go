package top

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/strata-cache/strata/admin/api"
	"github.com/strata-cache/strata/internal/wire"
)

// styles are the styles of lines, one for each meaning.
type styles struct{ plain, title, faint, chosen, good, bad lipgloss.Style }

// newStyles returns styles with the colours of the terminal, or without.
func newStyles(colours bool) styles {
	p := lipgloss.NewStyle()
	s := styles{plain: p, title: p.Bold(true), faint: p.Faint(true), chosen: p.Reverse(true), good: p, bad: p.Bold(true)}
	if colours {
		s.good, s.bad = p.Foreground(lipgloss.Green), p.Foreground(lipgloss.Red)
	}
	return s
}

// line is a line of the screen, in one style.
type line struct {
	text  string
	style lipgloss.Style
}

// View draws the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	return v
}

// draw returns the screen, which is no larger than the terminal.
func (m *model) draw() string {
	body, foot := m.body(), m.foot()
	room := max(0, m.height-1-len(foot))
	// The keys count lines without a limit: the end of the body is known only here.
	if m.screen == detail || m.screen == explained {
		m.scroll = min(m.scroll, max(0, len(body)-room))
		body = body[m.scroll:]
	}
	lines := append([]line{m.title()}, body[:min(len(body), room)]...)
	for len(lines) < m.height-len(foot) {
		lines = append(lines, line{})
	}
	lines = append(lines, foot...)
	var b strings.Builder
	for i, l := range lines[:min(len(lines), max(0, m.height))] {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.style.Render(clean(l.text, m.width)))
	}
	return b.String()
}

// title tells the time of the last answer, by which a person sees that the page is still alive.
func (m *model) title() line {
	text := "strata top"
	if m.seen {
		text += "  " + clock(m.overview.Time)
	}
	return line{text + "  " + wire.CleanURL(m.client.base.String()), m.styles.title}
}

// maxFoot is the number of lines of the foot, of which all but one are an error.
const maxFoot = 5

// foot has the keys of the present screen and, above them, the error of the last question.
func (m *model) foot() []line {
	keys := map[screen]string{
		list:      "↑↓ choose  ←→ sort  r reverse  enter details  e explain a key  q quit",
		detail:    "↑↓ scroll  e explain a key  esc back  q quit",
		asking:    "enter explain  esc back",
		explained: "↑↓ scroll  e another key  esc back  q quit",
	}[m.screen]
	foot := []line{{keys, m.styles.faint}}
	problem := m.problems.overview
	if problem == "" && m.screen == detail {
		problem = m.problems.detail
	}
	if problem != "" {
		foot = append(m.text("", problem+"; trying again", m.styles.bad), foot...)
		foot = foot[max(0, len(foot)-maxFoot):]
	}
	return foot
}

func (m *model) body() []line {
	switch m.screen {
	case detail:
		return m.drawDetail()
	case asking:
		return append([]line{{}}, m.text("", "Key of "+m.chosen+": "+m.typed+"_", m.styles.plain)...)
	case explained:
		return m.drawExplained()
	}
	return m.drawList()
}

// drawList draws the table of all caches. The chosen one is always on the screen.
func (m *model) drawList() (all []line) {
	if !m.seen {
		return []line{{}, {"Waiting for the first answer.", m.styles.faint}}
	}
	l := fit(m.width)
	all = append(all, line{}, line{l.head(min(m.by, len(l.columns)-1), m.reverse), m.styles.faint})
	rows := m.rows()
	room := m.height - 1 - len(all) - len(m.foot())
	first, lines := 0, []int(nil) // the number of lines of each row
	// A row has as many lines as its troubles need. Rows above the chosen one are left out until it
	// is on the screen.
	for i := range rows {
		lines = append(lines, len(l.rows(&rows[i])))
		if rows[i].Name == m.chosen {
			for sum(lines[first:]) > room && first < i {
				first++
			}
		}
	}
	for i := range rows[first:] {
		s := &rows[first+i]
		style := m.styles.plain
		if len(states(s)) > 0 {
			style = m.styles.bad
		}
		for n, text := range l.rows(s) {
			if s.Name == m.chosen && n == 0 {
				all = append(all, line{text, m.styles.chosen})
				continue
			}
			all = append(all, line{text, style})
		}
	}
	if len(rows) == 0 {
		all = append(all, line{"The page has no caches.", m.styles.faint})
	}
	return all
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}

// titles is the width of the titles of facts.
const titles = 14

// facts is a title, and its parts in a second column, of as many lines as they need. A part is divided
// only if it is longer than a line.
func (m *model) facts(title string, parts ...string) (all []line) {
	for i, text := range wrap(parts, ", ", max(1, m.width-titles)) {
		if i > 0 {
			title = ""
		}
		all = append(all, line{left(title, titles) + text, m.styles.plain})
	}
	return all
}

// text is a text in as many lines as it needs, behind a column.
func (m *model) text(column, text string, style lipgloss.Style) (all []line) {
	indent := utf8.RuneCountInString(column)
	for i, part := range wrap(strings.Split(text, " "), " ", max(1, m.width-indent)) {
		if i > 0 {
			column = strings.Repeat(" ", indent)
		}
		all = append(all, line{column + part, style})
	}
	return all
}

func (m *model) drawDetail() (all []line) {
	d := &m.detail
	if d.Name == "" {
		return []line{{}, {"Waiting for the answer.", m.styles.faint}}
	}
	all = append(all, line{}, line{tail(titled(&d.Info, d.Name), m.width), m.styles.title})
	all = append(all, m.drawState()...)
	all = append(all, m.drawNumbers()...)
	since := ""
	if d.Hot.Since > 0 {
		since = ", since " + clock(d.Hot.Since)
	}
	all = append(all, line{}, line{"hottest keys by reads" + since, m.styles.title})
	all = append(all, m.hot(d.Hot.ByReads)...)
	all = append(all, line{}, line{"hottest keys by load time" + since, m.styles.title})
	all = append(all, m.hot(d.Hot.ByLoadTime)...)
	all = append(all, line{}, line{"last events", m.styles.title})
	// The newest event comes first: it is the one a person looks for.
	for i := len(d.Events) - 1; i >= 0; i-- {
		e, style := d.Events[i], m.styles.plain
		if e.Level != "info" {
			style = m.styles.bad
		}
		all = append(all, m.text(clock(e.At)+"  "+left(e.Level, 6), e.Text, style)...)
	}
	all = append(all, line{}, line{"options", m.styles.title})
	for _, s := range d.Settings {
		text := s.Value
		switch {
		case s.Tuned:
			text += "  (tuned)"
		case s.Default:
			text += "  (default)"
		}
		all = append(all, m.text(left(s.Name, 24), text, m.styles.plain)...)
	}
	return all
}

// drawState lists the troubles of the chosen cache, and draws its reads of ten minutes.
func (m *model) drawState() (all []line) {
	for i := range m.overview.Caches {
		s := &m.overview.Caches[i]
		if s.Name != m.chosen {
			continue
		}
		if wrong := states(s); len(wrong) > 0 {
			for _, text := range wrap(wrong, ", ", max(1, m.width)) {
				all = append(all, line{text, m.styles.bad})
			}
		}
		if bars, most := spark(s.Spark, m.width-titles); bars != "" {
			all = append(all, line{left("10 minutes", titles) + bars, m.styles.good}, line{left("", titles) + "reads/s, at most " + number(most), m.styles.faint})
		}
	}
	return all
}

// drawNumbers are the numbers of the cache in detail.
func (m *model) drawNumbers() (all []line) {
	d := &m.detail
	n := &d.Numbers
	u := func(x uint64) string { return number(float64(x)) }
	t := func(x time.Duration) string { return span(known(float64(x))) }
	all = append(all, m.facts("instance", d.Info.Instance)...)
	all = append(all, m.facts("reads", u(n.Reads.Total)+" in all", u(n.Reads.L1)+" from L1", u(n.Reads.Negative)+" negative", u(n.Reads.Stale)+" stale", u(n.Reads.Joined)+" joined a load")...)
	loads := []string{u(n.Loads.OK) + " ok", u(n.Loads.NotFound) + " not found", u(n.Loads.Errors+n.Loads.Panics) + " failed", number(float64(n.Loads.Running)) + " running"}
	if again := float64(n.Loads.Compared.Changed) + float64(n.Loads.Compared.Unchanged) + float64(n.Loads.NotModified); again > 0 {
		loads = append(loads, percent(100*float64(n.Loads.Compared.Changed)/again)+" % with another value than before")
	}
	all = append(all, m.facts("loads", loads...)...)
	all = append(all, m.facts("origin", originOf(&n.Loads))...)
	all = append(all, m.facts("load time", "p50 at most "+t(n.Loads.P50), "p99 at most "+t(n.Loads.P99)+" in the last minutes", span(float64(n.Loads.Saved))+" saved in all")...)
	memory := []string{counted(float64(n.Memory.Entries), "entry", "entries"), percent(full(&n.Memory)) + " % full", u(n.Memory.Evicted) + " evicted"}
	if n.Memory.Evicted > 0 {
		memory = append(memory, "at an age of "+t(n.Memory.EvictionAgeP50))
	}
	all = append(all, m.facts("memory", memory...)...)
	if g := n.Guard; g != nil {
		guard := []string{"live heap " + size(float64(g.Heap)) + " of at most " + size(float64(g.Ceiling)), g.Source + " " + size(float64(g.Limit)), u(g.Evicted) + " evicted"}
		all = append(all, m.facts("guard", guard...)...)
	}
	if d.Info.L2 != "" {
		breaker := "breaker is closed"
		if n.Remote.BreakerOpen {
			breaker = "breaker is open"
		}
		l2 := []string{u(n.Remote.Hits) + " hits", u(n.Remote.Misses) + " misses", counted(float64(n.Remote.Errors), "error", "errors")}
		if n.Remote.TimedOut > 0 {
			l2 = append(l2, counted(float64(n.Remote.TimedOut), "time-out of them", "time-outs of them"))
		}
		l2 = append(l2, "p99 at most "+t(n.Remote.P99), breaker)
		if n.Remote.LeaseWaits > 0 {
			l2 = append(l2, counted(float64(n.Remote.LeaseWaits), "wait", "waits")+" for other loads", u(n.Remote.LeaseWins)+" won")
		}
		all = append(all, m.facts("L2", l2...)...)
		if d.Info.L2Server != "" {
			all = append(all, m.facts("L2 at", d.Info.L2Server)...)
		}
	}
	if d.Info.Bus != "" {
		bus := []string{busOf(&n.Bus), "last message " + span(float64(n.Bus.Silence)) + " ago", "echo p99 at most " + t(n.Bus.EchoP99), counted(float64(n.Bus.Pending), "drop pending", "drops pending")}
		if n.Bus.Unreadable > 0 {
			bus = append(bus, counted(float64(n.Bus.Unreadable), "unreadable message", "unreadable messages"))
		}
		all = append(all, m.facts("bus", bus...)...)
	}
	return all
}

// originOf is the state of the origin as loads tell it.
func originOf(l *api.Loads) string {
	switch {
	case l.Failing > 0:
		return "failing for " + span(float64(l.Failing))
	case l.Slow > 0:
		return "slow for " + span(float64(l.Slow))
	}
	return "well"
}

// spark draws the last numbers as bars, the highest as high as a line, and returns that number.
func spark(numbers []*float64, width int) (bars string, most float64) {
	if numbers = numbers[max(0, len(numbers)-max(0, width)):]; len(numbers) == 0 {
		return "", 0
	}
	for _, n := range numbers {
		if n != nil {
			most = max(most, *n)
		}
	}
	heights := []rune("▁▂▃▄▅▆▇█")
	for _, n := range numbers {
		switch {
		case n == nil:
			bars += " "
		case *n <= 0 || most <= 0:
			bars += "_"
		default:
			bars += string(heights[min(len(heights)-1, int(*n/most*float64(len(heights))))])
		}
	}
	return bars, most
}

// hot are up to five of the hottest keys.
func (m *model) hot(keys []api.HotKey) (all []line) {
	for _, k := range keys[:min(len(keys), 5)] {
		text := fmt.Sprintf("%s reads  %s in %s loads  ", right(number(float64(k.Reads)), 6), right(span(float64(k.LoadTime)), 8), right(number(float64(k.Loads)), 5))
		all = append(all, line{text + head(k.Key, m.width-utf8.RuneCountInString(text)), m.styles.plain})
	}
	if len(keys) == 0 {
		all = append(all, line{"none were counted yet", m.styles.faint})
	}
	return all
}

// drawExplained draws what each instance knows of the key that was typed.
func (m *model) drawExplained() (all []line) {
	e := &m.explained
	all = append(all, line{}, line{head(m.chosen+": "+m.typed, m.width), m.styles.title})
	switch {
	case e.Error != "":
		return append(all, m.text("", e.Error, m.styles.bad)...)
	case len(e.Instances) == 0:
		return append(all, line{"All instances are asked.", m.styles.faint})
	}
	for _, i := range e.Instances {
		name := i.Instance
		if i.Here {
			name += "  (this page's)"
		}
		all = append(all, line{}, line{head(name, m.width), m.styles.title})
		// Without an answer, the verdict says why, and nothing else is known.
		if !i.Answered {
			all = append(all, m.text("", i.Verdict, m.styles.bad)...)
			continue
		}
		all = append(all, m.text("", i.Verdict, m.styles.plain)...)
		all = append(all, m.facts("L1", i.L1+freshFor(i.L1, i.L1Fresh))...)
		all = append(all, m.facts("L2", i.L2+freshFor(i.L2, i.L2Fresh))...)
		if len(i.Tags) > 0 {
			all = append(all, m.facts("tags", i.Tags...)...)
		}
		if i.Failures > 0 {
			all = append(all, m.facts("failures", number(float64(i.Failures)), "tried again in "+span(float64(i.RetryIn)), i.Err)...)
		}
	}
	return all
}

// freshFor tells for how long a state lasts, if it is one that ends by itself.
func freshFor(state string, d time.Duration) string {
	if state != "fresh" && state != "negative" {
		return ""
	}
	if d == math.MaxInt64 {
		return " without end"
	}
	return " for " + span(float64(d))
}
