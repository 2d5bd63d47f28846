package hello

import (
	"context"
	"errors"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/cmd/strata/origin"
	"github.com/strata-cache/strata/internal/observe"
	"github.com/strata-cache/strata/internal/snapshot/transfer"
)

// NewKey returns the key of a greeting. The error names the parameter that cannot be used.
func NewKey(name, locale string) (Key, error) {
	q := map[string][]string{"name": {name}, "locale": {locale}}
	n, err := parameter(q, "name", maxName)
	if err != nil {
		return Key{}, err
	}
	if locale, err = parameter(q, "locale", maxLocale); err == nil {
		locale, err = canonical(locale)
	}
	return Key{Name: n, Locale: locale}, err
}

// Greet returns a greeting in the present mode, as a request for it does.
func (s *Service) Greet(ctx context.Context, key Key) (origin.Greeting, error) {
	s.requests.Add(1)
	g, err := s.cache(s.Mode()).get(ctx, key)
	if err != nil {
		s.errors.Add(1)
	}
	return g, err
}

// Answers count how requests were answered since the service was made, in all modes and also
// before restarts.
type Answers struct {
	// Memory counts fresh values of L1 and of the map of the mode naive, Stale stale ones of
	// L1, L2 values of L2, and Shared requests that joined the load of another.
	Memory, Stale, L2, Shared int64
}

// Add adds b.
func (a *Answers) Add(b Answers) {
	a.Memory += b.Memory
	a.Stale += b.Stale
	a.L2 += b.L2
	a.Shared += b.Shared
}

// Answers returns the present counts.
func (s *Service) Answers() Answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.retired
	a.Add(s.layered.Load().answers())
	a.Memory += s.naive.hits.Load()
	return a
}

// retire replaces the cache of the mode strata, and returns the one before. Its answers
// stay counted.
func (s *Service) retire(fresh *layered) (old *layered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The swap and the sum are one step for Answers, which would otherwise count answers twice, or
	// not at all.
	old = s.layered.Swap(fresh)
	s.retired.Add(old.answers())
	return old
}

// answers counts the answers of one cache.
func (l *layered) answers() Answers {
	n := l.cache.Stats()
	return Answers{
		Memory: int64(n.L1.Hits), Stale: int64(n.StaleRevalidating + n.StaleOnError),
		L2: int64(n.L2.Hits), Shared: int64(n.Joins),
	}
}

// Sight is the greeting that the memory of one instance has.
type Sight struct {
	// Found says that there is one. Else the other fields are zero.
	Found bool
	Value origin.Greeting
	// Age is the time since it was loaded, Fresh for how long it is fresh: not positive if it
	// is stale.
	Age, Fresh time.Duration
}

// Look returns the greeting that the memory of the present mode has. It loads nothing.
func (s *Service) Look(ctx context.Context, key Key) Sight { return s.cache(s.Mode()).look(ctx, key) }

// Drop makes one greeting of the present mode absent, or, with all, expires all of them. The mode
// naive drops in this instance only: it cannot tell others.
func (s *Service) Drop(ctx context.Context, key Key, all bool) error {
	return s.cache(s.Mode()).drop(ctx, key, all)
}

// Forget makes every greeting of the present mode absent. The origin keeps them. The mode naive forgets in this
// instance only.
func (s *Service) Forget(ctx context.Context) error {
	return localToo(s.cache(s.Mode()).clear(ctx))
}

// localToo tells that a drop which L2 has not confirmed is done on this instance.
func localToo(err error) error {
	if r, ok := errors.AsType[*strata.RemoteError](err); ok {
		return errors.New("done on this instance; " + r.Error())
	}
	return err
}

// Cache is the cache of the mode strata under another name, for a page that shows several
// instances. It follows restarts.
func (s *Service) Cache(name string) Watched { return Watched{s, name} }

// Watched is the cache of a Service; see [Service.Cache].
type Watched struct {
	service *Service
	name    string
}

// Name returns the name that Cache was given.
func (w Watched) Name() string { return w.name }

// Stats returns the numbers of the present cache, under the name.
func (w Watched) Stats() strata.Stats {
	s := w.service.layered.Load().cache.Stats()
	s.Name = w.name
	return s
}

// Inside returns the rest of the cache. It follows restarts, too.
func (w Watched) Inside() strata.Inside {
	return strata.Inside(transfer.NewParts(following{w.service}, nil))
}

// Tune changes options of the present cache.
func (w Watched) Tune(t strata.Tuning) error { return w.service.layered.Load().cache.Tune(t) }

// following is the observe.Panel of the present cache at the time of each call.
type following struct{ service *Service }

func (f following) panel() observe.Panel {
	return transfer.Parts(f.service.layered.Load().cache.Inside()).Panel()
}
func (f following) Info() observe.Info              { return f.panel().Info() }
func (f following) Settings() []observe.Setting     { return f.panel().Settings() }
func (f following) Watch()                          { f.panel().Watch() }
func (f following) Hot() observe.Hot                { return f.panel().Hot() }
func (f following) Events(n uint64) []observe.Event { return f.panel().Events(n) }

func (f following) Explain(ctx context.Context, key string) ([]observe.Explanation, error) {
	return f.panel().Explain(ctx, key)
}

func (f following) Invalidate(ctx context.Context, key string, soft bool) error {
	return f.panel().Invalidate(ctx, key, soft)
}

func (f following) InvalidateTags(ctx context.Context, tags []string, soft bool) error {
	return f.panel().InvalidateTags(ctx, tags, soft)
}

func (f following) InvalidateAll(ctx context.Context, soft bool) error {
	return f.panel().InvalidateAll(ctx, soft)
}

func (direct) look(context.Context, Key) Sight       { return Sight{} }
func (direct) drop(context.Context, Key, bool) error { return nil }

func (n *naive) look(_ context.Context, key Key) Sight {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, ok := n.entries[key]
	if !ok {
		return Sight{}
	}
	left := time.Until(e.deadline)
	return Sight{Found: true, Value: e.value, Age: n.ttl - left, Fresh: left}
}

func (n *naive) drop(ctx context.Context, key Key, all bool) error {
	if all {
		return n.clear(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.entries, key)
	return nil
}

func (l *layered) look(ctx context.Context, key Key) Sight {
	var i strata.Info
	// Neither L2 nor the origin is asked, and a stale value is shown: a look must not change what
	// it shows.
	v, ok := l.cache.Get(ctx, key, strata.AllowStale(), strata.NoRemote(), strata.ReadInfo(&i))
	if !ok {
		return Sight{}
	}
	return Sight{Found: true, Value: v, Age: i.Age, Fresh: i.TTL}
}

func (l *layered) drop(ctx context.Context, key Key, all bool) error {
	if all {
		return localToo(l.cache.ExpireAll(ctx))
	}
	return localToo(l.cache.Invalidate(ctx, key))
}
