package castier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strata-cache/strata/remote"
	"github.com/strata-cache/strata/remote/castier"
)

var errFault = errors.New("fault")

// shaky is a table that fails for single keys, and reports some swaps as lost although it has
// done them. Nil hooks change nothing.
type shaky struct {
	*table
	before func(key string) error // nothing is done then
	after  func(key string) error // of swaps
	hides  func(key string) bool
	ahead  time.Duration // of the clock
	gets   []int         // the number of keys of each call
	swaps  []int
}

func newShaky() *shaky { return &shaky{table: &table{rows: map[string]row{}}} }

func (s *shaky) fails(f func(string) error, key string) error {
	if f == nil {
		return nil
	}
	return f(key)
}

func (s *shaky) GetMany(ctx context.Context, keys []string) ([]castier.Item, error) {
	s.gets = append(s.gets, len(keys))
	items, err := s.table.GetMany(ctx, keys)
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(keys))
	for i, key := range keys {
		if errs[i] = s.fails(s.before, key); errs[i] != nil {
			items[i] = castier.Item{}
		}
	}
	return items, remote.JoinKeys(errs)
}

func (s *shaky) SwapMany(ctx context.Context, swaps []castier.Swap) ([]bool, error) {
	s.swaps = append(s.swaps, len(swaps))
	swapped, errs := make([]bool, len(swaps)), make([]error, len(swaps))
	for i, w := range swaps {
		if errs[i] = s.fails(s.before, w.Key); errs[i] != nil {
			continue
		}
		one, err := s.table.SwapMany(ctx, []castier.Swap{w})
		if err != nil {
			return nil, err
		}
		swapped[i] = one[0] && (s.hides == nil || !s.hides(w.Key))
		errs[i] = s.fails(s.after, w.Key)
	}
	return swapped, remote.JoinKeys(errs)
}

func (s *shaky) Now(context.Context) (time.Time, time.Duration, error) {
	return time.Now().Add(s.ahead), time.Millisecond, nil
}

// TestSwapThatIsHiddenCounts: a store repeats a request, and reports the second answer.
func TestSwapThatIsHiddenCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShaky()
		tier := castier.New(s)
		hidden := 0
		s.hides = func(string) bool { hidden++; return hidden%2 == 1 }
		for i := range 20 {
			key := fmt.Sprint("k", i)
			a := acquire(t, tier, key)
			if a.Lease.Grant != remote.Granted {
				t.Fatalf("grant %d", a.Lease.Grant)
			}
			if !put(t, tier, key, "one", a.Lease) {
				t.Fatal("a value that is stored is reported as refused")
			}
			drop(t, tier, remote.Drop{Key: key, Soft: true})
			a = acquire(t, tier, key)
			refused, err := tier.Extend(t.Context(), key, time.Minute, time.Hour, a.Lease, a.Held.ID)
			if err != nil || refused {
				t.Fatalf("a value that is extended is reported as refused, %v", err)
			}
			if held := get(t, tier, key); string(held.Data) != "one" || held.Fresh <= 0 {
				t.Fatalf("%+v", held)
			}
			l := drop(t, tier, remote.Drop{Key: key, Token: time.Minute})
			if !put(t, tier, key, "two", l) || put(t, tier, key, "three", l) {
				t.Fatal("a token stores not once")
			}
		}
	})
}

// TestOneFailureOfABatchIsThatOfItsKey makes calls for ten keys. One of the keys fails.
func TestOneFailureOfABatchIsThatOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShaky()
		tier := castier.New(s)
		var keys []string
		var requests []remote.Request
		for i := range 10 {
			keys = append(keys, fmt.Sprint("k", i))
			requests = append(requests, remote.Request{Key: keys[i]})
		}
		bad := func(key string) error {
			if strings.HasSuffix(key, ":kk3") {
				return errFault
			}
			return nil
		}
		only := func(what string, err error) {
			t.Helper()
			for i := range keys {
				if got := remote.ErrorOf(err, i); errors.Is(got, errFault) != (i == 3) {
					t.Errorf("%s: key %d has error %v", what, i, got)
				}
			}
		}
		acquired, err := tier.Acquire(t.Context(), requests, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var puts []remote.Put
		var drops []remote.Drop
		for i, key := range keys {
			puts = append(puts, remote.Put{Key: key, Data: []byte("v"), Fresh: time.Minute, Left: time.Hour, Lease: acquired[i].Lease})
			drops = append(drops, remote.Drop{Key: key, Token: time.Minute})
		}
		s.after = bad // it is stored, and the answer is lost
		refused, err := tier.Put(t.Context(), puts)
		if only("Put", err); len(refused) > 0 {
			t.Errorf("refused: %v", refused)
		}
		s.after, s.before = nil, bad
		held, err := tier.Get(t.Context(), keys)
		only("Get", err)
		for i := range held {
			if (string(held[i].Data) == "v") != (i != 3) {
				t.Errorf("key %d: %+v", i, held[i])
			}
		}
		acquired, err = tier.Acquire(t.Context(), requests, time.Minute)
		for i, a := range acquired {
			if err != nil || errors.Is(a.Err, errFault) != (i == 3) || a.Err == nil && a.Lease.Grant != remote.Free {
				t.Errorf("Acquire, key %d: %+v, %v", i, a, err)
			}
		}
		leases, err := tier.Drop(t.Context(), drops)
		if only("Drop", err); leases[3].Token != 0 || leases[4].Token == 0 {
			t.Errorf("tokens: %+v", leases)
		}
		s.before = nil
		if held := get(t, tier, "k3"); string(held.Data) != "v" {
			t.Errorf("a value whose store was not confirmed, and was done: %+v", held)
		}
	})
}

