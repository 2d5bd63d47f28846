package loadview

import (
	"context"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// Options configure a view. In, Out and Err are required.
type Options struct {
	// Target is the name of the target, without credentials. It may contain any character.
	Target string
	// Colours permits colours.
	Colours bool

	// In is the terminal that sends keys, Out the terminal that shows the view.
	In  io.Reader
	Out io.Writer
	// Err gets a line if the view fails. Then the load goes on without it.
	Err io.Writer
}

// Run runs a load as load.Run does and shows it. A key ends it as ctx does. An error is
// caused by o.
func Run(ctx context.Context, o load.Options, v Options) (*load.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running, err := load.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	m := newModel(running, v.Target, o.Duration, v.Colours)
	m.stop, m.done = cancel, running.Done()
	// The caller handles signals by ctx: the end of ctx ends the load, and that ends the view.
	program := tea.NewProgram(m, tea.WithInput(v.In), tea.WithOutput(v.Out), tea.WithoutSignalHandler(),
		tea.WithWindowSize(m.width, m.height)) // if the terminal does not tell its size
	if _, err := program.Run(); err != nil {
		fmt.Fprintln(v.Err, "strata: the live view ended, the load goes on: "+printable(err.Error()))
	}
	return running.Wait(), nil
}

// Load is a running load.
type Load interface {
	// Progress returns the state since the previous call and since the start.
	Progress() load.Progress
	// Settings returns the settings in force.
	Settings() load.Settings
	// Set changes them, or nothing if it returns an error.
	Set(load.Settings) error
}

// every is the time between two looks at the load.
const every = 500 * time.Millisecond

// tickMsg is the time for a look at the load.
type tickMsg struct{}

// endedMsg is the end of the load.
type endedMsg struct{}

func tick() tea.Cmd {
	return tea.Tick(every, func(time.Time) tea.Msg { return tickMsg{} })
}
