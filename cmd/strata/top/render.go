package top

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/strata-cache/strata/internal/adminapi"
	"github.com/strata-cache/strata/internal/endpoint"
)

// styles are those of lines.
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

func (m *model) title() line {
	text := "strata top  " + endpoint.Clean(m.client.base.String())
	if m.seen {
		text += "  " + clock(m.overview.Time)
	}
	return line{text, m.styles.title}
}

func (m *model) foot() []line {
	keys := map[screen]string{
		list:      "↑↓ choose  ←→ sort  r reverse  enter details  e explain a key  q quit",
		detail:    "↑↓ scroll  e explain a key  esc back  q quit",
		asking:    "enter explain  esc back",
		explained: "↑↓ scroll  e another key  esc back  q quit",
	}[m.screen]
	foot := []line{{keys, m.styles.faint}}
	if m.problem != "" {
		foot = append([]line{{m.problem + "; trying again", m.styles.bad}}, foot...)
	}
	return foot
}

func (m *model) body() []line {
	switch m.screen {
	case detail:
		return m.drawDetail()
	case asking:
		return []line{{}, {"Key of " + m.chosen + ": " + m.typed + "_", m.styles.plain}}
	case explained:
		return m.drawExplained()
	}
	return m.drawList()
}

func (m *model) drawList() (all []line) {
	if !m.seen {
		return []line{{}, {"Waiting for the first answer.", m.styles.faint}}
	}
	l := fit(m.width)
	all = append(all, line{}, line{l.head(min(m.by, len(l.columns)-1), m.reverse), m.styles.faint})
	rows := m.rows()
	first := 0
	if room := m.height - 5; len(rows) > room {
		for i := range rows {
			if rows[i].Name == m.chosen {
				first = max(0, min(i-room/2, len(rows)-room))
			}
		}
	}
	for i := range rows[first:] {
		s := &rows[first+i]
		style := m.styles.plain
		switch {
		case s.Name == m.chosen:
			style = m.styles.chosen
		case health(s) != "ok":
			style = m.styles.bad
		}
		all = append(all, line{l.row(s), style})
	}
	if len(rows) == 0 {
		all = append(all, line{"The page has no caches.", m.styles.faint})
	}
	return all
}

// fact is a title and a value in two columns.
func (m *model) fact(title, format string, args ...any) line {
	return line{left(title, 16) + fmt.Sprintf(format, args...), m.styles.plain}
}

