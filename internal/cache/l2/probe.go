package l2

import (
	"context"
	"log/slog"
	"time"

	"github.com/strata-cache/strata/internal/observe"
)

// The pauses between attempts to probe the tier.
const (
	firstProbe = 50 * time.Millisecond
	lastProbe  = time.Second
)

// Probe asks the tier, until it answers or ctx ends, for settings that weaken the promises of
// the cache, and logs them.
func (s *Store) Probe(ctx context.Context) {
	if s.can.probe == nil {
		return
	}
	// The server may not be there yet when the cache is made. The warnings are worth the wait,
	// since they are about settings that nothing else would show.
	for pause := firstProbe; ; pause = min(2*pause, lastProbe) {
		warnings, err := s.probe(ctx)
		if err == nil {
			for _, w := range warnings {
				s.o.Logger.Warn("strata: "+w, slog.String("cache", s.o.Name))
			}
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

func (s *Store) probe(ctx context.Context) (warnings []string, err error) {
	ctx, cancel := s.Bound(observe.OwnerOf(s.Space()).Own(ctx)) // not every Prober knows the cache
	defer cancel()
	return s.can.probe.Probe(ctx)
}
