package strata

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/internal/l1"
	"github.com/strata-cache/strata/internal/l2"
	"github.com/strata-cache/strata/remote"
)

// batch is what one many leads.
type batch[K comparable, V any] struct {
	*many[K, V]
	flights  *flight.Batch[K, V]
	attempts []*attempt[K, V] // of the flights that have not landed
	stamps   stamps           // from before anything was read
	runs     sync.WaitGroup   // of those that wait for other instances
}

// lead leads the batch's own flights: a look at L2 on the caller's goroutine,
// and then whatever else is needed on one of their own.
func (b *batch[K, V]) lead(ctx context.Context, patience flight.Patience) {
	soft := ctx
	if patience.Soft != nil {
		soft = patience.Soft
	}
	for _, f := range b.flights.Led {
		b.attempts = append(b.attempts, &attempt[K, V]{c: b.c, f: f, ctx: soft, load: b.one, call: b.call, tagGeneration: b.stamps.tagGeneration})
	}
	led := len(b.attempts)
	defer func() { b.flights.Done(led) }() // those that a callback has ended
	landed := b.look(soft)
	b.flights.Done(len(landed))
	led -= len(landed)
	for _, a := range landed {
		b.takeLed(a.f.Key, a.res, nil)
	}
	b.refresh(ctx)
	if len(b.attempts) == 0 {
		return
	}
	if l2.Over(soft) { // those who have joined are owed a look that nobody cuts short
		for _, a := range b.attempts {
			*a = attempt[K, V]{c: b.c, f: a.f, load: b.one, call: b.call, again: true}
		}
	}
	waited := slices.Clone(b.attempts)
	fs := make([]*flight.Flight[K, V], len(waited))
	for i, a := range waited {
		fs[i] = a.f
	}
	led -= len(fs)
	b.flights.Launch(ctx, fs, b.then)
	for _, f := range fs {
		r, err := b.flights.Wait(ctx, patience, f)
		b.takeLed(f.Key, r, err)
	}
	b.refresh(ctx)
}

// takeLed takes what became of a key whose flight the batch leads. A stale value
// of L2 that is served while it is refreshed is due for that.
func (b *batch[K, V]) takeLed(key K, r flight.Result[V], err error) {
	if r.Note&noteRevalidate != 0 {
		b.due = append(b.due, key)
	}
	b.take(key, r, err)
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
			b.attempts = nil
		}
	}()
	found := make(map[*attempt[K, V]]bool, len(b.attempts))
	var ask []*attempt[K, V]
	for _, a := range b.attempts {
		if b.safely(a, a.lookAgain) {
			found[a] = true
		} else if b.c.l2.HasTier() && a.res.Err == nil {
			ask = append(ask, a)
		}
	}
	b.ask(ctx, ask, found)
	rest := b.attempts[:0:0]
	for _, a := range b.attempts {
		if !found[a] && a.res.Err == nil && !l2.Over(ctx) {
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
		a.l2.Name, a.res.Err = c.nameOf(a.f.Key)
		if a.res.Err == nil && !a.l2.PassesBy(c.l2) {
			names, asked = append(names, a.l2.Name), append(asked, a)
		}
	}
	if len(asked) == 0 {
		return
	}
	first := asked[0]
	if !first.l2.Allowed(c.l2) {
		for _, a := range asked {
			a.l2.Down = true
			found[a] = a.serveSuspect()
		}
		return
	}
	op, cancel := first.opContext()
	defer cancel()
	b.askSome(op, names, asked, found)
}

