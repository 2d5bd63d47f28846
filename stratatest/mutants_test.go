package stratatest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/checks"
	"github.com/strata-cache/strata/stratatest/internal/tierchecks"
)

// mutation is one way to break a Tier. Nil hooks leave the method as it is.
type mutation struct {
	name  string
	check string // that must find it
	key   func(string) string
	bind  func(remote.Space) remote.Space
	get   func(t *Tier, ctx context.Context, keys []string) ([]remote.Held, error)
	// known is called for a Get with known values, request changes each request.
	known   func(t *Tier, ctx context.Context, keys []string, known []remote.ID) ([]remote.Held, error)
	request func(r *remote.Request)
	// acquire is called for one request, refresh for one that replaces a value,
	// many for several.
	acquire func(t *Tier, ctx context.Context, key string, d time.Duration) (remote.Held, remote.Lease, error)
	put     func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error)
	drop    func(t *Tier, ctx context.Context, d []remote.Drop) ([]remote.Lease, error)
	extend  func(t *Tier, ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error)
	release func(t *Tier, ctx context.Context, key string, l remote.Lease) error
	renew   func(t *Tier, ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error)
	dropAll func(t *Tier, ctx context.Context, soft bool) error

	refresh  func(t *Tier, ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error)
	many     func(t *Tier, ctx context.Context, keys []string, d time.Duration) ([]remote.Held, []remote.Lease, error)
	dropTags func(t *Tier, ctx context.Context, tags []string, soft bool) error
	tags     func(t *Tier, ctx context.Context, tags []string) ([]remote.Tag, error)
	position func(t *Tier, ctx context.Context) (remote.Position, error)
	changes  func(t *Tier, ctx context.Context) (string, error)
	lane     func(t *Tier, key string) uint16
}

// mutant is a Tier with a mutation.
type mutant struct {
	*Tier
	m mutation
}

func (x mutant) k(key string) string {
	if x.m.key != nil {
		return x.m.key(key)
	}
	return key
}

func (x mutant) Bind(s remote.Space) remote.Tier {
	if x.m.bind != nil {
		s = x.m.bind(s)
	}
	return mutant{x.bind(s), x.m}
}

func (x mutant) Get(ctx context.Context, keys []string, known ...remote.ID) ([]remote.Held, error) {
	keys = slices.Clone(keys)
	for i := range keys {
		keys[i] = x.k(keys[i])
	}
	switch {
	case len(known) > 0 && x.m.known != nil:
		return x.m.known(x.Tier, ctx, keys, slices.Clone(known))
	case x.m.get != nil:
		return x.m.get(x.Tier, ctx, keys)
	}
	return x.Tier.Get(ctx, keys, known...)
}

func (x mutant) Acquire(ctx context.Context, r []remote.Request, d time.Duration) ([]remote.Acquired, error) {
	r = slices.Clone(r)
	keys := make([]string, len(r))
	for i := range r {
		r[i].Key = x.k(r[i].Key)
		keys[i] = r[i].Key
		if x.m.request != nil {
			x.m.request(&r[i])
		}
	}
	switch {
	case len(r) != 1 && x.m.many != nil:
		return acquired(x.m.many(x.Tier, ctx, keys, d))
	case len(r) == 1 && r[0].Replace == 0 && x.m.acquire != nil:
		h, l, err := x.m.acquire(x.Tier, ctx, keys[0], d)
		return acquired([]remote.Held{h}, []remote.Lease{l}, err)
	case len(r) == 1 && x.m.refresh != nil:
		h, l, err := x.m.refresh(x.Tier, ctx, keys[0], r[0].Replace, d)
		return acquired([]remote.Held{h}, []remote.Lease{l}, err)
	}
	return x.Tier.Acquire(ctx, r, d)
}

// acquired joins the answers of a broken method.
func acquired(held []remote.Held, leases []remote.Lease, err error) ([]remote.Acquired, error) {
	if err != nil {
		return nil, err
	}
	all := make([]remote.Acquired, len(held))
	for i := range all {
		all[i] = remote.Acquired{Held: held[i], Lease: leases[i]}
	}
	return all, nil
}

func (x mutant) Put(ctx context.Context, p []remote.Put) ([]int, error) {
	p = slices.Clone(p)
	for i := range p {
		p[i].Key = x.k(p[i].Key)
	}
	if x.m.put != nil {
		return x.m.put(x.Tier, ctx, p)
	}
	return x.Tier.Put(ctx, p)
}

func (x mutant) Drop(ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
	d = slices.Clone(d)
	for i := range d {
		d[i].Key = x.k(d[i].Key)
	}
	if x.m.drop != nil {
		return x.m.drop(x.Tier, ctx, d)
	}
	return x.Tier.Drop(ctx, d)
}

func (x mutant) Extend(ctx context.Context, key string, fresh, left time.Duration, l remote.Lease, id remote.ID) (bool, error) {
	if x.m.extend != nil {
		return x.m.extend(x.Tier, ctx, key, fresh, left, l, id)
	}
	return x.Tier.Extend(ctx, key, fresh, left, l, id)
}

func (x mutant) Release(ctx context.Context, key string, l remote.Lease) error {
	if x.m.release != nil {
		return x.m.release(x.Tier, ctx, key, l)
	}
	return x.Tier.Release(ctx, key, l)
}

func (x mutant) Renew(ctx context.Context, key string, l remote.Lease, d time.Duration) (bool, error) {
	if x.m.renew != nil {
		return x.m.renew(x.Tier, ctx, key, l, d)
	}
	return x.Tier.Renew(ctx, key, l, d)
}

