package loads_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

// redisNil is as the error of go-redis for a missing key.
type redisNil string

func (e redisNil) Error() string { return string(e) }
func (redisNil) RedisError()     {}

// gone is an error that says itself whether it means "not found".
type gone bool

func (gone) Error() string    { return "gone" }
func (g gone) NotFound() bool { return bool(g) }

var errNoUser = errors.New("no such user")

func TestErrorsThatStandForNotFoundAreRememberedAsThat(t *testing.T) {
	own := func(err error) bool { return errors.Is(err, errNoUser) || strata.IsNotFound(err) }
	for _, test := range []struct {
		err      error
		by       func(error) bool
		notFound bool
	}{
		{strata.ErrNotFound, nil, true},
		{sql.ErrNoRows, nil, true},
		{fmt.Errorf("user 7: %w", sql.ErrNoRows), nil, true},
		{errors.Join(errors.New("and"), sql.ErrNoRows), nil, true},
		{redisNil("redis: nil"), nil, true},
		{redisNil("LOADING"), nil, false},
		{errors.New("redis: nil"), nil, false},
		{gone(true), nil, true},
		{gone(false), nil, false},
		{errNoUser, nil, false},
		{errNoUser, own, true},
		{sql.ErrNoRows, own, true},
		{sql.ErrNoRows, func(error) bool { return false }, false},
		{strata.ErrNotFound, func(error) bool { return false }, true},
		{errNoUser, func(error) bool { panic("is it?") }, false},
	} {
		t.Run(fmt.Sprint(test.err, test.by != nil), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := lab.NewShared()
				change := func(o *strata.Options[string, int64]) { o.IsNotFound = test.by }
				a, b := lab.Instance(t, s, lab.Negatives, change), lab.Instance(t, s, lab.Negatives, change)
				loads := 0
				load := func(context.Context, string) (int64, error) {
					loads++
					return 0, test.err
				}
				_, err := a.GetOrLoad(t.Context(), "k", load)
				if !errors.Is(err, test.err) || errors.Is(err, strata.ErrNotFound) != test.notFound {
					t.Errorf("%v; want not found %v", err, test.notFound)
				}
				_, err = b.GetOrLoad(t.Context(), "k", load)
				if errors.Is(err, strata.ErrNotFound) != test.notFound || (loads == 1) != test.notFound {
					t.Errorf("%v after %d loads; want not found %v", err, loads, test.notFound)
				}
				found, err := a.GetMany(t.Context(), []string{"l"}, lab.EachOf(load))
				if len(found) != 0 || (err == nil) != test.notFound {
					t.Errorf("GetMany: %v, %v; want not found %v", found, err, test.notFound)
				}
			})
		})
	}
}

func TestPanicWithAnErrorThatStandsForNotFoundIsAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lab.NewCache(t, lab.Negatives)
		_, err := c.GetOrLoad(t.Context(), "k", func(context.Context, string) (int64, error) { panic(sql.ErrNoRows) })
		var p *strata.LoadPanicError
		if !errors.As(err, &p) || errors.Is(err, strata.ErrNotFound) {
			t.Errorf("%v", err)
		}
		lab.MustGet(t, c, "k", lab.PlainLoad)
	})
}

func TestKeySetNotFoundHasNoValueOnAnyInstanceUntilItsTTLEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance(t, s, lab.Negatives), lab.Instance(t, s, lab.Negatives)
		o := &lab.Origin{}
		lab.Must(t, a.Set(t.Context(), "k", 1))
		lab.WantFound(t, b, 1)
		lab.Must(t, a.SetNotFound(t.Context(), "k"))
		synctest.Wait()
		for _, c := range []*strata.Cache[string, int64]{a, b} {
			findsNothing(t, c, o.Load)
			lab.WantNotFound(t, c, strata.AllowStale())
		}
		time.Sleep(20*time.Second - 1)
		findsNothing(t, a, o.Load)
		findsNothing(t, b, o.Load)
		if n := o.Loads.Load(); n != 0 {
			t.Errorf("%d loads in the TTL", n)
		}
		time.Sleep(1)
		lab.MustGet(t, a, "k", o.Load)
		lab.Must(t, a.SetNotFound(t.Context(), "k", strata.WithTTL(time.Hour), strata.WithTags("t")))
		synctest.Wait()
		time.Sleep(59 * time.Minute)
		findsNothing(t, b, o.Load)
		lab.Must(t, b.InvalidateTags(t.Context(), "t"))
		synctest.Wait()
		lab.MustGet(t, a, "k", o.Load)
		lab.Must(t, a.SetNotFound(t.Context(), "k", strata.WithTTL(-1)))
		if n := o.Loads.Load(); n != 2 {
			t.Errorf("%d loads, want 2", n)
		}
		lab.MustGet(t, a, "k", o.Load)
		if n := o.Loads.Load(); n != 3 {
			t.Errorf("%d loads, want 3: nothing was remembered", n)
		}
	})
}

func TestLoadThatBeganBeforeSetNotFoundIsNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []*strata.Cache[string, int64]{lab.NewCache(t, lab.Negatives), lab.Instance(t, lab.NewShared(), lab.Negatives)} {
			o := &lab.Origin{Takes: time.Second}
			done := make(chan struct{})
			go func() {
				defer close(done)
				lab.MustGet(t, c, "k", o.Load)
			}()
			time.Sleep(time.Millisecond)
			lab.Must(t, c.SetNotFound(t.Context(), "k"))
			<-done
			findsNothing(t, c, o.Load)
		}
	})
}

func TestSetAfterSetNotFoundHasItsValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		a, b := lab.Instance(t, s, lab.Negatives), lab.Instance(t, s, lab.Negatives)
		lab.Must(t, a.SetNotFound(t.Context(), "k"))
		findsNothing(t, b, lab.PlainLoad)
		lab.Must(t, a.Set(t.Context(), "k", 7))
		synctest.Wait()
		lab.WantFound(t, a, 7)
		lab.WantFound(t, b, 7)
	})
}

func TestSetNotFoundReturnsTheErrorOfL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lab.NewShared()
		var down atomic.Bool
		c := lab.Instance(t, s, lab.Negatives, func(o *strata.Options[string, int64]) { o.Remote.Tier = lab.Failing(s.Tier, "Drop", &down) })
		lab.Must(t, c.Set(t.Context(), "k", 1))
		down.Store(true)
		var unconfirmed *strata.RemoteError
		if err := c.SetNotFound(t.Context(), "k"); !errors.As(err, &unconfirmed) {
			t.Errorf("%v; want a RemoteError", err)
		}
		lab.WantNotFound(t, c)
		down.Store(false)
		lab.Must(t, c.Close(t.Context()))
		if err := c.SetNotFound(t.Context(), "k"); !errors.Is(err, strata.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}
