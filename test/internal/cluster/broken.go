//go:build linux

package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/strata-cache/strata/redis"
	"github.com/strata-cache/strata/remote"
)

// The values of [Config.Break]: ways to break promises, by which a test shows
// that the judge notices.
const (
	// NoBus loses all messages of the bus except heartbeats.
	NoBus = "nobus"
	// LateBus delivers them after three seconds.
	LateBus = "latebus"
	// OldTier answers for three seconds with earlier results of L2.
	OldTier = "oldtier"
	// NoLease grants each lease to every instance.
	NoLease = "nolease"
)

// broken returns t and b, broken as how says.
func broken(how string, t *redis.Tier, b *redis.Bus) (remote.Tier, remote.Bus, error) {
	switch how {
	case "":
		return t, b, nil
	case NoBus:
		return t, brokenBus{b, 0}, nil
	case LateBus:
		return t, brokenBus{b, 3 * time.Second}, nil
	case OldTier:
		return oldTier{t, &replies{held: map[string]reply{}}}, b, nil
	case NoLease:
		return freeTier{t}, b, nil
	}
	return nil, nil, fmt.Errorf("no such break: %s", how)
}

// brokenBus delivers messages late, or never.
type brokenBus struct {
	*redis.Bus
	late time.Duration
}

// Follow implements remote.Bus.
func (b brokenBus) Follow(name string, f func(remote.Event)) (stop func()) {
	var mu sync.Mutex
	tell := func(e remote.Event) {
		mu.Lock()
		defer mu.Unlock()
		f(e)
	}
	return b.Bus.Follow(name, func(e remote.Event) {
		switch {
		case e.State != remote.Delivered || len(e.Messages) == 0 || e.Messages[0].Kind == remote.Beat:
			tell(e)
		case b.late > 0:
			time.AfterFunc(b.late, func() { tell(e) })
		}
	})
}

// oldTier answers with values that it has read a while ago.
type oldTier struct {
	*redis.Tier
	*replies
}

type replies struct {
	mu   sync.Mutex // guards below
	held map[string]reply
}

type reply struct {
	held remote.Held
	at   time.Time
}

// Bind implements remote.Binder.
func (t oldTier) Bind(s remote.Space) remote.Tier {
	return oldTier{t.Tier.Bind(s).(*redis.Tier), t.replies}
}

// Get implements remote.Tier.
func (t oldTier) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	held, err := t.Tier.Get(ctx, keys)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range held {
		r, ok := t.held[keys[i]]
		if ok && time.Since(r.at) < 3*time.Second {
			held[i] = r.held
		} else if held[i].Data != nil {
			t.held[keys[i]] = reply{held[i], time.Now()}
		}
	}
	return held, err
}

// freeTier grants a lease that another instance holds.
type freeTier struct{ *redis.Tier }

// Bind implements remote.Binder.
func (t freeTier) Bind(s remote.Space) remote.Tier {
	return freeTier{t.Tier.Bind(s).(*redis.Tier)}
}

// Acquire implements remote.Tier.
func (t freeTier) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	acquired, err := t.Tier.Acquire(ctx, r, d)
	for i := range acquired {
		if l := &acquired[i].Lease; l.Grant == remote.Busy && r[i].Replace == 0 {
			l.Grant, l.Token = remote.Granted, 1
		}
	}
	return acquired, err
}
