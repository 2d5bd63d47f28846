package stage

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	maxScript = 64 << 10 // bytes
	maxLength = time.Hour
	// rest is the time after the last step of a script without an end.
	rest = 5 * time.Second
)

// Script is a list of actions with their times. The zero Script has none.
type Script struct {
	Steps []Step
	// End is the time at which the script ends; HasEnd says that the script names it.
	End    time.Duration
	HasEnd bool
}

// Step is one action.
type Step struct {
	At     time.Duration
	Action string
	line   int
}

// ParseScript parses a script, of which each line is empty, a comment that begins with #, or
//
//	at TIME ACTION
//
// with any spaces between the words. Times do not go back, and are an hour at most. The last
// line is "at TIME end"; without it the script ends 5 seconds after its last action. Errors name
// the line.
func ParseScript(text []byte) (s Script, err error) {
	if len(text) > maxScript {
		return s, fmt.Errorf("script: longer than %d bytes", maxScript)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	// No line of a script within the limit is too long for the scanner, whose own limit is lower.
	lines.Buffer(nil, maxScript+1)
	last := time.Duration(0)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		step, err := parseStep(line, last)
		switch {
		case err != nil:
		case s.HasEnd:
			err = fmt.Errorf("the script has ended before")
		case step.Action == "end":
			s.End, s.HasEnd = step.At, true
		default:
			step.line = n
			s.Steps = append(s.Steps, step)
			s.End = step.At + rest
		}
		if err != nil {
			return Script{}, fmt.Errorf("script: line %d: %w", n, err)
		}
		last = step.At
	}
	return s, lines.Err()
}

// parseStep parses a line of a script. Its time must not be earlier than last.
func parseStep(line string, last time.Duration) (s Step, err error) {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "at" {
		return s, fmt.Errorf("want: at TIME ACTION, such as: at 5s break l2")
	}
	if s.At, err = time.ParseDuration(words[1]); err != nil || s.At < 0 || s.At > maxLength {
		return s, fmt.Errorf("%q is no time from 0s to %v", words[1], maxLength)
	}
	if s.At < last {
		return s, fmt.Errorf("%v is before %v", s.At, last)
	}
	if s.Action = strings.Join(words[2:], " "); s.Action != "end" {
		_, _, err = parse(s.Action)
	}
	return s, err
}

// head is above the lines of Play.
const head = "    time  requests  memory      L2  shared   stale  queries  errors       p50       p99\n"

// Play does the actions of a script at their times, and writes a line for each action and each
// second, until the script or ctx ends. An action that fails is a line, too, and the script
// goes on. It returns the error of w.
func (s *Stage) Play(ctx context.Context, script Script, w io.Writer) error {
	begun := time.Now()
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	seen := time.Now().UnixMilli()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for steps := script.Steps; ; {
		next := script.End
		if len(steps) > 0 {
			next = steps[0].At
		}
		// Times count from the begin of the script, so that a slow action does not shift those
		// behind it.
		timer := time.NewTimer(time.Until(begun.Add(next)))
		var err error
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-second.C:
			timer.Stop()
			seen, err = s.writeSamples(ctx, w, begun, seen)
		case <-timer.C:
			if len(steps) == 0 {
				_, err = s.writeSamples(ctx, w, begun, seen)
				return err
			}
			// The samples before an action stand above its line.
			if seen, err = s.writeSamples(ctx, w, begun, seen); err == nil {
				err = s.step(ctx, w, steps[0])
			}
			steps = steps[1:]
		}
		if err != nil {
			return err
		}
	}
}

// step does one action and writes its line.
func (s *Stage) step(ctx context.Context, w io.Writer, step Step) error {
	said, err := s.Do(ctx, step.Action)
	if err != nil {
		said = "failed: " + err.Error()
	}
	_, err = fmt.Fprintf(w, "%7.1fs  * %s: %s\n", step.At.Seconds(), step.Action, oneLine(said))
	return err
}

// writeSamples writes the samples after seen and the failures that the stage has noticed in
// them, and returns the time of the last.
func (s *Stage) writeSamples(ctx context.Context, w io.Writer, begun time.Time, seen int64) (int64, error) {
	state := s.State(ctx, seen)
	for _, x := range state.Samples {
		seen = x.At
		at := time.UnixMilli(x.At).Sub(begun)
		_, err := fmt.Fprintf(w, "%7.1fs  %8d  %6d  %6d  %6d  %6d  %7d  %6d  %8s  %8s\n", at.Seconds(), x.Requests, x.Memory, x.L2, x.Shared, x.Stale,
			x.Queries, x.Errors, latency(x.P50), latency(x.P99))
		if err != nil {
			return seen, err
		}
	}
	for _, m := range state.Marks {
		// Actions have their own lines, from step. Here are only the failures that the load has
		// met.
		if m.Action != 0 || m.Text == "start" {
			continue
		}
		const room = 68 // behind the time, in a terminal of 80 columns
		text := []rune(oneLine(m.Text + ": " + m.Said))
		if len(text) > room {
			text = append(text[:room-1], '…')
		}
		if _, err := fmt.Fprintf(w, "%7.1fs  * %s\n", time.UnixMilli(m.At).Sub(begun).Seconds(), string(text)); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// latency is a latency in three digits.
func latency(ns int64) string {
	switch d := time.Duration(ns); {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

// oneLine is text without line breaks and control characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}