// askSome asks L2 for the keys with these names. One that is too long keeps none
// of the others: nothing was sent then.
func (b *batch[K, V]) askSome(ctx context.Context, names []string, asked []*attempt[K, V], found map[*attempt[K, V]]bool) {
	held, err := b.c.l2.Read(ctx, names)
	if half := len(names) / 2; half > 0 && errors.Is(err, remote.ErrKeyTooLong) {
		b.askSome(ctx, names[:half], asked[:half], found)
		b.askSome(ctx, names[half:], asked[half:], found)
		return
	}
	first := asked[0]
	answered := first.answered("get", err)
	for i, a := range asked {
		if !answered {
			a.l2.Failed(&first.l2)
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
	if b.attempts[0].again {
		b.lookAgain(ctx)
	}
	for _, a := range b.attempts {
		a.ctx = a.f.Context()
	}
	if len(b.attempts) == 0 {
		return
	}
	release, err := b.c.loads.Acquire(ctx, b.call.refresh, b.flights.Urgent(), b.flights.Gone())
	if err != nil {
		for _, a := range b.attempts {
			a.noSlot(err)
			a.land()
		}
		return
	}
	defer release()
	b.takeLeases(ctx)
	if b.ration(); len(b.attempts) > 0 && b.run(ctx) {
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

// lookAgain is look for a batch whose caller did not wait for the end of that.
func (b *batch[K, V]) lookAgain(ctx context.Context) {
	for _, a := range b.attempts {
		a.again, a.ctx, a.tagGeneration = false, ctx, b.c.generation.TagWatermark()
	}
	b.look(ctx)
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
		if b.c.l2.HasTier() && !a.l2.Down {
			ask = append(ask, a)
		} else {
			mine = append(mine, a)
		}
	}
	if len(ask) > 0 {
		if ask[0].l2.MayStore(b.c.l2) {
			ask = b.acquire(ctx, ask)
		}
		mine = append(mine, ask...)
	}
	b.attempts = mine
}

// acquire asks for leases, and returns those attempts that are to load. The
// others have landed, or go on by themselves.
func (b *batch[K, V]) acquire(ctx context.Context, ask []*attempt[K, V]) (mine []*attempt[K, V]) {
	op, cancel := b.c.l2.Bound(context.WithoutCancel(ctx))
	defer cancel()
	requests := make([]l2.Request, len(ask))
	for i, a := range ask {
		requests[i] = a.leaseRequest()
	}
	held, leases, errs := b.c.l2.AcquireMany(op, requests, b.c.o.Limits.Lease)
	failed := max(0, slices.IndexFunc(errs, func(err error) bool { return err != nil }))
	ask[failed].l2.StandsInFor(&ask[0].l2)
	ask[failed].answered("acquire", errs[failed])
	for i, a := range ask {
		if errs[i] != nil {
			a.l2.FailedAlone(&ask[failed].l2, errs[i])
			mine = append(mine, a)
			continue
		}
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

// alone lets a go on by itself, as if its key had been asked for alone.
func (b *batch[K, V]) alone(a *attempt[K, V]) {
	a.apart = true
	b.runs.Go(func() {
		defer a.land()
		defer a.recovered()
		a.finish()
	})
}

// run calls the loader once for all. It reports false if the load's context has
// ended before it returned, and all have landed without it.
func (b *batch[K, V]) run(ctx context.Context) (intime bool) {
	keys := make([]K, len(b.attempts))
	for i, a := range b.attempts {
		keys[i] = a.f.Key
		a.begins()
	}
	within := &loadContext{Context: ctx, cache: b.c}
	bounded, cancel := b.c.loadContext(within)
	defer cancel()
	for _, a := range b.attempts {
		defer a.keepLease(bounded)()
	}
	start := time.Now()
	within.late.Add(1)
	stop := context.AfterFunc(bounded, func() {
		defer within.late.Done()
		b.cutShort(bounded, time.Since(start))
	})
	var values map[K]V
	err := ErrLoadExited // stands if the loader never comes back
	defer func() {
		if p := recover(); p != nil {
			err = &LoadPanicError{Value: p, Stack: debug.Stack()}
		}
		if intime = within.inTime(stop); intime {
			b.brought(values, err, time.Since(start), within)
		}
	}()
	values, err = b.load(bounded, keys)
	return
}

// cutShort lands all flights of a loader that has not returned when ctx, the
// load's, has ended, and gives their leases back.
func (b *batch[K, V]) cutShort(ctx context.Context, took time.Duration) {
	leases := make([]remote.Lease, len(b.attempts))
	for i, a := range b.attempts {
		leases[i] = a.lease
	}
	defer func() {
		for i, a := range b.attempts {
			if a.handBack(leases[i]); a.l2.Down {
				return // L2 does not answer: they run out
			}
		}
	}()
	for _, a := range b.attempts {
		defer a.cutShort(ctx, took) // a hook that ends the goroutine holds up none
	}
}

// brought gives each attempt what the loader has brought for it.
func (b *batch[K, V]) brought(values map[K]V, err error, took time.Duration, within *loadContext) {
	for _, a := range b.attempts {
		applyLoad(&within.load, &a.call, a.f.Key)
		v, ok := values[a.f.Key]
		switch a.res.Err = err; {
		case ok && !errors.Is(err, ErrLoadExited):
			a.res.Value, a.res.Err = v, nil // whatever happened to others
		case err == nil:
			a.res.Err = ErrNotFound
		}
		a.took = took
		a.label()
		b.c.loaded(within, a.f.Key, a.res.Value, outcomeOf(a.res.Err, false), took, a.res.Err)
	}
	if err == nil {
		b.fillGaps(values, &within.load)
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
	if a.res.Err != nil || a.lease.Token == 0 || a.noKeep || left <= 0 {
		return p, false
	}
	data, err := a.c.seal(a.l2.Name, a.res.Value, a.call.tags, a.lease.Clock)
	if err != nil {
		return p, false
	}
	a.left = left
	fresh, kept := min(left, maxRemoteLife), min(a.c.kept(left), maxRemoteLife)
	return remote.Put{Key: a.l2.Name, Data: data, Fresh: fresh, Left: kept, Lease: a.lease}, true
}

// put stores values in L2. What it refuses is not kept in L1 either.
func (b *batch[K, V]) put(ctx context.Context, puts []remote.Put, putters []*attempt[K, V]) {
	c := b.c
	loaded := c.memory.Now()
	op, cancel := c.l2.Bound(ctx)
	defer cancel()
	refused, err := c.l2.Put(op, puts)
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
			a.l2.Down, a.l2.Cancelled = true, putters[0].l2.Cancelled
		} else {
			a.lease.Token = 0
		}
		if slices.Contains(refused, i) {
			c.refusedRemote(ctx, a.f.Key)
			continue
		}
		a.keepLoaded(a.res.Value, a.left, loaded, id)
	}
}

// fillGaps keeps in L1 what the loader has brought unasked, where nothing is
// held, and nothing was written, dropped or put on hold since the batch began.
// L2 was not asked whether a key is on hold, and has nothing to confirm it by
// after a message was lost, so that where there is an L2 it lives as without a
// bus. said is what the loader has said.
func (b *batch[K, V]) fillGaps(values map[K]V, said *Load) {
	asked := make(map[K]bool, len(b.attempts))
	for _, a := range b.attempts {
		asked[a.f.Key] = true
	}
	c := b.c
	for k, v := range values {
		if asked[k] {
			continue
		}
		o := b.call
		applyLoad(said, &o, k)
		c.nameTags(&o, k, v)
		left := c.life(o)
		if c.l2.HasTier() {
			left = min(left, c.jittered(UnconfirmedTTL))
		}
		weight, ok := c.weigh(k, v)
		if !ok || c.checkKey(k) != nil || left <= 0 || c.callError(o) != nil {
			continue
		}
		from := b.stamps
		from.tags = o.tags
		e := c.entry(k, v, left, left, from, 0)
		if c.tagsDropped(e) {
			continue
		}
		c.mark(e)
		var removed []l1.Removed[K, V]
		b.flights.Fill(k, func() {
			old, _ := c.memory.Peek(k)
			memo, _ := c.memos.Peek(k)
			if old == nil && (memo == nil || !memo.Value.notFound) {
				removed, _ = c.memory.Set(e, weight)
				c.memos.Delete(k)
			}
		})
		c.memory.Notify(removed)
	}
}
