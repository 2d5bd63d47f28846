package loadview

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// model is the state of the view.
type model struct {
	load     Load
	target   string // escaped
	duration time.Duration
	look     look
	stop     func()          // ends the load
	done     <-chan struct{} // closed at the end of the load

	width, height int
	now           load.Progress
	recent        load.Latencies // from the last progress with an answer
	past          past
	note          string // about the last key
}

func newModel(l Load, target string, duration time.Duration, colours bool) *model {
	return &model{
		load: l, target: printable(target), duration: duration, look: newLook(colours), stop: func() {},
		width: 80, height: 24,
		now: load.Progress{Settings: l.Settings()},
	}
}

// Init starts to wait for the end of the load and for the first look.
func (m *model) Init() tea.Cmd {
	return tea.Batch(tick(), func() tea.Msg {
		<-m.done
		return endedMsg{}
	})
}

// Update handles a key, a new size, a look at the load or its end.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tickMsg:
		m.see(m.load.Progress())
		return m, tick()
	case endedMsg:
		return m, tea.Quit
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	}
	return m, nil
}

// see takes over a state of the load.
func (m *model) see(p load.Progress) {
	m.now = p
	// During a pause, or a stall of the target, the last latencies stay on the screen.
	if p.Recent.Count > 0 {
		m.recent = p.Recent
	}
	m.past.add(p)
}

// press handles a key.
func (m *model) press(key string) tea.Cmd {
	m.note = ""
	s := m.load.Settings()
	switch key {
	case "q", "Q", "ctrl+c":
		m.stop()
		return tea.Quit
	case "up":
		s.Rate = m.stepRate(s.Rate, stepUp)
	case "down":
		s.Rate = m.stepRate(s.Rate, stepDown)
	case "shift+up", "pgup":
		s.Rate = m.stepRate(s.Rate, double)
	case "shift+down", "pgdown":
		s.Rate = m.stepRate(s.Rate, halve)
	case "right":
		s.Concurrency = stepConcurrency(s.Concurrency, stepUp)
	case "left":
		s.Concurrency = stepConcurrency(s.Concurrency, stepDown)
	case "shift+right":
		s.Concurrency = stepConcurrency(s.Concurrency, double)
	case "shift+left":
		s.Concurrency = stepConcurrency(s.Concurrency, halve)
	case "0":
		s.Rate = 0
	case "p", "P", "space":
		s.Paused = !s.Paused
	}
	if err := m.load.Set(s); err != nil {
		m.note = printable(err.Error())
	}
	// The view shows the change at once, and not with its next look.
	m.now.Settings = m.load.Settings()
	return nil
}

// stepRate returns the rate after a step. If there is no limit yet, the step begins at the present
// rate of answers, so that it does not change the load much.
func (m *model) stepRate(rate float64, step func(float64) float64) float64 {
	if rate == 0 {
		// A step up from no limit has nowhere to go. step(1) tells the direction.
		if step(1) > 1 {
			m.note = "there is no limit to raise"
			return 0
		}
		rate = m.past.rate()
	}
	return min(max(step(rate), leastRate), load.MaxRate)
}

// stepConcurrency returns the number of running requests after a step. It is within the bounds of a
// load.
func stepConcurrency(n int, step func(float64) float64) int {
	to := int(step(float64(n)))
	// A step up from a small number may end before the next whole number, and a key would do
	// nothing.
	if to == n && step(1) > 1 {
		to++
	}
	return min(max(to, 1), load.MaxConcurrency)
}
