package logthrottle

import "time"

const (
	// Remind is the time between two lines that say that a state lasts.
	Remind = 5 * time.Minute
	// MostPause is the longest pause after the line about the end of a state. In the pause
	// no new begin of the state is logged.
	MostPause = 2 * time.Minute
	// firstPause is the first pause. Each further one is twice as long.
	firstPause = 30 * time.Second
)

// Line is a line of the log about a state, or none.
type Line uint8

// The lines about a state. While it comes and goes only some of its begins are logged.
const (
	Nothing Line = iota
	Begins
	Lasts
	Ends
)

// Lines decides which lines about a state are logged: its begin, a reminder each [Remind],
// and its end. If it begins again soon after its end the log waits, and longer each time:
// half a minute at first, [MostPause] at most. Then the begin is logged if the state is there.
// The zero Lines has logged nothing.
type Lines struct {
	told  bool
	at    int64 // of the last line
	pause int64 // after the last end
}

// Told reports whether the last line says that the state is there.
func (l *Lines) Told() bool { return l.told }

// Next returns the line to log at now. there says whether the state is there at that time.
func (l *Lines) Next(there bool, now int64) Line {
	switch {
	case there && !l.told:
		if now < l.at+l.pause {
			return Nothing
		}
		if now >= l.at+2*l.pause+int64(Remind) {
			l.pause = 0 // it had ended for long
		}
		l.told, l.at = true, now
		return Begins
	case there && now >= l.at+int64(Remind):
		l.at = now
		return Lasts
	case !there && l.told:
		l.told, l.at = false, now
		l.pause = min(max(2*l.pause, int64(firstPause)), int64(MostPause))
		return Ends
	}
	return Nothing
}
