package strata

import (
	"context"
	"errors"

	check "github.com/strata-cache/strata/internal/cache"
	"github.com/strata-cache/strata/remote"
)

// Update runs write, which writes to the origin and returns the new value there, and stores
// this value. The cache cannot end up behind the origin, however many callers write at the
// same time: the key is dropped before write runs, and the value is stored only if the key
// was not set or invalidated since. Callers may be answered with the old value until Update
// returns. write may call [Loading] with its context, to name tags or a life of the value.
//
// It returns write's error, having dropped the key: the origin may have changed nevertheless. It
// returns *RemoteError if L2 did not confirm: write has run, and the key is dropped as after an
// unconfirmed Invalidate. If the value cannot be encoded, or its tags cannot be used, it
// returns that error; write has run, and the key is dropped. On a closed cache it returns ErrClosed and write has not run.
func (c *Cache[K, V]) Update(ctx context.Context, key K, write func(ctx context.Context) (V, error), opts ...CallOption) (err error) {
	if c.closed.Load() {
		return ErrClosed
	}
	u := &update[K, V]{c: c}
	u.call.add(opts)
	u.call.noRemote = false // others would not hear of the write
	if err := c.callError(&u.call); err != nil {
		return err
	}
	if c.l2.Used() {
		outer := ctx
		var span *span
		ctx, span = c.begin(ctx, Span{Name: SpanSet, Key: keyOf(&c.core, key), Keys: 1})
		defer func() { span.wrote(outer, err) }()
	}
	return u.run(ctx, key, func(ctx context.Context) (V, error) {
		within := &writeContext{Context: ctx, loadValues: loadValues{cache: &c.core}}
		v, err := write(within)
		applyLoad(within.load.Load(), &u.call, key)
		return v, err
	})
}

// run is Update.
func (u *update[K, V]) run(ctx context.Context, key K, write func(ctx context.Context) (V, error)) (err error) {
	c := u.c
	if err := c.checkKey(key); err != nil {
		return err
	}
	u.key, u.stamps = key, c.stamps(u.call.tags, u.call.own)
	if c.l2.Used() {
		if u.name, err = c.nameOf(key); err != nil {
			return err
		}
	}
	if u.right, err = c.flights.Begin(key); err != nil {
		return ErrClosed
	}
	// Also if write or a callback panics: drop again if nothing was stored,
	// and end the write in L1.
	defer func() { c.finish(ctx, &u.write, u.stored) }()
	defer func() {
		var done *RemoteError
		if e := u.undo(ctx); err == nil || e != nil && errors.As(err, &done) && done.Dropped {
			err = e // the drop has failed, after all
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
}

// begin drops the key with a token valid for as long as a load may take.
func (u *update[K, V]) begin(ctx context.Context) (err error) {
	if !u.c.l2.Used() {
		return nil
	}
	d := min(max(u.c.o.Limits.HardTimeout, check.HardTimeout), maxRemoteLife) + tokenLife
	u.leases, err = u.c.l2.Drop(ctx, []remote.Drop{{Key: u.name, Token: d}})
	return remoteError("update", err)
}

// end stores the value that write has returned.
func (u *update[K, V]) end(ctx context.Context) error {
	o := u.call
	if err := u.c.prepare(&u.write, &o); err != nil {
		return err
	}
	u.stamps.Tags, u.stamps.Own = u.tags, u.own // write may have named more
	ws := []write[K, V]{u.write}
	if _, err := u.c.put(ctx, "update", ws, u.leases); err != nil {
		return err
	}
	u.keep, u.id = ws[0].keep, ws[0].id
	u.stored = !ws[0].late && u.left > 0
	return nil
}

// undo drops the key again if nothing was stored: others may have loaded it
// while the origin changed, and stored that.
func (u *update[K, V]) undo(ctx context.Context) error {
	if u.stored {
		return nil
	}
	_, err := u.c.l2.Drop(context.WithoutCancel(ctx), []remote.Drop{{Key: u.name}})
	return remoteError("update", err)
}
