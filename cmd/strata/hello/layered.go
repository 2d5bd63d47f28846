package hello

import (
	"context"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/codec"
)

// layered is a strata cache.
type layered struct {
	cache *strata.Cache[Key, origin.Greeting]
}

func newLayered(load loader, o Options) (*layered, error) {
	so := strata.Options[Key, origin.Greeting]{
		Name:   "hello",
		TTL:    o.TTL,
		Memory: strata.Memory[Key, origin.Greeting]{MaxEntries: int64(o.MaxEntries), TTL: o.MemoryTTL},
		Loader: strata.Loader[Key, origin.Greeting](load),
		Logger: o.Logger,
	}
	if o.Tier != nil {
		so.Remote = strata.Remote[Key, origin.Greeting]{
			Tier:     o.Tier,
			Bus:      o.Bus,
			Codec:    codec.JSON[origin.Greeting](),
			Key:      Key.String,
			ParseKey: parseKey,
		}
	}
	c, err := strata.New(so)
	if err != nil {
		return nil, err
	}
	return &layered{c}, nil
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
