package hello

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/codec"
	"github.com/strata-cache/strata/internal/observe/page"
	strataprom "github.com/strata-cache/strata/prometheus"
	"github.com/strata-cache/strata/snapshot"
)

// layered is a strata cache.
type layered struct {
	jitter   float64 // as in Options
	cache    *strata.Cache[Key, origin.Greeting]
	snapshot http.Handler // of its entries
	metrics  http.Handler // of its numbers
	admit    func(*http.Request) bool
}

func newLayered(load loader, o Options) (*layered, error) {
	so := strata.Options[Key, origin.Greeting]{
		Name:   "hello",
		TTL:    o.TTL,
		Jitter: o.Jitter,
		Memory: strata.Memory[Key, origin.Greeting]{MaxEntries: int64(o.MaxEntries), Guard: o.Guard, TTL: o.MemoryTTL},
		Loader: strata.Loader[Key, origin.Greeting](load),
		Logger: o.Logger, ShowKeys: o.ShowKeys, Tracer: o.Tracer,
		ContextControls: true,
		Remote: strata.Remote[Key, origin.Greeting]{
			Tier:     o.Tier,
			Bus:      o.Bus,
			Codec:    codec.JSON[origin.Greeting](),
			Key:      Key.String,
			ParseKey: parseKey,
		},
	}
	c, err := strata.New(so)
	if err != nil {
		return nil, err
	}
	numbers := prometheus.NewRegistry()
	numbers.MustRegister(strataprom.NewCollector(c))
	// The same token opens the snapshot and the controls of a request: both let a client make the
	// service work.
	door := page.NewDoor(o.Token)
	admit := func(r *http.Request) bool { ok, _ := door.Admit(r); return ok }
	return &layered{
		jitter:   o.Jitter,
		cache:    c,
		snapshot: snapshot.Handler(snapshot.HandlerOptions{Authorize: admit, AllowPut: true, Logger: o.Logger}, c),
		metrics:  promhttp.HandlerFor(numbers, promhttp.HandlerOpts{}),
		admit:    admit,
	}, nil
}

func (l *layered) get(ctx context.Context, key Key) (origin.Greeting, error) {
	return l.cache.GetOrLoad(ctx, key, nil)
}

func (l *layered) clear(ctx context.Context) error { return l.cache.InvalidateAll(ctx) }

func (l *layered) counts() Counts {
	s := l.cache.Stats()
	return Counts{L1Hits: int64(s.L1.Hits), L2Hits: int64(s.L2.Hits), Shared: int64(s.Joins), Entries: s.Entries}
}

func (l *layered) close(ctx context.Context) error { return l.cache.Close(ctx) }
