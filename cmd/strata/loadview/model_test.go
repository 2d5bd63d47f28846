package loadview

import (
	"errors"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/strata-cache/strata/cmd/strata/load"
)

// fake is a Load that does nothing.
type fake struct {
	settings load.Settings
	progress load.Progress
	refuses  error
}

func (f *fake) Progress() load.Progress {
	p := f.progress
	p.Settings = f.settings
	return p
}

func (f *fake) Settings() load.Settings { return f.settings }

func (f *fake) Set(s load.Settings) error {
	if f.refuses != nil {
		return f.refuses
	}
	f.settings = s
	return nil
}

// key returns the message of a key press.
func key(name string) tea.KeyPressMsg {
	mod := tea.KeyMod(0)
	if rest := name[min(len(name), len("shift+")):]; rest != "" && name[:len("shift+")] == "shift+" {
		mod, name = tea.ModShift, rest
	}
	if name == "ctrl+c" {
		return tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
	}
	codes := map[string]rune{
		"up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft, "right": tea.KeyRight,
		"pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "space": tea.KeySpace,
	}
	if code, ok := codes[name]; ok {
		return tea.KeyPressMsg{Code: code, Mod: mod}
	}
	return tea.KeyPressMsg{Code: rune(name[0]), Text: name}
}

func TestKeysChangeRateAndConcurrency(t *testing.T) {
	for _, tt := range []struct {
		key        string
		from, want load.Settings
	}{
		{"up", load.Settings{Rate: 1000, Concurrency: 50}, load.Settings{Rate: 1100, Concurrency: 50}},
		{"down", load.Settings{Rate: 1000, Concurrency: 50}, load.Settings{Rate: 950, Concurrency: 50}},
		{"shift+up", load.Settings{Rate: 1000, Concurrency: 50}, load.Settings{Rate: 2000, Concurrency: 50}},
		{"shift+down", load.Settings{Rate: 1000, Concurrency: 50}, load.Settings{Rate: 500, Concurrency: 50}},
		{"pgup", load.Settings{Rate: 7, Concurrency: 50}, load.Settings{Rate: 14, Concurrency: 50}},
		{"pgdown", load.Settings{Rate: 7, Concurrency: 50}, load.Settings{Rate: 3.5, Concurrency: 50}},
		{"up", load.Settings{Rate: load.MaxRate, Concurrency: 50}, load.Settings{Rate: load.MaxRate, Concurrency: 50}},
		{"down", load.Settings{Rate: 0.1, Concurrency: 50}, load.Settings{Rate: 0.1, Concurrency: 50}},
		{"shift+down", load.Settings{Rate: 0.1, Concurrency: 50}, load.Settings{Rate: 0.1, Concurrency: 50}},
		{"up", load.Settings{Concurrency: 50}, load.Settings{Concurrency: 50}},
		{"down", load.Settings{Concurrency: 50}, load.Settings{Rate: 220, Concurrency: 50}}, // 234/s are answered
		{"0", load.Settings{Rate: 1000, Concurrency: 50}, load.Settings{Concurrency: 50}},
		{"right", load.Settings{Rate: 1, Concurrency: 1}, load.Settings{Rate: 1, Concurrency: 2}},
		{"right", load.Settings{Rate: 1, Concurrency: 100}, load.Settings{Rate: 1, Concurrency: 110}},
		{"left", load.Settings{Rate: 1, Concurrency: 100}, load.Settings{Rate: 1, Concurrency: 95}},
		{"left", load.Settings{Rate: 1, Concurrency: 1}, load.Settings{Rate: 1, Concurrency: 1}},
		{"shift+left", load.Settings{Rate: 1, Concurrency: 1}, load.Settings{Rate: 1, Concurrency: 1}},
		{"shift+right", load.Settings{Rate: 1, Concurrency: 7}, load.Settings{Rate: 1, Concurrency: 14}},
		{"right", load.Settings{Rate: 1, Concurrency: load.MaxConcurrency}, load.Settings{Rate: 1, Concurrency: load.MaxConcurrency}},
		{"p", load.Settings{Rate: 1, Concurrency: 1}, load.Settings{Rate: 1, Concurrency: 1, Paused: true}},
		{"space", load.Settings{Rate: 1, Concurrency: 1, Paused: true}, load.Settings{Rate: 1, Concurrency: 1}},
		{"x", load.Settings{Rate: 1, Concurrency: 1}, load.Settings{Rate: 1, Concurrency: 1}},
	} {
		f := &fake{settings: tt.from, progress: load.Progress{Elapsed: time.Second, Done: 234}}
		m := newModel(f, "http://target/", time.Minute, true)
		m.Update(tickMsg{})
		_, cmd := m.Update(key(tt.key))
		if f.settings != tt.want || m.now.Settings != tt.want || cmd != nil {
			t.Errorf("%s changes %+v to %+v; want %+v", tt.key, tt.from, f.settings, tt.want)
		}
	}
}

func TestConcurrencyReachesEveryBoundInSteps(t *testing.T) {
	n, presses := 1, 0
	for ; n < load.MaxConcurrency; presses++ {
		next := stepConcurrency(n, stepUp)
		if next <= n {
			t.Fatalf("%d is followed by %d", n, next)
		}
		n = next
	}
	for ; n > 1; presses++ {
		next := stepConcurrency(n, stepDown)
		if next >= n {
			t.Fatalf("%d is preceded by %d", n, next)
		}
		n = next
	}
	if presses > 300 {
		t.Errorf("%d presses", presses)
	}
}

func TestStepsUpAndDownMeetTheSameRoundNumbers(t *testing.T) {
	var ups []float64
	for v := leastRate; v < load.MaxRate; v = stepUp(v) {
		ups = append(ups, v)
	}
	v := float64(load.MaxRate)
	for i := len(ups) - 1; i >= 0; i-- {
		if v = stepDown(v); v != ups[i] {
			t.Fatalf("the step down is to %v, the step up was from %v", v, ups[i])
		}
	}
}

func TestQuitKeysEndTheLoadAndTheView(t *testing.T) {
	for _, name := range []string{"q", "ctrl+c"} {
		m := newModel(&fake{}, "http://target/", time.Minute, true)
		stopped := false
		m.stop = func() { stopped = true }
		_, cmd := m.Update(key(name))
		if cmd == nil || !stopped {
			t.Fatalf("%s: stopped is %v", name, stopped)
		}
		if _, quits := cmd().(tea.QuitMsg); !quits {
			t.Errorf("%s does not end the view", name)
		}
	}
}

func TestEndOfTheLoadEndsTheView(t *testing.T) {
	m := newModel(&fake{}, "http://target/", time.Minute, true)
	_, cmd := m.Update(endedMsg{})
	if _, quits := cmd().(tea.QuitMsg); !quits {
		t.Error("the view goes on")
	}
}

func TestRefusedChangeIsToldUntilTheNextKey(t *testing.T) {
	f := &fake{settings: load.Settings{Rate: 10, Concurrency: 1}, refuses: errors.New("not now\x1b[2J")}
	m := newModel(f, "http://target/", time.Minute, false)
	m.Update(key("up"))
	if got := last(m); got != `not now\x1b[2J` || m.now.Settings.Rate != 10 {
		t.Errorf("the last line is %q", got)
	}
	f.refuses = nil
	m.Update(key("up"))
	if got := last(m); got == `not now\x1b[2J` || m.now.Settings.Rate != 11 {
		t.Errorf("the last line is %q", got)
	}
}
