package loads_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata"
	"github.com/strata-cache/strata/internal/testing/coherence/lab"
)

func TestNotFoundHasTheLifeThatACallOrLoadNames(t *testing.T) {
	said := func(say func(*strata.Load)) func(context.Context, string) (int64, error) {
		return func(ctx context.Context, _ string) (int64, error) {
			if say != nil {
				say(strata.Loading(ctx))
			}
			return 0, fmt.Errorf("none: %w", strata.ErrNotFound)
		}
	}
	for name, tt := range map[string]struct {
		call  []strata.CallOption
		say   func(*strata.Load)
		lives time.Duration
	}{
		"as usual":        {nil, nil, 20 * time.Second},
		"NoStore":         {nil, (*strata.Load).NoStore, 0},
		"SetTTL":          {nil, func(l *strata.Load) { l.SetTTL(5 * time.Second) }, 5 * time.Second},
		"longer":          {nil, func(l *strata.Load) { l.SetTTL(90 * time.Second) }, 90 * time.Second},
		"SetTTL negative": {nil, func(l *strata.Load) { l.SetTTL(-1) }, 0},
		"WithTTL":         {[]strata.CallOption{strata.WithTTL(5 * time.Second)}, nil, 5 * time.Second},
		"WithTTL none":    {[]strata.CallOption{strata.WithTTL(-1)}, nil, 0},
		"both":            {[]strata.CallOption{strata.WithTTL(5 * time.Second)}, func(l *strata.Load) { l.SetTTL(8 * time.Second) }, 8 * time.Second},
	} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, batch: %v", name, batch), func(t *testing.T) {
				both(t, func(o *strata.Options[string, int64]) { o.NotFoundTTL = 20 * time.Second }, func(t *testing.T, c *strata.Cache[string, int64]) {
					load := said(tt.say)
					if batch {
						_, err := c.GetMany(t.Context(), []string{"k"}, func(ctx context.Context, keys []string) (map[string]int64, error) {
							_, _ = load(ctx, keys[0])
							return nil, nil
						}, tt.call...)
						lab.Must(t, err)
					} else if _, err := c.GetOrLoad(t.Context(), "k", load, tt.call...); !errors.Is(err, strata.ErrNotFound) {
						t.Fatal(err)
					}
					if tt.lives > 0 {
						time.Sleep(tt.lives - time.Millisecond) // in a bubble
						o := &lab.Origin{}
						if _, err := c.GetOrLoad(t.Context(), "k", o.Load); !errors.Is(err, strata.ErrNotFound) || o.Loads.Load() != 0 {
							t.Errorf("it is not remembered for %v: %v", tt.lives, err)
						}
						time.Sleep(2 * time.Millisecond) // in a bubble
					}
					o := &lab.Origin{}
					if lab.MustGet(t, c, "k", o.Load); o.Loads.Load() != 1 {
						t.Errorf("it is remembered for longer than %v", tt.lives)
					}
				})
			})
		}
	}
}

func TestValueBesideAnErrorReachesNoCallerAndNoTier(t *testing.T) {
	for name, err := range map[string]error{"failed": lab.ErrDown, "not found": strata.ErrNotFound, "not modified": strata.ErrNotModified} {
		t.Run(name, func(t *testing.T) {
			load := func(context.Context, string) (int64, error) { time.Sleep(time.Second); return 7, err }
			both(t, func(o *strata.Options[string, int64]) { o.ErrorTTL, o.Loader = time.Second, load }, func(t *testing.T, c *strata.Cache[string, int64]) {
				joined := make(chan int64)
				go func() {
					v, _ := c.GetOrLoad(t.Context(), "k", load)
					joined <- v
				}()
				synctest.Wait()
				v, got := c.GetOrLoad(t.Context(), "k", load)
				if w := <-joined; v != 0 || w != 0 || !errors.Is(got, err) {
					t.Errorf("callers got %d and %d beside %v", v, w, got)
				}
				if v, got := c.GetOrLoad(t.Context(), "k", load); v != 0 || got == nil {
					t.Errorf("the next caller got %d beside %v", v, got)
				}
				if v, got := c.GetOrLoad(t.Context(), "skipped", load, strata.SkipRead()); v != 0 || !errors.Is(got, err) {
					t.Errorf("SkipRead: %d beside %v", v, got)
				}
				found, _ := c.GetMany(t.Context(), []string{"many"}, nil)
				if len(found) != 0 {
					t.Errorf("GetMany: %v", found)
				}
				got = c.Update(t.Context(), "written", func(context.Context) (int64, error) { return 7, err })
				if !errors.Is(got, err) {
					t.Errorf("Update: %v", got)
				}
				for _, k := range []string{"k", "skipped", "many", "written"} {
					if v, ok := c.Get(t.Context(), k); v != 0 || ok {
						t.Errorf("Get(%q) = %d, %v", k, v, ok)
					}
				}
			})
		})
	}
}

func TestNotModifiedThatIsNotToBeStoredDropsTheValueOfL1(t *testing.T) {
	for name, says := range map[string]func(*strata.Load){
		"NoStore": (*strata.Load).NoStore,
		"SetTTL":  func(l *strata.Load) { l.SetTTL(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lab.NewCache(t, func(o *strata.Options[string, int64]) { o.RefreshAt = 0.5 })
				lab.Must(t, c.Set(t.Context(), "k", 1))
				time.Sleep(40 * time.Second)
				lab.MustGet(t, c, "k", func(ctx context.Context, _ string) (int64, error) {
					says(strata.Loading(ctx))
					return 0, strata.ErrNotModified
				})
				synctest.Wait() // for the refresh
				if c.Explain(t.Context(), "k").L1.Present {
					t.Error("L1 keeps the value")
				}
			})
		})
	}
}
