//go:build linux

package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/checker"
)

var (
	errInjected = errors.New("injected")
	errStopped  = errors.New("stopped")
)

// sinceKey is the key under which a call's context has the time of its beginning.
type sinceKey struct{}

// value returns the value in the cache for a version of key.
func value(key string, version uint64) string {
	return key + ":" + strconv.FormatUint(version, 10)
}

// parseValue is the inverse of value. Any other text belongs to the key "?",
// which no cache has.
func parseValue(s string) (of string, version uint64) {
	of, number, _ := strings.Cut(s, ":")
	version, err := strconv.ParseUint(number, 10, 64)
	if err != nil || of == "" || strings.ContainsAny(of, " \n") {
		return "?", 0
	}
	return of, version
}

// client makes calls, one after the other, until ctx ends.
func (w *worker) client(ctx context.Context, r *rand.Rand) {
	// Some keys are popular, so that callers and instances meet at them.
	keys := rand.NewZipf(r, 1.1, 8, uint64(w.c.Keys-1))
	pace := float64(w.c.Clients) / w.c.Rate * float64(time.Second)
	next := time.Now()
	for {
		// Calls that a fault has held up are not made up for, as they would
		// come as a storm.
		next = later(next, time.Now().Add(-100*time.Millisecond)).Add(time.Duration(r.ExpFloat64() * pace))
		if !wait(ctx, time.Until(next)) {
			return
		}
		w.step(r, Key(int(keys.Uint64())))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wait waits for d, and reports false if ctx has ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// step makes one call, or a write at the origin and the call that tells of it.
func (w *worker) step(r *rand.Rand, key string) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if r.IntN(50) == 0 { // a caller with a deadline
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(30*time.Millisecond))))
	}
	defer cancel()
	if w.snapshots(ctx, r) {
		return
	}
	if r.Float64()*w.c.Rate*20 < 1 { // each 20 s
		w.all(ctx, r, key)
		return
	}
	switch n := r.IntN(1000); {
	case n < 820:
		w.read(ctx, key, true, false)
	case n < 860:
		w.ask(ctx, key)
	case n < 910:
		w.read(ctx, key, false, false)
	case n < 950:
		w.invalidate(ctx, []string{key})
	case n < 955:
		w.invalidate(ctx, []string{key, Key(r.IntN(w.c.Keys)), Key(r.IntN(w.c.Keys))})
	case n < 970:
		w.update(ctx, key)
	case n < 983:
		w.set(ctx, key)
	case n < 985:
		w.hold(ctx, key)
	case n < 987:
		w.tag(ctx, r, key)
	default:
		if r.IntN(2) == 0 && !w.write(key) {
			return
		}
		w.fence([]checker.Fence{{Key: key, Soft: true}}, func() error { return w.cache.Expire(ctx, key) })
	}
}

// all drops or expires everything.
func (w *worker) all(ctx context.Context, r *rand.Rand, key string) {
	if !w.write(key) {
		return
	}
	f, call := checker.Fence{Key: allKeys}, w.cache.InvalidateAll
	if f.Soft = r.IntN(2) == 0; f.Soft {
		call = w.cache.ExpireAll
	}
	w.fence([]checker.Fence{f}, func() error { return call(ctx) })
}

// hold drops key with a hold: for a while each reader loads it, since no load is stored.
func (w *worker) hold(ctx context.Context, key string) {
	const d = 100 * time.Millisecond
	if !w.write(key) {
		return
	}
	began := w.now()
	w.fence([]checker.Fence{{Key: key}}, func() error { return w.cache.InvalidateHold(ctx, d, key) })
	// On an instance that hears of the drop late, the hold begins late: until
	// its end, others do not use loads of that instance.
	w.rec.add(recDropped, key, began, w.now()+checker.Time(d+time.Second))
}