// TestManyKeysAreOneCall counts the calls of a Put of a hundred values. Another instance changes
// some of them meanwhile: only these are read and written again.
func TestManyKeysAreOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShaky()
		tier := castier.New(s)
		get(t, tier, "warm")
		var requests []remote.Request
		for i := range 100 {
			requests = append(requests, remote.Request{Key: fmt.Sprint("k", i)})
		}
		s.gets, s.swaps = nil, nil
		acquired, err := tier.Acquire(t.Context(), requests, time.Minute)
		if err != nil || !slices.Equal(s.gets[len(s.gets)-1:], []int{100}) || !slices.Equal(s.swaps[len(s.swaps)-1:], []int{100}) {
			t.Fatalf("Acquire: %v, calls %v and %v", err, s.gets, s.swaps)
		}
		var puts []remote.Put
		for i := range acquired {
			puts = append(puts, remote.Put{Key: requests[i].Key, Data: []byte("v"), Fresh: time.Minute, Left: time.Hour, Lease: acquired[i].Lease})
		}
		s.gets, s.swaps = nil, nil
		overtaken := 0
		s.hides = func(string) bool { overtaken++; return overtaken > 90 && overtaken <= 100 }
		if refused, err := tier.Put(t.Context(), puts); err != nil || len(refused) > 0 {
			t.Errorf("%v, %v", refused, err)
		}
		if !slices.Equal(s.gets, []int{100, 10}) || !slices.Equal(s.swaps, []int{100}) {
			t.Errorf("a Put of 100 values, ten of which are written and said not to be: calls %v and %v", s.gets, s.swaps)
		}
	})
}

// TestFaultsOfAStoreServeNothingDropped lets a store fail before and after a swap, hide swaps,
// and its clock jump, while values are stored and dropped.
func TestFaultsOfAStoreServeNothingDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShaky()
		sometimes := func(string) error {
			if rand.IntN(10) == 0 {
				return errFault
			}
			return nil
		}
		s.before, s.after, s.hides = sometimes, sometimes, func(string) bool { return rand.IntN(10) == 0 }
		tiers := []*castier.Tier{castier.New(s), castier.New(s)}
		var rights []remote.Lease
		newest, fresh := -1, 0
		for i := range 30_000 {
			tier := tiers[rand.IntN(2)]
			switch rand.IntN(6) {
			case 0:
				l, err := tier.Drop(t.Context(), []remote.Drop{{Key: "k", Soft: rand.IntN(3) == 0, Hold: time.Duration(rand.IntN(2)) * time.Second, Token: time.Duration(rand.IntN(2)) * time.Minute}})
				if err == nil {
					newest, rights = i, append(rights[:0], l[0])
				}
			case 1:
				s.ahead += time.Duration(rand.IntN(7)-3) * 20 * time.Second
				time.Sleep(time.Duration(rand.IntN(10)) * time.Second)
			case 2, 3:
				a, err := tier.Acquire(t.Context(), []remote.Request{{Key: "k"}}, time.Minute)
				if err == nil && a[0].Err == nil && a[0].Lease.Grant == remote.Granted {
					rights = append(rights, a[0].Lease)
				}
			case 4:
				if n := len(rights); n > 0 {
					_, _ = tier.Put(t.Context(), []remote.Put{{Key: "k", Data: fmt.Append(nil, newest), Fresh: time.Minute, Left: time.Hour, Lease: rights[rand.IntN(n)]}})
				}
			default:
				held, err := tier.Get(t.Context(), []string{"k"})
				if err != nil || held[0].Absent() || held[0].Soft {
					continue
				}
				fresh++
				var at int
				if _, err := fmt.Sscan(string(held[0].Data), &at); err != nil || at < newest {
					t.Fatalf("step %d: holds %q fresh, after the drop of step %d", i, held[0].Data, newest)
				}
			}
		}
		if fresh < 100 {
			t.Errorf("only %d values were found", fresh)
		}
	})
}

