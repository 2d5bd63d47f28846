package stratatest

import (
	"context"
	"time"

	"github.com/strata-cache/strata/remote"
)

// Fault decides the fault of an operation: the operation is delayed, and then
// fails if err is not nil, else it is carried out. op is the method's name; key
// is the first key, or tag, of a batch, or empty. A Fault is called concurrently.
type Fault func(op, key string) (delay time.Duration, err error)

// FaultyTier returns a tier that asks fault before each operation of t. A delay
// ends early, with the context's error, when the context does; nothing has then
// been carried out. fault must not be nil.
//
// The result is a [remote.Wrapper]: it has the abilities of t, and its views are
// faulty too. Methods that send no request, like Lane, have no faults.
func FaultyTier(t remote.Tier, fault Fault) remote.Tier { return faulty{t, fault} }

type faulty struct {
	remote.Tier
	fault Fault
}

// Unwrap implements [remote.Wrapper].
func (f faulty) Unwrap() remote.Tier { return f.Tier }

// Wrap implements [remote.Wrapper].
func (f faulty) Wrap(inner remote.Tier) remote.Tier { return faulty{inner, f.fault} }

// As gives faults to the abilities of the tier inside, as [remote.Wrapper] says.
func (f faulty) As(target any) (ok bool) {
	switch a := target.(type) {
	case *remote.Tagger:
		*a, ok = ability(f, func(inner remote.Tagger) remote.Tagger { return faultyTagger{inner, f} })
	case *remote.Announcer:
		*a, ok = ability(f, func(inner remote.Announcer) remote.Announcer { return faultyAnnouncer{inner, f} })
	case *remote.Prober:
		*a, ok = ability(f, func(inner remote.Prober) remote.Prober { return faultyProber{inner, f} })
	}
	return ok
}

// ability returns the ability T of the tier inside f as wrap changes it.
func ability[T any](f faulty, wrap func(T) T) (T, bool) {
	inner, ok := remote.As[T](f.Tier)
	if ok {
		inner = wrap(inner)
	}
	return inner, ok
}

// wait waits for the delay of an operation, and returns its error.
func (f faulty) wait(ctx context.Context, op, key string) error {
	// The error comes after the delay, like that of a server that answers late.
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

func (f faulty) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	if err := f.wait(ctx, "Get", first(keys, itself)); err != nil {
		return nil, err
	}
	return f.Tier.Get(ctx, keys, known...)
}

// Read implements [remote.Reader], also for a tier that does not.
func (f faulty) Read(ctx context.Context, timeout time.Duration, key string, dst []byte) (remote.Held, error) {
	ctx, cancel := remote.Within(ctx, timeout)
	defer cancel()
	if err := f.wait(ctx, "Get", key); err != nil {
		return remote.Held{}, err
	}
	if r, ok := remote.AsReader(f.Tier); ok {
		return r.Read(ctx, 0, key, dst)
	}
	held, err := f.Tier.Get(ctx, []string{key})
	if err != nil {
		return remote.Held{}, err
	}
	return held[0], nil // the caller owns its Data
}

// Self implements [remote.Reader].
func (f faulty) Self() remote.Tier { return f }

func (f faulty) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	if err := f.wait(ctx, "Acquire", first(r, func(r remote.Request) string { return r.Key })); err != nil {
		return nil, err
	}
	return f.Tier.Acquire(ctx, r, d)
}

func (f faulty) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	if err := f.wait(ctx, "Put", first(p, func(p remote.Put) string { return p.Key })); err != nil {
		return nil, err
	}
	return f.Tier.Put(ctx, p)
}

func (f faulty) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	if err := f.wait(ctx, "Drop", first(d, func(d remote.Drop) string { return d.Key })); err != nil {
		return nil, err
	}
	return f.Tier.Drop(ctx, d)
}

func (f faulty) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
	if err := f.wait(ctx, "Extend", key); err != nil {
		return false, err
	}
	return f.Tier.Extend(ctx, key, fresh, left, l, id)
}

func (f faulty) Release(ctx context.Context, key string, l remote.Lease) error {
	if err := f.wait(ctx, "Release", key); err != nil {
		return err
	}
	return f.Tier.Release(ctx, key, l)
}

func (f faulty) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	if err := f.wait(ctx, "Renew", key); err != nil {
		return false, err
	}
	return f.Tier.Renew(ctx, key, l, d)
}

func (f faulty) DropAll(ctx context.Context, soft bool) error {
	if err := f.wait(ctx, "DropAll", ""); err != nil {
		return err
	}
	return f.Tier.DropAll(ctx, soft)
}

func first[T any](s []T, key func(T) string) string {
	if len(s) == 0 {
		return ""
	}
	return key(s[0])
}

func itself(s string) string { return s }

type faultyTagger struct {
	remote.Tagger
	f faulty
}

func (t faultyTagger) DropTags(ctx context.Context, tags []string, soft bool) error {
	if err := t.f.wait(ctx, "DropTags", first(tags, itself)); err != nil {
		return err
	}
	return t.Tagger.DropTags(ctx, tags, soft)
}

func (t faultyTagger) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	if err := t.f.wait(ctx, "Tags", first(tags, itself)); err != nil {
		return nil, err
	}
	return t.Tagger.Tags(ctx, tags)
}

type faultyAnnouncer struct {
	remote.Announcer
	f faulty
}

func (a faultyAnnouncer) Position(ctx context.Context) (remote.Position, error) {
	if err := a.f.wait(ctx, "Position", ""); err != nil {
		return remote.Position{}, err
	}
	return a.Announcer.Position(ctx)
}

func (a faultyAnnouncer) Changes(ctx context.Context) (string, error) {
	if err := a.f.wait(ctx, "Changes", ""); err != nil {
		return "", err
	}
	return a.Announcer.Changes(ctx)
}

type faultyProber struct {
	remote.Prober
	f faulty
}

func (p faultyProber) Probe(ctx context.Context) ([]string, error) {
	if err := p.f.wait(ctx, "Probe", ""); err != nil {
		return nil, err
	}
	return p.Prober.Probe(ctx)
}
