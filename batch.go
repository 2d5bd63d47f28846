package strata

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/remote"
)

// batch is what one many leads.
type batch[K comparable, V any] struct {
	*many[K, V]
	flights  *flight.Batch[K, V]
	attempts []*attempt[K, V] // of the flights that have not landed
	trust    uint64           // from before anything was read
	drops    uint64
	runs     sync.WaitGroup // of those that wait for other instances
}

// lead leads the batch's own flights: a look at L2 on the caller's goroutine,
// and then whatever else is needed on one of their own.
func (b *batch[K, V]) lead(ctx context.Context) {
	for _, f := range b.flights.Led {
		b.attempts = append(b.attempts, &attempt[K, V]{c: b.c, f: f, ctx: ctx, load: b.one, call: b.call, tagTrust: b.c.trust.TagWord()})
	}
	landed := b.look(ctx)
	b.flights.Done(len(landed))
	for _, a := range landed {
		b.take(a.f.Key, a.res, nil)
	}
	if len(b.attempts) == 0 {
		return
	}
	if over(ctx) { // those who have joined are owed a look that nobody cuts short
		for _, a := range b.attempts {
			*a = attempt[K, V]{c: b.c, f: a.f, load: b.one, call: b.call, again: true}
		}
	}
	waited := slices.Clone(b.attempts)
	fs := make([]*flight.Flight[K, V], len(waited))
	for i, a := range waited {
		fs[i] = a.f
	}
	b.flights.Launch(ctx, fs, b.then)
	for _, f := range fs {
		r, err := b.flights.Wait(ctx, f)
		b.take(f.Key, r, err)
	}
}

// look looks at both tiers, and lands what it finds. The others remain.
func (b *batch[K, V]) look(ctx context.Context) (landed []*attempt[K, V]) {
	ended := false
	defer func() {
		if !ended { // a callback has ended the goroutine
			for _, a := range b.attempts {
				a.res.Err = ErrLoadExited
				a.land()
			}
			b.flights.Done(len(b.attempts))
		}
	}()
	found := make(map[*attempt[K, V]]bool, len(b.attempts))
	var ask []*attempt[K, V]
	for _, a := range b.attempts {
		if b.safely(a, a.lookAgain) {
			found[a] = true
		} else if b.c.tier != nil && a.res.Err == nil {
			ask = append(ask, a)
		}
	}
	b.ask(ctx, ask, found)
	rest := b.attempts[:0:0]
	for _, a := range b.attempts {
		if !found[a] && a.res.Err == nil && !over(ctx) {
			if err := b.c.throttled(a.f.Key); err != nil {
				a.fail(err)
				found[a] = true
			}
		}
		if found[a] || a.res.Err != nil {
			a.land()
			landed = append(landed, a)
		} else {
			rest = append(rest, a)
		}
	}
	b.attempts, ended = rest, true
	return landed
}

// safely calls f, which may call what the user has given, for a. A panic is the
// result of a.
func (b *batch[K, V]) safely(a *attempt[K, V], f func() bool) (yes bool) {
	defer a.recovered()
	return f()
}

// ask asks L2 for several keys at once.
func (b *batch[K, V]) ask(ctx context.Context, all []*attempt[K, V], found map[*attempt[K, V]]bool) {
	c := b.c
	var names []string
	var asked []*attempt[K, V]
	for _, a := range all {
		b.safely(a, func() bool { a.name = c.o.Remote.Key(a.f.Key); return false })
		if a.res.Err == nil && !a.bypasses() {
			names, asked = append(names, a.name), append(asked, a)
		}
	}
	if len(asked) == 0 {
		return
	}
	first := asked[0]
	if ok, probe := c.breaker.Allow(c.memory.Now()); !ok {
		for _, a := range asked {
			a.down = true
			found[a] = a.serveSuspect()
		}
		return
	} else if probe {
		first.probe = true
	}
	op, cancel := first.opContext()
	defer cancel()
	b.askSome(op, names, asked, found)
}

// askSome asks L2 for the keys with these names. One that is too long keeps none
// of the others: nothing was sent then.
func (b *batch[K, V]) askSome(ctx context.Context, names []string, asked []*attempt[K, V], found map[*attempt[K, V]]bool) {
	held, err := b.c.tier.Get(ctx, names)
	if half := len(names) / 2; half > 0 && errors.Is(err, remote.ErrKeyTooLong) {
		b.askSome(ctx, names[:half], asked[:half], found)
		b.askSome(ctx, names[half:], asked[half:], found)
		return
	}
	first := asked[0]
	answered := first.answered("get", err)
	for i, a := range asked {
		if !answered {
			a.down, a.unheld = true, first.unheld
			found[a] = a.serveSuspect()
			continue
		}
		found[a] = b.safely(a, func() bool { return a.seen(ctx, held[i]) })
	}
}