func (x mutant) DropAll(ctx context.Context, soft bool) error {
	if x.m.dropAll != nil {
		return x.m.dropAll(x.Tier, ctx, soft)
	}
	return x.Tier.DropAll(ctx, soft)
}

func (x mutant) DropTags(ctx context.Context, tags []string, soft bool) error {
	if x.m.dropTags != nil {
		return x.m.dropTags(x.Tier, ctx, tags, soft)
	}
	return x.Tier.DropTags(ctx, tags, soft)
}

func (x mutant) Tags(ctx context.Context, tags []string) ([]remote.Tag, error) {
	if x.m.tags != nil {
		return x.m.tags(x.Tier, ctx, tags)
	}
	return x.Tier.Tags(ctx, tags)
}

func (x mutant) Changes(ctx context.Context) (string, error) {
	if x.m.changes != nil {
		return x.m.changes(x.Tier, ctx)
	}
	return x.Tier.Changes(ctx)
}

func (x mutant) Position(ctx context.Context) (remote.Position, error) {
	if x.m.position != nil {
		return x.m.position(x.Tier, ctx)
	}
	return x.Tier.Position(ctx)
}

func (x mutant) Lane(key string) uint16 {
	if x.m.lane != nil {
		return x.m.lane(x.Tier, key)
	}
	return x.Tier.Lane(key)
}

// TestTierChecksFindMutants proves that each check can fail: for every one there
// is a mutation that it finds, and it does not fail without.
func TestTierChecksFindMutants(t *testing.T) {
	all := tierchecks.TierChecks()
	var names []string
	for _, m := range mutations() {
		names = append(names, m.check)
		t.Run(m.check+"/"+strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				judge(t, all, m.check, true, tierchecks.TierFixture{Tier: mutant{NewTier(), m}, Sleep: time.Sleep})
			})
		})
	}
	everyCheckIsProven(t, all, names)
	for _, c := range all {
		synctest.Test(t, func(t *testing.T) {
			judge(t, all, c.Name, false, tierchecks.TierFixture{Tier: mutant{NewTier(), mutation{}}, Sleep: time.Sleep})
		})
	}
}

// judge runs a check on a fixture, which it must find bad or good.
func judge[F any](t *testing.T, all []checks.Check[F], name string, bad bool, f F) {
	t.Helper()
	i := slices.IndexFunc(all, func(c checks.Check[F]) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q", name)
	}
	r := recorded(t, func(t testing.TB) { all[i].Run(t, f) })
	if r.failed() != bad || r.skipped {
		t.Errorf("%s: skipped %t, failures %q; want some: %t", name, r.skipped, r.failures, bad)
	}
}

// everyCheckIsProven fails for checks without a mutation.
func everyCheckIsProven[F any](t *testing.T, all []checks.Check[F], mutated []string) {
	t.Helper()
	for _, c := range all {
		if !slices.Contains(mutated, c.Name) {
			t.Errorf("no mutation proves that %s can fail", c.Name)
		}
	}
}

// long is a life that does not end in a test.
const long = time.Hour

// eachHeld changes the results of Get.
func eachHeld(f func(h *remote.Held)) func(*Tier, context.Context, []string) ([]remote.Held, error) {
	return func(t *Tier, ctx context.Context, keys []string) ([]remote.Held, error) {
		held, err := t.Get(ctx, keys)
		for i := range held {
			f(&held[i])
		}
		return held, err
	}
}

// eachPut changes the arguments of Put.
func eachPut(f func(t *Tier, p *remote.Put)) func(*Tier, context.Context, []remote.Put) ([]int, error) {
	return func(t *Tier, ctx context.Context, p []remote.Put) ([]int, error) {
		for i := range p {
			f(t, &p[i])
		}
		return t.Put(ctx, p)
	}
}

// eachDrop changes the arguments of Drop, and calls after when it has returned.
func eachDrop(f func(t *Tier, d *remote.Drop) (after func())) func(*Tier, context.Context, []remote.Drop) ([]remote.Lease, error) {
	return func(t *Tier, ctx context.Context, d []remote.Drop) ([]remote.Lease, error) {
		var after []func()
		for i := range d {
			if f := f(t, &d[i]); f != nil {
				after = append(after, f)
			}
		}
		leases, err := t.Drop(ctx, d)
		for _, f := range after {
			f()
		}
		return leases, err
	}
}

func mutations() []mutation {
	return slices.Concat(valueMutations(), lifeMutations(), rightMutations(), manyMutations(), refreshMutations(), dropMutations(), extendMutations(), knownMutations(), spaceMutations())
}

var errMutant = errors.New("mutant")

// TestSkipsSayWhatTheTierLacks in words of users, not by names of internal types.
func TestSkipsSayWhatTheTierLacks(t *testing.T) {
	reasons := map[string]bool{}
	for _, c := range tierchecks.TierChecks() {
		synctest.Test(t, func(t *testing.T) {
			whole := NewTier()
			for _, tier := range []remote.Tier{
				struct{ remote.Tier }{whole},
				struct {
					remote.Tier
					remote.Tagger
				}{whole, whole},
			} {
				r := recorded(t, func(t testing.TB) { c.Run(t, tierchecks.TierFixture{Tier: tier, Sleep: time.Sleep}) })
				reasons[r.reason] = true
			}
		})
	}
	delete(reasons, "") // not skipped
	for reason := range reasons {
		if !strings.HasPrefix(reason, "the Tier is no remote.") && !strings.HasPrefix(reason, "the Tier has no Forget") {
			t.Errorf("a check is skipped because %q", reason)
		}
	}
	if !reasons["the Tier has no ForgetTags"] || !reasons["the Tier is no remote.Announcer"] {
		t.Errorf("the reasons are %v", reasons)
	}
}