// TestCountersBySwapsLoseNoAddition drops tags by two instances at once, over a store that does not
// count by itself. Each addition of one instance comes between the reading and the writing of the
// other. Each drop must get a number of its own.
func TestCountersBySwapsLoseNoAddition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShaky()
		one, other := castier.New(s), castier.New(s.table)
		tagsOf(t, one, "one")
		tagsOf(t, other, "other")
		for round := range 20 {
			between := true
			s.before = func(key string) error {
				if strings.HasSuffix(key, ":c") && len(s.swaps) > 0 && between {
					between = false
					dropTags(t, other, false, "other")
				}
				return nil
			}
			s.swaps = nil
			dropTags(t, one, false, "one")
			if between {
				t.Fatal("no drop came between")
			}
			a, b := tagsOf(t, one, "one").Dropped, tagsOf(t, other, "other").Dropped
			if a <= b {
				t.Fatalf("round %d: the drop at %d came after the one at %d", round, a, b)
			}
		}
	})
}

// short returns fewer results than it is asked for.
type short struct{ *table }

func (s short) GetMany(ctx context.Context, keys []string) ([]castier.Item, error) {
	items, err := s.table.GetMany(ctx, keys)
	return items[1:], err
}

// shortSwaps does so for swaps.
type shortSwaps struct{ *table }

func (s shortSwaps) SwapMany(context.Context, []castier.Swap) ([]bool, error) { return nil, nil }

// shortAbilities does so for counters and touches, and has a clock with long steps.
type shortAbilities struct{ *table }

func (s shortAbilities) AddMany(context.Context, []castier.Add) ([]uint64, error) { return nil, nil }

func (s shortAbilities) TouchMany(context.Context, []castier.Touch) ([]bool, error) {
	return nil, nil
}

func (s shortAbilities) Large() int { return 1 }

type coarse struct{ *table }

func (coarse) Now(context.Context) (time.Time, time.Duration, error) {
	return time.Now(), 3 * time.Second, nil
}

// TestStoreThatAnswersNonsenseIsAnError, and does not panic.
func TestStoreThatAnswersNonsenseIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &table{rows: map[string]row{}}
		for name, s := range map[string]castier.Store{"items": short{rows}, "swaps": shortSwaps{rows}, "abilities": shortAbilities{rows}, "clock": coarse{rows}} {
			tier := castier.New(s)
			if _, err := tier.Drop(t.Context(), []remote.Drop{{Key: "k", Token: time.Minute}, {Key: "l", Hold: time.Minute}}); err == nil {
				t.Errorf("%s: no error", name)
			}
			if _, err := tier.Probe(t.Context()); (err == nil) != (name != "clock") {
				t.Errorf("%s: Probe: %v", name, err)
			}
		}
	})
}

// clockless is a Store without a Clock.
type clockless struct{ castier.Store }

// TestStoreWithoutAClockIsWarnedOf by Probe, and values with lives shorter than the differences
// between the clocks of instances are refused there. With a clock of small steps they are kept.
func TestStoreWithoutAClockIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := &table{rows: map[string]row{}}
		tier, without := castier.New(rows), castier.New(clockless{rows})
		warnings, err := without.Probe(t.Context())
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "clock") {
			t.Errorf("%q, %v", warnings, err)
		}
		if warnings, err := tier.Probe(t.Context()); err != nil || len(warnings) > 0 {
			t.Errorf("%q, %v", warnings, err)
		}
		p := remote.Put{Key: "k", Data: []byte("v"), Fresh: 200 * time.Millisecond, Left: 200 * time.Millisecond, Lease: acquire(t, tier, "k").Lease}
		if _, err := without.Put(t.Context(), []remote.Put{p}); !errors.Is(err, remote.ErrRefused) {
			t.Errorf("without a clock: %v", err)
		}
		if refused, err := tier.Put(t.Context(), []remote.Put{p}); err != nil || len(refused) > 0 {
			t.Errorf("with a clock: %v, %v", refused, err)
		}
		time.Sleep(150 * time.Millisecond) // in the bubble
		if held := get(t, tier, "k"); held.Fresh <= 0 {
			t.Errorf("before its end: %+v", held)
		}
		time.Sleep(50 * time.Millisecond) // in the bubble
		if held := get(t, tier, "k"); !held.Absent() {
			t.Errorf("at its end: %+v", held)
		}
	})
}
