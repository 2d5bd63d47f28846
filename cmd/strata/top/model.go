package top

import (
	"context"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/strata-cache/strata/admin/api"
)

// every is the time between two questions.
const every = time.Second

// screen is the shown part of the page.
type screen int

const (
	list screen = iota
	detail
	asking // for a key
	explained
)

// model is the state of the view.
type model struct {
	client *client
	ctx    context.Context
	styles styles

	width, height int
	screen        screen
	overview      api.Overview
	detail        api.Detail
	explained     api.Explained
	chosen        string // the name of a cache
	by            int    // the column that sorts
	reverse       bool
	typed         string // a key
	scroll        int
	problems      problems
	seen          bool // there was an answer
}

// problems are the errors of the last question of each kind. The answer to one says nothing about the
// other: a page may have its list, and not the cache that is shown.
type problems struct{ overview, detail string }

// problemOf is the text of an error, or nothing.
func problemOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func newModel(ctx context.Context, c *client, s styles) *model {
	return &model{client: c, ctx: ctx, styles: s, width: 80, height: 24}
}

// The answers to questions, and the time for the next.
type (
	tickMsg     struct{}
	overviewMsg struct {
		o   api.Overview
		err error
	}
	detailMsg struct {
		d    api.Detail
		err  error
		name string // of the question
	}
	explainedMsg struct {
		e         api.Explained
		err       error
		name, key string // of the question
	}
)

// Init asks for the first time.
func (m *model) Init() tea.Cmd { return m.ask() }

// ask requests all data of the screen.
func (m *model) ask() tea.Cmd {
	c, ctx, name := m.client, m.ctx, m.chosen
	overview := func() tea.Msg {
		o, err := c.overview(ctx)
		return overviewMsg{o, err}
	}
	if m.screen != detail {
		return overview
	}
	return tea.Batch(overview, func() tea.Msg {
		d, err := c.detail(ctx, name)
		return detailMsg{d, err, name}
	})
}

// Update handles a key, a new size, an answer, or the time for a question.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		return m, m.ask()
	case overviewMsg:
		if m.problems.overview = problemOf(msg.err); msg.err == nil {
			m.overview, m.seen = msg.o, true
			// The first cache is chosen for a person who has not chosen yet.
			if m.chosen == "" && len(msg.o.Caches) > 0 {
				m.chosen = m.rows()[0].Name
			}
		}
		// The next question waits for the answer to this one: a slow page gets no heap of
		// questions.
		return m, tea.Tick(every, func(time.Time) tea.Msg { return tickMsg{} })
	case detailMsg:
		// A late answer about another cache than the chosen one must not be seen under its name.
		if msg.name != m.chosen {
			break
		}
		if m.problems.detail = problemOf(msg.err); msg.err == nil {
			m.detail = msg.d
		}
	case explainedMsg:
		// Nor must a late answer about another key: answers come in any order.
		if msg.name != m.chosen || msg.key != m.typed {
			break
		}
		// The error stays on the page of the key: nothing asks again.
		if m.explained = msg.e; msg.err != nil {
			m.explained = api.Explained{Error: msg.err.Error()}
		}
	case tea.PasteMsg:
		if m.screen == asking {
			m.add(msg.Content)
		}
	case tea.KeyPressMsg:
		if m.screen == asking {
			return m, m.write(msg)
		}
		return m, m.press(msg.String())
	}
	return m, nil
}

// rows are the caches in their order.
func (m *model) rows() []api.Summary { return sorted(m.overview.Caches, m.by, m.reverse) }

// press handles a key, unless a text is typed.
func (m *model) press(key string) tea.Cmd {
	switch key {
	case "q", "Q", "ctrl+c":
		return tea.Quit
	case "e", "E":
		if m.chosen != "" {
			m.screen, m.typed = asking, ""
		}
		return nil
	}
	if m.screen != list {
		return m.pressInside(key)
	}
	switch key {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "left", "h":
		m.by = max(-1, m.by-1)
	case "right", "l":
		m.by = min(len(fit(m.width).columns)-1, m.by+1)
	case "r", "R":
		m.reverse = !m.reverse
	case "enter":
		if m.chosen != "" {
			// The detail of the cache before must not be seen under the name of this one.
			m.screen, m.scroll, m.detail, m.problems.detail = detail, 0, api.Detail{}, ""
			return m.askDetail()
		}
	}
	return nil
}

// pressInside handles a key in the detail of a cache.
func (m *model) pressInside(key string) tea.Cmd {
	switch key {
	case "esc", "backspace", "left":
		if m.screen == explained {
			m.screen = detail
			m.scroll = 0
			return m.askDetail()
		}
		m.screen = list
	case "up", "k":
		m.scroll = max(0, m.scroll-1)
	case "down", "j":
		m.scroll++
	case "pgup":
		m.scroll = max(0, m.scroll-10)
	case "pgdown", "space":
		m.scroll += 10
	}
	return nil
}

// askDetail requests the data of the cache that is chosen now.
func (m *model) askDetail() tea.Cmd {
	c, ctx, name := m.client, m.ctx, m.chosen
	return func() tea.Msg {
		d, err := c.detail(ctx, name)
		return detailMsg{d, err, name}
	}
}

// move chooses another cache.
func (m *model) move(by int) {
	rows := m.rows()
	// The choice is a name, not a row: each answer may put the rows into another order.
	for i := range rows {
		if rows[i].Name == m.chosen {
			m.chosen = rows[min(max(i+by, 0), len(rows)-1)].Name
			return
		}
	}
	if len(rows) > 0 {
		m.chosen = rows[0].Name
	}
}

// write handles a key while the name of a key is typed.
func (m *model) write(key tea.KeyPressMsg) tea.Cmd {
	switch key.String() {
	case "ctrl+c":
		return tea.Quit
	case "esc":
		m.screen = list
	case "backspace":
		if r := []rune(m.typed); len(r) > 0 {
			m.typed = string(r[:len(r)-1])
		}
	case "enter":
		if m.typed == "" {
			return nil
		}
		m.screen, m.scroll, m.explained = explained, 0, api.Explained{}
		c, ctx, name, typed := m.client, m.ctx, m.chosen, m.typed
		return func() tea.Msg {
			e, err := c.explain(ctx, name, typed)
			return explainedMsg{e, err, name, typed}
		}
	default:
		m.add(key.Text)
	}
	return nil
}

// add adds a text to the key that is typed, unless the page takes no key so long.
func (m *model) add(text string) {
	// A paste may end with a new line, which no key press types.
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	if len(m.typed)+len(text) <= api.MaxKey {
		m.typed += text
	}
}