// then does what is left: leases, one call of the loader, and a store.
func (b *batch[K, V]) then() {
	ctx := b.flights.Context()
	defer b.runs.Wait()
	defer func() { // also when the loader ends the goroutine
		p := recover()
		for _, a := range b.attempts {
			if a.apart || a.landed {
				continue
			}
			if a.res.Err = orExited(a.res.Err); p != nil {
				a.res.Err = &LoadPanicError{Value: p, Stack: debug.Stack()}
			}
			a.land()
		}
	}()
	if b.part(); len(b.attempts) == 0 {
		return
	}
	release, err := b.c.loads.Acquire(ctx, b.call.refresh, b.flights.Urgent())
	if err != nil {
		for _, a := range b.attempts {
			a.res.Err = b.c.flightError(err)
		}
		return
	}
	defer release()
	b.takeLeases(ctx)
	if b.ration(); len(b.attempts) > 0 {
		b.run(ctx)
		b.store(ctx)
	}
}

// ration lands what may not be tried again now.
func (b *batch[K, V]) ration() {
	rest := b.attempts[:0:0]
	for _, a := range b.attempts {
		if a.spent() {
			a.land()
		} else {
			rest = append(rest, a)
		}
	}
	b.attempts = rest
}

// part gives the attempts their own contexts, and lets those go on alone that
// have to look again.
func (b *batch[K, V]) part() {
	rest := b.attempts[:0:0]
	for _, a := range b.attempts {
		if a.ctx = a.f.Context(); a.again {
			b.alone(a)
		} else {
			rest = append(rest, a)
		}
	}
	b.attempts = rest
}

func orExited(err error) error {
	if err == nil {
		return ErrLoadExited
	}
	return err
}

// takeLeases asks for the leases of all keys. What another instance is loading
// is waited for apart.
func (b *batch[K, V]) takeLeases(ctx context.Context) {
	var ask, mine []*attempt[K, V]
	for _, a := range b.attempts {
		if b.c.tier != nil && !a.down {
			ask = append(ask, a)
		} else {
			mine = append(mine, a)
		}
	}
	if len(ask) > 0 {
		mine = append(mine, b.acquire(ctx, ask)...)
	}
	b.attempts = mine
}

// acquire asks for leases, and returns those attempts that are to load. The
// others have landed, or go on by themselves.
func (b *batch[K, V]) acquire(ctx context.Context, ask []*attempt[K, V]) (mine []*attempt[K, V]) {
	op, cancel := remote.WithTimeout(context.WithoutCancel(ctx), b.c.o.Remote.Timeout)
	defer cancel()
	held, leases, err := b.askMany(op, ask)
	if !ask[0].answered("acquire", err) {
		for _, a := range ask {
			a.down, a.unheld = true, ask[0].unheld
		}
		return ask
	}
	for i, a := range ask {
		switch leases[i].Grant {
		case remote.Granted:
			a.granted(op, held[i], leases[i])
			mine = append(mine, a)
		case remote.OnHold:
			a.noKeep = true
			mine = append(mine, a)
		default: // another instance loads it, or has
			b.alone(a)
		}
	}
	return mine
}

