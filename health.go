package strata

import (
	"errors"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/internal/health"
)

// originWellAfter is the time without a failed load after which the log says that
// loads succeed again. An origin that fails one load in a hundred is not worth a
// line every few seconds.
const originWellAfter = 10 * time.Second

// originHealth is the health of the origin, as the log has it.
type originHealth struct {
	fails  health.Record // loads fail
	panics health.Limit  // of the Loader
}

// originFailed notes that a load has failed, and logs it if no load has failed
// lately.
func (c *core) originFailed(key any, err error) {
	c.failing.Add(1)
	if c.health.fails.Failed(c.now()) {
		c.settings.Logger.Warn("strata: loads fail", c.about(key, slog.Any("error", err))...)
	}
}

// succeeded notes that the origin has answered.
func (c *core) succeeded() {
	if c.failing.Load() != 0 {
		c.failing.Store(0)
	}
	c.budget.Success()
	if !c.health.fails.Quiet() && c.health.fails.Well(c.now(), originWellAfter) {
		c.settings.Logger.Info("strata: loads succeed again", slog.String("cache", c.settings.Name))
	}
}

// maxStack is the number of bytes of a panic's stack that are logged.
const maxStack = 8 << 10

// logPanic logs that a Loader has panicked, or has ended its goroutine. A refresh
// has no caller that would get the error.
func (c *core) logPanic(key any, err error) {
	ok, skipped := c.health.panics.Allow(c.now())
	if !ok {
		return
	}
	about := c.about(key, slog.Any("error", err), slog.Int("more", skipped))
	var p *LoadPanicError
	if errors.As(err, &p) {
		about = append(about, slog.String("stack", string(p.Stack[:min(len(p.Stack), maxStack)])))
	}
	c.settings.Logger.Error("strata: loader panicked", about...)
}

// about returns the attributes of a line in the log about key.
func (c *core) about(key any, more ...any) []any {
	all := []any{slog.String("cache", c.settings.Name)}
	if c.settings.ShowKeys {
		all = append(all, slog.Any("key", key))
	}
	return append(all, more...)
}