// tag drops or expires all that carries the tag of key, if key has one.
func (w *worker) tag(ctx context.Context, r *rand.Rand, key string) {
	name := Tag(key)
	if name == "" {
		return
	}
	soft, call := false, w.cache.InvalidateTags
	if soft = r.IntN(2) == 0; soft {
		call = w.cache.ExpireTags
	}
	var fences []checker.Fence
	for i := range w.c.Keys {
		if k := Key(i); Tag(k) == name {
			if !w.write(k) {
				return
			}
			fences = append(fences, checker.Fence{Key: k, Soft: soft})
		}
	}
	began := w.now()
	w.fence(fences, func() error { return call(ctx, name) })
	now := w.now()
	w.rec.add(recLeft, allKeys, began, now) // no caller joins a flight that may have the tag
	for _, f := range fences {
		// An instance that has not heard of the drop goes by an older tag clock
		// for a second, and the values that it loads are no good to others.
		w.rec.add(recDropped, f.Key, began, now+checker.Time(time.Second))
	}
}

// write writes at the origin.
func (w *worker) write(key string) (ok bool) {
	_, ok = w.next(key)
	return ok
}

func (w *worker) next(key string) (version uint64, ok bool) {
	version, err := w.origin.write(key)
	if err != nil {
		w.surprise("origin: " + err.Error())
	}
	return version, err == nil
}

// surprise records a result that no call may have.
func (w *worker) surprise(text string) {
	w.rec.add(recSurprise, w.now(), strings.ReplaceAll(text, "\n", " "))
}

func (w *worker) invalidate(ctx context.Context, keys []string) {
	var fences []checker.Fence
	for _, k := range keys {
		if !w.write(k) {
			return
		}
		fences = append(fences, checker.Fence{Key: k})
	}
	w.fence(fences, func() error { return w.cache.Invalidate(ctx, keys...) })
}

func (w *worker) set(ctx context.Context, key string) {
	version, ok := w.next(key)
	if !ok {
		return
	}
	w.fence([]checker.Fence{{Key: key, Stores: true, Version: version}}, func() error {
		return w.cache.Set(ctx, key, value(key, version), w.options(key)...)
	})
}

// options give entries of key their TTL and tag. Most have none, so that reads
// take the shortest way.
func (w *worker) options(key string) (o []strata.CallOption) {
	if Short(key) {
		o = append(o, strata.WithTTL(w.c.Short))
	}
	if t := Tag(key); t != "" {
		o = append(o, strata.WithTags(t))
	}
	return o
}

// begin records calls of fences, and returns a function that records their
// returns. A process that dies in between leaves the beginnings.
func (w *worker) begin(fences []checker.Fence) (end func(error)) {
	calls := make([]uint64, len(fences))
	now := w.now()
	for i, f := range fences {
		calls[i] = w.rec.call()
		w.rec.keep(recFence, calls[i], f.Key, f.Version, now, f.Soft, f.Stores)
	}
	return func(err error) {
		now := w.now()
		for _, c := range calls {
			w.rec.add(recFenced, c, now, err != nil)
		}
	}
}

// fence makes a call that drops old values, and records it.
func (w *worker) fence(fences []checker.Fence, call func() error) {
	end := w.begin(fences)
	err := call()
	end(err)
	if _, remote := errors.AsType[*strata.RemoteError](err); err != nil && !remote {
		w.surprise("a call that drops returned: " + err.Error())
	}
}

// update makes an Update. It makes the promises of an Invalidate that is called
// right after the write of the Update and returns together with it.
func (w *worker) update(ctx context.Context, key string) {
	var end func(error)
	began := w.now()
	err := w.cache.Update(ctx, key, func(context.Context) (string, error) {
		version, ok := w.next(key)
		if !ok {
			return "", errInjected
		}
		end = w.begin([]checker.Fence{{Key: key, Stores: true, Version: version}})
		return value(key, version), nil
	}, w.options(key)...)
	if end != nil {
		end(err)
	}
	w.rec.add(recDropped, key, began, w.now()) // the drop of an Update comes before its write
	if _, remote := errors.AsType[*strata.RemoteError](err); err != nil && !remote && !errors.Is(err, errInjected) {
		w.surprise("Update returned: " + err.Error())
	}
}