// askMany asks for leases in one round trip. What is fresh still, or all if the
// tier can do no better, is asked for one by one, at once. The error is of one
// that got no answer.
func (b *batch[K, V]) askMany(ctx context.Context, ask []*attempt[K, V]) ([]remote.Held, []remote.Lease, error) {
	c := b.c
	if c.can.many != nil && !b.call.refresh {
		names := make([]string, len(ask))
		for i, a := range ask {
			names[i] = a.name
		}
		return c.can.many.AcquireMany(ctx, names, c.o.Limits.Lease)
	}
	held, leases, errs := make([]remote.Held, len(ask)), make([]remote.Lease, len(ask)), make([]error, len(ask))
	var all sync.WaitGroup
	for i, a := range ask {
		all.Go(func() { held[i], leases[i], errs[i] = a.ask(ctx) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, nil, err
		}
	}
	return held, leases, nil
}

// alone lets a go on by itself, as if its key had been asked for alone.
func (b *batch[K, V]) alone(a *attempt[K, V]) {
	a.apart = true
	b.runs.Go(func() {
		defer a.land()
		defer a.recovered()
		if a.again {
			a.tagTrust = a.c.trust.TagWord()
			if a.look() {
				return
			}
		}
		a.finish()
	})
}

// run calls the loader once for all.
func (b *batch[K, V]) run(ctx context.Context) {
	keys := make([]K, len(b.attempts))
	for i, a := range b.attempts {
		keys[i] = a.f.Key
		a.end, a.res.Err = endLoad, ErrLoadExited // stands if the loader never comes back
	}
	within := &loadContext{Context: ctx, cache: b.c}
	bounded, cancel := b.c.loadContext(within)
	defer cancel()
	for _, a := range b.attempts {
		defer a.keepLease(bounded)()
	}
	start := time.Now()
	var values map[K]V
	err := ErrLoadExited
	defer func() {
		if p := recover(); p != nil {
			err = &LoadPanicError{Value: p, Stack: debug.Stack()}
		}
		b.brought(values, err, time.Since(start), within)
	}()
	values, err = b.load(bounded, keys)
	if err != nil && errors.Is(context.Cause(ctx), flight.ErrClosed) {
		err = ErrClosed
	}
}

// brought gives each attempt what the loader has brought for it.
func (b *batch[K, V]) brought(values map[K]V, err error, took time.Duration, within *loadContext) {
	for _, a := range b.attempts {
		within.load.apply(&a.call)
		v, ok := values[a.f.Key]
		switch a.res.Err = err; {
		case ok && !errors.Is(err, ErrLoadExited):
			a.res.Value, a.res.Err = v, nil // whatever happened to others
		case err == nil:
			a.res.Err = ErrNotFound
		}
		a.took = took
		b.c.loaded(a.f.Key, outcomeOf(a.res.Err, false), took, a.res.Err)
	}
	if err == nil {
		o := b.call
		within.load.apply(&o)
		b.fillGaps(values, o)
	}
}

// store keeps what was loaded, in one round trip to L2, and lands it.
func (b *batch[K, V]) store(ctx context.Context) {
	var puts []remote.Put
	var putters []*attempt[K, V]
	for _, a := range b.attempts {
		if p, ok := a.putInBatch(); ok {
			puts, putters = append(puts, p), append(putters, a)
		} else {
			a.store()
		}
	}
	if len(puts) > 0 {
		b.put(ctx, puts, putters)
	}
	for _, a := range b.attempts {
		a.land()
	}
}

// putInBatch returns how L2 is to be told of a's value, if that can be done
// together with others.
func (a *attempt[K, V]) putInBatch() (p remote.Put, ok bool) {
	left := a.c.life(a.call)
	if a.res.Err != nil || a.lease.Token == 0 || a.noKeep || left <= 0 || a.c.callError(a.call) != nil {
		return p, false
	}
	a.tags = nil
	data, err := a.c.seal(a.name, a.res.Value, a.tagsToKeep(), a.lease.Clock)
	if err != nil {
		return p, false
	}
	a.left = left
	fresh, kept := min(left, maxRemoteLife), min(a.c.kept(left), maxRemoteLife)
	return remote.Put{Key: a.name, Data: data, Fresh: fresh, Left: kept, Lease: a.lease}, true
}

// put stores values in L2. What it refuses is not kept in L1 either.
func (b *batch[K, V]) put(ctx context.Context, puts []remote.Put, putters []*attempt[K, V]) {
	c := b.c
	loaded := c.memory.Now()
	op, cancel := remote.WithTimeout(ctx, c.o.Remote.Timeout)
	defer cancel()
	refused, err := c.tier.Put(op, puts)
	if errors.Is(err, remote.ErrValueTooLarge) { // one of them is: each for itself
		for _, a := range putters {
			a.store()
		}
		return
	}
	answered := putters[0].answered("put", err)
	for i, a := range putters {
		a.res.Found, a.brought, a.res.Note = true, true, noteOrigin
		c.succeeded()
		id := remote.ID(a.lease.Token)
		if !answered {
			a.down, a.hungUp = true, putters[0].hungUp
		} else {
			a.lease.Token = 0
		}
		if slices.Contains(refused, i) {
			c.refusedRemote(a.f.Key)
			continue
		}
		a.keepLoaded(a.res.Value, a.left, loaded, id)
	}
}

// fillGaps keeps in L1 what the loader has brought unasked, where nothing is
// held, nothing runs, and nothing has been dropped since the batch began. o is
// what the loader has made of the call.
func (b *batch[K, V]) fillGaps(values map[K]V, o call) {
	asked := make(map[K]bool, len(b.attempts))
	for _, a := range b.attempts {
		asked[a.f.Key] = true
	}
	c := b.c
	for k, v := range values {
		left := c.life(o)
		weight, ok := c.weigh(k, v)
		if asked[k] || !ok || left <= 0 || c.callError(o) != nil {
			continue
		}
		e := c.entry(k, v, left, left, stamps{trust: b.trust, tagTrust: c.trust.TagWord(), tags: o.tags}, 0)
		c.mark(e)
		c.flights.Fill(k, func() {
			old, _ := c.memory.Peek(k)
			if old == nil && c.drops.Load() == b.drops && b.trust >= c.trust.Word() {
				c.memory.Set(e, weight)
			}
		})
	}
}
