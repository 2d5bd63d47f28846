package strata

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/strata-cache/strata/internal/flight"
	"github.com/strata-cache/strata/remote"
)

// Update runs write, which writes to the origin and returns what is there now,
// and stores that, so that the cache cannot end up behind the origin whoever
// else writes at the same time: the key is dropped before write runs, and what
// write returns is stored only if nobody has set or invalidated the key since.
// Callers may be answered with the old value until Update returns.
//
// It returns write's error, having dropped the key: the origin may have
// changed all the same. It returns *RemoteError if L2 did not confirm: write
// has run, and the key is dropped as after an Invalidate that was not
// confirmed. On a closed cache it returns ErrClosed and write has not run.
func (c *Cache[K, V]) Update(ctx context.Context, key K, write func(ctx context.Context) (V, error), opts ...CallOption) (err error) {
	if c.closed.Load() {
		return ErrClosed
	}
	u := &update[K, V]{c: c, call: callOf(opts)}
	if err := c.callError(u.call); err != nil {
		return err
	}
	return u.run(ctx, key, write)
}

// run is Update.
func (u *update[K, V]) run(ctx context.Context, key K, write func(ctx context.Context) (V, error)) (err error) {
	c := u.c
	u.key, u.stamps = key, c.stamps(u.call.tags)
	if u.right, err = c.flights.Begin(key); err != nil {
		return ErrClosed
	}
	// Also if write or a callback panics: drop again if nothing was stored,
	// and end the write in L1.
	defer func() {
		if u.stored || !u.soft {
			c.finish(&u.write, u.stored)
			return
		}
		c.flights.End(u.right, nil, func() {}) // what is held is stale by now
	}()
	defer func() {
		if e := u.undo(ctx); err == nil {
			err = e
		}
	}()
	unconfirmed := u.begin(ctx)
	if u.value, err = write(ctx); err != nil {
		return err
	}
	if unconfirmed != nil {
		return unconfirmed
	}
	return u.end(ctx)
}

// update is an Update on its way.
type update[K comparable, V any] struct {
	write[K, V]
	c      *Cache[K, V]
	call   call
	leases []remote.Lease
	stored bool
	named  bool // Key has answered
	// soft leaves the old value to be served if write fails.
	soft bool
}

// begin drops the key with a token that is good for as long as a load may
// take.
func (u *update[K, V]) begin(ctx context.Context) error {
	if !u.c.o.Remote.used() {
		return nil
	}
	u.name = u.c.o.Remote.Key(u.key)
	u.named = true
	d := min(max(u.c.o.Limits.HardTimeout, DefaultHardTimeout), maxRemoteLife) + tokenLife
	var err error
	u.leases, err = u.c.drop(ctx, "update", []remote.Drop{{Key: u.name, Soft: u.soft, Token: d}})
	return err
}

// end stores what was written.
func (u *update[K, V]) end(ctx context.Context) error {
	if err := u.c.prepare(&u.write, u.call); err != nil {
		return err
	}
	u.stamps.tags = u.tags // write may have named more
	ws := []write[K, V]{u.write}
	if err := u.c.put(ctx, "update", ws, u.leases); err != nil {
		return err
	}
	u.keep = ws[0].keep
	u.stored = !ws[0].late && u.left > 0
	return nil
}

// undo drops the key again if nothing was stored: others may have loaded it
// while the origin changed, and stored that.
func (u *update[K, V]) undo(ctx context.Context) error {
	if u.stored || !u.named || u.soft {
		return nil
	}
	_, err := u.c.drop(context.WithoutCancel(ctx), "update", []remote.Drop{{Key: u.name}})
	return err
}

// reload runs load whatever is cached, and stores what it brings, as an Update
// whose write is a load. What was cached counts as expired meanwhile.
func (c *Cache[K, V]) reload(ctx context.Context, key K, load Loader[K, V], o call) (v V, err error) {
	if c.closed.Load() {
		c.counts.turnedAway.Add(1)
		return v, ErrClosed
	}
	if load == nil {
		load = c.o.Loader
	}
	if load == nil {
		c.counts.turnedAway.Add(1)
		return v, ErrNoLoader
	}
	if err := ctx.Err(); err != nil {
		c.counts.turnedAway.Add(1)
		return v, err
	}
	outer, _ := ctx.Value(reloadKey{}).(*reloading)
	if outer.of(c, key) {
		c.counts.turnedAway.Add(1)
		return v, ErrRecursiveLoad
	}
	ctx = context.WithValue(ctx, reloadKey{}, &reloading{cache: c, key: key, outer: outer})
	ctx, cancel := c.whileOpen(ctx)
	defer cancel()
	c.counts.flights.Add(1)
	var held *V
	e, _ := c.fallback(key)
	if e != nil {
		held = &e.Value
	}
	c.dropLocal(key, true)
	u := &update[K, V]{c: c, call: o, soft: true}
	ran := false
	err = u.run(ctx, key, func(ctx context.Context) (V, error) {
		ran = true
		onHold := c.flights.OnHold(key) // a later hold voids the token
		v, err = c.loadAlone(ctx, key, load, &u.call, held)
		switch {
		case isAnswer(err, ErrNotFound):
			u.soft = false // what was held goes
		case held != nil && isAnswer(err, ErrNotModified):
			v, err = *held, nil
			if len(u.call.tags) == 0 && e.Tags != nil { // they hold as well
				u.call.tags = e.Tags.Names
			}
		}
		if onHold {
			u.call.ttl = -1
		}
		return v, err
	})
	if !ran { // it was closed in between
		c.counts.abandoned.Add(1)
	}
	var unconfirmed *RemoteError
	if errors.As(err, &unconfirmed) {
		err = nil // the load has brought a value
	}
	if err != nil {
		return v, c.wrap(key, err)
	}
	o.inform(Info{Tier: "origin"})
	return c.clone(v), nil
}

// whileOpen is ctx, but that it ends when c is closed, too.
func (c *Cache[K, V]) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.open, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// reloading is a reload that is under way, and those that it is inside of. The
// nil one is none.
type reloading struct {
	cache, key any
	outer      *reloading
}

// reloadKey is the key in a context under which the innermost reload is.
type reloadKey struct{}

// of reports whether r is one of key, or inside of one.
func (r *reloading) of(cache, key any) bool {
	for ; r != nil; r = r.outer {
		if r.cache == cache && r.key == key {
			return true
		}
	}
	return false
}

// loadAlone runs load for one caller, who does not share it.
func (c *Cache[K, V]) loadAlone(ctx context.Context, key K, load Loader[K, V], o *call, held *V) (v V, err error) {
	ctx, inside, end := flight.Alone(ctx)
	defer end()
	var urgent chan struct{}
	if inside {
		urgent = make(chan struct{})
		close(urgent)
	}
	release, err := c.loads.Acquire(ctx, false, urgent)
	if err != nil {
		c.counts.abandoned.Add(1)
		return v, err
	}
	defer release()
	err = ErrLoadExited // stands if the Loader never comes back
	within := &loadContext{Context: ctx, cache: c, previous: held}
	bounded, cancel := c.loadContext(within)
	defer cancel()
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = &LoadPanicError{Value: p, Stack: debug.Stack()}
		}
		c.loaded(key, outcomeOf(err, held != nil), time.Since(start), err)
	}()
	v, err = load(bounded, key)
	if errors.Is(context.Cause(ctx), ErrClosed) {
		err = ErrClosed // as callers get of a load that they share
	}
	within.load.apply(o)
	return v, err
}