func (m *model) drawDetail() (all []line) {
	d := &m.detail
	if d.Name == "" {
		return []line{{}, {"Waiting for the answer.", m.styles.faint}}
	}
	n := &d.Numbers
	all = append(all,
		line{}, line{titled(&d.Info, d.Name) + "  " + d.Info.Instance, m.styles.title},
		m.fact("reads", "%s, %s from L1, %s stale, %s joined a load", number(float64(n.Reads.Total)), number(float64(n.Reads.L1)), number(float64(n.Reads.Stale)), number(float64(n.Reads.Joined))),
		m.fact("loads", "%s ok, %s not found, %s failed, %d running, p50 %s, p99 %s", number(float64(n.Loads.OK)), number(float64(n.Loads.NotFound)),
			number(float64(n.Loads.Errors+n.Loads.Panics)), n.Loads.Running, span(known(float64(n.Loads.P50))), span(known(float64(n.Loads.P99)))),
		m.fact("origin", "%s", originOf(&n.Loads)),
		m.fact("time saved", "%s", span(float64(n.Loads.Saved))),
		m.fact("memory", "%s entries, %s%% full, %s evicted at an age of %s", number(float64(n.Memory.Entries)), percent(full(&n.Memory)), number(float64(n.Memory.Evicted)), span(known(float64(n.Memory.EvictionAgeP50)))),
	)
	if d.Info.L2 != "" {
		all = append(all, m.fact("L2", "%s hits, %s misses, %s errors, p99 %s, breaker open: %t", number(float64(n.Remote.Hits)), number(float64(n.Remote.Misses)), number(float64(n.Remote.Errors)), span(known(float64(n.Remote.P99))), n.Remote.BreakerOpen))
		if d.Info.L2Server != "" {
			all = append(all, m.fact("L2 at", "%s", d.Info.L2Server))
		}
		if servers := n.Remote.ServersLeftAlone; len(servers) > 0 {
			all = append(all, m.fact("breaker open", "%s", strings.Join(servers, " ")))
		}
		if servers := n.Remote.ServersWithoutStores; len(servers) > 0 {
			all = append(all, m.fact("no stores at", "%s", strings.Join(servers, " ")))
		}
	}
	if d.Info.Bus != "" {
		all = append(all, m.fact("bus", "connected: %t, last message %s ago, echo p99 %s, %d drops pending", n.Bus.Connected, span(float64(n.Bus.Silence)), span(known(float64(n.Bus.EchoP99))), n.Bus.Pending))
	}
	all = append(all, line{}, line{"hottest keys by reads", m.styles.title})
	all = append(all, m.hot(d.Hot.ByReads)...)
	all = append(all, line{}, line{"hottest keys by load time", m.styles.title})
	all = append(all, m.hot(d.Hot.ByLoadTime)...)
	all = append(all, line{}, line{"last events", m.styles.title})
	for i := len(d.Events) - 1; i >= 0; i-- {
		e, style := d.Events[i], m.styles.plain
		if e.Level != "info" {
			style = m.styles.bad
		}
		all = append(all, line{clock(e.At) + "  " + left(e.Level, 6) + e.Text, style})
	}
	all = append(all, line{}, line{"options", m.styles.title})
	for _, s := range d.Settings {
		text := left(s.Name, 24) + s.Value
		switch {
		case s.Tuned:
			text += "  (tuned)"
		case s.Default:
			text += "  (default)"
		}
		all = append(all, line{text, m.styles.plain})
	}
	return all
}

// originOf is the state of the origin as loads tell it.
func originOf(l *adminapi.Loads) string {
	switch {
	case l.Failing > 0:
		return "failing for " + span(float64(l.Failing))
	case l.Slow > 0:
		return "slow for " + span(float64(l.Slow))
	}
	return "well"
}

// hot are up to five of the hottest keys.
func (m *model) hot(keys []adminapi.HotKey) (all []line) {
	for _, k := range keys[:min(len(keys), 5)] {
		all = append(all, line{fmt.Sprintf("%s reads, %s in %s loads  %s", right(number(float64(k.Reads)), 7), right(span(float64(k.LoadTime)), 8), number(float64(k.Loads)), k.Key), m.styles.plain})
	}
	if len(keys) == 0 {
		all = append(all, line{"none were counted yet", m.styles.faint})
	}
	return all
}

func (m *model) drawExplained() (all []line) {
	e := &m.explained
	all = append(all, line{}, line{m.chosen + ": " + m.typed, m.styles.title})
	switch {
	case e.Error != "":
		return append(all, line{e.Error, m.styles.bad})
	case len(e.Instances) == 0:
		return append(all, line{"All instances are asked.", m.styles.faint})
	}
	for _, i := range e.Instances {
		name := i.Instance
		if i.Here {
			name += "  (this page's)"
		}
		all = append(all, line{}, line{name, m.styles.title})
		if !i.Answered {
			all = append(all, line{"has not answered within a second", m.styles.bad})
			continue
		}
		all = append(all, line{i.Verdict, m.styles.plain},
			m.fact("L1", "%s%s", i.L1, freshFor(i.L1, i.L1Fresh)), m.fact("L2", "%s%s", i.L2, freshFor(i.L2, i.L2Fresh)))
		if len(i.Tags) > 0 {
			all = append(all, m.fact("tags", "%s", strings.Join(i.Tags, ", ")))
		}
		if i.Failures > 0 {
			all = append(all, m.fact("failures", "%d, tried again in %s: %s", i.Failures, span(float64(i.RetryIn)), i.Err))
		}
	}
	return all
}

func freshFor(state string, d time.Duration) string {
	if state != "fresh" && state != "negative" {
		return ""
	}
	return " for " + span(float64(d))
}