// read reads key, with a Loader or without, and reports whether there was a
// value.
func (w *worker) read(ctx context.Context, key string, loads, final bool) (ok bool) {
	r := checker.Read{Key: key, Call: w.now(), Final: final}
	if loads {
		got, err := w.cache.GetOrLoad(context.WithValue(ctx, sinceKey{}, r.Call), key, nil, w.options(key)...)
		return w.got(ctx, &r, got, err)
	}
	got, ok := w.cache.Get(ctx, key)
	if !ok {
		w.left(ctx, &r)
		return false
	}
	return w.got(ctx, &r, got, nil)
}

// ask reads key, and records whether the instance calls the value degraded.
func (w *worker) ask(ctx context.Context, key string) {
	var info strata.Info
	r := checker.Read{Key: key, Call: w.now()}
	got, err := w.cache.GetOrLoad(context.WithValue(ctx, sinceKey{}, r.Call), key, nil, append(w.options(key), strata.ReadInfo(&info))...)
	if w.got(ctx, &r, got, err) {
		w.rec.add(recAsked, r.Key, r.Of, r.Version, r.Call, r.Return, r.Stale, r.Final, info.Degraded)
	}
}

// left records that a caller has left: a load without callers is not
// joined.
func (w *worker) left(ctx context.Context, r *checker.Read) {
	r.Return = w.now()
	if ctx.Err() != nil {
		w.rec.add(recLeft, r.Key, r.Call, r.Return)
	}
}

// got records the answer to a read. It reports whether there was a value.
func (w *worker) got(ctx context.Context, r *checker.Read, got string, err error) (ok bool) {
	w.left(ctx, r)
	switch {
	case err == nil:
	case errors.Is(err, errInjected), errors.Is(err, strata.ErrNotFound), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return false
	default:
		w.surprise("GetOrLoad returned: " + err.Error())
		return false
	}
	r.Of, r.Version = parseValue(got)
	r.Stale = w.failedSince(r.Key, r.Call-staleFor)
	w.rec.read(*r)
	return true
}

// staleFor is the time for which a failed load may be answered with a stale
// value, without another load.
const staleFor = checker.Time(15 * time.Second)

func (w *worker) failedSince(key string, since checker.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.failed[key]
	return ok && at > since
}

func (w *worker) fail(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[key] = w.now()
}

// load is the Loader of all calls. It reads the origin when it begins, as a
// query does, and takes its time to tell.
func (w *worker) load(ctx context.Context, key string) (got string, err error) {
	call, begun := w.rec.call(), w.now()
	since, ok := ctx.Value(sinceKey{}).(checker.Time)
	if !ok {
		since = begun
	}
	w.rec.keep(recLoad, call, key, since, begun)
	var version uint64
	defer func() {
		good := err == nil || errors.Is(err, strata.ErrNotModified)
		if !good {
			w.fail(key)
		}
		w.rec.keep(recLoaded, call, version, w.now(), good)
	}()
	if version, err = w.origin.read(ctx, key); err != nil {
		return "", errors.Join(errInjected, err)
	}
	if takes, ok := ctx.Value(takesKey{}).(time.Duration); ok {
		return value(key, version), sleep(ctx, takes)
	}
	return w.tell(ctx, key, value(key, version))
}

// tell takes its time, and sometimes fails.
func (w *worker) tell(ctx context.Context, key, got string) (string, error) {
	takes := time.Duration(rand.Int64N(int64(5 * time.Millisecond)))
	switch n := rand.IntN(1000); {
	case n < 2: // longer than the lease without its renewal
		takes = w.c.Lease * 3 / 2
	case n < 50:
		takes *= 20
	}
	if err := sleep(ctx, takes); err != nil {
		return "", err
	}
	switch n := rand.IntN(1000); {
	case w.calm.Load():
	case n < 5:
		return "", errInjected
	case n < 8:
		return "", strata.ErrNotFound
	}
	if old, ok := w.cache.Previous(ctx); ok && old == got && rand.IntN(2) == 0 {
		return "", strata.ErrNotModified
	}
	return got, nil
}

// sleep sleeps for d, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if wait(ctx, d) {
		return nil
	}
	return errors.Join(errInjected, errStopped)
}
