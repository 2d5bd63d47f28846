// The journal: the last events of a cache, which are the lines of its log, and the numbers of
// invalidations, with all invalidations within a second in one event.

package observe

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// keptEvents is the number of events in memory: older ones are forgotten.
	keptEvents = 100
	// maxText is the length of the text of an event in bytes.
	maxText = 500
	// together is the time within which counts of one kind are one event.
	together = time.Second
)

// Journal has the last events. Its zero value is empty. It is safe for concurrent use.
type Journal struct {
	mu     sync.Mutex // guards below
	number uint64     // of the last event
	events []event    // as many as there are, and keptEvents at most
}

// event is a line of the log, or a count.
type event struct {
	Event
	count uint64 // 0 for a line; else of Text
	at    int64  // of the first count
}

// add makes e the last event. j.mu is held.
func (j *Journal) add(e event) {
	j.number++
	e.Number = j.number
	if len(j.events) < keptEvents {
		j.events = append(j.events, e)
		return
	}
	*j.event(e.Number) = e
}

// event returns the place of an event. j.mu is held.
func (j *Journal) event(number uint64) *event { return &j.events[(number-1)%keptEvents] }

// Count notes that something happened n times. text names it, with "%d" in the place of the number.
// Counts within a second, with no other event in between, are one event, so that a count costs
// about as much as a lock. at is the time, in nanoseconds, by a clock that the caller has read
// already.
func (j *Journal) Count(text string, n int, at int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A program that invalidates thousands of keys a second must not push all other events out.
	if j.number > 0 {
		if last := j.event(j.number); last.count > 0 && last.Text == text && at-last.at < int64(together) {
			last.count += uint64(n)
			return
		}
	}
	j.add(event{Event: Event{At: time.Now(), Level: "info", Text: text}, count: uint64(max(n, 1)), at: at})
}

// After returns the events with a number above after, the oldest first.
func (j *Journal) After(after uint64) (all []Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := uint64(1)
	if j.number > keptEvents {
		first = j.number - keptEvents + 1
	}
	// A reader that knows a number from before a restart is ahead of this journal, and gets nothing
	// twice.
	for n := max(first, min(after, j.number)+1); n <= j.number; n++ {
		e := *j.event(n)
		if e.count > 0 {
			e.Text = strings.Replace(e.Text, "%d", strconv.FormatUint(e.count, 10), 1)
		}
		all = append(all, e.Event)
	}
	return all
}

// journalOnly is the key of the contexts of lines for the journal alone.
type journalOnly struct{}

// JournalOnly returns the context of a line that becomes an event of its cache, and does not
// go to the log: there another cache has said the same.
func JournalOnly() context.Context {
	return context.WithValue(context.Background(), journalOnly{}, true)
}

// Handler returns a handler for a log that notes each line as an event and hands it on to
// next.
func (j *Journal) Handler(next slog.Handler) slog.Handler { return &journalHandler{j: j, next: next} }

type journalHandler struct {
	j     *Journal
	next  slog.Handler
	attrs []slog.Attr
	group string
}

// Enabled reports whether the journal or the next handler takes lines of a level.
func (h *journalHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.next.Enabled(ctx, l)
}

// Handle notes the line r, and hands it on.
func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		// The journal has the line whatever the handler of the program lets through.
		e := event{Event: Event{At: r.Time, Level: levelName(r.Level), Text: h.text(&r)}} // calls methods of the program's errors
		h.j.mu.Lock()
		h.j.add(e)
		h.j.mu.Unlock()
	}
	if ctx.Value(journalOnly{}) != nil || !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attrs to each line.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs, c.next = slices.Clone(h.attrs), h.next.WithAttrs(attrs)
	for _, a := range attrs {
		c.attrs = append(c.attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
	}
	return &c
}

// WithGroup returns a handler that puts the attributes of each line into a group.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.group, c.next = h.group+name+".", h.next.WithGroup(name)
	return &c
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	}
	return "info"
}

// text is the text of a line, without the name of the cache and the stack of a panic.
func (h *journalHandler) text(r *slog.Record) string {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(r.Message, "strata: "))
	add := func(group string, a slog.Attr) {
		if b.Len() < maxText && a.Key != "cache" && a.Key != "caches" && a.Key != "stack" {
			b.WriteString(" " + group + a.Key + "=" + a.Value.String())
		}
	}
	for _, a := range h.attrs {
		add("", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		add(h.group, a)
		return true
	})
	return OneLine(b.String(), maxText)
}

// OneLine returns text as one line of at most n bytes: control characters and characters that
// change the direction of text are replaced, and invalid UTF-8 too.
func OneLine(text string, n int) string {
	if len(text) > n {
		text = text[:n] // Map replaces a cut character
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
	for len(text) > n { // a replacement is longer than the byte it replaces
		text = strings.ToValidUTF8(text[:n], "")
	}
	return text
}

// Dropped names the dropped keys or tags, and the instance that dropped them.
type Dropped int

// The kinds of drops: by callers of this instance, or heard from others.
const (
	KeysInvalidated Dropped = iota
	TagsInvalidated
	AllInvalidated
	KeysHeard
	AllHeard
)

// The texts of drops: hard ones, and soft ones. They are read-only.
var (
	hard = [...]string{
		"keys invalidated: %d", "tags invalidated: %d", "everything invalidated, times: %d",
		"drops heard from other instances: %d", "everything invalidated by another instance, times: %d",
	}
	soft = [...]string{
		"keys expired: %d", "tags expired: %d", "everything expired, times: %d",
		"drops heard from other instances: %d", "everything expired by another instance, times: %d",
	}
)

// Drops notes n drops at a time, as [Journal.Count] does.
func (j *Journal) Drops(what Dropped, isSoft bool, n int, at int64) {
	if isSoft {
		j.Count(soft[what], n, at)
		return
	}
	j.Count(hard[what], n, at)
}
