package stratatest

import (
	"context"
	"time"

	"github.com/strata-cache/strata/remote"
)

// Fault decides what goes wrong with an operation: it is delayed, and then
// fails if err is not nil, else it is carried out. op is the method's name; key
// is the first key, or tag, of a batch, or empty. A Fault is called concurrently.
type Fault func(op, key string) (delay time.Duration, err error)

// FaultyTier returns a tier that asks fault before each operation of t. A delay
// ends early, with the context's error, when the context does; nothing has then
// been carried out. fault must not be nil.
//
// If t has all optional abilities that a Tier of this package has, so has the
// result, and its views are faulty too. Otherwise the result has none: bind t
// before it is wrapped. What asks nobody, like Lane, has no faults.
func FaultyTier(t remote.Tier, fault Fault) remote.Tier {
	f := faulty{t, fault}
	if w, ok := t.(whole); ok {
		return faultyWhole{f, w}
	}
	return f
}

// whole is a tier with all abilities.
type whole interface {
	remote.Tier
	remote.Binder
	remote.AllDropper
	remote.Tagger
	remote.Positioner
	remote.ChangeTeller
	remote.Releaser
	remote.Renewer
	remote.Refresher
	remote.ManyAcquirer
	remote.Announcer
	remote.Counter
}

type faulty struct {
	tier  remote.Tier
	fault Fault
}

// wait suffers the fault.
func (f faulty) wait(ctx context.Context, op, key string) error {
	delay, err := f.fault(op, key)
	if delay <= 0 {
		return err
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f faulty) Get(ctx context.Context, keys []string) ([]remote.Held, error) {
	if err := f.wait(ctx, "Get", first(keys, itself)); err != nil {
		return nil, err
	}
	return f.tier.Get(ctx, keys)
}

func (f faulty) Acquire(ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error) {
	if err := f.wait(ctx, "Acquire", key); err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	return f.tier.Acquire(ctx, key, d)
}

func (f faulty) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	if err := f.wait(ctx, "Put", first(p, func(p remote.Put) string { return p.Key })); err != nil {
		return nil, err
	}
	return f.tier.Put(ctx, p)
}

func (f faulty) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	if err := f.wait(ctx, "Drop", first(d, func(d remote.Drop) string { return d.Key })); err != nil {
		return nil, err
	}
	return f.tier.Drop(ctx, d)
}

func (f faulty) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
	if err := f.wait(ctx, "Extend", key); err != nil {
		return false, err
	}
	return f.tier.Extend(ctx, key, fresh, left, l, id)
}

func first[T any](s []T, key func(T) string) string {
	if len(s) == 0 {
		return ""
	}
	return key(s[0])
}

func itself(s string) string { return s }

// faultyWhole adds the abilities.
type faultyWhole struct {
	faulty
	whole whole
}

func (f faultyWhole) Bind(s remote.Space) remote.Tier { return FaultyTier(f.whole.Bind(s), f.fault) }
func (f faultyWhole) Announces() bool                 { return f.whole.Announces() }
func (f faultyWhole) Foreign() uint64                 { return f.whole.Foreign() }
func (f faultyWhole) Lane(key string) uint16          { return f.whole.Lane(key) }

// Doubt is for those tiers that remember something.
func (f faultyWhole) Doubt() {
	if d, ok := f.whole.(remote.Doubter); ok {
		d.Doubt()
	}
}

// Probe is for those tiers that know something to warn of.
func (f faultyWhole) Probe(ctx context.Context) (warnings []string, err error) {
	p, ok := f.whole.(remote.Prober)
	if !ok {
		return nil, nil
	}
	if err := f.wait(ctx, "Probe", ""); err != nil {
		return nil, err
	}
	return p.Probe(ctx)
}

func (f faultyWhole) Refresh(ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
	if err := f.wait(ctx, "Refresh", key); err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	return f.whole.Refresh(ctx, key, id, d)
}

func (f faultyWhole) DropAll(ctx context.Context, soft bool) error {
	if err := f.wait(ctx, "DropAll", ""); err != nil {
		return err
	}
	return f.whole.DropAll(ctx, soft)
}

func (f faultyWhole) DropTags(ctx context.Context, tags []string, soft bool) error {
	if err := f.wait(ctx, "DropTags", first(tags, itself)); err != nil {
		return err
	}
	return f.whole.DropTags(ctx, tags, soft)
}

func (f faultyWhole) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	if err := f.wait(ctx, "Tags", first(tags, itself)); err != nil {
		return nil, err
	}
	return f.whole.Tags(ctx, tags)
}

func (f faultyWhole) Position(ctx context.Context) (remote.Position, error) {
	if err := f.wait(ctx, "Position", ""); err != nil {
		return remote.Position{}, err
	}
	return f.whole.Position(ctx)
}

func (f faultyWhole) Changes(ctx context.Context) (string, error) {
	if err := f.wait(ctx, "Changes", ""); err != nil {
		return "", err
	}
	return f.whole.Changes(ctx)
}

func (f faultyWhole) Release(ctx context.Context, key string, l remote.Lease) error {
	if err := f.wait(ctx, "Release", key); err != nil {
		return err
	}
	return f.whole.Release(ctx, key, l)
}

func (f faultyWhole) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	if err := f.wait(ctx, "Renew", key); err != nil {
		return false, err
	}
	return f.whole.Renew(ctx, key, l, d)
}

func (f faultyWhole) AcquireMany(ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error) {
	if err := f.wait(ctx, "AcquireMany", first(keys, itself)); err != nil {
		return nil, nil, err
	}
	return f.whole.AcquireMany(ctx, keys, d)
}
