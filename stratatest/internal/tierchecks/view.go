// Package tierchecks holds the checks of stratatest.TestTier and TestAnnouncer.
package tierchecks

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/stratatest/internal/checks"
)

// TierFixture is a tier under test.
type TierFixture struct {
	// Tier is the tier under test.
	Tier remote.Tier
	// Sleep lets time pass for the tier.
	Sleep func(time.Duration)
}

// TierChecks returns the promises of a tier.
func TierChecks() []checks.Check[TierFixture] {
	all := slices.Concat(valueChecks(), rightChecks(), manyChecks(), refreshChecks(), dropChecks(), extendChecks(), knownChecks(), spaceChecks(), tagChecks(), positionChecks())
	return checksOf(all, func(t testing.TB, f TierFixture) *view { return newView(t, f.Tier, f.Sleep) })
}

// check is a promise about a view of the fixture.
type check[V any] struct {
	name string
	run  func(v V)
}

type tierCheck = check[*view]

// checksOf turns promises about views into promises about fixtures.
func checksOf[F, V any](all []check[V], view func(testing.TB, F) V) []checks.Check[F] {
	var made []checks.Check[F]
	for _, c := range all {
		made = append(made, checks.Check[F]{Name: c.name, Run: func(t testing.TB, f F) { c.run(view(t, f)) }})
	}
	return made
}

// Lives used by the checks. A tier may count in whole seconds: short is more than one of
// them, and past is later than the end of a short life, by two seconds: the clock of a server
// on a busy machine is late.
const (
	long  = time.Hour
	short = 2 * time.Second
	past  = 5 * time.Second
	// slack is the part of a long life that a slow machine may use up.
	slack = 10 * time.Minute
	// apart is the difference of two estimates of one clock, of a store that shows
	// whole seconds.
	apart = time.Second
)

// view is the tier under test as one cache sees it, with helpers that fail the
// test when the tier fails.
type view struct {
	testing.TB
	remote.Tier
	ctx   context.Context
	root  remote.Tier
	space remote.Space
	sleep func(time.Duration)
	helds int // calls of held
}

func newView(t testing.TB, tier remote.Tier, sleep func(time.Duration)) *view {
	v := &view{TB: t, ctx: t.Context(), root: tier, sleep: sleep}
	return v.bind(remote.Space{Name: remote.SpaceName("checks", fmt.Sprintf("%x", rand.Uint64())), Schema: 1, Instance: 1})
}

func (v *view) bind(s remote.Space) *view {
	w := *v
	w.space = s
	w.Tier, _ = remote.Bind(v.root, s)
	return &w
}

// sibling is the view of another program with the same name and another value
// type.
func (v *view) sibling() *view {
	s := v.space
	s.Schema, s.Instance = s.Schema+1, s.Instance+1
	return v.another(s)
}

// stranger is the view of a cache with another name.
func (v *view) stranger() *view {
	s := v.space
	s.Name += "-other"
	return v.another(s)
}

func (v *view) another(s remote.Space) *view {
	v.Helper()
	if _, ok := remote.As[remote.Binder](v.root); !ok {
		v.Skip(lacks[remote.Binder]())
	}
	return v.bind(s)
}

// ability returns the ability T of the tier, or skips the test.
func ability[T any](v *view) T {
	v.Helper()
	a, ok := remote.As[T](v.Tier)
	if !ok {
		v.Skip(lacks[T]())
	}
	return a
}

// lacks says that the tier has no T, an ability or an interface of one method.
func lacks[T any]() string {
	t := reflect.TypeFor[T]()
	if t.Name() == "" {
		return "the Tier has no " + t.Method(0).Name
	}
	return "the Tier is no " + t.String()
}

func (v *view) held(key string) remote.Held {
	v.Helper()
	if r, ok := remote.AsReader(v.Tier); ok {
		// Every second look takes the other way, so that all checks are about both.
		if v.helds++; v.helds%2 == 0 {
			return v.read(r, key)
		}
	}
	held, err := v.Get(v.ctx, []string{key})
	if err != nil || len(held) != 1 {
		v.Fatalf("Get(%q) = %d results, %v; want 1", key, len(held), err)
	}
	return held[0]
}

// read is [view.held] by way of a Reader, with too little memory for most values.
func (v *view) read(r remote.Reader, key string) remote.Held {
	v.Helper()
	h, err := r.Read(v.ctx, 0, key, []byte("memory")[:3])
	if err != nil {
		v.Fatalf("Read(%q) = %v", key, err)
	}
	return h
}

func (v *view) isAbsent(key string) {
	v.Helper()
	if h := v.held(key); !h.Absent() || h.Data != nil {
		v.Fatalf("%q: held %+v; want absent", key, h)
	}
}

// holds fails unless key holds data. It returns the state.
func (v *view) holds(key, data string) remote.Held {
	v.Helper()
	h := v.held(key)
	switch {
	case h.Absent():
		v.Fatalf("%q: absent; want %.40q", key, data)
	case h.Data == nil || !bytes.Equal(h.Data, []byte(data)):
		v.Fatalf("%q: held %.40q (nil: %t); want %.40q", key, h.Data, h.Data == nil, data)
	}
	return h
}

func (v *view) holdsFresh(key, data string) remote.Held {
	v.Helper()
	h := v.holds(key, data)
	if h.Fresh <= 0 || h.Soft {
		v.Fatalf("%q: Fresh %v, Soft %t; want fresh", key, h.Fresh, h.Soft)
	}
	return h
}

func (v *view) holdsStale(key, data string) remote.Held {
	v.Helper()
	h := v.holds(key, data)
	if h.Fresh > 0 || h.Left <= 0 {
		v.Fatalf("%q: Fresh %v, Left %v; want stale", key, h.Fresh, h.Left)
	}
	return h
}

