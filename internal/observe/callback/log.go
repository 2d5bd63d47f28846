package callback

import (
	"context"
	"log/slog"
)

// Handler returns a handler of a log that hands lines on to next by r. It does not ask next
// beforehand which levels it wants.
func (r *Runner) Handler(next slog.Handler) slog.Handler {
	if next == slog.DiscardHandler {
		return next
	}
	return &handler{r, next}
}

type handler struct {
	r    *Runner
	next slog.Handler
}

// Enabled reports true: the question to the next handler may block like its work.
func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle hands a line on. It returns no error of the next handler: the error may come too late.
func (h *handler) Handle(ctx context.Context, line slog.Record) error {
	h.r.Run(ctx, func() {
		if h.next.Enabled(ctx, line.Level) {
			_ = h.next.Handle(ctx, line)
		}
	})
	return nil
}

// WithAttrs returns a handler that adds attrs to each line.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.r, h.next.WithAttrs(attrs)}
}

// WithGroup returns a handler that puts the attributes of each line into a group.
func (h *handler) WithGroup(name string) slog.Handler { return &handler{h.r, h.next.WithGroup(name)} }