// ask requests the lease of one key.
func (v *view) ask(ctx context.Context, key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease, error) {
	acquired, err := v.Acquire(ctx, []remote.Request{{Key: key, Replace: id}}, d)
	if err != nil {
		return remote.Held{}, remote.Lease{}, err
	}
	if len(acquired) != 1 {
		return remote.Held{}, remote.Lease{}, fmt.Errorf("%d results for one request", len(acquired))
	}
	return acquired[0].Held, acquired[0].Lease, acquired[0].Err
}

func (v *view) acquire(key string, d time.Duration) (remote.Held, remote.Lease) {
	v.Helper()
	return v.refresh(key, 0, d)
}

// refresh requests a lease to replace the value with that ID.
func (v *view) refresh(key string, id remote.ID, d time.Duration) (remote.Held, remote.Lease) {
	v.Helper()
	held, lease, err := v.ask(v.ctx, key, id, d)
	if err != nil {
		v.Fatalf("Acquire(%q): %v", key, err)
	}
	// This holds for every answer, so that it is looked at with each of them.
	if (lease.Grant == remote.Granted) != (lease.Token != 0) {
		v.Fatalf("Acquire(%q) = grant %d with token %d; a token comes with Granted only", key, lease.Grant, lease.Token)
	}
	return held, lease
}

// granted acquires a lease for d.
func (v *view) granted(key string, d time.Duration) remote.Lease {
	v.Helper()
	_, lease := v.acquire(key, d)
	if lease.Grant != remote.Granted {
		v.Fatalf("Acquire(%q) = grant %d, wait %v; want Granted", key, lease.Grant, lease.Wait)
	}
	return lease
}

// waits fails unless a lease is refused with the grant g and a wait of at most
// d.
func (v *view) waits(key string, g remote.Grant, d time.Duration) remote.Lease {
	v.Helper()
	_, lease := v.acquire(key, short)
	if lease.Grant != g || lease.Wait <= 0 || lease.Wait > d+apart {
		v.Fatalf("Acquire(%q) = grant %d, wait %v; want grant %d, wait within (0, %v]", key, lease.Grant, lease.Wait, g, d)
	}
	return lease
}

// put stores data for long, fresh for half of it.
func (v *view) put(key, data string, l remote.Lease) (stored bool) {
	v.Helper()
	return v.putLives(key, data, long, 2*long, l)
}

func (v *view) putLives(key, data string, fresh, left time.Duration, l remote.Lease) (stored bool) {
	v.Helper()
	refused, err := v.Put(v.ctx, []remote.Put{{Key: key, Data: []byte(data), Fresh: fresh, Left: left, Lease: l}})
	if err != nil {
		v.Fatalf("Put(%q): %v", key, err)
	}
	if len(refused) > 1 || len(refused) == 1 && refused[0] != 0 {
		v.Fatalf("Put(%q): refused %v of one", key, refused)
	}
	return len(refused) == 0
}

// putDrops stores key's name as its value, as a Put with Drops.
func (v *view) putDrops(key string, left time.Duration, l remote.Lease) (stored bool) {
	v.Helper()
	refused, err := v.Put(v.ctx, []remote.Put{{Key: key, Data: []byte(key), Fresh: left, Left: left, Lease: l, Drops: true}})
	if err != nil {
		v.Fatalf("Put(%q) that drops: %v", key, err)
	}
	return len(refused) == 0
}

func (v *view) stores(key, data string, l remote.Lease) {
	v.Helper()
	if !v.put(key, data, l) {
		v.Fatalf("Put(%q, %.40q) was refused; its right was good", key, data)
	}
}

// storesFor stores data under a lease of its own.
func (v *view) storesFor(key, data string, fresh, left time.Duration) {
	v.Helper()
	if !v.putLives(key, data, fresh, left, v.granted(key, long)) {
		v.Fatalf("Put(%q, %.40q) was refused; its right was good", key, data)
	}
}

func (v *view) refuses(key, data string, l remote.Lease) {
	v.Helper()
	if v.put(key, data, l) {
		v.Fatalf("Put(%q, %.40q) was accepted; its right was gone", key, data)
	}
}

// fill stores data under a lease of its own.
func (v *view) fill(key, data string) {
	v.Helper()
	v.stores(key, data, v.granted(key, long))
}

func (v *view) drop(d remote.Drop) remote.Lease {
	v.Helper()
	leases, err := v.Drop(v.ctx, []remote.Drop{d})
	if err != nil || len(leases) != 1 {
		v.Fatalf("Drop(%q) = %d leases, %v; want 1", d.Key, len(leases), err)
	}
	// A token that was not asked for would be a right that the caller does not know of.
	if (leases[0].Token != 0) != (d.Token > 0) {
		v.Fatalf("Drop(%q) with Token %v gave token %d", d.Key, d.Token, leases[0].Token)
	}
	return leases[0]
}

// extend tries to give key lives of 3 and 4 times long.
func (v *view) extend(key string, l remote.Lease, id remote.ID) (done bool) {
	v.Helper()
	refused, err := v.Extend(v.ctx, key, 3*long, 4*long, l, id)
	if err != nil {
		v.Fatalf("Extend(%q): %v", key, err)
	}
	return !refused
}

// lives fails unless h got these lives at most slack ago.
func (v *view) lives(h remote.Held, fresh, left time.Duration) {
	v.Helper()
	near := func(got, want time.Duration) bool { return got <= want+apart && got > want-slack }
	if !near(h.Fresh, fresh) || !near(h.Left, left) {
		v.Fatalf("Fresh %v, Left %v; want a little under %v, %v", h.Fresh, h.Left, fresh, left)
	}
}
